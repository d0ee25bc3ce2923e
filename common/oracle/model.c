#include "loss.h"
#include "observed.h"
#include "oracle.h"
#include "parts.h"

enum { EMBEDDING, NORM, LOGITS }; /* ab_outer_params */

struct ab_model {
  struct ab_exec exec;
  const struct ab_config *config;
  struct oracle_store store;
  struct oracle_span inside, outside;
  struct ab_layer_dims batch;
  /* One step: whole-batch tensors in exec.arena. */
  void *embedded, *piped, *top; /* [T, E] into the pipeline, out of it, out of the last layer */
  void *normed, *rstd, *logits; /* [T, E], [T], [T, V]; logits become their cotangents */
  void *d_normed, *d_top, *d_piped, *d_embedded;
};

static ab_status create(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec,
                        enum oracle_order order) {
  struct ab_model *model;
  AB_TRY(ab_arena_take_zeroed(exec->book, &model, 1, sizeof *model));
  model->exec = *exec;
  model->config = config;
  model->batch = ab_layer_dims_of(config, config->micro_batch_size_to_train_on);
  AB_TRY(oracle_store_create(&model->store, config, exec, false));
  AB_TRY(oracle_span_inside(&model->inside, config, &model->exec, &model->store, order));
  AB_TRY(oracle_span_outside(&model->outside, config, &model->exec, &model->store));
  *out = model;
  return AB_OK;
}

static ab_status create_by_dtype(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec) {
  return create(out, config, exec, ORACLE_BY_DTYPE);
}

static ab_status create_by_microbatch(struct ab_model **out, const struct ab_config *config,
                                      const struct ab_exec *exec) {
  return create(out, config, exec, ORACLE_BY_MICROBATCH);
}

static ab_status create_whole_batch(struct ab_model **out, const struct ab_config *config,
                                    const struct ab_exec *exec) {
  return create(out, config, exec, ORACLE_WHOLE_BATCH);
}

static int64_t token_count(const struct ab_model *m) {
  return m->batch.rows * m->batch.length;
}

static ab_status take(struct ab_model *m, void *out, int64_t width) {
  return ab_arena_take(m->exec.arena, out, (size_t)(token_count(m) * width), m->exec.kernels->element);
}

static ab_status take_step(struct ab_model *m) {
  int64_t emb = m->batch.emb;
  AB_TRY(take(m, &m->embedded, emb));
  AB_TRY(take(m, &m->normed, emb));
  AB_TRY(take(m, &m->rstd, 1));
  AB_TRY(take(m, &m->logits, m->batch.vocab));
  AB_TRY(take(m, &m->d_normed, emb));
  AB_TRY(take(m, &m->d_top, emb));
  AB_TRY(take(m, &m->d_piped, emb));
  AB_TRY(take(m, &m->d_embedded, emb));
  return AB_OK;
}

static ab_status observe(const struct ab_model *m, const char *name, enum ab_phase phase, const void *value,
                         int64_t width) {
  return oracle_observe(&m->exec, name, phase, value, &m->batch, width);
}

static ab_status observe_pipeline(const struct ab_model *m, const char *name, enum ab_phase phase,
                                  const void *value) {
  if (!m->config->pipelined) return AB_OK;
  return observe(m, name, phase, value, m->batch.emb);
}

static ab_status forward_layers(struct ab_model *m, const struct ab_batch *batch) {
  struct ab_embed_dims dims = {token_count(m), m->batch.emb, m->batch.vocab};
  m->exec.kernels->embed(m->embedded, oracle_store_outer(&m->store, AB_PARAMS, EMBEDDING), batch->inputs, &dims);
  AB_TRY(observe(m, AB_OBS_EMBEDDING, AB_FORWARD, m->embedded, m->batch.emb));
  AB_TRY(observe_pipeline(m, AB_OBS_INPUTS, AB_FORWARD, m->embedded));
  AB_TRY(oracle_span_forward(&m->inside, &m->piped, m->embedded, batch->inputs_position, batch->inputs_segmentation));
  AB_TRY(observe_pipeline(m, AB_OBS_OUTPUTS, AB_FORWARD, m->piped));
  AB_TRY(oracle_span_forward(&m->outside, &m->top, m->piped, batch->inputs_position, batch->inputs_segmentation));
  return AB_OK;
}

static struct ab_norm_dims norm_dims(const struct ab_model *m) {
  return (struct ab_norm_dims){token_count(m), m->batch.emb, m->batch.epsilon};
}

