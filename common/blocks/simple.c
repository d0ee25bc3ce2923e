#include "block_ops.h"

/* models/simple_layer.py: SimpleDecoderLayer, SimpleMlpDecoderLayer: matrix products and nothing else. */

static size_t no_scratch(const struct ab_layer_dims *dims, const struct ab_kernels *k) {
  (void)dims;
  (void)k;
  return 0;
}

enum { X, SIMPLE_OUT };

static const struct ab_slot simple_slots[] = {
    [X] = {.name = "decoder_layer_input", .count = ab_slot_emb},
    [SIMPLE_OUT] = {.name = "layer_output", .count = ab_slot_emb},
};

static const struct ab_param simple_params[] = {
    {"weights", {AB_AXIS_EMB, AB_AXIS_EMB}, {"embed", "mlp"}, AB_INIT_TRUNCATED, 1, false},
};

static const struct ab_op simple_ops[] = {
    AB_DENSE("weights", X, SIMPLE_OUT, 0),
};

const struct ab_block ab_block_simple = {
    .name = "simple",
    .polynomial = true,
    .slot_count = 2,
    .param_count = 1,
    .op_count = 1,
    .output = SIMPLE_OUT,
    .slot = simple_slots,
    .param = simple_params,
    .op = simple_ops,
    .scratch = no_scratch,
};

enum { HIDDEN = 1, MLP_OUT };

static const struct ab_slot mlp_slots[] = {
    [X] = {.name = "decoder_layer_input", .count = ab_slot_emb},
    [HIDDEN] = {.name = "ff_1_out", .count = ab_slot_mlp},
    [MLP_OUT] = {.name = "layer_output", .count = ab_slot_emb},
};

static const struct ab_param mlp_params[] = {
    {"ff_1", {AB_AXIS_EMB, AB_AXIS_MLP}, {"embed", "mlp"}, AB_INIT_TRUNCATED, 1, false},
    {"ff_2", {AB_AXIS_MLP, AB_AXIS_EMB}, {"mlp", "embed"}, AB_INIT_TRUNCATED, 1, false},
};

static const struct ab_op mlp_ops[] = {
    AB_DENSE("ff_1", X, HIDDEN, 0),
    AB_DENSE("ff_2", HIDDEN, MLP_OUT, 1),
};

const struct ab_block ab_block_simple_mlp = {
    .name = "simple_mlp",
    .polynomial = true,
    .slot_count = 3,
    .param_count = 2,
    .op_count = 2,
    .output = MLP_OUT,
    .slot = mlp_slots,
    .param = mlp_params,
    .op = mlp_ops,
    .scratch = no_scratch,
};
