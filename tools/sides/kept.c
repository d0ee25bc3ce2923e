#include "kept.h"

#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"

void ab_kept_window_words(char words[AB_KEPT_WORDS], const struct ab_kept_window *window) {
  snprintf(words, AB_KEPT_WORDS, "%d:%d:%d", window->step, window->microbatch, window->layer);
}

ab_status ab_kept_window_parse(struct ab_kept_window *out, const char *words) {
  char rest;
  if (sscanf(words, "%d:%d:%d%c", &out->step, &out->microbatch, &out->layer, &rest) == 3) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "'%.80s' is no window of a step; expected STEP:MICROBATCH:LAYER", words);
}

static bool in_window(const struct ab_kept_window *window, const struct ab_identity *id) {
  if (id->step != window->step || id->layer != window->layer || id->phase == AB_UPDATE) return false;
  return window->microbatch < 0 || id->microbatch < 0 || id->microbatch == window->microbatch;
}

bool ab_kept(const struct ab_kept_window *window, const struct ab_identity *id) {
  if (window) return in_window(window, id);
  enum ab_quantity quantity = ab_quantity_of(id);
  if (quantity == AB_Q_WEIGHT_GRADIENT) return true;
  if (quantity == AB_Q_PARAMETER) return !ab_is_moment(id->tensor);
  if (quantity == AB_Q_METRIC) return true;
  return strncmp(id->tensor, "pipeline/", strlen("pipeline/")) == 0;
}

static size_t bytes_of(const struct ab_observation *observation) {
  return (size_t)observation->summary.count * ab_dtype_size(observation->dtype);
}

/* Whether the side wrote the values of this kept tensor. */
static bool stored(const struct ab_recording *against, const struct ab_observation *observation) {
  const struct ab_recorded *other = against ? ab_recording_find(against, &observation->id) : NULL;
  return !other || !ab_summary_same(&other->observation.summary, &observation->summary);
}

static ab_status send_fingerprint(const struct ab_keeper *keeper, const struct ab_observation *observation,
                                  const void *values) {
  struct ab_view view = {.dtype = observation->dtype, .shape = observation->shape};
  struct ab_fingerprint fingerprint;
  memcpy(&view.data, &values, sizeof values);
  ab_view_contiguous(&view);
  ab_fingerprint(&fingerprint, &observation->id, &view, AB_FINGERPRINT_SEED);
  return ab_stream_fingerprint(keeper->writer, &fingerprint);
}

static ab_status observe(void *ctx, const struct ab_observation *observation, const void *values) {
  const struct ab_keeper *keeper = ctx;
  AB_TRY(ab_stream_probe.observe(keeper->writer, observation, NULL));
  if (observation->at.bubble) return AB_OK; /* outside the join: nobody would ask for its values */
  if (values && keeper->fingerprints) AB_TRY(send_fingerprint(keeper, observation, values));
  if (!values || keeper->fd < 0 || !stored(keeper->against, observation)) return AB_OK;
  AB_TRY(ab_file_put(keeper->fd, values, bytes_of(observation), "the values file"));
  return AB_OK;
}

static ab_status count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                       int64_t amount) {
  const struct ab_keeper *keeper = ctx;
  return ab_stream_probe.count(keeper->writer, name, id, at, amount);
}

const struct ab_probe_ops ab_keeper_probe = {.observe = observe, .count = count};

struct ab_kept_values {
  const struct ab_recording *recording, *against;
  struct ab_kept_values *against_values;
  struct ab_kept_window window; /* with windowed */
  bool windowed;
  struct ab_file file;
  uint64_t *offset; /* by row of the recording; meaningful where stored */
  unsigned char *buffer;
  size_t room;
};

static bool keeps(struct ab_kept_values *values, const struct ab_identity *id) {
  return ab_kept(values->windowed ? &values->window : NULL, id);
}

