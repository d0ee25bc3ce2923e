#include "block_ops.h"

/* models/llama2.py: LlamaDecoderLayer. No 1/sqrt(head_dim) at run time: it is folded into the query kernel's initial
 * values (layers/attentions.py: init_query_w). */

enum {
  X, PRE_RSTD, PRE_NORM, ROPE_TABLE, QUERY_RAW, KEY_RAW, VALUE, QUERY, KEY, ROW_MAX, ROW_SUM, CORE, OUT_PROJ, RESIDUAL,
  POST_RSTD, POST_NORM, WI_0, WI_1, HIDDEN, WO, OUTPUT, SLOTS
};

#define KEPT(slot_name, extent) {.name = (slot_name), .checkpoint = true, .count = (extent)}
#define PLAIN(slot_name, extent) {.name = (slot_name), .count = (extent)}
#define STATS(slot_name, extent) {.name = (slot_name), .internal = true, .count = (extent)}

static const struct ab_slot slots[SLOTS] = {
    [X] = KEPT("decoder_layer_input", ab_slot_emb),
    [PRE_RSTD] = STATS("pre_norm_rstd", ab_slot_tokens),
    [PRE_NORM] = PLAIN("pre_norm", ab_slot_emb),
    [ROPE_TABLE] = STATS("rope_table", ab_slot_rope),
    [QUERY_RAW] = PLAIN("query_raw", ab_slot_query),
    [KEY_RAW] = PLAIN("key_raw", ab_slot_key),
    [VALUE] = KEPT("value_proj", ab_slot_key),
    [QUERY] = KEPT("query_proj", ab_slot_query),
    [KEY] = KEPT("key_proj", ab_slot_key),
    [ROW_MAX] = STATS("attention_max", ab_slot_head_rows),
    [ROW_SUM] = STATS("attention_sum", ab_slot_head_rows),
    [CORE] = PLAIN("attention_core", ab_slot_query),
    [OUT_PROJ] = KEPT("out_proj", ab_slot_emb),
    [RESIDUAL] = PLAIN("attention_residual", ab_slot_emb),
    [POST_RSTD] = STATS("post_norm_rstd", ab_slot_tokens),
    [POST_NORM] = PLAIN("post_norm", ab_slot_emb),
    [WI_0] = KEPT("mlpwi_0", ab_slot_mlp),
    [WI_1] = KEPT("mlpwi_1", ab_slot_mlp),
    [HIDDEN] = PLAIN("mlp_hidden", ab_slot_mlp),
    [WO] = KEPT("mlpwo", ab_slot_emb),
    [OUTPUT] = PLAIN("layer_output", ab_slot_emb),
};

enum { P_PRE_NORM, P_QUERY, P_KEY, P_VALUE, P_OUT, P_POST_NORM, P_WI_0, P_WI_1, P_WO, PARAMS };

static const struct ab_param params[PARAMS] = {
    [P_PRE_NORM] = {"pre_self_attention_layer_norm/scale", {AB_AXIS_EMB}, {"norm"}, AB_INIT_ONES, 0, false},
    [P_QUERY] = {"self_attention/query/kernel", {AB_AXIS_EMB, AB_AXIS_HEADS, AB_AXIS_HEAD_DIM},
                 {"embed", "q_heads", "kv"}, AB_INIT_NORMAL, 1, true},
    [P_KEY] = {"self_attention/key/kernel", {AB_AXIS_EMB, AB_AXIS_KV_HEADS, AB_AXIS_HEAD_DIM},
               {"embed", "kv_heads", "kv_head_dim"}, AB_INIT_NORMAL, 1, false},
    [P_VALUE] = {"self_attention/value/kernel", {AB_AXIS_EMB, AB_AXIS_KV_HEADS, AB_AXIS_HEAD_DIM},
                 {"embed", "kv_heads", "kv_head_dim"}, AB_INIT_NORMAL, 1, false},
    [P_OUT] = {"self_attention/out/kernel", {AB_AXIS_HEADS, AB_AXIS_HEAD_DIM, AB_AXIS_EMB},
               {"heads", "kv", "embed"}, AB_INIT_NORMAL, 2, false},
    [P_POST_NORM] = {"post_self_attention_layer_norm/scale", {AB_AXIS_EMB}, {"norm"}, AB_INIT_ONES, 0, false},
    [P_WI_0] = {"mlp/wi_0/kernel", {AB_AXIS_EMB, AB_AXIS_MLP}, {"embed", "mlp"}, AB_INIT_TRUNCATED, 1, false},
    [P_WI_1] = {"mlp/wi_1/kernel", {AB_AXIS_EMB, AB_AXIS_MLP}, {"embed", "mlp"}, AB_INIT_TRUNCATED, 1, false},
    [P_WO] = {"mlp/wo/kernel", {AB_AXIS_MLP, AB_AXIS_EMB}, {"mlp", "embed"}, AB_INIT_TRUNCATED, 1, false},
};

