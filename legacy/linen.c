/* The two tables that the engine exports: the Transformer as a model, and the pipeline module alone. */
#include "linen.h"

#include "linen_decoder.h"
#include "observed.h"

static ab_status create_native(struct linen_module **out, struct linen_module *parent, const char *name,
                               const struct ab_config *config, const struct ab_exec *exec) {
  struct linen_pipeline *pipeline;
  AB_TRY(linen_create_pipeline(&pipeline, parent, name, config, exec));
  *out = &pipeline->base;
  return AB_OK;
}

static ab_status call_native(struct linen_module *module, const struct linen_scope *root, void *outputs,
                             const void *inputs, const int32_t *positions, const int32_t *segment_ids) {
  return linen_pipeline_call((struct linen_pipeline *)module, root, outputs, inputs, positions, segment_ids);
}

static ab_status native_vjp(struct linen_module *module, const struct linen_scope *root,
                            const struct linen_scope *cotangents, void *d_inputs, const void *d_outputs) {
  return linen_pipeline_vjp((struct linen_pipeline *)module, root, cotangents, d_inputs, d_outputs);
}

static ab_status native_leaves(const struct linen_module *module, const struct linen_scope *root, ab_leaf_fn fn,
                               void *ctx) {
  return linen_pipeline_leaves((const struct linen_pipeline *)module, root, fn, ctx);
}

static const struct linen_pipeline_hook native = {
    .create = create_native, .call = call_native, .vjp = native_vjp, .leaves = native_leaves};

static const struct linen_module_ops transformer_class = {.class_name = "Transformer"};

ab_status linen_create_model_with(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec,
                                  const struct linen_pipeline_hook *hook) {
  struct linen_transformer *self;
  AB_TRY(ab_arena_take_zeroed(exec->book, &self, 1, sizeof *self));
  self->config = config;
  self->exec = *exec;
  linen_module_root(&self->base, &transformer_class);
  AB_TRY(linen_embed_new(&self->token_embedder, &self->base, "token_embedder", config, &self->exec));
  AB_TRY(linen_decoder_new(&self->decoder, &self->base, "decoder", config, &self->exec, hook));
  AB_TRY(linen_state_init(&self->state, &self->base, &self->exec));
  *out = (struct ab_model *)self;
  return AB_OK;
}

static ab_status create_model(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec) {
  return linen_create_model_with(out, config, exec, &native);
}

static ab_status check_batch(const struct linen_transformer *self, const struct ab_batch *batch) {
  const struct ab_layer_dims *dims = &self->token_embedder.dims;
  if (batch->rows == dims->rows && batch->length == dims->length) return AB_OK;
  return AB_FAIL(AB_ESHAPE, "the batch is [%lld, %lld], the config expects [%lld, %lld]", (long long)batch->rows,
                 (long long)batch->length, (long long)dims->rows, (long long)dims->length);
}

struct embedded {
  void *x, *dx, *logits; /* [T, E], [T, E], [T, V] */
};

static ab_status take_embedded(struct linen_transformer *self, struct embedded *out) {
  const struct ab_layer_dims *dims = &self->token_embedder.dims;
  size_t tokens = (size_t)(dims->rows * dims->length), element = self->exec.kernels->element;
  AB_TRY(ab_arena_take(self->exec.arena, &out->x, tokens * (size_t)dims->emb, element));
  AB_TRY(ab_arena_take(self->exec.arena, &out->dx, tokens * (size_t)dims->emb, element));
  return ab_arena_take(self->exec.arena, &out->logits, tokens * (size_t)dims->vocab, element);
}

/* jax.value_and_grad of the loss: params and cotangents are the two dicts of the state. */
static ab_status value_and_grad(struct linen_transformer *self, const struct ab_batch *batch,
                                struct ab_loss_terms *terms) {
  struct linen_scope params = linen_state_params(&self->state), cotangents = linen_state_cotangents(&self->state);
  struct embedded t;
  struct ab_loss loss;
  AB_TRY(take_embedded(self, &t));
  AB_TRY(linen_embed_call(&self->token_embedder, &params, t.x, batch->inputs));
  AB_TRY(linen_observe(&self->exec, AB_OBS_EMBEDDING, AB_FORWARD, t.x, &self->token_embedder.dims,
                       self->token_embedder.dims.emb));
  AB_TRY(linen_decoder_call(&self->decoder, &params, t.logits, t.x, batch->inputs_position,
                            batch->inputs_segmentation));
  AB_TRY(ab_loss_forward(&loss, terms, self->config, &self->exec, batch, t.logits));
  ab_loss_backward(&loss, t.logits);
  AB_TRY(linen_decoder_vjp(&self->decoder, &params, &cotangents, t.dx, t.logits));
  return linen_embed_vjp(&self->token_embedder, &cotangents, t.dx, batch->inputs);
}

