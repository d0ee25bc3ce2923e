/* NNXDecoder around the pipeline: MaxText layers/nnx_decoders.py, and models/models.py: Transformer for the root.
 * Everything outside the pipeline runs on the whole batch, the pipeline first, then the remaining layers.
 */
#pragma once

#include "loss.h"
#include "pipeline.h"

struct nnx_decoder {
  struct ab_exec exec;
  const struct ab_config *config;
  struct ab_layer_dims dims;     /* of the whole batch */
  struct nnx_pipeline *pipeline; /* NULL: unpipelined */
  struct nnx_stack stack;        /* the layers after the pipeline, or all of them; count may be 0 */
  struct ab_layer plan;
  int first_layer;
  struct nnx_stack_residual residual;
  struct nnx_stack_work work;
  void *accumulator;             /* strided cotangents of one layer */
  /* activations of a step: [B, L, E], rstd [B L], logits [B, L, V]; two cotangents by turns */
  void *embedded, *piped, *top, *normed, *rstd, *logits, *cotangent[2];
};

/* The root module Transformer with token_embedder and decoder; abstract, in exec->book. */
ab_status nnx_decoder_new(struct nnx_decoder **out, struct nnx_node **root, const struct ab_config *config,
                          const struct ab_exec *exec);
/* Logits stay in the decoder. Takes what the pullback needs from exec->arena and exec->book. */
ab_status nnx_decoder_forward(struct nnx_decoder *decoder, const struct nnx_node *root, const struct ab_batch *batch);
/* decoder->logits holds their cotangents. Accumulates into droot, which holds zeros. */
ab_status nnx_decoder_pullback(struct nnx_decoder *decoder, const struct nnx_node *root, const struct nnx_node *droot,
                               const struct ab_batch *batch);
ab_status nnx_decoder_leaves(const struct nnx_decoder *decoder, const struct nnx_state *params, ab_leaf_fn fn,
                             void *ctx);