#define BIT(slot) (1u << (slot))

#define NORM(op_name, input_slot, output_slot, rstd, parameter)                                                \
  {                                                                                                            \
    .name = (op_name), .forward = ab_op_norm, .input = ab_op_norm_input, .weight = ab_op_norm_weight,          \
    .in = {(input_slot), -1}, .out = {(output_slot), (rstd), -1}, .param = {(parameter), -1},                  \
    .input_needs = BIT(input_slot) | BIT(rstd), .weight_needs = BIT(input_slot) | BIT(rstd)                    \
  }
#define RESIDUAL_ADD(op_name, a, b, sum)                                                                       \
  {                                                                                                            \
    .name = (op_name), .forward = ab_op_residual, .input = ab_op_residual_input, .in = {(a), (b), -1},         \
    .out = {(sum), -1}, .param = {-1}, .adds = true                                                            \
  }

static const struct ab_op ops[] = {
    NORM("pre_norm", X, PRE_NORM, PRE_RSTD, P_PRE_NORM),
    AB_DENSE("query", PRE_NORM, QUERY_RAW, P_QUERY),
    AB_DENSE("key", PRE_NORM, KEY_RAW, P_KEY),
    AB_DENSE("value", PRE_NORM, VALUE, P_VALUE),
    {.name = "rope_table", .forward = ab_op_rope_table, .in = {-1}, .out = {ROPE_TABLE, -1}, .param = {-1}},
    {.name = "rope_query", .forward = ab_op_rope_query, .input = ab_op_rope_query_input,
     .in = {QUERY_RAW, ROPE_TABLE, -1}, .out = {QUERY, -1}, .param = {-1}, .input_needs = BIT(ROPE_TABLE)},
    {.name = "rope_key", .forward = ab_op_rope_key, .input = ab_op_rope_key_input, .in = {KEY_RAW, ROPE_TABLE, -1},
     .out = {KEY, -1}, .param = {-1}, .input_needs = BIT(ROPE_TABLE)},
    {.name = "attention", .forward = ab_op_attention, .input = ab_op_attention_input, .in = {QUERY, KEY, VALUE, -1},
     .out = {CORE, ROW_MAX, ROW_SUM, -1}, .param = {-1},
     .input_needs = BIT(QUERY) | BIT(KEY) | BIT(VALUE) | BIT(CORE) | BIT(ROW_MAX) | BIT(ROW_SUM)},
    AB_DENSE("out", CORE, OUT_PROJ, P_OUT),
    RESIDUAL_ADD("attention_residual", X, OUT_PROJ, RESIDUAL),
    NORM("post_norm", RESIDUAL, POST_NORM, POST_RSTD, P_POST_NORM),
    AB_DENSE("wi_0", POST_NORM, WI_0, P_WI_0),
    AB_DENSE("wi_1", POST_NORM, WI_1, P_WI_1),
    {.name = "swiglu", .forward = ab_op_swiglu, .input = ab_op_swiglu_input, .in = {WI_0, WI_1, -1},
     .out = {HIDDEN, -1}, .param = {-1}, .input_needs = BIT(WI_0) | BIT(WI_1)},
    AB_DENSE("wo", HIDDEN, WO, P_WO),
    RESIDUAL_ADD("mlp_residual", RESIDUAL, WO, OUTPUT),
};

static size_t scratch(const struct ab_layer_dims *dims, const struct ab_kernels *k) {
  struct ab_attention_dims d = ab_op_attention_dims(dims);
  return k->attention_work(&d);
}

const struct ab_block ab_block_llama2 = {
    .name = "llama2",
    .slot_count = SLOTS,
    .param_count = PARAMS,
    .op_count = sizeof ops / sizeof ops[0],
    .output = OUTPUT,
    .slot = slots,
    .param = params,
    .op = ops,
    .scratch = scratch,
};