static ab_status lay_out(struct ab_kept_values *values) {
  uint64_t offset = 0;
  AB_TRY(ab_mem_new(&values->offset, values->recording->observations + 1, sizeof *values->offset));
  for (size_t i = 0; i < values->recording->observations; i++) {
    const struct ab_observation *observation = &values->recording->observation[i].observation;
    values->offset[i] = offset;
    if (keeps(values, &observation->id) && stored(values->against, observation)) offset += bytes_of(observation);
  }
  if (offset != values->file.size)
    return AB_FAIL(AB_EFORMAT, "'%s' holds %llu bytes; expected %llu, the values of its stream", values->file.path,
                   (unsigned long long)values->file.size, (unsigned long long)offset);
  return AB_OK;
}

/* Frees values when it fails. */
static ab_status finish_open(struct ab_kept_values **out, struct ab_kept_values *values, const char *path) {
  ab_status status = ab_file_open(&values->file, path);
  if (status == AB_OK) status = lay_out(values);
  if (status != AB_OK) ab_kept_close(values);
  AB_TRY(status);
  *out = values;
  return AB_OK;
}

ab_status ab_kept_open(struct ab_kept_values **out, const struct ab_recording *recording, const char *path,
                       const struct ab_recording *against, struct ab_kept_values *against_values) {
  struct ab_kept_values *values;
  AB_TRY(ab_mem_new(&values, 1, sizeof *values));
  values->recording = recording;
  values->against = against;
  values->against_values = against_values;
  return finish_open(out, values, path);
}

ab_status ab_kept_open_window(struct ab_kept_values **out, const struct ab_recording *recording, const char *path,
                              const struct ab_kept_window *window) {
  struct ab_kept_values *values;
  AB_TRY(ab_mem_new(&values, 1, sizeof *values));
  values->recording = recording;
  values->window = *window;
  values->windowed = true;
  return finish_open(out, values, path);
}

void ab_kept_close(struct ab_kept_values *values) {
  if (!values) return;
  ab_file_close(&values->file);
  ab_mem_free(values->offset);
  ab_mem_free(values->buffer);
  ab_mem_free(values);
}

static ab_status make_room(struct ab_kept_values *values, size_t bytes) {
  if (bytes <= values->room) return AB_OK;
  AB_TRY(ab_mem_resize(&values->buffer, bytes, 1));
  values->room = bytes;
  return AB_OK;
}

ab_status ab_kept_read(struct ab_kept_values *values, const struct ab_identity *id, struct ab_view *out) {
  const struct ab_recorded *recorded = ab_recording_find(values->recording, id);
  if (!recorded || !keeps(values, id)) return AB_FAIL(AB_ENOTFOUND, "the values of '%s' were not kept", id->tensor);
  const struct ab_observation *observation = &recorded->observation;
  if (!stored(values->against, observation)) return ab_kept_read(values->against_values, id, out);
  size_t bytes = bytes_of(observation);
  AB_TRY(make_room(values, bytes));
  uint64_t offset = values->offset[recorded - values->recording->observation];
  AB_TRY(ab_file_read_at(&values->file, values->buffer, bytes, offset));
  *out = (struct ab_view){.dtype = observation->dtype, .shape = observation->shape, .data = values->buffer};
  ab_view_contiguous(out);
  return AB_OK;
}

ab_status ab_kept_check(struct ab_kept_values *values) {
  for (size_t i = 0; i < values->recording->observations; i++) {
    const struct ab_observation *o = &values->recording->observation[i].observation;
    char id[AB_IDENTITY_TEXT];
    struct ab_view view;
    if (!keeps(values, &o->id) || !stored(values->against, o)) continue;
    AB_TRY(ab_kept_read(values, &o->id, &view));
    if (ab_summary_holds(&o->summary, &view)) continue;
    ab_identity_print(id, &o->id);
    return AB_FAIL(AB_EFORMAT, "the values that it kept of %s are not those whose digest its stream states", id);
  }
  return AB_OK;
}
