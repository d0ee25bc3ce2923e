#include "decoder.h"

#include <stdio.h>

#include "layers.h"
#include "observe.h"
#include "observed.h"

static int outside_count(const struct ab_config *config) {
  return (int)(config->num_decoder_layers - (config->pipelined ? config->pipeline_parallel_layers : 0));
}

static void describe_stack(struct nnx_decoder *d, const struct ab_block *block) {
  const struct ab_config *config = d->config;
  int count = outside_count(config);
  d->first_layer = (int)config->num_decoder_layers - count;
  d->stack = (struct nnx_stack){.layout = config->scan_layers ? NNX_SCANNED : NNX_SEQUENTIAL,
                                .name = config->pipelined ? "layers_outside_pipeline" : "layers",
                                .count = count,
                                .axis = {.axis = (int)config->param_scan_axis, .size = count, .name = "layers"},
                                .block = block,
                                .dims = d->dims,
                                .dtype = d->exec.kernels->dtype};
}

static ab_status plan_stack(struct nnx_decoder *d) {
  struct ab_remat remat;
  AB_TRY(ab_remat_outside(&remat, d->stack.block, d->config));
  AB_TRY(ab_layer_plan(&d->plan, d->stack.block, d->exec.kernels, &d->dims, &remat));
  size_t forward = ab_layer_forward_events(&d->plan), backward = ab_layer_backward_events(&d->plan);
  size_t values = d->plan.work_count + d->plan.saved_count + 4 * d->plan.tokens_count;
  if (d->stack.count == 0) return AB_OK;
  AB_TRY(nnx_stack_residual_new(&d->residual, d->exec.book, &d->stack));
  return ab_probe_reserve(d->exec.probe, (forward > backward ? forward : backward) + 1,
                          2 * values * d->exec.kernels->element);
}

static ab_status new_decoder_module(struct nnx_node **out, struct nnx_decoder *d) {
  struct ab_arena *book = d->exec.book;
  enum ab_dtype dtype = d->exec.kernels->dtype;
  struct nnx_node *pipeline_module, *norm, *logits;
  AB_TRY(nnx_module_new(out, book, "NNXDecoder"));
  if (d->config->pipelined) {
    AB_TRY(nnx_pipeline_new(&d->pipeline, &pipeline_module, d->config, &d->exec));
    AB_TRY(nnx_set_module(book, *out, "pipeline_module", pipeline_module));
  }
  if (d->stack.count > 0) AB_TRY(nnx_stack_new(out, book, &d->stack));
  AB_TRY(nnx_rms_norm_new(&norm, book, &d->dims, dtype));
  AB_TRY(nnx_set_module(book, *out, "decoder_norm", norm));
  AB_TRY(nnx_logits_dense_new(&logits, book, &d->dims, dtype));
  return nnx_set_module(book, *out, "logits_dense", logits);
}

ab_status nnx_decoder_new(struct nnx_decoder **out, struct nnx_node **root, const struct ab_config *config,
                          const struct ab_exec *exec) {
  const struct ab_block *block = ab_block_find(config->decoder_block);
  struct nnx_decoder *d;
  struct nnx_node *embed, *decoder;
  if (!block) return AB_FAIL(AB_ECONFIG, "decoder_block '%s' is not one that NNXDecoder has", config->decoder_block);
  AB_TRY(ab_arena_take_zeroed(exec->book, &d, 1, sizeof *d));
  d->exec = *exec;
  d->config = config;
  d->dims = ab_layer_dims_of(config, config->micro_batch_size_to_train_on);
  describe_stack(d, block);
  AB_TRY(plan_stack(d));
  AB_TRY(nnx_module_new(root, exec->book, "Transformer"));
  AB_TRY(nnx_embed_new(&embed, exec->book, &d->dims, exec->kernels->dtype));
  AB_TRY(nnx_set_module(exec->book, *root, "token_embedder", embed));
  AB_TRY(new_decoder_module(&decoder, d));
  AB_TRY(nnx_set_module(exec->book, *root, "decoder", decoder));
  *out = d;
  return AB_OK;
}

/* A macro, so that a ledger of the arena tells the buffers apart. */
#define TAKE(d, out, width) \
  ab_arena_take((d)->exec.arena, out, (size_t)((d)->dims.rows * (d)->dims.length * (width)), (d)->exec.kernels->element)

