#include "observed.h"
#include "pipeline.h"
#include "residuals.h"

/* One iteration: gather, merge, run all stages, scatter. NNXPipeline: run_one_iteration,
 * get_current_repeat_from_stages. */

ab_status nnx_gather_stage(struct nnx_state *out, const struct nnx_pipeline *p, const struct nnx_state *state,
                           int repeat, int stage) {
  struct nnx_state of_repeat = *state;
  if (p->schedule.num_repeats > 1)
    AB_TRY(nnx_index_axis(&of_repeat, p->exec.book, state, &p->repeat_axis, repeat));
  return nnx_index_axis(out, p->exec.book, &of_repeat, &p->stage_axis, stage);
}

static ab_status merge_stage(struct nnx_node **out, const struct nnx_run *run, const struct nnx_state *params,
                             const struct nnx_state *rest) {
  const struct nnx_state *states[] = {params, rest};
  return nnx_merge(out, run->pipeline->exec.book, run->graphdef, states, 2);
}

/* The whole state of the stage's repeat: parameters through the door, rng state as values of its own. */
static ab_status get_current_repeat(struct nnx_run *run, int t, int s, struct nnx_node **dmodule) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_stage_run *stage = &run->stage[s];
  struct nnx_state params, dparams, rest;
  AB_TRY(nnx_gather_stage(&stage->slice, p, &run->carry, nnx_repeat_of_cell(p, t, s), s));
  AB_TRY(nnx_state_detach(&rest, p->exec.book, &stage->slice));
  AB_TRY(p->class->params(&params, run, t, s));
  AB_TRY(merge_stage(&stage->module, run, &params, &rest));
  *dmodule = NULL;
  if (!run->pullback) return AB_OK;
  AB_TRY(p->class->dparams(&dparams, run, t, s));
  return merge_stage(dmodule, run, &dparams, &rest);
}

static void *accumulator(const struct nnx_run *run, int repeat, int s, int k) {
  const struct nnx_pipeline *p = run->pipeline;
  size_t layer = (size_t)((repeat * p->schedule.num_stages + s) * p->stack.count + k);
  return (void *)((uintptr_t)run->accumulators + layer * nnx_stack_elements(&p->stack) * p->exec.kernels->element);
}

static ab_status bind_stage(struct nnx_run *run, int s, const struct nnx_node *dmodule) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_stage_run *stage = &run->stage[s];
  int repeat = nnx_clamp_repeat(&p->schedule, stage->ids.repeat);
  struct nnx_layer_binding *layer;
  AB_TRY(ab_arena_take(p->exec.book, &layer, (size_t)p->stack.count, sizeof *layer));
  AB_TRY(nnx_stack_bind(layer, p->exec.book, &p->stack, stage->module, dmodule));
  for (int k = 0; k < p->stack.count && run->accumulators; k++)
    nnx_accumulate_at(&layer[k], &p->stack, accumulator(run, repeat, s, k));
  stage->call.layer = layer;
  return AB_OK;
}

static void describe_call(struct nnx_run *run, int t, int s) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_stage_run *stage = &run->stage[s];
  int repeat = nnx_clamp_repeat(&p->schedule, stage->ids.repeat);
  size_t offset = (size_t)stage->ids.microbatch * (size_t)(p->plan.dims.rows * p->plan.dims.length);
  stage->call = (struct nnx_stack_call){
      .stack = &p->stack,
      .plan = &p->plan,
      .residual = &p->iteration[t].cell[s],
      .work = &p->work[s],
      .positions = p->positions + offset,
      .segment_ids = p->segment_ids + offset,
      .recorder = ab_probe_recorder(p->exec.probe, s),
      .microbatch = stage->ids.microbatch,
      .first_layer = (repeat * p->schedule.num_stages + s) * p->stack.count,
      .at = {.iteration = t, .stage = s, .repeat = repeat, .bubble = stage->ids.bubble}};
}

