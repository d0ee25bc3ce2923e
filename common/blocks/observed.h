/* Names under which every side reports what it computed: the contract that lets engines and oracle be joined.
 *
 * | name                  | phase    | microbatch | layer | level  | value                                        |
 * |-----------------------|----------|------------|-------|--------|----------------------------------------------|
 * | AB_OBS_EMBEDDING      | FORWARD  | -1         | -1    | STATE  | [B, L, E] rows of the embedding              |
 * | AB_OBS_INPUTS         | FORWARD  | -1         | -1    | STATE  | [B, L, E] what enters the pipeline           |
 * | AB_OBS_OUTPUTS        | FORWARD  | -1         | -1    | STATE  | [B, L, E] what leaves the pipeline           |
 * | AB_OBS_DECODER_NORM   | FORWARD  | -1         | -1    | STATE  | [B, L, E] normalised final activations       |
 * | AB_OBS_LOGITS         | FORWARD  | -1         | -1    | STATE  | [B, L, V]                                    |
 * | AB_OBS_D_LOGITS       | BACKWARD | -1         | -1    | STATE  | [B, L, V] cotangent of the logits            |
 * | AB_OBS_D_DECODER_NORM | BACKWARD | -1         | -1    | STATE  | [B, L, E] cotangent of decoder_norm's output |
 * | AB_OBS_D_OUTPUTS      | BACKWARD | -1         | -1    | STATE  | [B, L, E] cotangent of pipeline/outputs      |
 * | AB_OBS_D_INPUTS       | BACKWARD | -1         | -1    | STATE  | [B, L, E] cotangent of pipeline/inputs       |
 * | AB_OBS_LOSS           | FORWARD  | -1         | -1    | STATE  | [1] loss of a bundle of kind engine, M61     |
 * | AB_OBS_SOWN<name>     | FORWARD  | -1         | layer | STATE  | [1] sown metric of a layer: sown.h           |
 * | AB_OBS_INPUT_PARAMS   | FORWARD  | -1         | layer | STATE  | and a parameter's name: its initial values   |
 * | AB_OBS_INPUT_BATCH    | FORWARD  | -1         | -1    | STATE  | and an array's name: of the first batch      |
 * | AB_OBS_STATE          | UPDATE   | -1         | -1    | STATE  | "step", "count" [1] I32, after an update     |
 * | a slot's name         | any      | m          | layer | DIGEST | by the runner: layer.h                       |
 *
 * All rows but the last go through ab_probe_observe with where = {-1, -1, -1, false}, outside any parallel region. Rows
 * in the batch's order, each name once per pass. A model without pipeline reports no pipeline/ names; its layers, like
 * the layers outside the pipeline, run on the whole batch and carry microbatch -1 and their layer number. Layers inside
 * the pipeline carry the microbatch m (rows m b .. (m+1) b - 1), their layer number (r S + s) K + k, and iteration,
 * stage and repeat in `where`. AB_OBS_INPUTS, OUTPUTS, D_OUTPUTS, D_INPUTS are reported by the pipeline, AB_OBS_LOSS by
 * who runs it, AB_OBS_SOWN by who runs the layer, the others by the decoder.
 *
 * Inputs are reported before step 0, as step -1, by who loads them: where they differ, all that follows does.
 * Parameters, gradients, state and metrics are reported by the training loop from the leaves of a side, never by
 * the side.
 *
 * Counters: "execute" (runner's caller; one per real cell of a layer or stage), "recompute/<op>" (runner), "bubble" (an
 * engine's bubble cell, computed or skipped), and bytes that stay from forward to backward. A is the bytes of one
 * activation [rows, L, E] of a microbatch, P those of one stage's weights of one repeat, K the layers of a stage:
 *
 * | name                         | who counts, in forward     | bytes                                                 |
 * |------------------------------|----------------------------|-------------------------------------------------------|
 * | residual/iteration_input     | engine, every cell         | A or 0: struct ab_remat                               |
 * | residual/decoder_layer_input | engine, every cell         | (K-1) A, K A or 0: struct ab_remat                    |
 * | host/decoder_layer_input     | engine, every cell         | K A or 0: struct ab_remat                             |
 * | residual/<slot>              | ab_layer_count_residuals,  | each slot kept on the device, K of them               |
 * | host/<slot>                  | every cell                 | each slot kept on the host, K of them                 |
 * | residual/weights             | engine, every cell         | P where iterations are not rematerialised and R > 1;  |
 * |                              |                            | else 0. R = 1 selects nothing: its weights are params |
 * |                              | at the fetch, with         | P per (repeat, stage), whatever else is asked for;    |
 * |                              | pipeline_fsdp_ag_once      | nothing per cell                                      |
 * | residual/w_curr              | circular engine, windows   | P per stage: what window k + 1 and the drain take as  |
 * |                              | 0 .. R-1                   | w_curr: R P                                           |
 * | residual/w_next              | NNX, windows 0 .. R-1      | P per stage where windows are not rematerialised (B13 |
 * |                              |                            | and no iteration remat), else 0: 2 R P with w_curr    |
 * | offload/out/<name>           | runner; engine for         | copied to the host by each layer that runs            |
 * | offload/back/<name>          | decoder_layer_input        | and back for its backward (or its ab_layer_replay)    |
 *
 * Rng positions, once per (repeat, stage) of a pipeline that carries streams of its own (NNX: "dropout"), when its
 * forward has ended: "rng/key/0" and "rng/key/1", the words of the key, and "rng/count", the draws from it.
 *
 * "Every cell" is all T iterations of all stages, bubbles included (where.bubble) whether they run or not: the real
 * code runs them and its residuals are stacked over T, so that `full` is T K A and `minimal` T rows L K (2 E + H D +
 * 2 kv D + 2 mlp) floats per stage. One counter per name and cell, under the cell's identity, not recorded where it is
 * 0. Layers outside the pipeline report none but offload/. The oracle, which has no iterations, neither. Host bytes are
 * never in a residual/ counter.
 */
