#include <string.h>

#include "observed.h"
#include "pipeline.h"
#include "residuals.h"
#include "upstream.h"

/* Weights through the gather door, and the two ways of NNXPipeline to fetch them: for every cell as it comes, or all of
 * them before the loop (pipeline_fsdp_ag_once). Cotangents go straight to the parameters' in both. */

size_t nnx_weight_leaves(const struct nnx_pipeline *p) {
  size_t params = (size_t)p->stack.block->param_count;
  return p->stack.layout == NNX_SEQUENTIAL ? params * (size_t)p->stack.count : params;
}

static nnx_weight_buffer row_of_stage(const struct nnx_pipeline *p, nnx_weight_buffer buffer, int s) {
  return buffer + (size_t)s * nnx_weight_leaves(p);
}

ab_status nnx_take_weight_buffers(struct nnx_pipeline *p, nnx_weight_buffer *out, int count) {
  size_t pointers = (size_t)p->schedule.num_stages * nnx_weight_leaves(p);
  for (int i = 0; i < count; i++) AB_TRY(ab_arena_take_zeroed(p->exec.book, &out[i], pointers, sizeof **out));
  return AB_OK;
}

ab_status nnx_take_gathered(struct nnx_pipeline *p) {
  int repeats = p->schedule.num_repeats;
  AB_TRY(ab_arena_take_zeroed(p->exec.book, &p->gathered, (size_t)repeats, sizeof *p->gathered));
  return nnx_take_weight_buffers(p, p->gathered, repeats);
}

void nnx_all_gather_stage(nnx_weight_buffer buffer, const struct nnx_run *run, int repeat, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  nnx_weight_buffer row = row_of_stage(p, buffer, s);
  for (size_t i = 0; i < run->params.count; i++) {
    struct ab_view of_stage = run->params.leaf[i].variable.value;
    if (p->schedule.num_repeats > 1) of_stage = ab_view_index(&of_stage, p->repeat_axis.axis, repeat);
    of_stage = ab_view_index(&of_stage, p->stage_axis.axis, s);
    row[i] = p->exec.mesh->ops->gather(p->exec.mesh, of_stage.data, ab_view_count(&of_stage), repeat, s);
  }
}

ab_status nnx_read_weights(struct nnx_state *out, const struct nnx_run *run, nnx_weight_buffer buffer, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  nnx_weight_buffer row = row_of_stage(p, buffer, s);
  AB_TRY(nnx_gather_stage(out, p, &run->params, 0, s));
  for (size_t i = 0; i < out->count; i++) /* modules hold views, which are not const */
    memcpy(&out->leaf[i].variable.value.data, &row[i], sizeof row[i]);
  return AB_OK;
}

int nnx_repeat_of_cell(const struct nnx_pipeline *p, int t, int s) {
  return nnx_clamp_repeat(&p->schedule, nnx_get_microbatch_and_repeat_ids(&p->schedule, t, s).repeat);
}

/* Without remat what the door returned to every cell is a residual; with it one buffer serves all iterations. One
 * repeat selects nothing: its weights are the parameters. */
static ab_status create_cells(struct nnx_pipeline *p, const struct ab_config *config) {
  (void)config;
  p->keeps_cell_weights = !p->remat.remat_iterations && p->schedule.num_repeats > 1;
  for (int t = 0; t < p->schedule.iterations; t++) {
    if (t > 0 && p->remat.remat_iterations) p->iteration[t].weights = p->iteration[0].weights;
    else AB_TRY(nnx_take_weight_buffers(p, &p->iteration[t].weights, 1));
  }
  return AB_OK;
}

static ab_status scan_iterations(struct nnx_run *run) {
  const struct nnx_pipeline *p = run->pipeline;
  return nnx_scan(&nnx_pipeline_iteration, run, p->schedule.iterations, p->exec.book);
}

static ab_status scan_iterations_pullback(struct nnx_run *run) {
  const struct nnx_pipeline *p = run->pipeline;
  return nnx_scan_pullback(&nnx_pipeline_iteration, run, p->schedule.iterations, p->exec.book);
}

static ab_status params_of_cell(struct nnx_state *out, struct nnx_run *run, int t, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  nnx_weight_buffer buffer = p->iteration[t].weights;
  if (!run->pullback || p->remat.remat_iterations)
    nnx_all_gather_stage(buffer, run, nnx_repeat_of_cell(p, t, s), s);
  return nnx_read_weights(out, run, buffer, s);
}

static ab_status dparams_of_cell(struct nnx_state *out, struct nnx_run *run, int t, int s) {
  return nnx_gather_stage(out, run->pipeline, &run->dparams, nnx_repeat_of_cell(run->pipeline, t, s), s);
}

const struct nnx_pipeline_class nnx_pipeline_class = {.name = "NNXPipeline",
                                                      .create = create_cells,
                                                      .forward = scan_iterations,
                                                      .pullback = scan_iterations_pullback,
                                                      .params = params_of_cell,
                                                      .dparams = dparams_of_cell};

static ab_status create_once(struct nnx_pipeline *p, const struct ab_config *config) {
  p->misplaced = p->schedule.num_repeats > 1 && ab_faithful(config, AB_DEFECT_B7);
  return nnx_take_gathered(p);
}

/* The sharding has lost its leading axis, so that it spreads repeats over stages: weights go there and come back to be
 * used; so do their gradients. */
static void reshard_misplaced(const struct nnx_pipeline *p) {
  const struct nnx_schedule *schedule = &p->schedule;
  size_t others = (size_t)schedule->num_stages - 1, stage = (size_t)p->stack.count * nnx_stack_elements(&p->stack);
  size_t held = (size_t)((schedule->num_repeats + schedule->num_stages - 1) / schedule->num_stages);
  for (int s = p->exec.mesh->stage_begin; p->misplaced && s < p->exec.mesh->stage_end; s++)
    p->exec.mesh->ops->reshard(p->exec.mesh, 2 * others * held * stage, s);
}

/* NNXPipeline.all_gather_over_fsdp. */
static ab_status all_gather_and_scan(struct nnx_run *run) {
  const struct nnx_pipeline *p = run->pipeline;
  for (int repeat = 0; repeat < p->schedule.num_repeats; repeat++) {
    for (int s = p->exec.mesh->stage_begin; s < p->exec.mesh->stage_end; s++)
      nnx_all_gather_stage(p->gathered[repeat], run, repeat, s);
    AB_TRY(nnx_count_weights(p, AB_COUNT_WEIGHTS, repeat));
  }
  reshard_misplaced(p);
  return scan_iterations(run);
}

static ab_status scan_pullback_and_place(struct nnx_run *run) {
  AB_TRY(scan_iterations_pullback(run));
  reshard_misplaced(run->pipeline);
  return AB_OK;
}

static ab_status params_of_once(struct nnx_state *out, struct nnx_run *run, int t, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  return nnx_read_weights(out, run, p->gathered[nnx_repeat_of_cell(p, t, s)], s);
}

const struct nnx_pipeline_class nnx_pipeline_ag_once_class = {.name = "NNXPipeline",
                                                              .create = create_once,
                                                              .forward = all_gather_and_scan,
                                                              .pullback = scan_pullback_and_place,
                                                              .params = params_of_once,
                                                              .dparams = dparams_of_cell};
