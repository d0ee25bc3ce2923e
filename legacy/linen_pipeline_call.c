/* The forward pass of Pipeline; MaxText pipeline.py, function names as there. */
#include <stdio.h>
#include <string.h>

#include "observed.h"
#include "linen_pipeline.h"

/* state_io [S, M/S, A] is the inputs as they come: microbatch m lies at stage m div q, column m mod q. */
static ab_status init_states(struct linen_pipeline *self, const void *inputs) {
  const struct ab_exec *exec = self->exec;
  int columns = self->schedule.microbatches_per_stage;
  AB_TRY(linen_take_buffer(self, &self->state.state_io, columns));
  exec->kernels->copy(self->state.state_io.data, inputs, (size_t)self->schedule.microbatches * self->count);
  return linen_take_loop_state(self);
}

/* What the first stage takes in iteration t. */
static const void *first_stage_input(const struct linen_pipeline *self, int t) {
  const struct linen_loop_state *state = &self->state;
  const struct ab_kernels *k = self->exec->kernels;
  int column = t % self->schedule.microbatches_per_stage;
  if (t < self->schedule.microbatches) return linen_buffer_at(&state->state_io, k, 0, column);
  if (self->schedule.use_circ_storage)
    return linen_buffer_at(&state->circ_storage, k, 0, t % self->schedule.microbatches);
  return linen_buffer_at(&state->shift, k, 0, 0);
}

static void get_iteration_inputs(struct linen_pipeline *self, int t) {
  const struct ab_kernels *k = self->exec->kernels;
  for (int s = self->exec->mesh->stage_begin; s < self->exec->mesh->stage_end; s++) {
    const void *x = s == 0 ? first_stage_input(self, t) : linen_buffer_at(&self->state.shift, k, s, 0);
    k->copy(self->cell[s].iteration_input, x, self->count);
  }
}

static void run_stage(void *ctx, int s) {
  struct linen_pipeline *self = ctx;
  struct linen_cell *cell = &self->cell[s];
  cell->y = linen_buffer_at(&self->stages_out, self->exec->kernels, s, 0);
  if (linen_cell_runs(self, s))
    linen_stack_call(&self->layers, &self->weights[s], cell);
  else
    self->exec->kernels->zero(cell->y, self->count);
}

/* The ring always sends; stage 0 takes what it was sent only where repeats rotate without circular storage. */
static void update_shift(struct linen_pipeline *self) {
  const struct ab_exec *exec = self->exec;
  bool delayed = self->schedule.forwarding_delay > 1;
  const struct linen_buffer *sent = delayed ? &self->state.prev_outputs : &self->stages_out;
  exec->mesh->ops->ring(exec->mesh, self->state.shift.data, sent->data, self->count, +1);
  bool rotates = self->schedule.repeats > 1 && !self->schedule.use_circ_storage;
  if (!rotates && exec->mesh->stage_begin == 0) exec->kernels->zero(self->state.shift.data, self->count);
}

static void update_circ_storage(struct linen_pipeline *self, int t) {
  struct ab_mesh *mesh = self->exec->mesh;
  struct linen_loop_state *state = &self->state;
  mesh->ops->ring(mesh, self->moved, state->circ_storage_mover.data, self->count, +1);
  linen_put_column(&state->circ_storage, self->moved, mesh, linen_circ_storage_index(&self->schedule, t));
  linen_put_column(&state->circ_storage_mover, self->stages_out.data, mesh, 0);
}

/* The column of this iteration moves one stage down; the last stage puts its output there. */
static void update_state_io(struct linen_pipeline *self, int t) {
  struct ab_mesh *mesh = self->exec->mesh;
  int column = t % self->schedule.microbatches_per_stage, last = self->schedule.stages - 1;
  linen_take_column(self->column, &self->state.state_io, mesh, column);
  mesh->ops->ring(mesh, self->moved, self->column, self->count, -1);
  linen_put_column(&self->state.state_io, self->moved, mesh, column);
  if (mesh->stage_end == self->schedule.stages)
    mesh->kernels->copy(linen_buffer_at(&self->state.state_io, mesh->kernels, last, column),
                        linen_buffer_at(&self->stages_out, mesh->kernels, last, 0), self->count);
}

/* Old values are read before they are overwritten: shift takes the previous outputs, circ_storage the old mover. */
static void get_new_loop_state(struct linen_pipeline *self, int t) {
  update_shift(self);
  if (self->schedule.forwarding_delay > 1)
    linen_put_column(&self->state.prev_outputs, self->stages_out.data, self->exec->mesh, 0);
  if (self->schedule.use_circ_storage) update_circ_storage(self, t);
  update_state_io(self, t);
}

