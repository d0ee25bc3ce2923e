/* Modules with parameters: Embed, RMSNorm, Linear and the decoder layer, each with its two halves of vjp where it has
 * arithmetic of its own. MaxText layers/embeddings.py, normalizations.py, linears.py, models/llama2.py.
 *
 * `d` before a module marks its cotangents: a module of the same structure whose variables are live accumulators.
 */
#pragma once

#include "block.h"
#include "graph.h"

/* Abstract modules. The parameter is a row of ab_outer_params; its variable has the last part of the row's name. */
ab_status nnx_embed_new(struct nnx_node **out, struct ab_arena *book, const struct ab_layer_dims *dims,
                        enum ab_dtype dtype);
ab_status nnx_rms_norm_new(struct nnx_node **out, struct ab_arena *book, const struct ab_layer_dims *dims,
                           enum ab_dtype dtype);
ab_status nnx_logits_dense_new(struct nnx_node **out, struct ab_arena *book, const struct ab_layer_dims *dims,
                               enum ab_dtype dtype);
ab_status nnx_decoder_layer_new(struct nnx_node **out, struct ab_arena *book, const struct ab_block *block,
                                const struct ab_layer_dims *dims, enum ab_dtype dtype);

/* y [tokens, E]. Dims are those of the whole call: rows x length tokens. */
ab_status nnx_embed(const struct nnx_node *embed, void *y, const int32_t *ids, const struct ab_layer_dims *dims,
                    const struct ab_kernels *k);
ab_status nnx_embed_pullback(const struct nnx_node *dembed, const void *dy, const int32_t *ids,
                             const struct ab_layer_dims *dims, const struct ab_kernels *k);
/* rstd [tokens] and x are its residuals. */
ab_status nnx_rms_norm(const struct nnx_node *norm, void *y, void *rstd, const void *x,
                       const struct ab_layer_dims *dims, const struct ab_kernels *k);
ab_status nnx_rms_norm_pullback(const struct nnx_node *norm, const struct nnx_node *dnorm, void *dx, const void *dy,
                                const void *rstd, const void *x, const struct ab_layer_dims *dims,
                                const struct ab_kernels *k);
/* y [tokens, V] = x [tokens, E] kernel; x is its residual. One call of the gemm door each. */
ab_status nnx_logits_dense(const struct nnx_node *dense, void *y, const void *x, const struct ab_layer_dims *dims,
                           const struct ab_kernels *k);
ab_status nnx_logits_dense_pullback(const struct nnx_node *dense, const struct nnx_node *ddense, void *dx,
                                    const void *dy, const void *x, const struct ab_layer_dims *dims,
                                    const struct ab_kernels *k);
