#include <stdio.h>

#include "pipeline.h"

/* How the loop state moves. With c = t mod q, outputs Y and src = Y (delay 1) or the old prev_outputs (delay 2):
 *
 *   inputs        X[0] = state_io[0][c] if t < M, else circ_storage[0][t mod M] if circular, else shift[0];
 *                 X[s] = shift[s]
 *   shift         [s] = src[s-1]; [0] = src[S-1] if outputs rotate, else 0
 *   circ_storage  [s][(t - depth - 1) mod M] = old mover[s-1 mod S]; mover = Y
 *   state_io      [s][c] = state_io[s+1][c]; [S-1][c] = Y[S-1]
 *
 * Buffers are donated: each update happens in place, in an order that reads old values first. The transposes walk the
 * same lines backwards; at most one contribution to a cotangent of Y is not zero. */

/* Microbatch-sized element `index` of a buffer. */
static void *nth(const struct nnx_pipeline *p, const void *buffer, int index) {
  return (void *)((uintptr_t)buffer + (size_t)index * p->tokens * p->exec.kernels->element);
}

static size_t all_stages(const struct nnx_pipeline *p) { return (size_t)p->schedule.num_stages * p->tokens; }

/* A macro, so that a ledger of the arena tells the buffers apart. */
#define TAKE(p, out, per_stage) \
  ab_arena_take((p)->exec.arena, out, all_stages(p) * (size_t)(per_stage), (p)->exec.kernels->element)

ab_status nnx_pipeline_take_buffers(struct nnx_pipeline *p) {
  const struct nnx_schedule *schedule = &p->schedule;
  p->state = (struct nnx_loop_state){0};
  AB_TRY(TAKE(p, &p->state.state_io, schedule->microbatches_per_stage));
  AB_TRY(TAKE(p, &p->state.shift, 1));
  if (schedule->forwarding_delay == 2) AB_TRY(TAKE(p, &p->state.prev_outputs, 1));
  if (schedule->use_circ_storage) {
    AB_TRY(TAKE(p, &p->state.circ_storage, schedule->num_microbatches));
    AB_TRY(TAKE(p, &p->state.circ_storage_mover, 1));
  }
  AB_TRY(TAKE(p, &p->outputs, 1));
  AB_TRY(TAKE(p, &p->inputs_bar, 1));
  AB_TRY(TAKE(p, &p->column[0], 1));
  return TAKE(p, &p->column[1], 1);
}

/* Column c of every stage's row of a [S, width, A] buffer, as [S, A]. */
static struct ab_view column_view(const struct nnx_pipeline *p, void *buffer, int width, int c) {
  int64_t stages = p->schedule.num_stages, elements = (int64_t)p->tokens;
  return (struct ab_view){.dtype = p->exec.kernels->dtype,
                          .shape = {2, {stages, elements}},
                          .stride = {width * elements, 1},
                          .data = nth(p, buffer, c)};
}

static void read_column(const struct nnx_pipeline *p, void *out, void *buffer, int width, int c) {
  struct ab_view from = column_view(p, buffer, width, c), to = column_view(p, out, 1, 0);
  p->exec.kernels->copy_view(&to, &from);
}

static void write_column(const struct nnx_pipeline *p, void *buffer, int width, int c, void *values) {
  struct ab_view from = column_view(p, values, 1, 0), to = column_view(p, buffer, width, c);
  p->exec.kernels->copy_view(&to, &from);
}

static void ring(const struct nnx_pipeline *p, void *dst, const void *src, int shift) {
  p->exec.mesh->ops->ring(p->exec.mesh, dst, src, p->tokens, shift);
}

/* Whether the last stage's output returns to stage 0 through shift. */
static bool rotates(const struct nnx_schedule *schedule) {
  return schedule->num_repeats > 1 && !schedule->use_circ_storage;
}

static void zero_small_buffers(const struct nnx_pipeline *p) {
  const struct ab_kernels *k = p->exec.kernels;
  const struct nnx_loop_state *state = &p->state;
  k->zero(state->shift, all_stages(p));
  if (state->prev_outputs) k->zero(state->prev_outputs, all_stages(p));
  if (!state->circ_storage) return;
  k->zero(state->circ_storage, all_stages(p) * (size_t)p->schedule.num_microbatches);
  k->zero(state->circ_storage_mover, all_stages(p));
}

