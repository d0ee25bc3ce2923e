/* The backward pass of Pipeline: the transpose of linen_pipeline_call.c, iteration by iteration, last first.
 * self->state holds the cotangents of the loop state; bars below are those after the iteration when read and those
 * before it when written. */
#include "observed.h"
#include "linen_pipeline.h"

/* Gradients of a scanned stage are collected contiguously, per layer. */
static ab_status take_accumulators(struct linen_pipeline *self) {
  const struct ab_exec *exec = self->exec;
  size_t layers = (size_t)(self->schedule.repeats * self->schedule.stages * self->layers.count);
  if (self->layers.kind != LINEN_SCANNED) return linen_stack_zero_cotangents(&self->layers, &self->layers_cotangents);
  for (int p = 0; p < self->layers.leaves; p++) {
    size_t n = layers * self->layers.leaf_count[p];
    AB_TRY(ab_arena_take(exec->arena, &self->accumulator[p], n, exec->kernels->element));
    exec->kernels->zero(self->accumulator[p], n);
  }
  return AB_OK;
}

static void *accumulator_of(const struct linen_pipeline *self, int layer, int p) {
  size_t bytes = self->layers.leaf_count[p] * self->exec->kernels->element;
  return (unsigned char *)self->accumulator[p] + (size_t)layer * bytes;
}

static ab_status place_one(void *ctx, int layer, const char *name, const struct ab_view *view) {
  const struct linen_pipeline *self = ctx;
  int p = 0;
  while (self->layers.plan.block->param[p].name != name) p++;
  linen_lift_place(self->exec->kernels, view, accumulator_of(self, layer, p));
  return AB_OK;
}

/* G[rho(t, s), s] as the stage's live accumulators. */
ab_status linen_pipeline_accumulators(struct linen_pipeline *self, int t, int s) {
  (void)t; /* the cell knows */
  const struct linen_stack *stack = &self->layers;
  struct linen_scope scope = self->layers_cotangents;
  int repeat = self->cell[s].at.repeat, first = (repeat * self->schedule.stages + s) * stack->count;
  linen_select_stage(self, &scope, repeat, s);
  if (stack->kind != LINEN_SCANNED) return linen_stack_bind_cotangents(&self->weights[s], stack, &scope);
  for (int i = 0; i < stack->count * stack->leaves; i++)
    self->weights[s].dparam[i] = accumulator_of(self, first + i / stack->leaves, i % stack->leaves);
  return AB_OK;
}

/* shift took the sent outputs, stage 0's share being dropped unless repeats rotate. */
static void transpose_shift(struct linen_pipeline *self, void *sent) {
  const struct ab_exec *exec = self->exec;
  bool rotates = self->schedule.repeats > 1 && !self->schedule.use_circ_storage;
  if (!rotates && exec->mesh->stage_begin == 0) exec->kernels->zero(self->state.shift.data, self->count);
  exec->mesh->ops->ring(exec->mesh, sent, self->state.shift.data, self->count, -1);
}

/* Cotangent of the outputs by way of shift; with the delay by way of prev_outputs, which itself was sent. */
static void transpose_outputs(struct linen_pipeline *self) {
  if (self->schedule.forwarding_delay == 1) {
    transpose_shift(self, self->stages_out.data);
    return;
  }
  linen_put_column(&self->stages_out, self->state.prev_outputs.data, self->exec->mesh, 0);
  transpose_shift(self, self->state.prev_outputs.data);
}

static void add_to_stages(struct linen_pipeline *self, const struct linen_buffer *y, const struct linen_buffer *x) {
  const struct ab_kernels *k = self->exec->kernels;
  for (int s = self->exec->mesh->stage_begin; s < self->exec->mesh->stage_end; s++) {
    void *to = linen_buffer_at(y, k, s, 0);
    k->add(to, to, linen_buffer_at(x, k, s, 0), self->count);
  }
}

static void transpose_circ_storage(struct linen_pipeline *self, int t) {
  struct ab_mesh *mesh = self->exec->mesh;
  struct linen_loop_state *bar = &self->state;
  int column = linen_circ_storage_index(&self->schedule, t);
  add_to_stages(self, &self->stages_out, &bar->circ_storage_mover);
  linen_take_column(self->column, &bar->circ_storage, mesh, column);
  mesh->ops->ring(mesh, bar->circ_storage_mover.data, self->column, self->count, -1);
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++)
    mesh->kernels->zero(linen_buffer_at(&bar->circ_storage, mesh->kernels, s, column), self->count);
}

