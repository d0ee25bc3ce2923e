#include "capture.h"

#include <string.h>

#include "mem.h"
#include "tap.h"

static ab_status observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct capture *c = ctx;
  if (c->tensors == c->tensor_room) {
    c->tensor_room = 2 * c->tensor_room + 64;
    AB_TRY(ab_mem_resize(&c->tensor, c->tensor_room, sizeof *c->tensor));
  }
  struct capture_tensor *t = &c->tensor[c->tensors++];
  *t = (struct capture_tensor){.id = o->id, .at = o->at, .count = o->summary.count, .digest = o->summary.digest[0]};
  if (!values) return AB_OK;
  t->bytes = t->count * ab_dtype_size(o->dtype);
  AB_TRY(ab_mem_new(&t->values, t->count, ab_dtype_size(o->dtype)));
  memcpy(t->values, values, t->bytes);
  return AB_OK;
}

static ab_status count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                       int64_t amount) {
  struct capture *c = ctx;
  if (c->counters == c->counter_room) {
    c->counter_room = 2 * c->counter_room + 64;
    AB_TRY(ab_mem_resize(&c->counter, c->counter_room, sizeof *c->counter));
  }
  struct capture_counter *k = &c->counter[c->counters++];
  *k = (struct capture_counter){.id = *id, .at = *at, .amount = amount};
  strncat(k->name, name, AB_NAME_MAX - 1);
  return AB_OK;
}

static const struct ab_probe_ops capture_ops = {.observe = observe, .count = count};

static bool wanted(void *ctx, const struct ab_identity *id) {
  const struct capture *c = ctx;
  return c->prefix && !strncmp(id->tensor, c->prefix, strlen(c->prefix));
}

void capture_new(struct capture *c, enum ab_level level, int stages, const char *prefix) {
  *c = (struct capture){.prefix = prefix};
  ck_ok(ab_probe_new(&c->probe, &capture_ops, c, level, stages));
  ab_probe_want(c->probe, wanted, c);
}

void capture_free(struct capture *c) {
  for (size_t i = 0; i < c->tensors; i++) ab_mem_free(c->tensor[i].values);
  ab_probe_free(c->probe);
  ab_mem_free(c->counter);
  ab_mem_free(c->tensor);
}

int64_t capture_total(const struct capture *c, const char *name) {
  int64_t total = 0;
  for (size_t i = 0; i < c->counters; i++)
    if (!strcmp(c->counter[i].name, name)) total += c->counter[i].amount;
  return total;
}

int capture_check_recomputed(const struct capture *c) {
  int compared = 0;
  for (size_t i = 0; i < c->tensors; i++)
    for (size_t j = 0; j < c->tensors; j++) {
      const struct capture_tensor *a = &c->tensor[i], *b = &c->tensor[j];
      if (a->id.phase != AB_FORWARD || b->id.phase != AB_RECOMPUTE || strcmp(a->id.tensor, b->id.tensor)) continue;
      if (a->id.layer != b->id.layer || a->id.microbatch != b->id.microbatch) continue;
      ck_assert_msg(a->digest == b->digest, "%s of layer %d", a->id.tensor, a->id.layer);
      compared++;
    }
  return compared;
}

const struct capture_tensor *capture_find(const struct capture *c, const char *name, int iteration) {
  for (size_t i = 0; i < c->tensors; i++)
    if (c->tensor[i].at.iteration == iteration && !strcmp(c->tensor[i].id.tensor, name) && c->tensor[i].values)
      return &c->tensor[i];
  ck_abort_msg("no values of '%s' after iteration %d", name, iteration);
  return NULL;
}