void nnx_init_states(struct nnx_pipeline *p, const void *inputs) {
  p->exec.kernels->copy(p->state.state_io, inputs, all_stages(p) * (size_t)p->schedule.microbatches_per_stage);
  zero_small_buffers(p);
}

void nnx_init_states_transpose(const struct nnx_pipeline *p, void *d_inputs) {
  p->exec.kernels->copy(d_inputs, p->state.state_io, all_stages(p) * (size_t)p->schedule.microbatches_per_stage);
}

void nnx_get_iteration_inputs(struct nnx_pipeline *p, int t, void *stages_in) {
  const struct ab_kernels *k = p->exec.kernels;
  const struct nnx_schedule *schedule = &p->schedule;
  const void *first = p->state.shift;
  if (t < schedule->num_microbatches) first = nth(p, p->state.state_io, t % schedule->microbatches_per_stage);
  else if (schedule->use_circ_storage) first = nth(p, p->state.circ_storage, t % schedule->num_microbatches);
  k->copy(stages_in, first, p->tokens);
  if (schedule->num_stages > 1)
    k->copy(nth(p, stages_in, 1), nth(p, p->state.shift, 1), all_stages(p) - p->tokens);
}

/* X_bar goes to where X came from: shift, or for stage 0 the branch of the select that was taken. */
void nnx_get_iteration_inputs_transpose(struct nnx_pipeline *p, int t) {
  const struct ab_kernels *k = p->exec.kernels;
  const struct nnx_schedule *schedule = &p->schedule;
  void *first = NULL;
  if (t < schedule->num_microbatches) first = nth(p, p->state.state_io, t % schedule->microbatches_per_stage);
  else if (schedule->use_circ_storage) first = nth(p, p->state.circ_storage, t % schedule->num_microbatches);
  k->copy(p->state.shift, p->inputs_bar, all_stages(p));
  if (!first) return;
  k->zero(p->state.shift, p->tokens);
  k->add(first, first, p->inputs_bar, p->tokens);
}

static void advance_shift(struct nnx_pipeline *p) {
  const struct ab_kernels *k = p->exec.kernels;
  struct nnx_loop_state *state = &p->state;
  ring(p, state->shift, state->prev_outputs ? state->prev_outputs : p->outputs, 1);
  if (!rotates(&p->schedule)) k->zero(state->shift, p->tokens);
  if (state->prev_outputs) k->copy(state->prev_outputs, p->outputs, all_stages(p));
}

static void advance_circ_storage(struct nnx_pipeline *p, int t) {
  if (!p->state.circ_storage) return;
  ring(p, p->column[0], p->state.circ_storage_mover, 1);
  write_column(p, p->state.circ_storage, p->schedule.num_microbatches, nnx_circ_write_index(&p->schedule, t),
               p->column[0]);
  p->exec.kernels->copy(p->state.circ_storage_mover, p->outputs, all_stages(p));
}

static void advance_state_io(struct nnx_pipeline *p, int t) {
  int width = p->schedule.microbatches_per_stage, c = t % width, last = p->schedule.num_stages - 1;
  read_column(p, p->column[0], p->state.state_io, width, c);
  ring(p, p->column[1], p->column[0], -1);
  p->exec.kernels->copy(nth(p, p->column[1], last), nth(p, p->outputs, last), p->tokens);
  write_column(p, p->state.state_io, width, c, p->column[1]);
}

void nnx_get_new_loop_state(struct nnx_pipeline *p, int t) {
  advance_shift(p);
  advance_circ_storage(p, t);
  advance_state_io(p, t);
}

/* From here on p->state holds cotangents and p->outputs those of the stages' outputs, Y_bar. */

static void shift_transpose(struct nnx_pipeline *p) {
  const struct ab_kernels *k = p->exec.kernels;
  struct nnx_loop_state *state = &p->state;
  if (!rotates(&p->schedule)) k->zero(state->shift, p->tokens);
  if (state->prev_outputs) k->copy(p->outputs, state->prev_outputs, all_stages(p));
  ring(p, state->prev_outputs ? state->prev_outputs : p->outputs, state->shift, -1);
}

