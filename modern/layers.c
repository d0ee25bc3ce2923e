#include "layers.h"

#include <string.h>

static struct nnx_variable abstract_param(const struct ab_param *row, const struct ab_layer_dims *dims,
                                          enum ab_dtype dtype) {
  struct nnx_variable variable = {.type = NNX_PARAM, .value = {.dtype = dtype, .shape = ab_param_shape(row, dims)}};
  for (int i = 0; i < variable.value.shape.rank; i++) variable.sharding[i] = row->logical[i];
  ab_view_contiguous(&variable.value);
  return variable;
}

enum { EMBEDDING, DECODER_NORM, LOGITS_DENSE };

/* "decoder/decoder_norm/scale" -> "scale". */
static const char *own_name(int outer) { return strrchr(ab_outer_params[outer].name, '/') + 1; }

static ab_status outer_module(struct nnx_node **out, struct ab_arena *book, const char *type, int outer,
                              const struct ab_layer_dims *dims, enum ab_dtype dtype) {
  struct nnx_variable variable = abstract_param(&ab_outer_params[outer], dims, dtype);
  AB_TRY(nnx_module_new(out, book, type));
  return nnx_set_variable(book, *out, own_name(outer), &variable);
}

ab_status nnx_embed_new(struct nnx_node **out, struct ab_arena *book, const struct ab_layer_dims *dims,
                        enum ab_dtype dtype) {
  return outer_module(out, book, "Embed", EMBEDDING, dims, dtype);
}

ab_status nnx_rms_norm_new(struct nnx_node **out, struct ab_arena *book, const struct ab_layer_dims *dims,
                           enum ab_dtype dtype) {
  return outer_module(out, book, "RMSNorm", DECODER_NORM, dims, dtype);
}

ab_status nnx_logits_dense_new(struct nnx_node **out, struct ab_arena *book, const struct ab_layer_dims *dims,
                               enum ab_dtype dtype) {
  return outer_module(out, book, "DenseGeneral", LOGITS_DENSE, dims, dtype);
}

ab_status nnx_decoder_layer_new(struct nnx_node **out, struct ab_arena *book, const struct ab_block *block,
                                const struct ab_layer_dims *dims, enum ab_dtype dtype) {
  AB_TRY(nnx_module_new(out, book, "DecoderLayer"));
  AB_TRY(nnx_set_static(book, *out, "block", block));
  for (int i = 0; i < block->param_count; i++) {
    struct nnx_variable variable = abstract_param(&block->param[i], dims, dtype);
    AB_TRY(nnx_set_variable(book, *out, block->param[i].name, &variable));
  }
  return AB_OK;
}

static ab_status read_param(void **out, const struct nnx_node *module, int outer) {
  struct nnx_variable *variable;
  AB_TRY(nnx_get_variable(&variable, module, own_name(outer)));
  *out = variable->value.data;
  return AB_OK;
}

static int64_t token_count(const struct ab_layer_dims *dims) { return dims->rows * dims->length; }

static struct ab_embed_dims embed_dims(const struct ab_layer_dims *dims) {
  return (struct ab_embed_dims){.tokens = token_count(dims), .emb = dims->emb, .vocab = dims->vocab};
}

ab_status nnx_embed(const struct nnx_node *embed, void *y, const int32_t *ids, const struct ab_layer_dims *dims,
                    const struct ab_kernels *k) {
  void *table;
  struct ab_embed_dims sizes = embed_dims(dims);
  AB_TRY(read_param(&table, embed, EMBEDDING));
  k->embed(y, table, ids, &sizes);
  return AB_OK;
}

ab_status nnx_embed_pullback(const struct nnx_node *dembed, const void *dy, const int32_t *ids,
                             const struct ab_layer_dims *dims, const struct ab_kernels *k) {
  void *dtable;
  struct ab_embed_dims sizes = embed_dims(dims);
  AB_TRY(read_param(&dtable, dembed, EMBEDDING));
  k->embed_weight(dtable, dy, ids, &sizes);
  return AB_OK;
}

static struct ab_norm_dims norm_dims(const struct ab_layer_dims *dims) {
  return (struct ab_norm_dims){.tokens = token_count(dims), .emb = dims->emb, .epsilon = dims->epsilon};
}

ab_status nnx_rms_norm(const struct nnx_node *norm, void *y, void *rstd, const void *x,
                       const struct ab_layer_dims *dims, const struct ab_kernels *k) {
  void *scale;
  struct ab_norm_dims sizes = norm_dims(dims);
  AB_TRY(read_param(&scale, norm, DECODER_NORM));
  k->norm(y, rstd, x, scale, &sizes);
  return AB_OK;
}

ab_status nnx_rms_norm_pullback(const struct nnx_node *norm, const struct nnx_node *dnorm, void *dx, const void *dy,
                                const void *rstd, const void *x, const struct ab_layer_dims *dims,
                                const struct ab_kernels *k) {
  void *scale, *dscale;
  struct ab_norm_dims sizes = norm_dims(dims);
  AB_TRY(read_param(&scale, norm, DECODER_NORM));
  AB_TRY(read_param(&dscale, dnorm, DECODER_NORM));
  k->norm_input(dx, dy, rstd, x, scale, &sizes);
  k->norm_weight(dscale, dy, rstd, x, &sizes);
  return AB_OK;
}

ab_status nnx_logits_dense(const struct nnx_node *dense, void *y, const void *x, const struct ab_layer_dims *dims,
                           const struct ab_kernels *k) {
  void *kernel;
  AB_TRY(read_param(&kernel, dense, LOGITS_DENSE));
  struct ab_gemm gemm = {.m = token_count(dims), .n = dims->vocab, .k = dims->emb,
                         .lda = dims->emb, .ldb = dims->vocab, .ldc = dims->vocab};
  k->gemm(y, x, kernel, &gemm);
  return AB_OK;
}

ab_status nnx_logits_dense_pullback(const struct nnx_node *dense, const struct nnx_node *ddense, void *dx,
                                    const void *dy, const void *x, const struct ab_layer_dims *dims,
                                    const struct ab_kernels *k) {
  void *kernel, *dkernel;
  AB_TRY(read_param(&kernel, dense, LOGITS_DENSE));
  AB_TRY(read_param(&dkernel, ddense, LOGITS_DENSE));
  int64_t tokens = token_count(dims), emb = dims->emb, vocab = dims->vocab;
  struct ab_gemm input = {.m = tokens, .n = emb, .k = vocab, .lda = vocab, .ldb = vocab, .ldc = emb, .trans_b = true};
  struct ab_gemm weight = {.m = emb, .n = vocab, .k = tokens, .lda = emb, .ldb = vocab, .ldc = vocab,
                           .trans_a = true, .accumulate = true};
  k->gemm(dx, dy, kernel, &input);
  k->gemm(dkernel, x, dy, &weight);
  return AB_OK;
}
