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
 * | a slot's name         | any      | m          | layer | DIGEST | by the runner: layer.h                       |
 *
 * All rows but the last go through ab_probe_observe with where = {-1, -1, -1, false}, outside any parallel region. Rows
 * in the batch's order, each name once per pass. A model without pipeline reports no pipeline/ names; its layers, like
 * the layers outside the pipeline, run on the whole batch and carry microbatch -1 and their layer number. Layers inside
 * the pipeline carry the microbatch m (rows m b .. (m+1) b - 1), their layer number (r S + s) K + k, and iteration,
 * stage and repeat in `where`. AB_OBS_INPUTS, OUTPUTS, D_OUTPUTS, D_INPUTS are reported by the pipeline, AB_OBS_LOSS by
 * who runs it, AB_OBS_SOWN by who runs the layer, the others by the decoder.
 *
 * Parameters, gradients and metrics are reported by the training loop from the leaves of a side, never by the side.
 *
 * Counters: "execute" (runner's caller; one per real cell of a layer or stage), "recompute/<op>" (runner), "bubble" (an
 * engine's bubble cell, computed or skipped).
 */
#pragma once

#define AB_OBS_EMBEDDING "embeddings"
#define AB_OBS_INPUTS "pipeline/inputs"
#define AB_OBS_OUTPUTS "pipeline/outputs"
#define AB_OBS_DECODER_NORM "decoder_norm"
#define AB_OBS_LOGITS "logits"
#define AB_OBS_LOSS "loss"
#define AB_OBS_SOWN "intermediates/"
#define AB_OBS_D_LOGITS "d_logits"
#define AB_OBS_D_DECODER_NORM "d_decoder_norm"
#define AB_OBS_D_OUTPUTS "pipeline/d_outputs"
#define AB_OBS_D_INPUTS "pipeline/d_inputs"

#define AB_COUNT_EXECUTE "execute"
#define AB_COUNT_RECOMPUTE "recompute/"
#define AB_COUNT_BUBBLE "bubble"