static ab_status forward_head(struct ab_model *m) {
  const struct ab_kernels *k = m->exec.kernels;
  int64_t emb = m->batch.emb, vocab = m->batch.vocab;
  struct ab_norm_dims norm = norm_dims(m);
  k->norm(m->normed, m->rstd, m->top, oracle_store_outer(&m->store, AB_PARAMS, NORM), &norm);
  AB_TRY(observe(m, AB_OBS_DECODER_NORM, AB_FORWARD, m->normed, emb));
  struct ab_gemm gemm = {.m = token_count(m), .n = vocab, .k = emb, .lda = emb, .ldb = vocab, .ldc = vocab};
  k->gemm(m->logits, m->normed, oracle_store_outer(&m->store, AB_PARAMS, LOGITS), &gemm);
  AB_TRY(observe(m, AB_OBS_LOGITS, AB_FORWARD, m->logits, vocab));
  return AB_OK;
}

/* The logits buffer holds their cotangents from here on. */
static ab_status backward_head(struct ab_model *m) {
  const struct ab_kernels *k = m->exec.kernels;
  int64_t emb = m->batch.emb, vocab = m->batch.vocab, tokens = token_count(m);
  AB_TRY(observe(m, AB_OBS_D_LOGITS, AB_BACKWARD, m->logits, vocab));
  struct ab_gemm weight = {.m = emb, .n = vocab, .k = tokens, .lda = emb, .ldb = vocab, .ldc = vocab,
                           .trans_a = true, .accumulate = true};
  k->gemm(oracle_store_outer(&m->store, AB_GRADS, LOGITS), m->normed, m->logits, &weight);
  struct ab_gemm input = {.m = tokens, .n = emb, .k = vocab, .lda = vocab, .ldb = vocab, .ldc = emb, .trans_b = true};
  k->gemm(m->d_normed, m->logits, oracle_store_outer(&m->store, AB_PARAMS, LOGITS), &input);
  AB_TRY(observe(m, AB_OBS_D_DECODER_NORM, AB_BACKWARD, m->d_normed, emb));
  struct ab_norm_dims norm = norm_dims(m);
  k->norm_weight(oracle_store_outer(&m->store, AB_GRADS, NORM), m->d_normed, m->rstd, m->top, &norm);
  k->norm_input(m->d_top, m->d_normed, m->rstd, m->top, oracle_store_outer(&m->store, AB_PARAMS, NORM), &norm);
  return AB_OK;
}

static ab_status backward_layers(struct ab_model *m, const struct ab_batch *batch) {
  AB_TRY(oracle_span_backward(&m->outside, m->d_piped, m->d_top));
  AB_TRY(observe_pipeline(m, AB_OBS_D_OUTPUTS, AB_BACKWARD, m->d_piped));
  AB_TRY(oracle_span_backward(&m->inside, m->d_embedded, m->d_piped));
  AB_TRY(observe_pipeline(m, AB_OBS_D_INPUTS, AB_BACKWARD, m->d_embedded));
  struct ab_embed_dims dims = {token_count(m), m->batch.emb, m->batch.vocab};
  m->exec.kernels->embed_weight(oracle_store_outer(&m->store, AB_GRADS, EMBEDDING), m->d_embedded, batch->inputs,
                                &dims);
  return AB_OK;
}

static ab_status pass(struct ab_model *m, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  struct ab_loss loss;
  AB_TRY(take_step(m));
  AB_TRY(forward_layers(m, batch));
  AB_TRY(forward_head(m));
  AB_TRY(ab_loss_forward(&loss, terms, m->config, &m->exec, batch, m->logits));
  oracle_store_zero_grads(&m->store);
  ab_loss_backward(&loss, m->logits);
  AB_TRY(backward_head(m));
  AB_TRY(backward_layers(m, batch));
  return AB_OK;
}

static ab_status step(struct ab_model *m, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  if (batch->rows != m->batch.rows || batch->length != m->batch.length)
    return AB_FAIL(AB_ESHAPE, "batch of %lld rows of length %lld, expected %lld of %lld", (long long)batch->rows,
                   (long long)batch->length, (long long)m->batch.rows, (long long)m->batch.length);
  size_t arena = ab_arena_mark(m->exec.arena), book = ab_arena_mark(m->exec.book);
  ab_status status = pass(m, batch, terms);
  ab_arena_release(m->exec.arena, arena);
  ab_arena_release(m->exec.book, book);
  return status;
}

static ab_status leaves(struct ab_model *m, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return oracle_store_leaves(&m->store, kind, fn, ctx);
}

const struct ab_model_ops ab_oracle_model_ops = {create_by_dtype, step, leaves};
const struct ab_model_ops ab_oracle_model_ops_by_microbatch = {create_by_microbatch, step, leaves};
const struct ab_model_ops ab_oracle_model_ops_whole_batch = {create_whole_batch, step, leaves};
