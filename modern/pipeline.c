#include "pipeline.h"

#include <stdio.h>

#include "observed.h"
#include "observe.h"

static struct nnx_stack stage_stack(const struct ab_config *config, const struct ab_block *block,
                                    const struct ab_exec *exec) {
  int count = (int)config->num_layers_per_pipeline_stage;
  bool scanned = config->scan_layers_per_stage;
  struct nnx_stack stack = {.layout = NNX_BARE, .count = count, .block = block, .dtype = exec->kernels->dtype};
  stack.dims = ab_layer_dims_of(config, config->micro_batch_size_to_train_on / config->num_pipeline_microbatches);
  if (count == 1) return stack;
  stack.layout = scanned ? NNX_SCANNED : NNX_SEQUENTIAL;
  stack.name = scanned ? "scanned_layers" : "layers";
  stack.axis = (struct nnx_axis){.axis = (int)config->param_scan_axis, .size = count, .name = "layers_per_stage"};
  return stack;
}

/* nnx_decoders.py: _get_pipeline_stage_module, vmapped over stages and repeats by PipelineBase.__init__. */
static ab_status stage_module(struct nnx_node **out, const struct nnx_pipeline *p) {
  struct ab_arena *book = p->exec.book;
  const char *type = p->stack.layout == NNX_SCANNED ? "NNXScannedPipelineStage" : "NNXSequentialPipelineStage";
  if (p->stack.layout != NNX_BARE) AB_TRY(nnx_module_new(out, book, type));
  AB_TRY(nnx_stack_new(out, book, &p->stack));
  AB_TRY(nnx_set_rng_stream(*out, book));
  AB_TRY(nnx_add_axis(*out, book, &p->stage_axis));
  return p->schedule.num_repeats > 1 ? nnx_add_axis(*out, book, &p->repeat_axis) : AB_OK;
}

static ab_status take_iteration(struct nnx_pipeline *p, struct nnx_iteration *iteration) {
  size_t stages = (size_t)p->schedule.num_stages;
  struct ab_arena *book = p->exec.book;
  AB_TRY(ab_arena_take_zeroed(book, &iteration->cell, stages, sizeof *iteration->cell));
  for (size_t s = 0; s < stages; s++) AB_TRY(nnx_stack_residual_new(&iteration->cell[s], book, &p->stack));
  return AB_OK;
}

static ab_status take_bookkeeping(struct nnx_pipeline *p) {
  struct ab_arena *book = p->exec.book;
  size_t iterations = (size_t)p->schedule.iterations;
  AB_TRY(ab_arena_take_zeroed(book, &p->iteration, iterations, sizeof *p->iteration));
  for (size_t t = 0; t < iterations; t++) AB_TRY(take_iteration(p, &p->iteration[t]));
  return ab_arena_take_zeroed(book, &p->work, (size_t)p->schedule.num_stages, sizeof *p->work);
}

/* Room for what one stage records between two flushes: its layers, forward or backward, and one counter. */
static ab_status reserve_probe(const struct nnx_pipeline *p) {
  size_t forward = ab_layer_forward_events(&p->plan), backward = ab_layer_backward_events(&p->plan);
  size_t events = (size_t)p->stack.count * (forward > backward ? forward : backward) + 1;
  size_t layer = p->plan.work_count + p->plan.saved_count + p->plan.offloaded_count + 4 * p->plan.tokens_count;
  size_t values = layer * (size_t)p->stack.count;
  return ab_probe_reserve(p->exec.probe, events, 2 * values * p->exec.kernels->element);
}

static ab_status find_block(const struct ab_block **out, const struct ab_config *config) {
  *out = ab_block_find(config->decoder_block);
  if (*out) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "decoder_block '%s' is not one that the NNX engine has", config->decoder_block);
}

static const struct nnx_pipeline_class *class_of(const struct ab_config *config) {
  if (config->pipeline_fsdp_ag_per_repeat) return &nnx_circular_pipeline_class;
  return config->pipeline_fsdp_ag_once ? &nnx_pipeline_ag_once_class : &nnx_pipeline_class;
}

