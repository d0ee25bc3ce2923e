#include "linen_layers.h"

#include <string.h>

ab_status linen_param_get(struct linen_partitioned *out, const struct linen_scope *scope,
                          const struct linen_param_row *row) {
  struct linen_declaration declared = {.name = row->name, .shape = row->shape, .names = row->param->logical};
  return linen_scope_param(out, scope, &declared);
}

static ab_status unary_params(struct linen_module *module, const struct linen_scope *scope) {
  struct linen_partitioned box;
  return linen_param_get(&box, scope, &((struct linen_unary *)module)->row);
}

static const struct linen_module_ops embed_ops = {.class_name = "Embed", .params = unary_params};
static const struct linen_module_ops rms_norm_ops = {.class_name = "RMSNorm", .params = unary_params};
static const struct linen_module_ops dense_ops = {.class_name = "DenseGeneral", .params = unary_params};

/* Rows of ab_outer_params. */
enum outer { OUTER_EMBEDDING, OUTER_NORM, OUTER_LOGITS };

static const struct {
  const struct linen_module_ops *ops;
  const char *param;
} unary_class[] = {[OUTER_EMBEDDING] = {&embed_ops, "embedding"},
                   [OUTER_NORM] = {&rms_norm_ops, "scale"},
                   [OUTER_LOGITS] = {&dense_ops, "kernel"}};

static ab_status unary_new(struct linen_unary *self, enum outer outer, struct linen_module *parent, const char *name,
                           const struct ab_config *config, const struct ab_exec *exec) {
  const struct ab_param *param = &ab_outer_params[outer];
  *self = (struct linen_unary){.exec = exec, .dims = ab_layer_dims_of(config, config->micro_batch_size_to_train_on)};
  self->row = (struct linen_param_row){
      .param = param, .name = unary_class[outer].param, .shape = ab_param_shape(param, &self->dims)};
  return linen_module_adopt(&self->base, unary_class[outer].ops, parent, name);
}

ab_status linen_embed_new(struct linen_unary *self, struct linen_module *parent, const char *name,
                          const struct ab_config *config, const struct ab_exec *exec) {
  return unary_new(self, OUTER_EMBEDDING, parent, name, config, exec);
}

ab_status linen_rms_norm_new(struct linen_unary *self, struct linen_module *parent, const char *name,
                             const struct ab_config *config, const struct ab_exec *exec) {
  return unary_new(self, OUTER_NORM, parent, name, config, exec);
}

ab_status linen_dense_new(struct linen_unary *self, struct linen_module *parent, const char *name,
                          const struct ab_config *config, const struct ab_exec *exec) {
  return unary_new(self, OUTER_LOGITS, parent, name, config, exec);
}

/* The data of a unary module's param, or of its cotangent, below a root scope. */
static ab_status unary_data(void **out, const struct linen_unary *self, const struct linen_scope *root) {
  struct linen_scope scope;
  struct linen_partitioned box;
  AB_TRY(linen_module_scope(&scope, &self->base, root));
  AB_TRY(linen_param_get(&box, &scope, &self->row));
  *out = box.value.data;
  return AB_OK;
}

/* The cotangent as a zeroed accumulator. */
static ab_status unary_accumulator(void **out, const struct linen_unary *self, const struct linen_scope *cotangents) {
  size_t count;
  AB_TRY(unary_data(out, self, cotangents));
  AB_TRY(ab_shape_count(&count, &self->row.shape));
  self->exec->kernels->zero(*out, count);
  return AB_OK;
}

static int64_t unary_tokens(const struct linen_unary *self) { return self->dims.rows * self->dims.length; }

static struct ab_embed_dims embed_dims(const struct linen_unary *self) {
  return (struct ab_embed_dims){.tokens = unary_tokens(self), .emb = self->dims.emb, .vocab = self->dims.vocab};
}

ab_status linen_embed_call(const struct linen_unary *self, const struct linen_scope *root, void *y,
                           const int32_t *ids) {
  void *table;
  struct ab_embed_dims dims = embed_dims(self);
  AB_TRY(unary_data(&table, self, root));
  self->exec->kernels->embed(y, table, ids, &dims);
  return AB_OK;
}

ab_status linen_embed_vjp(const struct linen_unary *self, const struct linen_scope *cotangents, const void *dy,
                          const int32_t *ids) {
  void *d_table;
  struct ab_embed_dims dims = embed_dims(self);
  AB_TRY(unary_accumulator(&d_table, self, cotangents));
  self->exec->kernels->embed_weight(d_table, dy, ids, &dims);
  return AB_OK;
}

static struct ab_norm_dims norm_dims_of(const struct linen_unary *self) {
  return (struct ab_norm_dims){.tokens = unary_tokens(self), .emb = self->dims.emb, .epsilon = self->dims.epsilon};
}

