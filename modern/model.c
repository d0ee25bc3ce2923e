#include "decoder.h"
#include "nnx.h"
#include "nnx_model.h"

static ab_status create_model(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec) {
  struct ab_model *model;
  struct nnx_node *root;
  AB_TRY(ab_arena_take_zeroed(exec->book, &model, 1, sizeof *model));
  AB_TRY(nnx_decoder_new(&model->decoder, &root, config, exec));
  AB_TRY(nnx_train_state_new(&model->state, root, config, exec));
  *out = model;
  return AB_OK;
}

static ab_status value_and_grad(struct ab_model *model, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  struct nnx_decoder *decoder = model->decoder;
  struct nnx_node *root, *droot;
  struct ab_loss loss;
  AB_TRY(nnx_train_state_merge(&root, &droot, &model->state, decoder->exec.book));
  AB_TRY(nnx_decoder_forward(decoder, root, batch));
  AB_TRY(ab_loss_forward(&loss, terms, decoder->config, &decoder->exec, batch, decoder->logits));
  nnx_zero(&model->state.grads, decoder->exec.kernels);
  ab_loss_backward(&loss, decoder->logits);
  return nnx_decoder_pullback(decoder, root, droot, batch);
}

static ab_status check_batch(const struct ab_layer_dims *dims, const struct ab_batch *batch) {
  if (batch->rows == dims->rows && batch->length == dims->length) return AB_OK;
  return AB_FAIL(AB_ESHAPE, "the batch has %lld rows of %lld tokens, the model expects %lld of %lld",
                 (long long)batch->rows, (long long)batch->length, (long long)dims->rows, (long long)dims->length);
}

static ab_status step_model(struct ab_model *model, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  const struct ab_exec *exec = &model->decoder->exec;
  AB_TRY(check_batch(&model->decoder->dims, batch));
  size_t arena = ab_arena_mark(exec->arena), book = ab_arena_mark(exec->book);
  ab_status status = value_and_grad(model, batch, terms);
  ab_arena_release(exec->arena, arena);
  ab_arena_release(exec->book, book);
  return status;
}

static ab_status model_leaves(struct ab_model *model, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return nnx_decoder_leaves(model->decoder, kind == AB_PARAMS ? &model->state.params : &model->state.grads, fn, ctx);
}

const struct ab_model_ops nnx_model_ops = {.create = create_model, .step = step_model, .leaves = model_leaves};

static ab_status create_pipeline(struct ab_pipeline **out, const struct ab_config *config, const struct ab_exec *exec) {
  struct ab_pipeline *alone;
  struct nnx_node *module;
  AB_TRY(ab_arena_take_zeroed(exec->book, &alone, 1, sizeof *alone));
  AB_TRY(nnx_pipeline_new(&alone->pipeline, &module, config, exec));
  AB_TRY(nnx_train_state_new(&alone->state, module, config, exec));
  *out = alone;
  return AB_OK;
}

static ab_status pipeline_forward(struct ab_pipeline *alone, void *outputs, const void *inputs,
                                  const int32_t *positions, const int32_t *segment_ids) {
  struct ab_arena *book = alone->pipeline->exec.book;
  size_t mark = ab_arena_mark(book);
  struct nnx_node *module;
  ab_status status = nnx_train_state_merge(&module, NULL, &alone->state, book);
  if (status == AB_OK)
    status = nnx_pipeline_forward(alone->pipeline, module, outputs, inputs, positions, segment_ids);
  ab_arena_release(book, mark);
  return status;
}

static ab_status pipeline_backward(struct ab_pipeline *alone, void *d_inputs, const void *d_outputs) {
  struct ab_arena *book = alone->pipeline->exec.book;
  size_t mark = ab_arena_mark(book);
  struct nnx_node *module, *dmodule;
  nnx_zero(&alone->state.grads, alone->pipeline->exec.kernels);
  ab_status status = nnx_train_state_merge(&module, &dmodule, &alone->state, book);
  if (status == AB_OK) status = nnx_pipeline_pullback(alone->pipeline, module, dmodule, d_inputs, d_outputs);
  ab_arena_release(book, mark);
  return status;
}

static ab_status pipeline_leaves(struct ab_pipeline *alone, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return nnx_pipeline_leaves(alone->pipeline, kind == AB_PARAMS ? &alone->state.params : &alone->state.grads, "", fn,
                             ctx);
}

const struct ab_pipeline_ops nnx_pipeline_ops = {.create = create_pipeline,
                                                 .forward = pipeline_forward,
                                                 .backward = pipeline_backward,
                                                 .leaves = pipeline_leaves};