/* A loop buffer under its name; columns 0: one activation per stage. */
struct named_buffer {
  const char *name;
  const void *data;
  int columns;
  size_t stage_stride; /* elements; 0: contiguous */
};

static struct ab_view buffer_view(const struct linen_pipeline *self, const struct named_buffer *buffer) {
  const struct ab_layer_dims *dims = &self->layers.plan.dims;
  struct ab_view view = {.dtype = self->exec->kernels->dtype};
  int columns = buffer->columns > 0 ? buffer->columns : 1;
  view.shape = (struct ab_shape){5, {self->schedule.stages, columns, dims->rows, dims->length, dims->emb}};
  memcpy(&view.data, &buffer->data, sizeof view.data);
  ab_view_contiguous(&view);
  if (buffer->stage_stride) view.stride[0] = (int64_t)buffer->stage_stride;
  return buffer->columns > 0 ? view : ab_view_index(&view, 1, 0);
}

/* Whole buffers belong to no microbatch: like bubbles they stay outside the join between sides. */
static ab_status observe_buffer(const struct linen_pipeline *self, int t, const struct named_buffer *buffer) {
  struct ab_view view = buffer_view(self, buffer);
  struct ab_identity id = {.microbatch = -1, .layer = -1};
  snprintf(id.tensor, sizeof id.tensor, "loop/%s", buffer->name);
  return ab_probe_observe(self->exec->probe, &id, &(struct ab_where){t, -1, -1, true}, &view);
}

/* From one stage's iteration_input to the next one's. */
static size_t stage_stride(const struct linen_pipeline *self) {
  const unsigned char *first = self->cell[0].iteration_input;
  if (self->schedule.stages == 1) return 0;
  return (size_t)((const unsigned char *)self->cell[1].iteration_input - first) / self->exec->kernels->element;
}

/* Large: only for who wants values. */
static ab_status observe_loop(const struct linen_pipeline *self, int t) {
  const struct linen_loop_state *state = &self->state;
  const struct named_buffer buffers[] = {
      {"stages_in", self->cell[0].iteration_input, 0, stage_stride(self)},
      {"stages_out", self->stages_out.data, 0, 0},
      {"state_io", state->state_io.data, state->state_io.columns, 0},
      {"shift", state->shift.data, 0, 0},
      {"prev_outputs", state->prev_outputs.data, 0, 0},
      {"circ_storage", state->circ_storage.data, state->circ_storage.columns, 0},
      {"circ_storage_mover", state->circ_storage_mover.data, 0, 0}};
  if (ab_probe_level(self->exec->probe) != AB_LEVEL_FULL) return AB_OK;
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
    if (buffers[i].data) AB_TRY(observe_buffer(self, t, &buffers[i]));
  return AB_OK;
}

ab_status linen_run_one_iteration(struct linen_pipeline *self, int t) {
  const struct ab_exec *exec = self->exec;
  AB_TRY(linen_begin_iteration(self, t, false));
  get_iteration_inputs(self, t);
  linen_vmap(run_stage, self, exec->mesh->stage_begin, exec->mesh->stage_end, exec->kernels->dry);
  AB_TRY(linen_end_iteration(self, true));
  AB_TRY(linen_sow_iteration(self, t));
  get_new_loop_state(self, t);
  return observe_loop(self, t);
}

/* Microbatch m finished in column (D + m) mod q of its stage; back to column m mod q. */
static void permute_output_micro_per_stage_dim(const struct linen_pipeline *self, void *outputs) {
  struct linen_buffer permuted = self->state.state_io;
  permuted.data = outputs;
  linen_roll_columns(&permuted, &self->state.state_io, self->exec->mesh, self->schedule.rotations);
}

ab_status linen_pipeline_call(struct linen_pipeline *self, const struct linen_scope *root, void *outputs,
                              const void *inputs, const int32_t *positions, const int32_t *segment_ids) {
  struct ab_arena *arena = self->exec->arena;
  self->positions = positions;
  self->segment_ids = segment_ids;
  AB_TRY(linen_observe_whole(self, AB_OBS_INPUTS, AB_FORWARD, inputs));
  AB_TRY(self->class->take_residuals(self));
  size_t mark = ab_arena_mark(arena);
  AB_TRY(linen_pipeline_begin(self, root));
  AB_TRY(init_states(self, inputs));
  AB_TRY(linen_take_work(self, false));
  AB_TRY(linen_sow_begin(self));
  AB_TRY(self->class->loop(self));
  AB_TRY(linen_sow_end(self));
  permute_output_micro_per_stage_dim(self, outputs);
  ab_arena_release(arena, mark);
  return linen_observe_whole(self, AB_OBS_OUTPUTS, AB_FORWARD, outputs);
}