static ab_status take_stack_memory(struct nnx_decoder *d) {
  if (d->stack.count == 0) return AB_OK;
  AB_TRY(nnx_stack_work_take(&d->work, d->exec.arena, &d->stack, &d->plan));
  AB_TRY(nnx_stack_residual_take(&d->residual, d->exec.arena, &d->stack, &d->plan));
  d->accumulator = NULL;
  if (!nnx_stack_strided(&d->stack)) return AB_OK;
  return ab_arena_take(d->exec.arena, &d->accumulator, nnx_stack_elements(&d->stack), d->exec.kernels->element);
}

static ab_status take_step_memory(struct nnx_decoder *d) {
  int64_t emb = d->dims.emb;
  AB_TRY(TAKE(d, &d->embedded, emb));
  d->piped = d->embedded;
  if (d->pipeline) AB_TRY(TAKE(d, &d->piped, emb));
  d->top = d->piped;
  if (d->stack.count > 0) AB_TRY(TAKE(d, &d->top, emb));
  AB_TRY(TAKE(d, &d->normed, emb));
  AB_TRY(TAKE(d, &d->rstd, 1));
  AB_TRY(TAKE(d, &d->logits, d->dims.vocab));
  AB_TRY(TAKE(d, &d->cotangent[0], emb));
  AB_TRY(TAKE(d, &d->cotangent[1], emb));
  return take_stack_memory(d);
}

/* The layers after the pipeline, scanned one by one. */
struct outer_run {
  struct nnx_decoder *decoder;
  struct nnx_stack_call call;
  void *dx;
  const void *dy;
};

static ab_status outer_forward(void *ctx, int i) {
  struct outer_run *run = ctx;
  struct nnx_decoder *d = run->decoder;
  struct ab_identity id = {.microbatch = -1, .layer = d->first_layer + i};
  nnx_stack_layer(&run->call, i, d->top, d->piped);
  ab_record_count(run->call.recorder, AB_COUNT_EXECUTE, &id, &run->call.at, 1);
  return ab_probe_flush(d->exec.probe);
}

/* A strided layer accumulates in contiguous memory that starts at +0, and is then copied home. */
static ab_status outer_pullback(void *ctx, int i) {
  struct outer_run *run = ctx;
  struct nnx_decoder *d = run->decoder;
  if (d->accumulator) {
    d->exec.kernels->zero(d->accumulator, nnx_stack_elements(&d->stack));
    nnx_accumulate_at(&run->call.layer[i], &d->stack, d->accumulator);
  }
  nnx_stack_layer_pullback(&run->call, i, run->dx, run->dy, d->piped);
  if (d->accumulator) nnx_place(&run->call.layer[i], &d->stack, d->accumulator, d->exec.kernels);
  return ab_probe_flush(d->exec.probe);
}

static const struct nnx_scan_body outer_layer = {.forward = outer_forward, .pullback = outer_pullback};

static ab_status bind_outer(struct outer_run *run, struct nnx_decoder *d, const struct nnx_node *module,
                            const struct nnx_node *dmodule, const struct ab_batch *batch) {
  struct nnx_layer_binding *layer;
  AB_TRY(ab_arena_take(d->exec.book, &layer, (size_t)d->stack.count, sizeof *layer));
  AB_TRY(nnx_stack_bind(layer, d->exec.book, &d->stack, module, dmodule));
  *run = (struct outer_run){.decoder = d};
  run->call = (struct nnx_stack_call){.stack = &d->stack,
                                      .plan = &d->plan,
                                      .layer = layer,
                                      .residual = &d->residual,
                                      .work = &d->work,
                                      .positions = batch->inputs_position,
                                      .segment_ids = batch->inputs_segmentation,
                                      .recorder = ab_probe_recorder(d->exec.probe, 0),
                                      .microbatch = -1,
                                      .first_layer = d->first_layer,
                                      .at = {.iteration = -1, .stage = -1, .repeat = -1}};
  return AB_OK;
}

static ab_status observe(const struct nnx_decoder *d, const char *name, enum ab_phase phase, const void *values,
                         int64_t width) {
  return nnx_observe_batch(&d->exec, name, phase, values, &d->dims, width);
}