static ab_status prepare_stage(struct nnx_run *run, int t, int s) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_stage_run *stage = &run->stage[s];
  struct nnx_node *dmodule;
  *stage = (struct nnx_stage_run){.ids = nnx_get_microbatch_and_repeat_ids(&p->schedule, t, s)};
  describe_call(run, t, s);
  if (stage->ids.bubble && !p->compute_bubbles) return AB_OK;
  if (!run->pullback)
    AB_TRY(nnx_stack_residual_take(stage->call.residual, p->exec.arena, &p->stack, &p->plan));
  AB_TRY(nnx_sow_in_cell(run, t, s));
  AB_TRY(get_current_repeat(run, t, s, &dmodule));
  return bind_stage(run, s, dmodule);
}

static ab_status prepare_stages(struct nnx_run *run, int t) {
  struct nnx_pipeline *p = run->pipeline;
  AB_TRY(ab_arena_take(p->exec.book, &run->stage, (size_t)p->schedule.num_stages, sizeof *run->stage));
  for (int s = p->exec.mesh->stage_begin; s < p->exec.mesh->stage_end; s++) AB_TRY(prepare_stage(run, t, s));
  return AB_OK;
}

/* What a stage changed goes back to the index it came from; parameters are only read, so they contribute nothing. */
static ab_status scatter_rest(struct nnx_run *run) {
  struct nnx_pipeline *p = run->pipeline;
  for (int s = p->exec.mesh->stage_begin; s < p->exec.mesh->stage_end; s++) {
    struct nnx_state updated;
    if (!run->stage[s].module) continue;
    AB_TRY(nnx_state_of(&updated, p->exec.book, run->graphdef, run->stage[s].module, NNX_NOT(NNX_PARAM)));
    nnx_state_store(&run->stage[s].slice, &updated);
  }
  return AB_OK;
}

static void *stage_row(const struct nnx_pipeline *p, const void *buffer, int s) {
  return (void *)((uintptr_t)buffer + (size_t)s * p->tokens * p->exec.kernels->element);
}

static void count_cell(const struct nnx_pipeline *p, const struct nnx_stage_run *stage) {
  struct ab_identity id = {.microbatch = stage->call.microbatch, .layer = stage->call.first_layer};
  if (stage->ids.bubble) id.microbatch = id.layer = -1;
  ab_record_count(stage->call.recorder, stage->ids.bubble ? AB_COUNT_BUBBLE : AB_COUNT_EXECUTE, &id, &stage->call.at,
                  1);
  nnx_count_residuals(p, stage->call.recorder, &id, &stage->call.at);
}

/* A skipped bubble leaves zeros, so that the loop state stays defined. */
static void forward_stage(void *ctx, int s) {
  const struct nnx_run *run = ctx;
  const struct nnx_pipeline *p = run->pipeline;
  const struct nnx_stage_run *stage = &run->stage[s];
  void *y = stage_row(p, p->outputs, s);
  const void *x = stage_row(p, p->iteration[stage->call.at.iteration].iteration_input, s);
  count_cell(p, stage);
  if (!stage->module) p->exec.kernels->zero(y, p->tokens);
  for (int k = 0; stage->module && k < p->stack.count; k++) nnx_stack_layer(&stage->call, k, y, x);
}

static void pullback_stage(void *ctx, int s) {
  const struct nnx_run *run = ctx;
  const struct nnx_pipeline *p = run->pipeline;
  const struct nnx_stage_run *stage = &run->stage[s];
  const void *dy = stage_row(p, p->outputs, s);
  const void *x = stage_row(p, p->iteration[stage->call.at.iteration].iteration_input, s);
  void *dx = stage_row(p, p->inputs_bar, s);
  if (!stage->module) p->exec.kernels->zero(dx, p->tokens);
  for (int k = p->stack.count - 1; stage->module && k >= 0; k--)
    nnx_stack_layer_pullback(&stage->call, k, dx, dy, x);
}

