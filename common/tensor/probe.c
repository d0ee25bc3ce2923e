#include "probe.h"

#include <string.h>

#include "mem.h"

enum { DEFAULT_EVENTS = 1024 };

struct event {
  struct ab_observation observation; /* of a counter: identity, place and, in id.tensor, its name */
  bool counter, has_values;
  int64_t amount;
  size_t values; /* offset */
};

struct ab_recorder {
  struct ab_probe *probe;
  struct event *events;
  unsigned char *values;
  size_t used, room;
  size_t value_used, value_room;
  size_t lost, lost_bytes; /* since the last flush */
  bool long_name;
};

struct ab_probe {
  const struct ab_probe_ops *ops;
  void *ctx;
  enum ab_level level;
  int step, accumulation, stages;
  bool (*want)(void *ctx, const struct ab_identity *id);
  void *want_ctx;
  struct ab_recorder *recorders;
  unsigned char *packed; /* one strided tensor observed with its values */
  size_t packed_room;
};

const char *ab_phase_name(enum ab_phase phase) {
  static const char *const names[] = {
      [AB_FORWARD] = "forward", [AB_RECOMPUTE] = "recompute", [AB_BACKWARD] = "backward", [AB_UPDATE] = "update"};
  return names[phase];
}

static ab_status reserve_recorder(struct ab_recorder *recorder, size_t events, size_t bytes) {
  if (events > recorder->room) {
    AB_TRY(ab_mem_resize(&recorder->events, events, sizeof *recorder->events));
    recorder->room = events;
  }
  if (bytes > recorder->value_room) {
    AB_TRY(ab_mem_resize(&recorder->values, bytes, 1));
    recorder->value_room = bytes;
  }
  return AB_OK;
}

ab_status ab_probe_reserve(struct ab_probe *probe, size_t events, size_t bytes) {
  if (!probe) return AB_OK;
  for (int s = 0; s < probe->stages; s++)
    AB_TRY(reserve_recorder(&probe->recorders[s], events, probe->level >= AB_LEVEL_VALUES ? bytes : 0));
  return AB_OK;
}

static ab_status init(struct ab_probe *probe, int stages) {
  AB_TRY(ab_mem_new(&probe->recorders, (size_t)stages, sizeof *probe->recorders));
  probe->stages = stages;
  for (int s = 0; s < stages; s++) probe->recorders[s].probe = probe;
  return ab_probe_reserve(probe, DEFAULT_EVENTS, 0);
}

ab_status ab_probe_new(struct ab_probe **out, const struct ab_probe_ops *ops, void *ctx, enum ab_level level,
                       int stages) {
  struct ab_probe *probe;
  if (stages < 1) return AB_FAIL(AB_ESHAPE, "a probe of %d stages was asked for, expected at least 1", stages);
  AB_TRY(ab_mem_new(&probe, 1, sizeof *probe));
  probe->ops = ops;
  probe->ctx = ctx;
  probe->level = level;
  ab_status status = init(probe, stages);
  if (status != AB_OK) ab_probe_free(probe);
  AB_TRY(status);
  *out = probe;
  return AB_OK;
}

void ab_probe_want(struct ab_probe *probe, bool (*want)(void *ctx, const struct ab_identity *id), void *ctx) {
  probe->want = want;
  probe->want_ctx = ctx;
}

void ab_probe_free(struct ab_probe *probe) {
  if (!probe) return;
  for (int s = 0; s < probe->stages; s++) {
    ab_mem_free(probe->recorders[s].events);
    ab_mem_free(probe->recorders[s].values);
  }
  ab_mem_free(probe->recorders);
  ab_mem_free(probe->packed);
  ab_mem_free(probe);
}

enum ab_level ab_probe_level(const struct ab_probe *probe) { return probe ? probe->level : AB_LEVEL_OFF; }

void ab_probe_step(struct ab_probe *probe, int step, int accumulation) {
  if (!probe) return;
  probe->step = step;
  probe->accumulation = accumulation;
}

struct ab_recorder *ab_probe_recorder(struct ab_probe *probe, int stage) {
  return probe ? &probe->recorders[stage] : NULL;
}

static bool wants_values(const struct ab_probe *probe, const struct ab_identity *id) {
  if (probe->level != AB_LEVEL_STATE && probe->level < AB_LEVEL_VALUES) return false;
  return probe->want ? probe->want(probe->want_ctx, id) : probe->level >= AB_LEVEL_VALUES;
}

static struct ab_observation describe(const struct ab_probe *probe, const struct ab_identity *id,
                                      const struct ab_where *at, const struct ab_view *view) {
  struct ab_observation o = {.id = *id, .at = *at, .dtype = view->dtype, .shape = view->shape};
  o.id.step = probe->step;
  o.id.accumulation = probe->accumulation;
  ab_summarize(&o.summary, view);
  return o;
}

static struct event *next_event(struct ab_recorder *recorder) {
  if (recorder->used < recorder->room) return &recorder->events[recorder->used++];
  recorder->lost++;
  return NULL;
}

static void keep_values(struct ab_recorder *recorder, struct event *event, const struct ab_view *view) {
  size_t bytes = ab_view_count(view) * ab_dtype_size(view->dtype);
  if (bytes > recorder->value_room - recorder->value_used) {
    recorder->lost_bytes += bytes;
    return;
  }
  ab_view_pack(recorder->values + recorder->value_used, view);
  event->has_values = true;
  event->values = recorder->value_used;
  recorder->value_used += (bytes + 7) / 8 * 8;
  if (recorder->value_used > recorder->value_room) recorder->value_used = recorder->value_room;
}

