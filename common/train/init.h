/* Initial weights: ours, the same for every route, whatever layout it keeps them in.
 *
 * One key per (layer, canonical parameter name), drawn unstacked in row-major order of the parameter's own shape:
 *
 *   key = fold_in(fold_in(jax.random.key(init_weights_seed), fnv1a32(name)), layer + 1)
 *
 * with layer -1 outside the layers and fnv1a32 the 32-bit FNV-1a hash of the name's bytes ("mlp/wo/kernel"). Values are
 * float32, as jax.nn.initializers.variance_scaling(1.0, "fan_in", ...) gives them: normal times sqrt(1/fan_in), or
 * truncated_normal(-2, 2) times sqrt(1/fan_in) / 0.87962566103423978; the query kernel is then divided by
 * sqrt(head_dim) (MaxText layers/attentions.py: init_query_w). Tables of another dtype start from the same float32
 * values.
 */
#pragma once

#include "leaves.h"

/* The values of one parameter: out [ab_param_count] in row-major order. */
void ab_init_draw(float *out, const struct ab_param *param, const struct ab_layer_dims *dims, int64_t seed, int layer);
/* Sets all parameters of a side from config->init_weights_seed. Not during a step (allocates). */
ab_status ab_init_weights(const struct ab_side *side, const struct ab_config *config, const struct ab_kernels *kernels);