static void vmap_stages(struct nnx_run *run, void (*body)(void *ctx, int stage)) {
  const struct ab_exec *exec = &run->pipeline->exec;
  nnx_vmap_stages(exec->mesh->stage_begin, exec->mesh->stage_end, exec->kernels->dry, body, run);
}

static ab_status run_one_iteration(void *ctx, int t) {
  struct nnx_run *run = ctx;
  struct nnx_pipeline *p = run->pipeline;
  void **stages_in = &p->iteration[t].iteration_input;
  if (!p->scan_iterations && p->stack.inputs != AB_INPUTS_OFFLOADED)
    AB_TRY(ab_arena_take(p->exec.arena, stages_in, (size_t)p->schedule.num_stages * p->tokens,
                         p->exec.kernels->element));
  nnx_get_iteration_inputs(p, t, *stages_in);
  nnx_advance_rng_state(&run->carry, t);
  AB_TRY(prepare_stages(run, t));
  vmap_stages(run, forward_stage);
  AB_TRY(scatter_rest(run));
  AB_TRY(ab_probe_flush(p->exec.probe));
  nnx_get_new_loop_state(p, t);
  return nnx_observe_loop_state(p, t);
}

static ab_status pullback_one_iteration(void *ctx, int t) {
  struct nnx_run *run = ctx;
  struct nnx_pipeline *p = run->pipeline;
  nnx_get_new_loop_state_transpose(p, t);
  AB_TRY(prepare_stages(run, t));
  vmap_stages(run, pullback_stage);
  AB_TRY(ab_probe_flush(p->exec.probe));
  nnx_get_iteration_inputs_transpose(p, t);
  return AB_OK;
}

const struct nnx_scan_body nnx_pipeline_iteration = {.forward = run_one_iteration, .pullback = pullback_one_iteration};

static size_t accumulated_layers(const struct nnx_pipeline *p) {
  return (size_t)(p->schedule.num_repeats * p->schedule.num_stages * p->stack.count);
}

ab_status nnx_start_accumulators(struct nnx_run *run) {
  struct nnx_pipeline *p = run->pipeline;
  size_t elements = accumulated_layers(p) * nnx_stack_elements(&p->stack);
  run->accumulators = NULL;
  if (!nnx_stack_strided(&p->stack)) return AB_OK;
  AB_TRY(ab_arena_take(p->exec.arena, &run->accumulators, elements, p->exec.kernels->element));
  p->exec.kernels->zero(run->accumulators, elements);
  return AB_OK;
}

static ab_status place_stage(struct nnx_run *run, int repeat, int s) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_state rest, dparams;
  struct nnx_node *dmodule;
  struct nnx_layer_binding *layer;
  AB_TRY(nnx_gather_stage(&rest, p, &run->carry, repeat, s));
  AB_TRY(nnx_gather_stage(&dparams, p, &run->dparams, repeat, s));
  AB_TRY(merge_stage(&dmodule, run, &dparams, &rest));
  AB_TRY(ab_arena_take(p->exec.book, &layer, (size_t)p->stack.count, sizeof *layer));
  AB_TRY(nnx_stack_bind(layer, p->exec.book, &p->stack, dmodule, dmodule));
  for (int k = 0; k < p->stack.count; k++)
    nnx_place(&layer[k], &p->stack, accumulator(run, repeat, s, k), p->exec.kernels);
  return AB_OK;
}

ab_status nnx_place_accumulators(struct nnx_run *run) {
  const struct nnx_schedule *schedule = &run->pipeline->schedule;
  for (int i = 0; run->accumulators && i < schedule->num_repeats * schedule->num_stages; i++) {
    size_t mark = ab_arena_mark(run->pipeline->exec.book);
    AB_TRY(place_stage(run, i / schedule->num_stages, i % schedule->num_stages));
    ab_arena_release(run->pipeline->exec.book, mark);
  }
  return AB_OK;
}
