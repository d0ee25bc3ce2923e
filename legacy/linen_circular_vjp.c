/* The backward pass of CircularPipeline: custom VJPs at three levels, an iteration within a window within the loop over
 * repeats. The additions run in the order that the transposed scans give.
 */
#include "linen_circular.h"

ab_status linen_circular_accumulators(struct linen_pipeline *base, int t, int s) {
  const struct linen_circular_pipeline *self = (const struct linen_circular_pipeline *)base;
  void *buffer = self->d_buffer[linen_bsw_slot_of(&base->schedule, t, s)];
  for (int p = 0; p < base->layers.leaves; p++) base->weights[s].dparam[p] = linen_bsw_leaf(self, buffer, s, p);
  return AB_OK;
}

static ab_status run_microbatch_vjp(void *ctx, int64_t i) {
  struct linen_circular_pipeline *self = ctx;
  return linen_run_one_iteration_vjp(&self->base, linen_window_of(&self->base.schedule, self->window).first + (int)i);
}

static void zero_stage(void *ctx, int s) {
  const struct linen_circular_pipeline *self = ctx;
  for (int slot = 0; slot < LINEN_SLOTS; slot++)
    self->base.exec->kernels->zero(linen_bsw_leaf(self, self->d_buffer[slot], s, 0), self->stage_count);
}

/* The weights are the ones that the window gathered: their accumulators are bound. */
static void add_stage(void *ctx, int s) {
  const struct linen_circular_pipeline *self = ctx;
  const struct linen_stack *stack = &self->base.layers;
  const struct ab_kernels *k = self->base.exec->kernels;
  void **gradient = self->base.weights[s].dparam;
  for (int p = 0; p < stack->leaves; p++) {
    void *direct = linen_bsw_leaf(self, self->d_buffer[LINEN_W_NEXT], s, p);
    k->add(direct, direct, linen_bsw_leaf(self, self->d_carried, s, p), stack->leaf_count[p]);
    k->add(gradient[p], gradient[p], direct, stack->leaf_count[p]);
  }
}

/* The transpose of the gather: V[s] = H1[s] + cw[s] onto the gradients of the weights gathered for s. */
static ab_status transpose_all_gather(struct linen_circular_pipeline *self) {
  struct linen_pipeline *base = &self->base;
  const struct ab_mesh *mesh = base->exec->mesh;
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++) {
    struct linen_scope scope = base->layers_cotangents;
    linen_select_stage(base, &scope, linen_prefetched_repeat(self, self->window, s), s);
    AB_TRY(linen_stack_bind_cotangents(&base->weights[s], &base->layers, &scope));
  }
  linen_vmap(add_stage, self, mesh->stage_begin, mesh->stage_end, base->exec->kernels->dry);
  return AB_OK;
}

/* The window before carried w_curr here: its w_next takes the cotangent. */
static void carry_cotangent(struct linen_circular_pipeline *self) {
  void *spent = self->d_carried;
  self->d_carried = self->d_buffer[LINEN_W_CURR];
  self->d_buffer[LINEN_W_CURR] = spent;
}

static ab_status run_window_vjp(void *ctx, int64_t k) {
  struct linen_circular_pipeline *self = ctx;
  const struct ab_exec *exec = self->base.exec;
  AB_TRY(linen_bsw_begin_window(self, (int)k));
  linen_vmap(zero_stage, self, exec->mesh->stage_begin, exec->mesh->stage_end, exec->kernels->dry);
  AB_TRY(linen_scan_vjp(run_microbatch_vjp, self, linen_window_of(&self->base.schedule, (int)k).length));
  AB_TRY(transpose_all_gather(self));
  carry_cotangent(self);
  return AB_OK;
}

ab_status linen_circular_loop_vjp(struct linen_pipeline *base) {
  struct linen_circular_pipeline *self = (struct linen_circular_pipeline *)base;
  size_t count = (size_t)base->schedule.stages * self->stage_count;
  AB_TRY(linen_bsw_take(self, &self->spare));
  for (int slot = 0; slot < LINEN_SLOTS; slot++) AB_TRY(linen_bsw_take(self, &self->d_buffer[slot]));
  AB_TRY(linen_bsw_take(self, &self->d_carried));
  base->exec->kernels->zero(self->d_carried, count);
  return linen_scan_vjp(run_window_vjp, self, base->schedule.repeats + 1);
}
