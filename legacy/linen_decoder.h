/* The Linen decoder and the Transformer around it; MaxText layers/decoders.py: Decoder, models/models.py: Transformer.
 *
 * token_embedder, then decoder: the pipeline first, if there is one, then the layers outside it, decoder_norm,
 * logits_dense. All but the pipeline works on the whole batch.
 */
#pragma once

#include "linen.h"
#include "linen_circular.h"
#include "loss.h"

/* A stack of layers on the whole batch, one after another: all of an unpipelined model, or what remains after a
 * pipeline. */
struct linen_outer_layers {
  struct linen_stack stack; /* count 0: there are none, and nothing else is set */
  struct linen_weights weights;
  struct linen_cell cell;
  int first;                /* layer number of the first */
  bool sows;
  struct linen_intermediates intermediates;
};
ab_status linen_outer_layers_new(struct linen_outer_layers *self, struct linen_module *parent,
                                 const struct ab_config *config, const struct ab_exec *exec);
/* y[B, L, E]; keeps its residuals in exec->arena. */
ab_status linen_outer_layers_call(struct linen_outer_layers *self, const struct linen_scope *root, void *y,
                                  const void *x, const int32_t *positions, const int32_t *segment_ids);
ab_status linen_outer_layers_vjp(struct linen_outer_layers *self, const struct linen_scope *root,
                                 const struct linen_scope *cotangents, void *dx, const void *dy);
ab_status linen_outer_layers_leaves(const struct linen_outer_layers *self, const struct linen_scope *root,
                                    ab_leaf_fn fn, void *ctx);

struct linen_decoder {
  struct linen_module base;
  const struct ab_config *config;
  const struct ab_exec *exec;
  bool pipelined;
  const struct linen_pipeline_hook *hook; /* makes and runs pipeline_module */
  struct linen_module *pipeline_module;   /* exec->book */
  struct linen_outer_layers layers;
  struct linen_unary decoder_norm, logits_dense;
  void *piped, *top, *normed, *rstd; /* one pass: out of the pipeline, of the last layer, of the norm */
};
ab_status linen_decoder_new(struct linen_decoder *self, struct linen_module *parent, const char *name,
                            const struct ab_config *config, const struct ab_exec *exec,
                            const struct linen_pipeline_hook *hook);
/* logits [T, V] from embedded tokens x [T, E]; keeps its residuals in exec->arena. */
ab_status linen_decoder_call(struct linen_decoder *self, const struct linen_scope *root, void *logits, const void *x,
                             const int32_t *positions, const int32_t *segment_ids);
/* dx[T, E] from the cotangent of the logits. */
ab_status linen_decoder_vjp(struct linen_decoder *self, const struct linen_scope *root,
                            const struct linen_scope *cotangents, void *dx, const void *d_logits);

struct linen_transformer {
  struct linen_module base;
  const struct ab_config *config;
  struct ab_exec exec;
  struct linen_unary token_embedder;
  struct linen_decoder decoder;
  struct linen_state state;
};
