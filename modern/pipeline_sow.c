/* Metrics as outputs of the scan over iterations, [T, S] or [T, S, K]: every cell that runs fills its slice, and after
 * the loop each layer finds its microbatches there. NNXPipeline.__call__, NNXCircularPipeline.__call__.
 *
 * upstream_faithful=B20. The circular pipeline takes its template of the metrics before the layers sow for the first
 * time: it is empty, and what comes later is not in it. NNXPipeline with repeats scatters the state that a stage hands
 * back into the state it came from, and those two trees no longer match. */
#include "pipeline.h"
#include "upstream.h"

static ab_status check_scatter(const struct nnx_pipeline *p) {
  if (!p->sowing.fresh_leaves_fail) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "the state of a stage has the variable 'layers/%s' (Intermediate) after its call, the "
                 "state of %d repeats that it is scattered into has none, expected equal trees: with "
                 "upstream_faithful=B20 sown metrics fail in an NNXPipeline with repeats, as MaxText's do",
                 ab_sown_names[AB_SOWN_MEAN], p->schedule.num_repeats);
}

void nnx_describe_sowing(struct nnx_sowing *out, const struct nnx_pipeline *p, const struct ab_config *config) {
  bool faithful = ab_faithful(config, AB_DEFECT_B20), sows = ab_sows(config, p->exec.kernels);
  bool circular = config->pipeline_fsdp_ag_per_repeat;
  *out = (struct nnx_sowing){.on = sows && !(faithful && circular),
                             .fresh_leaves_fail = sows && faithful && !circular && config->num_pipeline_repeats > 1,
                             .as_if_layers = ab_faithful(config, AB_DEFECT_B21)};
}

static struct nnx_axis iteration_axis(const struct nnx_pipeline *p) {
  return (struct nnx_axis){.size = p->schedule.iterations, .name = "iterations"};
}

ab_status nnx_start_sowing(struct nnx_run *run) {
  struct nnx_pipeline *p = run->pipeline;
  const struct nnx_axis axes[] = {p->stage_axis, iteration_axis(p)};
  if (!p->sowing.on) return AB_OK;
  AB_TRY(check_scatter(p));
  AB_TRY(ab_arena_take(p->exec.arena, &run->metric, 1, p->exec.kernels->element));
  return nnx_sown_new(&run->sown, &p->exec, &p->stack, axes, 2);
}

ab_status nnx_sow_in_cell(struct nnx_run *run, int t, int s) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_axis iterations = iteration_axis(p);
  struct nnx_state of_iteration, of_cell;
  if (run->pullback || !p->sowing.on) return AB_OK;
  AB_TRY(nnx_index_axis(&of_iteration, p->exec.book, &run->sown, &iterations, t));
  AB_TRY(nnx_index_axis(&of_cell, p->exec.book, &of_iteration, &p->stage_axis, s));
  return nnx_sown_targets(&run->stage[s].call.sown, p->exec.book, &p->stack, &of_cell);
}

/* Sums what the cells of one layer have sown, from microbatch 0 on: repeat r reaches stage s with microbatch m in
 * iteration r M + m + delay s. Every other row of the column is a bubble's or another repeat's. */
static void average_cells(struct nnx_run *run, const struct ab_view *stacked, int repeat, int s, int layer) {
  const struct nnx_pipeline *p = run->pipeline;
  const struct ab_kernels *kernels = p->exec.kernels;
  struct ab_view of_stage = ab_view_index(stacked, 1, s);
  int begin = repeat * p->schedule.num_microbatches + p->schedule.forwarding_delay * s;
  int end = begin + p->schedule.num_microbatches;
  for (int t = begin; t < end; t++) {
    struct ab_view row = ab_view_index(&of_stage, 0, t);
    const void *value = nnx_stack_slice(&p->stack, &row, layer).data;
    if (t > begin) kernels->add(run->metric, run->metric, value, 1);
    else kernels->copy(run->metric, value, 1);
  }
  kernels->scale(run->metric, run->metric, 1.0 / p->schedule.num_microbatches, 1);
}

/* upstream_faithful=B21: the stacked output, flattened, at the layer's number. Sequential layers have an output each,
 * counted by cells. */
static void take_element(struct nnx_run *run, const struct ab_view *stacked, int number) {
  const struct nnx_pipeline *p = run->pipeline;
  size_t element = (size_t)(p->stack.layout == NNX_SEQUENTIAL ? number / p->stack.count : number);
  p->exec.kernels->copy(run->metric, (const void *)((uintptr_t)stacked->data + element * p->exec.kernels->element), 1);
}

static ab_status report(struct nnx_run *run, int number, enum ab_sown which) {
  const struct nnx_pipeline *p = run->pipeline;
  int inside = number % p->stack.count, slot = number / p->stack.count, stages = p->schedule.num_stages;
  struct ab_view stacked;
  AB_TRY(nnx_sown_variable(&stacked, &p->stack, &run->sown, inside, which));
  if (p->sowing.as_if_layers) take_element(run, &stacked, number);
  else average_cells(run, &stacked, slot / stages, slot % stages, inside);
  return ab_observe_sown(p->exec.probe, p->exec.kernels, number, which, run->metric);
}

ab_status nnx_report_sown(struct nnx_run *run) {
  const struct nnx_pipeline *p = run->pipeline;
  int layers = p->schedule.num_repeats * p->schedule.num_stages * p->stack.count;
  for (int number = 0; p->sowing.on && number < layers; number++)
    for (int n = 0; n < AB_SOWN; n++) AB_TRY(report(run, number, (enum ab_sown)n));
  return AB_OK;
}