void ab_record(struct ab_recorder *recorder, const struct ab_identity *id, const struct ab_where *at,
               const struct ab_view *view) {
  if (!recorder || recorder->probe->level < AB_LEVEL_DIGEST) return;
  struct event *event = next_event(recorder);
  if (!event) return;
  *event = (struct event){.observation = describe(recorder->probe, id, at, view)};
  if (wants_values(recorder->probe, &event->observation.id)) keep_values(recorder, event, view);
}

static struct ab_identity counter_identity(const struct ab_probe *probe, const struct ab_identity *id) {
  return (struct ab_identity){.step = probe->step,
                              .accumulation = probe->accumulation,
                              .microbatch = id ? id->microbatch : -1,
                              .layer = id ? id->layer : -1};
}

void ab_record_count(struct ab_recorder *recorder, const char *name, const struct ab_identity *id,
                     const struct ab_where *at, int64_t amount) {
  if (!recorder) return;
  struct event *event = next_event(recorder);
  if (!event) return;
  *event = (struct event){.counter = true, .amount = amount};
  event->observation.at = *at;
  event->observation.id = counter_identity(recorder->probe, id);
  if (strlen(name) >= AB_NAME_MAX) recorder->long_name = true;
  strncat(event->observation.id.tensor, name, AB_NAME_MAX - 1);
}

static ab_status deliver(struct ab_probe *probe, const struct ab_recorder *recorder, const struct event *event) {
  const struct ab_observation *o = &event->observation;
  if (!event->counter)
    return probe->ops->observe(probe->ctx, o, event->has_values ? recorder->values + event->values : NULL);
  struct ab_identity id = o->id;
  id.tensor[0] = '\0';
  return probe->ops->count(probe->ctx, o->id.tensor, &id, &o->at, event->amount);
}

/* What did not fit is an error, and the buffer is made large enough for the next time. */
static ab_status report_loss(struct ab_recorder *recorder, int stage, size_t used, size_t value_used) {
  size_t lost = recorder->lost, bytes = recorder->lost_bytes, room = recorder->room, value_room = recorder->value_room;
  bool long_name = recorder->long_name;
  recorder->lost = recorder->lost_bytes = 0;
  recorder->long_name = false;
  if (long_name) return AB_FAIL(AB_EFORMAT, "a counter of stage %d has a name of %d bytes or more", stage, AB_NAME_MAX);
  if (!lost && !bytes) return AB_OK;
  AB_TRY(reserve_recorder(recorder, 2 * (used + lost), 2 * (value_used + bytes)));
  return AB_FAIL(
      AB_ENOMEM,
      "stage %d lost %zu observations and %zu bytes of values: its buffer held %zu and %zu between two flushes", stage,
      lost, bytes, room, value_room);
}

static ab_status flush_recorder(struct ab_probe *probe, int stage) {
  struct ab_recorder *recorder = &probe->recorders[stage];
  size_t used = recorder->used, value_used = recorder->value_used;
  recorder->used = recorder->value_used = 0;
  for (size_t i = 0; i < used; i++) AB_TRY(deliver(probe, recorder, &recorder->events[i]));
  return report_loss(recorder, stage, used, value_used);
}

/* Every buffer is emptied even when one fails; the first failure is returned with its own sentence. */
ab_status ab_probe_flush(struct ab_probe *probe) {
  if (!probe) return AB_OK;
  for (int s = 0; s < probe->stages; s++) {
    ab_status status = flush_recorder(probe, s);
    if (status == AB_OK) continue;
    for (int rest = s + 1; rest < probe->stages; rest++)
      probe->recorders[rest].used = probe->recorders[rest].value_used = 0;
    AB_TRY(status);
  }
  return AB_OK;
}

static ab_status packed_values(const void **out, struct ab_probe *probe, const struct ab_view *view) {
  struct ab_view straight = *view;
  ab_view_contiguous(&straight);
  *out = view->data;
  if (!memcmp(straight.stride, view->stride, (size_t)view->shape.rank * sizeof *view->stride)) return AB_OK;
  size_t bytes = ab_view_count(view) * ab_dtype_size(view->dtype);
  if (bytes > probe->packed_room) {
    AB_TRY(ab_mem_resize(&probe->packed, bytes, 1));
    probe->packed_room = bytes;
  }
  ab_view_pack(probe->packed, view);
  *out = probe->packed;
  return AB_OK;
}

ab_status ab_probe_observe(struct ab_probe *probe, const struct ab_identity *id, const struct ab_where *at,
                           const struct ab_view *view) {
  if (!probe || probe->level == AB_LEVEL_OFF) return AB_OK;
  struct ab_observation o = describe(probe, id, at, view);
  const void *values = NULL;
  if (wants_values(probe, &o.id)) AB_TRY(packed_values(&values, probe, view));
  AB_TRY(probe->ops->observe(probe->ctx, &o, values));
  return AB_OK;
}

ab_status ab_probe_count(struct ab_probe *probe, const char *name, const struct ab_identity *id,
                         const struct ab_where *at, int64_t amount) {
  if (!probe) return AB_OK;
  struct ab_identity counted = counter_identity(probe, id);
  AB_TRY(probe->ops->count(probe->ctx, name, &counted, at, amount));
  return AB_OK;
}