static void describe(struct nnx_pipeline *p, const struct ab_config *config, const struct ab_block *block) {
  p->class = class_of(config);
  p->schedule = nnx_schedule_of(config);
  p->compute_bubbles = config->compute_bubbles;
  p->scan_iterations = config->scan_pipeline_iterations;
  nnx_describe_sowing(&p->sowing, p, config);
  p->stack = stage_stack(config, block, &p->exec);
  p->stage_axis = (struct nnx_axis){.size = config->num_stages, .name = "layers"};
  p->repeat_axis = (struct nnx_axis){.size = config->num_pipeline_repeats, .name = "circular_repeats"};
}

ab_status nnx_pipeline_new(struct nnx_pipeline **out, struct nnx_node **module, const struct ab_config *config,
                           const struct ab_exec *exec) {
  const struct ab_block *block;
  struct nnx_pipeline *p;
  struct nnx_node *layers;
  AB_TRY(find_block(&block, config));
  AB_TRY(ab_arena_take_zeroed(exec->book, &p, 1, sizeof *p));
  p->exec = *exec;
  describe(p, config, block);
  AB_TRY(nnx_get_pipeline_remat_policy(&p->remat, block, config));
  p->stack.inputs = p->remat.layer.inputs;
  AB_TRY(ab_layer_plan(&p->plan, block, exec->kernels, &p->stack.dims, &p->remat.layer));
  p->tokens = p->plan.tokens_count;
  AB_TRY(take_bookkeeping(p));
  AB_TRY(p->class->create(p, config));
  AB_TRY(reserve_probe(p));
  AB_TRY(nnx_module_new(module, exec->book, p->class->name));
  AB_TRY(stage_module(&layers, p));
  AB_TRY(nnx_set_module(exec->book, *module, "layers", layers));
  *out = p;
  return AB_OK;
}

static ab_status split_layers(struct nnx_run *run, const struct nnx_node *module, const struct nnx_node *dmodule) {
  static const nnx_filter filters[] = {NNX_PARAM, NNX_EVERY};
  struct ab_arena *book = run->pipeline->exec.book;
  struct nnx_node *layers;
  struct nnx_state states[2];
  AB_TRY(nnx_get_module(&layers, module, "layers"));
  AB_TRY(nnx_split(&run->graphdef, states, filters, 2, book, layers));
  run->params = states[0];
  run->carry = states[1];
  if (!dmodule) return AB_OK;
  AB_TRY(nnx_get_module(&layers, dmodule, "layers"));
  return nnx_state_of(&run->dparams, book, run->graphdef, layers, NNX_PARAM);
}

/* What a scan stacks over its iterations comes as one block; an unrolled loop takes it piece by piece. Where the host
 * has the inputs of all layers, one iteration's are enough. */
static ab_status take_step_memory(struct nnx_pipeline *p) {
  const struct nnx_schedule *schedule = &p->schedule;
  size_t iteration = (size_t)schedule->num_stages * p->tokens, element = p->exec.kernels->element;
  void *stacked;
  AB_TRY(nnx_pipeline_take_buffers(p));
  for (int s = p->exec.mesh->stage_begin; s < p->exec.mesh->stage_end; s++)
    AB_TRY(nnx_stack_work_take(&p->work[s], p->exec.arena, &p->stack, &p->plan));
  bool shared = p->stack.inputs == AB_INPUTS_OFFLOADED;
  if (!p->scan_iterations && !shared) return AB_OK;
  AB_TRY(ab_arena_take(p->exec.arena, &stacked, (shared ? 1 : (size_t)schedule->iterations) * iteration, element));
  for (int t = 0; t < schedule->iterations; t++)
    p->iteration[t].iteration_input = (void *)((uintptr_t)stacked + (shared ? 0 : (size_t)t) * iteration * element);
  return AB_OK;
}

static ab_status observe(const struct nnx_pipeline *p, const char *name, enum ab_phase phase, const void *values) {
  struct ab_layer_dims batch = p->plan.dims;
  batch.rows *= p->schedule.num_microbatches;
  return nnx_observe_batch(&p->exec, name, phase, values, &batch, batch.emb);
}

