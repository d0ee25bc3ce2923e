/* What a remat policy keeps from forward to backward, where, and what of it is computed again. layers/nnx_decoders.py:
 * get_remat_policy, layers/pipeline.py: get_pipeline_remat_policy.
 */
#pragma once

#include "block.h"

/* A set of slots that forward keeps for backward; bit i = slot i. AB_KEEP_NONE is remat_policy `full`: all is
 * recomputed from x. AB_KEEP_ALL recomputes nothing. */
typedef uint32_t ab_keep;
#define AB_KEEP_NONE ((ab_keep)0)
#define AB_KEEP_ALL (~(ab_keep)0)

/* What becomes of the inputs of a stage's K layers, of which the first is the iteration's input. A policy with a fixed
 * set of names also keeps `iteration_input` and `decoder_layer_input`, two names of one tensor in the first layer,
 * which real programs were measured to store once. `custom` adds neither: `decoder_layer_input` follows its key.
 *
 * |            | residual/       | residual/           | host/               |                                       |
 * |            | iteration_input | decoder_layer_input | decoder_layer_input |                                       |
 * |------------|-----------------|---------------------|---------------------|---------------------------------------|
 * | ONCE       | A               | (K-1) A             |                     | fixed policies, no rematerialisation  |
 * | TWICE      | A               | K A                 |                     | the same under upstream_faithful=B29  |
 * | BY_NAME    |                 | K A                 |                     | custom, device                        |
 * | OFFLOADED  |                 |                     | K A                 | custom, offload                       |
 * | RECOMPUTED | A               |                     |                     | custom, remat                         |
 *
 * RECOMPUTED: what no name keeps is computed again from the inputs of the checkpointed function, which are residuals
 * always. The function is the whole iteration, so JAX then saves the loop state; here its part that is read, the
 * stage's input, stays, and the inputs of layers 1 .. K-1 come from ab_layer_replay of the layers before them. With
 * set_remat_policy_on_layers_per_stage and no remat of iterations the function is one layer, so `remat` is ONCE.
 * TWICE stores a real copy, which the first layer reads. A block without the name (simple, simple_mlp) is always
 * ONCE. */
enum ab_inputs { AB_INPUTS_ONCE, AB_INPUTS_TWICE, AB_INPUTS_BY_NAME, AB_INPUTS_OFFLOADED, AB_INPUTS_RECOMPUTED };

struct ab_remat {
  ab_keep keep;    /* slots that stay from forward to backward, in device or host memory */
  ab_keep offload; /* those of them that stay on the host */
  enum ab_inputs inputs;
};

/* The sets of a policy with fixed names: "full" and "none" here mean what get_remat_policy makes of them inside a
 * pipeline iteration. checkpointed: false keeps everything. AB_ECONFIG names an unknown policy. */
ab_status ab_remat_fixed(struct ab_remat *out, const struct ab_block *block, const char *remat_policy,
                         bool checkpointed);
/* From a config: of a layer inside the pipeline. Checkpointed with set_remat_policy_on_pipeline_iterations, and in
 * circular pipelines always; without it with set_remat_policy_on_layers_per_stage, layer by layer. Where iterations are
 * rematerialised, that flag changes nothing here: recomputation goes layer by layer anyway, each from its input. */
ab_status ab_remat_pipeline(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config);
/* Of a layer outside it (whole batch), always ONCE: policy `none` on unscanned layers means no checkpoint at all. */
ab_status ab_remat_outside(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config);
