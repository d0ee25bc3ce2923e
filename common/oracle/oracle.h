/* The oracle: the model applied layer after layer, the truth both engines are held to.
 *
 * In float32 it runs, inside the span that the pipeline covers, each microbatch (rows m b .. (m+1) b - 1) by itself
 * with the engines' own kernel calls: forward m = 0 .. M-1 through all layers, backward from the last microbatch to
 * the first, onto accumulators that start at +0. So it gives the same bits as the per-iteration engines, and with
 * pipeline_fsdp_ag_per_repeat, where it sums microbatches in two chains, as the circular ones.
 * Outside the span - embedding, layers after the pipeline, decoder_norm, logits, loss - it runs the whole batch at
 * once, as they do. In float64 it runs the whole batch at once everywhere. upstream_faithful=B1: the cells of stages
 * >= 2 run with the weights that the real engines give them. Numerics: MaxText models/models.py,
 * layers/nnx_decoders.py.
 */
#pragma once

#include "model.h"

/* The table's dtype chooses: float64 whole batch, all others by microbatch. */
extern const struct ab_model_ops ab_oracle_model_ops;
extern const struct ab_pipeline_ops ab_oracle_pipeline_ops;

/* One way or the other, whatever the dtype. */
extern const struct ab_model_ops ab_oracle_model_ops_by_microbatch, ab_oracle_model_ops_whole_batch;
extern const struct ab_pipeline_ops ab_oracle_pipeline_ops_by_microbatch, ab_oracle_pipeline_ops_whole_batch;