/* The metrics of layers that ran on the whole batch are scan outputs, one per layer. */
static ab_status report_outer(const struct nnx_decoder *d, const struct nnx_state *sown) {
  for (int i = 0; i < d->stack.count; i++)
    for (int n = 0; n < AB_SOWN; n++) {
      struct ab_view view;
      AB_TRY(nnx_sown_variable(&view, &d->stack, sown, i, (enum ab_sown)n));
      view = nnx_stack_slice(&d->stack, &view, i);
      AB_TRY(ab_observe_sown(d->exec.probe, d->exec.kernels, d->first_layer + i, (enum ab_sown)n, view.data));
    }
  return AB_OK;
}

static ab_status forward_outer(struct outer_run *run) {
  struct nnx_decoder *d = run->decoder;
  struct nnx_state sown;
  bool sows = ab_sows(d->config, d->exec.kernels);
  if (sows) {
    AB_TRY(nnx_sown_new(&sown, &d->exec, &d->stack, NULL, 0));
    AB_TRY(nnx_sown_targets(&run->call.sown, d->exec.book, &d->stack, &sown));
  }
  AB_TRY(nnx_scan(&outer_layer, run, d->stack.count, d->exec.book));
  return sows ? report_outer(d, &sown) : AB_OK;
}

static ab_status forward_layers(struct nnx_decoder *d, const struct nnx_node *decoder, const struct ab_batch *batch) {
  struct outer_run run;
  struct nnx_node *pipeline_module;
  if (d->pipeline) {
    AB_TRY(nnx_get_module(&pipeline_module, decoder, "pipeline_module"));
    AB_TRY(nnx_pipeline_forward(d->pipeline, pipeline_module, d->piped, d->embedded, batch->inputs_position,
                                batch->inputs_segmentation));
  }
  if (d->stack.count == 0) return AB_OK;
  AB_TRY(bind_outer(&run, d, decoder, NULL, batch));
  return forward_outer(&run);
}

/* nnx_decoders.py: apply_output_head. */
static ab_status apply_output_head(struct nnx_decoder *d, const struct nnx_node *decoder) {
  struct nnx_node *norm, *dense;
  AB_TRY(nnx_get_module(&norm, decoder, "decoder_norm"));
  AB_TRY(nnx_get_module(&dense, decoder, "logits_dense"));
  AB_TRY(nnx_rms_norm(norm, d->normed, d->rstd, d->top, &d->dims, d->exec.kernels));
  AB_TRY(observe(d, AB_OBS_DECODER_NORM, AB_FORWARD, d->normed, d->dims.emb));
  AB_TRY(nnx_logits_dense(dense, d->logits, d->normed, &d->dims, d->exec.kernels));
  return observe(d, AB_OBS_LOGITS, AB_FORWARD, d->logits, d->dims.vocab);
}

ab_status nnx_decoder_forward(struct nnx_decoder *d, const struct nnx_node *root, const struct ab_batch *batch) {
  struct nnx_node *embed, *decoder;
  AB_TRY(take_step_memory(d));
  AB_TRY(nnx_get_module(&embed, root, "token_embedder"));
  AB_TRY(nnx_get_module(&decoder, root, "decoder"));
  AB_TRY(nnx_embed(embed, d->embedded, batch->inputs, &d->dims, d->exec.kernels));
  AB_TRY(observe(d, AB_OBS_EMBEDDING, AB_FORWARD, d->embedded, d->dims.emb));
  AB_TRY(forward_layers(d, decoder, batch));
  return apply_output_head(d, decoder);
}

static ab_status head_pullback(struct nnx_decoder *d, const struct nnx_node *decoder, const struct nnx_node *ddecoder,
                               void *d_top) {
  struct nnx_node *norm, *dnorm, *dense, *ddense;
  void *d_normed = d->cotangent[1];
  AB_TRY(nnx_get_module(&norm, decoder, "decoder_norm"));
  AB_TRY(nnx_get_module(&dnorm, ddecoder, "decoder_norm"));
  AB_TRY(nnx_get_module(&dense, decoder, "logits_dense"));
  AB_TRY(nnx_get_module(&ddense, ddecoder, "logits_dense"));
  AB_TRY(observe(d, AB_OBS_D_LOGITS, AB_BACKWARD, d->logits, d->dims.vocab));
  AB_TRY(nnx_logits_dense_pullback(dense, ddense, d_normed, d->logits, d->normed, &d->dims, d->exec.kernels));
  AB_TRY(observe(d, AB_OBS_D_DECODER_NORM, AB_BACKWARD, d_normed, d->dims.emb));
  return nnx_rms_norm_pullback(norm, dnorm, d_top, d_normed, d->rstd, d->top, &d->dims, d->exec.kernels);
}

