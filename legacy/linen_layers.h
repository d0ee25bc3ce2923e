/* The modules that hold parameters: Embed, RMSNorm, DenseGeneral, and one decoder layer.
 *
 * A *_call runs forward; the *_vjp below it takes the cotangent of its output. Both read every param through the root
 * scope they are given. Token arrays are [tokens, width], whole batch; cotangents of params are overwritten.
 */
#pragma once

#include "layer.h"
#include "module.h"

/* One param of a module: a row of the shared parameter tables under a local name. */
struct linen_param_row {
  const struct ab_param *param;
  const char *name;
  struct ab_shape shape;
};
ab_status linen_param_get(struct linen_partitioned *out, const struct linen_scope *scope,
                          const struct linen_param_row *row);

/* A module with one param, on whole-batch tokens; layers/embeddings.py: Embed, layers/normalizations.py: RMSNorm,
 * layers/linears.py: DenseGeneral. */
struct linen_unary {
  struct linen_module base;
  const struct ab_exec *exec;
  struct ab_layer_dims dims; /* rows: the whole batch */
  struct linen_param_row row;
};

/* Params: embedding [V, E]; scale [E]; kernel [E, V]. */
ab_status linen_embed_new(struct linen_unary *self, struct linen_module *parent, const char *name,
                          const struct ab_config *config, const struct ab_exec *exec);
ab_status linen_rms_norm_new(struct linen_unary *self, struct linen_module *parent, const char *name,
                             const struct ab_config *config, const struct ab_exec *exec);
ab_status linen_dense_new(struct linen_unary *self, struct linen_module *parent, const char *name,
                          const struct ab_config *config, const struct ab_exec *exec);

/* y[T, E] = embedding[ids]. */
ab_status linen_embed_call(const struct linen_unary *self, const struct linen_scope *root, void *y,
                           const int32_t *ids);
ab_status linen_embed_vjp(const struct linen_unary *self, const struct linen_scope *cotangents, const void *dy,
                          const int32_t *ids);
/* y[T, E], rstd[T] kept for the vjp. */
ab_status linen_rms_norm_call(const struct linen_unary *self, const struct linen_scope *root, void *y, void *rstd,
                              const void *x);
ab_status linen_rms_norm_vjp(const struct linen_unary *self, const struct linen_scope *root,
                             const struct linen_scope *cotangents, void *dx, const void *dy, const void *rstd,
                             const void *x);
/* y[T, V] = x[T, E] kernel, one call of the gemm door. */
ab_status linen_dense_call(const struct linen_unary *self, const struct linen_scope *root, void *y, const void *x);
ab_status linen_dense_vjp(const struct linen_unary *self, const struct linen_scope *root,
                          const struct linen_scope *cotangents, void *dx, const void *dy, const void *x);

/* A decoder layer of any block: its params are the rows of the block's parameter table, its arithmetic is the shared
 * runner's. */
struct linen_decoder_layer {
  struct linen_module base;
  const struct ab_block *block;
  struct ab_layer_dims dims;
};
ab_status linen_decoder_layer_new(struct linen_decoder_layer *self, struct linen_module *parent, const char *name,
                                  const struct ab_block *block, const struct ab_layer_dims *dims);
struct linen_param_row linen_decoder_layer_row(const struct linen_decoder_layer *self, int param);
/* self.param for every row of the table: boxes[param_count]. */
ab_status linen_decoder_layer_params(const struct linen_decoder_layer *self, const struct linen_scope *scope,
                                     struct linen_partitioned *boxes);
/* The block named by config->decoder_block; AB_ECONFIG. */
ab_status linen_decoder_block(const struct ab_block **out, const struct ab_config *config);

/* Reports a whole-batch tensor [rows, L, width] under one of observed.h's names. */
ab_status linen_observe(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *data,
                        const struct ab_layer_dims *batch, int64_t width);