static void circ_storage_transpose(struct nnx_pipeline *p, int t) {
  const struct ab_kernels *k = p->exec.kernels;
  struct nnx_loop_state *state = &p->state;
  int width = p->schedule.num_microbatches, written = nnx_circ_write_index(&p->schedule, t);
  if (!state->circ_storage) return;
  k->add(p->outputs, p->outputs, state->circ_storage_mover, all_stages(p));
  read_column(p, p->column[0], state->circ_storage, width, written);
  ring(p, state->circ_storage_mover, p->column[0], -1);
  k->zero(p->column[0], all_stages(p));
  write_column(p, state->circ_storage, width, written, p->column[0]);
}

static void state_io_transpose(struct nnx_pipeline *p, int t) {
  const struct ab_kernels *k = p->exec.kernels;
  int width = p->schedule.microbatches_per_stage, c = t % width, last = p->schedule.num_stages - 1;
  void *last_output = nth(p, p->outputs, last);
  read_column(p, p->column[0], p->state.state_io, width, c);
  k->add(last_output, last_output, nth(p, p->column[0], last), p->tokens);
  ring(p, p->column[1], p->column[0], 1);
  k->zero(p->column[1], p->tokens);
  write_column(p, p->state.state_io, width, c, p->column[1]);
}

void nnx_get_new_loop_state_transpose(struct nnx_pipeline *p, int t) {
  shift_transpose(p);
  circ_storage_transpose(p, t);
  state_io_transpose(p, t);
}

/* Where microbatch m rests in state_io after the last iteration. */
static int resting_place(const struct nnx_schedule *schedule, int m) {
  int q = schedule->microbatches_per_stage;
  int first = (schedule->num_microbatches * (schedule->num_repeats - 1) + schedule->depth) % q;
  return m / q * q + (m % q + first) % q;
}

void nnx_permute_output(const struct nnx_pipeline *p, void *outputs) {
  for (int m = 0; m < p->schedule.num_microbatches; m++)
    p->exec.kernels->copy(nth(p, outputs, m), nth(p, p->state.state_io, resting_place(&p->schedule, m)), p->tokens);
}

void nnx_permute_output_transpose(struct nnx_pipeline *p, const void *d_outputs) {
  for (int m = 0; m < p->schedule.num_microbatches; m++)
    p->exec.kernels->copy(nth(p, p->state.state_io, resting_place(&p->schedule, m)), nth(p, d_outputs, m), p->tokens);
  zero_small_buffers(p);
}

/* [S, width, rows, L, E], or without the axis of width 1 that a buffer of one microbatch per stage has not. */
static ab_status observe(const struct nnx_pipeline *p, int t, const char *name, void *buffer, int width, bool columns) {
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = AB_FORWARD};
  struct ab_where at = {.iteration = t, .stage = -1, .repeat = -1, .bubble = true}; /* outside the join: once per t */
  const struct ab_layer_dims *dims = &p->plan.dims;
  struct ab_view view = {.dtype = p->exec.kernels->dtype, .data = buffer};
  int64_t extents[] = {p->schedule.num_stages, width, dims->rows, dims->length, dims->emb};
  for (int i = 0; i < 5; i++)
    if (i != 1 || columns) view.shape.dim[view.shape.rank++] = extents[i];
  ab_view_contiguous(&view);
  snprintf(id.tensor, sizeof id.tensor, "loop/%s", name);
  return buffer ? ab_probe_observe(p->exec.probe, &id, &at, &view) : AB_OK;
}

ab_status nnx_observe_loop_state(const struct nnx_pipeline *p, int t) {
  const struct nnx_loop_state *state = &p->state;
  if (ab_probe_level(p->exec.probe) != AB_LEVEL_FULL || p->exec.kernels->dry) return AB_OK;
  AB_TRY(observe(p, t, "state_io", state->state_io, p->schedule.microbatches_per_stage, true));
  AB_TRY(observe(p, t, "shift", state->shift, 1, false));
  AB_TRY(observe(p, t, "prev_outputs", state->prev_outputs, 1, false));
  AB_TRY(observe(p, t, "circ_storage", state->circ_storage, p->schedule.num_microbatches, true));
  AB_TRY(observe(p, t, "circ_storage_mover", state->circ_storage_mover, 1, false));
  AB_TRY(observe(p, t, "stages_in", p->iteration[t].iteration_input, 1, false));
  return observe(p, t, "stages_out", p->outputs, 1, false);
}