static ab_status forward(struct nnx_pipeline *p, const struct nnx_node *module, void *outputs, const void *inputs) {
  struct nnx_run run = {.pipeline = p};
  AB_TRY(split_layers(&run, module, NULL));
  AB_TRY(take_step_memory(p));
  AB_TRY(nnx_start_sowing(&run));
  nnx_init_states(p, inputs);
  AB_TRY(p->class->forward(&run));
  nnx_permute_output(p, outputs);
  AB_TRY(nnx_count_rng_state(&p->exec, &run.carry, p->schedule.num_stages));
  return nnx_report_sown(&run);
}

ab_status nnx_pipeline_forward(struct nnx_pipeline *p, const struct nnx_node *module, void *outputs,
                               const void *inputs, const int32_t *positions, const int32_t *segment_ids) {
  size_t mark = ab_arena_mark(p->exec.book);
  p->positions = positions;
  p->segment_ids = segment_ids;
  AB_TRY(observe(p, AB_OBS_INPUTS, AB_FORWARD, inputs));
  AB_TRY(forward(p, module, outputs, inputs));
  ab_arena_release(p->exec.book, mark);
  return observe(p, AB_OBS_OUTPUTS, AB_FORWARD, outputs);
}

static ab_status pullback(struct nnx_pipeline *p, const struct nnx_node *module, const struct nnx_node *dmodule,
                          void *d_inputs, const void *d_outputs) {
  struct nnx_run run = {.pipeline = p, .pullback = true};
  AB_TRY(split_layers(&run, module, dmodule));
  AB_TRY(nnx_start_accumulators(&run));
  nnx_permute_output_transpose(p, d_outputs);
  AB_TRY(p->class->pullback(&run));
  nnx_init_states_transpose(p, d_inputs);
  return nnx_place_accumulators(&run);
}

ab_status nnx_pipeline_pullback(struct nnx_pipeline *p, const struct nnx_node *module, const struct nnx_node *dmodule,
                                void *d_inputs, const void *d_outputs) {
  size_t mark = ab_arena_mark(p->exec.book);
  AB_TRY(observe(p, AB_OBS_D_OUTPUTS, AB_BACKWARD, d_outputs));
  AB_TRY(pullback(p, module, dmodule, d_inputs, d_outputs));
  ab_arena_release(p->exec.book, mark);
  return observe(p, AB_OBS_D_INPUTS, AB_BACKWARD, d_inputs);
}

/* Layer (r S + s) K + k. */
struct place {
  int r, s, k;
};

static ab_status visit_leaf(const struct nnx_pipeline *p, const struct nnx_state *params, const char *prefix,
                            const struct place *at, const struct ab_param *row, ab_leaf_fn fn, void *ctx) {
  char inner[160], path[256];
  nnx_stack_path(inner, sizeof inner, &p->stack, at->k, row->name);
  snprintf(path, sizeof path, "%slayers/%s", prefix, inner);
  const struct nnx_leaf *leaf = nnx_state_find(params, path);
  if (!leaf) return AB_FAIL(AB_ENOTFOUND, "the state holds no variable '%s'", path);
  struct ab_view view = leaf->variable.value;
  if (p->schedule.num_repeats > 1) view = ab_view_index(&view, 0, at->r);
  view = ab_view_index(&view, 0, at->s);
  view = nnx_stack_slice(&p->stack, &view, at->k);
  AB_TRY(fn(ctx, (at->r * p->schedule.num_stages + at->s) * p->stack.count + at->k, row->name, &view));
  return AB_OK;
}

ab_status nnx_pipeline_leaves(const struct nnx_pipeline *p, const struct nnx_state *params, const char *prefix,
                              ab_leaf_fn fn, void *ctx) {
  const struct ab_block *block = p->stack.block;
  int stages = p->schedule.num_stages, layers = p->schedule.num_repeats * stages * p->stack.count;
  for (int layer = 0; layer < layers; layer++) {
    int stage = layer / p->stack.count;
    struct place at = {.r = stage / stages, .s = stage % stages, .k = layer % p->stack.count};
    for (int j = 0; j < block->param_count; j++)
      AB_TRY(visit_leaf(p, params, prefix, &at, &block->param[j], fn, ctx));
  }
  return AB_OK;
}