static ab_status step_model(struct ab_model *model, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  struct linen_transformer *self = (struct linen_transformer *)model;
  size_t tensors = ab_arena_mark(self->exec.arena), book = ab_arena_mark(self->exec.book);
  AB_TRY(check_batch(self, batch));
  ab_status status = value_and_grad(self, batch, terms);
  ab_arena_release(self->exec.arena, tensors);
  ab_arena_release(self->exec.book, book);
  AB_TRY(status);
  return AB_OK;
}

static ab_status unary_leaf(const struct linen_unary *module, const struct linen_scope *root, ab_leaf_fn fn,
                            void *ctx) {
  struct linen_scope scope;
  struct linen_partitioned box;
  AB_TRY(linen_module_scope(&scope, &module->base, root));
  AB_TRY(linen_param_get(&box, &scope, &module->row));
  return fn(ctx, -1, module->row.param->name, &box.value);
}

static struct linen_scope leaves_root(struct linen_state *state, enum ab_leaf_kind kind) {
  return kind == AB_PARAMS ? linen_state_params(state) : linen_state_cotangents(state);
}

static ab_status model_leaves(struct ab_model *model, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  struct linen_transformer *self = (struct linen_transformer *)model;
  struct linen_scope root = leaves_root(&self->state, kind);
  AB_TRY(unary_leaf(&self->token_embedder, &root, fn, ctx));
  if (self->decoder.pipelined) AB_TRY(self->decoder.hook->leaves(self->decoder.pipeline_module, &root, fn, ctx));
  AB_TRY(linen_outer_layers_leaves(&self->decoder.layers, &root, fn, ctx));
  AB_TRY(unary_leaf(&self->decoder.decoder_norm, &root, fn, ctx));
  return unary_leaf(&self->decoder.logits_dense, &root, fn, ctx);
}

const struct ab_model_ops linen_model_ops = {.create = create_model, .step = step_model, .leaves = model_leaves};

/* The pipeline as the root of its own tree. */
struct standalone {
  struct ab_exec exec;
  const struct linen_pipeline_hook *hook;
  struct linen_module *pipeline;
  struct linen_state state;
};

ab_status linen_create_pipeline_with(struct ab_pipeline **out, const struct ab_config *config,
                                     const struct ab_exec *exec, const struct linen_pipeline_hook *hook) {
  struct standalone *self;
  AB_TRY(ab_arena_take_zeroed(exec->book, &self, 1, sizeof *self));
  self->exec = *exec;
  self->hook = hook;
  AB_TRY(hook->create(&self->pipeline, NULL, "", config, &self->exec));
  AB_TRY(linen_state_init(&self->state, self->pipeline, &self->exec));
  *out = (struct ab_pipeline *)self;
  return AB_OK;
}

static ab_status create_pipeline(struct ab_pipeline **out, const struct ab_config *config,
                                 const struct ab_exec *exec) {
  return linen_create_pipeline_with(out, config, exec, &native);
}

static ab_status forward(struct ab_pipeline *pipeline, void *outputs, const void *inputs, const int32_t *positions,
                         const int32_t *segment_ids) {
  struct standalone *self = (struct standalone *)pipeline;
  struct linen_scope params = linen_state_params(&self->state);
  return self->hook->call(self->pipeline, &params, outputs, inputs, positions, segment_ids);
}

static ab_status backward(struct ab_pipeline *pipeline, void *d_inputs, const void *d_outputs) {
  struct standalone *self = (struct standalone *)pipeline;
  struct linen_scope params = linen_state_params(&self->state), cotangents = linen_state_cotangents(&self->state);
  return self->hook->vjp(self->pipeline, &params, &cotangents, d_inputs, d_outputs);
}

static ab_status pipeline_leaves(struct ab_pipeline *pipeline, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  struct standalone *self = (struct standalone *)pipeline;
  struct linen_scope root = leaves_root(&self->state, kind);
  return self->hook->leaves(self->pipeline, &root, fn, ctx);
}

const struct ab_pipeline_ops linen_pipeline_ops = {
    .create = create_pipeline, .forward = forward, .backward = backward, .leaves = pipeline_leaves};