#pragma once

#define AB_OBS_EMBEDDING "embeddings"
#define AB_OBS_INPUTS "pipeline/inputs"
#define AB_OBS_OUTPUTS "pipeline/outputs"
#define AB_OBS_DECODER_NORM "decoder_norm"
#define AB_OBS_LOGITS "logits"
#define AB_OBS_LOSS "loss"
#define AB_OBS_SOWN "intermediates/"
#define AB_OBS_INPUT_PARAMS "input/params/"
#define AB_OBS_INPUT_BATCH "input/batch/"
#define AB_OBS_STATE "state/"
#define AB_OBS_D_LOGITS "d_logits"
#define AB_OBS_D_DECODER_NORM "d_decoder_norm"
#define AB_OBS_D_OUTPUTS "pipeline/d_outputs"
#define AB_OBS_D_INPUTS "pipeline/d_inputs"

#define AB_COUNT_EXECUTE "execute"
#define AB_COUNT_RECOMPUTE "recompute/"
#define AB_COUNT_BUBBLE "bubble"
#define AB_COUNT_RESIDUAL "residual/"
#define AB_COUNT_HOST "host/"
#define AB_COUNT_OFFLOAD_OUT "offload/out/"
#define AB_COUNT_OFFLOAD_BACK "offload/back/"
#define AB_COUNT_ITERATION_INPUT "residual/iteration_input"
#define AB_COUNT_LAYER_INPUT "residual/decoder_layer_input"
#define AB_COUNT_HOST_LAYER_INPUT "host/decoder_layer_input"
#define AB_COUNT_LAYER_INPUT_OUT "offload/out/decoder_layer_input"
#define AB_COUNT_LAYER_INPUT_BACK "offload/back/decoder_layer_input"
#define AB_COUNT_WEIGHTS "residual/weights"
#define AB_COUNT_W_CURR "residual/w_curr"
#define AB_COUNT_W_NEXT "residual/w_next"
#define AB_COUNT_RNG "rng/"
#define AB_COUNT_RNG_KEY_0 "rng/key/0"
#define AB_COUNT_RNG_KEY_1 "rng/key/1"
#define AB_COUNT_RNG_COUNT "rng/count"