static void transpose_state_io(struct linen_pipeline *self, int t) {
  struct ab_mesh *mesh = self->exec->mesh;
  const struct ab_kernels *k = mesh->kernels;
  int column = t % self->schedule.microbatches_per_stage, last = self->schedule.stages - 1;
  if (mesh->stage_end == self->schedule.stages) {
    void *y_bar = linen_buffer_at(&self->stages_out, k, last, 0);
    k->add(y_bar, y_bar, linen_buffer_at(&self->state.state_io, k, last, column), self->count);
  }
  linen_take_column(self->column, &self->state.state_io, mesh, column);
  mesh->ops->ring(mesh, self->moved, self->column, self->count, +1);
  linen_put_column(&self->state.state_io, self->moved, mesh, column);
  if (mesh->stage_begin == 0) k->zero(linen_buffer_at(&self->state.state_io, k, 0, column), self->count);
}

static void run_stage_vjp(void *ctx, int s) {
  struct linen_pipeline *self = ctx;
  struct linen_cell *cell = &self->cell[s];
  cell->dy = linen_buffer_at(&self->stages_out, self->exec->kernels, s, 0);
  cell->dx = linen_buffer_at(&self->d_stages_in, self->exec->kernels, s, 0);
  if (linen_cell_runs(self, s))
    linen_stack_vjp(&self->layers, &self->weights[s], cell);
  else
    self->exec->kernels->zero(cell->dx, self->count);
}

/* Where the first stage's input came from. */
static void transpose_first_stage_input(struct linen_pipeline *self, int t) {
  const struct ab_kernels *k = self->exec->kernels;
  struct linen_loop_state *bar = &self->state;
  bool fresh = t < self->schedule.microbatches, stored = !fresh && self->schedule.use_circ_storage;
  void *to = NULL;
  if (fresh) to = linen_buffer_at(&bar->state_io, k, 0, t % self->schedule.microbatches_per_stage);
  if (stored) to = linen_buffer_at(&bar->circ_storage, k, 0, t % self->schedule.microbatches);
  if (!to) return;
  k->add(to, to, linen_buffer_at(&self->d_stages_in, k, 0, 0), self->count);
  k->zero(linen_buffer_at(&bar->shift, k, 0, 0), self->count);
}

static void transpose_iteration_inputs(struct linen_pipeline *self, int t) {
  linen_put_column(&self->state.shift, self->d_stages_in.data, self->exec->mesh, 0);
  if (self->exec->mesh->stage_begin == 0) transpose_first_stage_input(self, t);
}

ab_status linen_run_one_iteration_vjp(struct linen_pipeline *self, int t) {
  const struct ab_mesh *mesh = self->exec->mesh;
  transpose_outputs(self);
  if (self->schedule.use_circ_storage) transpose_circ_storage(self, t);
  transpose_state_io(self, t);
  AB_TRY(linen_begin_iteration(self, t, true));
  linen_vmap(run_stage_vjp, self, mesh->stage_begin, mesh->stage_end, self->exec->kernels->dry);
  AB_TRY(linen_end_iteration(self, false));
  transpose_iteration_inputs(self, t);
  return AB_OK;
}

/* The cotangent of the outputs, un-permuted, is that of the last state_io; what it has become after iteration 0 is
 * d_inputs, whose memory it therefore uses throughout. */
static ab_status init_cotangents(struct linen_pipeline *self, void *d_inputs, const void *d_outputs) {
  int columns = self->schedule.microbatches_per_stage;
  struct linen_buffer given = {.columns = columns, .count = self->count};
  size_t back = ((size_t)columns - self->schedule.rotations) % (size_t)columns;
  given.data = (void *)(uintptr_t)d_outputs; /* read only */
  self->state.state_io = (struct linen_buffer){.data = d_inputs, .columns = columns, .count = self->count};
  linen_roll_columns(&self->state.state_io, &given, self->exec->mesh, back);
  AB_TRY(linen_take_loop_state(self));
  return linen_take_buffer(self, &self->d_stages_in, 1);
}

ab_status linen_pipeline_vjp(struct linen_pipeline *self, const struct linen_scope *root,
                             const struct linen_scope *cotangents, void *d_inputs, const void *d_outputs) {
  struct ab_arena *arena = self->exec->arena;
  size_t mark = ab_arena_mark(arena);
  AB_TRY(linen_observe_whole(self, AB_OBS_D_OUTPUTS, AB_BACKWARD, d_outputs));
  AB_TRY(linen_module_scope(&self->layers_cotangents, &self->layers.base, cotangents));
  AB_TRY(linen_pipeline_begin(self, root));
  AB_TRY(take_accumulators(self));
  AB_TRY(init_cotangents(self, d_inputs, d_outputs));
  AB_TRY(linen_take_work(self, true));
  AB_TRY(self->class->loop_vjp(self));
  if (self->layers.kind == LINEN_SCANNED) AB_TRY(linen_pipeline_leaves(self, cotangents, place_one, self));
  ab_arena_release(arena, mark);
  return linen_observe_whole(self, AB_OBS_D_INPUTS, AB_BACKWARD, d_inputs);
}