ab_status linen_rms_norm_call(const struct linen_unary *self, const struct linen_scope *root, void *y, void *rstd,
                              const void *x) {
  void *scale;
  struct ab_norm_dims dims = norm_dims_of(self);
  AB_TRY(unary_data(&scale, self, root));
  self->exec->kernels->norm(y, rstd, x, scale, &dims);
  return AB_OK;
}

ab_status linen_rms_norm_vjp(const struct linen_unary *self, const struct linen_scope *root,
                             const struct linen_scope *cotangents, void *dx, const void *dy, const void *rstd,
                             const void *x) {
  void *scale, *d_scale;
  struct ab_norm_dims dims = norm_dims_of(self);
  AB_TRY(unary_data(&scale, self, root));
  AB_TRY(unary_accumulator(&d_scale, self, cotangents));
  self->exec->kernels->norm_input(dx, dy, rstd, x, scale, &dims);
  self->exec->kernels->norm_weight(d_scale, dy, rstd, x, &dims);
  return AB_OK;
}

ab_status linen_dense_call(const struct linen_unary *self, const struct linen_scope *root, void *y, const void *x) {
  void *kernel;
  int64_t e = self->dims.emb, v = self->dims.vocab;
  AB_TRY(unary_data(&kernel, self, root));
  struct ab_gemm product = {.m = unary_tokens(self), .n = v, .k = e, .lda = e, .ldb = v, .ldc = v};
  self->exec->kernels->gemm(y, x, kernel, &product);
  return AB_OK;
}

ab_status linen_dense_vjp(const struct linen_unary *self, const struct linen_scope *root,
                          const struct linen_scope *cotangents, void *dx, const void *dy, const void *x) {
  void *kernel, *d_kernel;
  int64_t t = unary_tokens(self), e = self->dims.emb, v = self->dims.vocab;
  AB_TRY(unary_data(&kernel, self, root));
  AB_TRY(unary_accumulator(&d_kernel, self, cotangents));
  struct ab_gemm input = {.m = t, .n = e, .k = v, .lda = v, .ldb = v, .ldc = e, .trans_b = true};
  struct ab_gemm weight = {.m = e, .n = v, .k = t, .lda = e, .ldb = v, .ldc = v, .trans_a = true, .accumulate = true};
  self->exec->kernels->gemm(dx, dy, kernel, &input);
  self->exec->kernels->gemm(d_kernel, x, dy, &weight);
  return AB_OK;
}

struct linen_param_row linen_decoder_layer_row(const struct linen_decoder_layer *self, int param) {
  const struct ab_param *row = &self->block->param[param];
  return (struct linen_param_row){.param = row, .name = row->name, .shape = ab_param_shape(row, &self->dims)};
}

ab_status linen_decoder_layer_params(const struct linen_decoder_layer *self, const struct linen_scope *scope,
                                     struct linen_partitioned *boxes) {
  for (int p = 0; p < self->block->param_count; p++) {
    struct linen_param_row row = linen_decoder_layer_row(self, p);
    AB_TRY(linen_param_get(&boxes[p], scope, &row));
  }
  return AB_OK;
}

static ab_status decoder_layer_declare(struct linen_module *module, const struct linen_scope *scope) {
  struct linen_partitioned boxes[AB_MAX_PARAMS];
  return linen_decoder_layer_params((struct linen_decoder_layer *)module, scope, boxes);
}

static const struct linen_module_ops decoder_layer_ops = {.class_name = "DecoderLayer",
                                                          .params = decoder_layer_declare};

ab_status linen_decoder_layer_new(struct linen_decoder_layer *self, struct linen_module *parent, const char *name,
                                  const struct ab_block *block, const struct ab_layer_dims *dims) {
  *self = (struct linen_decoder_layer){.block = block, .dims = *dims};
  return linen_module_adopt(&self->base, &decoder_layer_ops, parent, name);
}

ab_status linen_decoder_block(const struct ab_block **out, const struct ab_config *config) {
  const struct ab_block *block = ab_block_find(config->decoder_block);
  if (!block) return AB_FAIL(AB_ECONFIG, "key 'decoder_block' is '%s', there is no such block", config->decoder_block);
  *out = block;
  return AB_OK;
}

ab_status linen_observe(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *data,
                        const struct ab_layer_dims *batch, int64_t width) {
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = phase};
  struct ab_where nowhere = {-1, -1, -1, false};
  struct ab_view view = {.dtype = exec->kernels->dtype, .shape = {3, {batch->rows, batch->length, width}}};
  if (!exec->probe || exec->kernels->dry) return AB_OK;
  memcpy(&view.data, &data, sizeof data);
  strncat(id.tensor, name, sizeof id.tensor - 1);
  ab_view_contiguous(&view);
  return ab_probe_observe(exec->probe, &id, &nowhere, &view);
}