/* *cotangent enters as that of `top` and leaves as that of `embedded`; each part writes the buffer that is free. */
static ab_status layers_pullback(struct nnx_decoder *d, const struct nnx_node *decoder, const struct nnx_node *ddecoder,
                                 const struct ab_batch *batch, int *cotangent) {
  struct outer_run run;
  struct nnx_node *module, *dmodule;
  if (d->stack.count > 0) {
    AB_TRY(bind_outer(&run, d, decoder, ddecoder, batch));
    run.dy = d->cotangent[*cotangent];
    run.dx = d->cotangent[*cotangent = !*cotangent];
    AB_TRY(nnx_scan_pullback(&outer_layer, &run, d->stack.count, d->exec.book));
  }
  if (!d->pipeline) return AB_OK;
  const void *dy = d->cotangent[*cotangent];
  *cotangent = !*cotangent;
  AB_TRY(nnx_get_module(&module, decoder, "pipeline_module"));
  AB_TRY(nnx_get_module(&dmodule, ddecoder, "pipeline_module"));
  return nnx_pipeline_pullback(d->pipeline, module, dmodule, d->cotangent[*cotangent], dy);
}

ab_status nnx_decoder_pullback(struct nnx_decoder *d, const struct nnx_node *root, const struct nnx_node *droot,
                               const struct ab_batch *batch) {
  struct nnx_node *decoder, *ddecoder, *dembed;
  int cotangent = 0;
  AB_TRY(nnx_get_module(&decoder, root, "decoder"));
  AB_TRY(nnx_get_module(&ddecoder, droot, "decoder"));
  AB_TRY(nnx_get_module(&dembed, droot, "token_embedder"));
  AB_TRY(head_pullback(d, decoder, ddecoder, d->cotangent[0]));
  AB_TRY(layers_pullback(d, decoder, ddecoder, batch, &cotangent));
  return nnx_embed_pullback(dembed, d->cotangent[cotangent], batch->inputs, &d->dims, d->exec.kernels);
}

static ab_status visit(const struct nnx_state *params, const char *path, const struct nnx_stack *stack, int i,
                       int layer, const char *name, ab_leaf_fn fn, void *ctx) {
  const struct nnx_leaf *leaf = nnx_state_find(params, path);
  if (!leaf) return AB_FAIL(AB_ENOTFOUND, "the state holds no variable '%s'", path);
  struct ab_view view = stack ? nnx_stack_slice(stack, &leaf->variable.value, i) : leaf->variable.value;
  return fn(ctx, layer, name, &view);
}

static ab_status visit_outer_layer(const struct nnx_decoder *d, const struct nnx_state *params, int i, ab_leaf_fn fn,
                                   void *ctx) {
  char inner[160], path[256];
  for (int j = 0; j < d->stack.block->param_count; j++) {
    const char *name = d->stack.block->param[j].name;
    nnx_stack_path(inner, sizeof inner, &d->stack, i, name);
    snprintf(path, sizeof path, "decoder/%s", inner);
    AB_TRY(visit(params, path, &d->stack, i, d->first_layer + i, name, fn, ctx));
  }
  return AB_OK;
}

ab_status nnx_decoder_leaves(const struct nnx_decoder *d, const struct nnx_state *params, ab_leaf_fn fn, void *ctx) {
  for (int j = 0; j < 3; j++)
    AB_TRY(visit(params, ab_outer_params[j].name, NULL, 0, -1, ab_outer_params[j].name, fn, ctx));
  if (d->pipeline) AB_TRY(nnx_pipeline_leaves(d->pipeline, params, "decoder/pipeline_module/", fn, ctx));
  for (int i = 0; i < d->stack.count; i++) AB_TRY(visit_outer_layer(d, params, i, fn, ctx));
  return AB_OK;
}
