/* The buffer sliding window; function names as in MaxText pipeline.py. */
#include "linen_circular.h"

void linen_bsw_layout(struct linen_circular_pipeline *self) {
  const struct linen_stack *stack = &self->base.layers;
  for (int p = 0; p < stack->leaves; p++) {
    self->leaf_at[p] = self->stage_count;
    self->stage_count += stack->leaf_count[p];
  }
}

ab_status linen_bsw_take(const struct linen_circular_pipeline *self, void *out) {
  const struct ab_exec *exec = self->base.exec;
  return ab_arena_take(exec->arena, out, (size_t)self->base.schedule.stages * self->stage_count,
                       exec->kernels->element);
}

void *linen_bsw_leaf(const struct linen_circular_pipeline *self, void *buffer, int s, int p) {
  size_t element = (size_t)s * self->stage_count + self->leaf_at[p];
  return (unsigned char *)buffer + element * self->base.exec->kernels->element;
}

int linen_prefetched_repeat(const struct linen_circular_pipeline *self, int k, int s) {
  const struct linen_schedule *schedule = &self->base.schedule;
  if (self->prefetch_defect)
    return linen_get_microbatch_and_repeat_ids(schedule, k * schedule->microbatches + 1, s).repeat;
  return k < schedule->repeats ? k : schedule->repeats - 1;
}

/* Ids count on in the drain: a bubble there works on repeat R, as stage 0 does. */
enum linen_bsw_slot linen_bsw_slot_of(const struct linen_schedule *schedule, int t, int s) {
  int processed = t > s ? t - s : 0;
  return processed / schedule->microbatches == t / schedule->microbatches ? LINEN_W_NEXT : LINEN_W_CURR;
}

/* w_next of window k. */
static void *gathered_in(const struct linen_circular_pipeline *self, int k) {
  return k < 0 || k == self->base.schedule.repeats ? self->spare : linen_residuals_at(&self->carried, k);
}

void *linen_bsw_buffer(const struct linen_circular_pipeline *self, enum linen_bsw_slot slot) {
  return gathered_in(self, slot == LINEN_W_NEXT ? self->window : self->window - 1);
}

/* What came through the door, into the buffer. */
static void keep_stage(void *ctx, int s) {
  struct linen_circular_pipeline *self = ctx;
  const struct linen_pipeline *base = &self->base;
  void *w_next = linen_bsw_buffer(self, LINEN_W_NEXT);
  for (int p = 0; p < base->layers.leaves; p++)
    base->exec->kernels->copy(linen_bsw_leaf(self, w_next, s, p), base->weights[s].param[p],
                              base->layers.leaf_count[p]);
}

static ab_status bsw_all_gather_over_fsdp(struct linen_circular_pipeline *self) {
  struct linen_pipeline *base = &self->base;
  struct ab_mesh *mesh = base->exec->mesh;
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++) {
    struct linen_scope scope = base->layers_scope;
    struct linen_door door = {.mesh = mesh, .repeat = linen_prefetched_repeat(self, self->window, s), .stage = s};
    linen_select_stage(base, &scope, door.repeat, s);
    AB_TRY(linen_stack_bind(&base->weights[s], &base->layers, &scope, &door));
  }
  linen_vmap(keep_stage, self, mesh->stage_begin, mesh->stage_end, base->exec->kernels->dry);
  return AB_OK;
}

ab_status linen_bsw_begin_window(struct linen_circular_pipeline *self, int k) {
  size_t count = (size_t)self->base.schedule.stages * self->stage_count;
  self->window = k;
  if (k == 0) self->base.exec->kernels->zero(linen_bsw_buffer(self, LINEN_W_CURR), count);
  return bsw_all_gather_over_fsdp(self);
}
