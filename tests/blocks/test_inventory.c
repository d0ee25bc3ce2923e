/* Tables and inventory: the parameters of a model in canonical order. */
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "tap.h"

static char llama2[] = "llama2", unknown[] = "lama2";

static struct ab_config config_of(char *block) {
  return (struct ab_config){.decoder_block = block, .emb_dim = 8, .num_query_heads = 4, .num_kv_heads = 2,
                            .head_dim = 6, .mlp_dim = 10, .num_decoder_layers = 3, .vocab_size = 12,
                            .max_target_length = 5, .pipelined = true, .pipeline_parallel_layers = 2};
}

START_TEST(test_whole_model) {
  struct ab_config config = config_of(llama2);
  struct ab_inventory inventory;
  ck_ok(ab_inventory_new(&inventory, &config, false));
  ck_assert_uint_eq(inventory.rows, 1 + 3 * 9 + 2);
  ck_assert_str_eq(inventory.row[0].param->name, "token_embedder/embedding");
  ck_assert_int_eq(inventory.row[1].layer, 0);
  ck_assert_str_eq(inventory.row[28].param->name, "decoder/decoder_norm/scale");
  ck_assert_str_eq(inventory.row[29].param->name, "decoder/logits_dense/kernel");
  size_t layer = 8 * 24 + 2 * 8 * 12 + 24 * 8 + 3 * 80 + 2 * 8;
  ck_assert_uint_eq(inventory.elements, 2 * 12 * 8 + 8 + 3 * layer);
  ab_inventory_free(&inventory);
}
END_TEST

START_TEST(test_layers_only) {
  struct ab_config config = config_of(llama2);
  struct ab_inventory inventory;
  ck_ok(ab_inventory_new(&inventory, &config, true));
  ck_assert_uint_eq(inventory.rows, 2 * 9);
  ck_assert_int_eq(inventory.row[17].layer, 1);
  ab_inventory_free(&inventory);
  config = config_of(unknown);
  ck_fails(ab_inventory_new(&inventory, &config, true), AB_ECONFIG, "lama2");
  ab_status_clear();
}
END_TEST

/* MaxText's shape and logical axes of the parameters of one llama2 layer (model.md 6.1). */
static const char *const llama2_rows[] = {
    "pre_self_attention_layer_norm/scale [8] norm",
    "self_attention/query/kernel [8, 4, 6] embed q_heads kv",
    "self_attention/key/kernel [8, 2, 6] embed kv_heads kv_head_dim",
    "self_attention/value/kernel [8, 2, 6] embed kv_heads kv_head_dim",
    "self_attention/out/kernel [4, 6, 8] heads kv embed",
    "post_self_attention_layer_norm/scale [8] norm",
    "mlp/wi_0/kernel [8, 10] embed mlp",
    "mlp/wi_1/kernel [8, 10] embed mlp",
    "mlp/wo/kernel [10, 8] mlp embed",
};

START_TEST(test_llama2_parameters) {
  struct ab_config config = config_of(llama2);
  struct ab_layer_dims dims = ab_layer_dims_of(&config, 1);
  const struct ab_param *param = &ab_block_find("llama2")->param[_i];
  char shape[64], text[256];
  struct ab_shape s = ab_param_shape(param, &dims);
  ab_shape_print(shape, sizeof shape, &s);
  size_t used = (size_t)snprintf(text, sizeof text, "%s %s", param->name, shape);
  for (int i = 0; i < s.rank; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, " %s", param->logical[i]);
  ck_assert_str_eq(text, llama2_rows[_i]);
}
END_TEST

/* Operators stand in execution order, read what was written before, and every slot is written once. */
START_TEST(test_tables_are_sound) {
  const struct ab_block *block = ab_blocks[_i];
  uint32_t written = 1;
  ck_assert_int_le(block->slot_count, AB_MAX_SLOTS);
  ck_assert_int_le(block->op_count, AB_MAX_OPS);
  ck_assert_int_le(block->param_count, AB_MAX_PARAMS);
  for (int i = 0; i < block->op_count; i++) {
    const struct ab_op *op = &block->op[i];
    for (int j = 0; j < 4 && op->in[j] >= 0; j++)
      ck_assert_msg(written >> op->in[j] & 1, "%s reads %s too early", op->name, block->slot[op->in[j]].name);
    for (int j = 0; j < 4 && op->out[j] >= 0; j++) {
      ck_assert_msg(!(written >> op->out[j] & 1), "%s writes %s again", op->name, block->slot[op->out[j]].name);
      written |= 1u << op->out[j];
    }
    ck_assert_msg((op->weight != NULL) == (op->param[0] >= 0), "%s: parameters and weight part", op->name);
  }
  ck_assert_uint_eq(written, (1u << block->slot_count) - 1);
}
END_TEST

START_TEST(test_paths) {
  char text[96];
  ab_canonical_path(text, sizeof text, 7, "self_attention/query/kernel");
  ck_assert_str_eq(text, "layers/7/self_attention/query/kernel");
  ab_canonical_path(text, sizeof text, -1, "token_embedder/embedding");
  ck_assert_str_eq(text, "token_embedder/embedding");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("inventory");
  TCase *tc = tcase_create("inventory");
  tcase_add_test(tc, test_whole_model);
  tcase_add_test(tc, test_layers_only);
  tcase_add_loop_test(tc, test_llama2_parameters, 0, 9);
  tcase_add_loop_test(tc, test_tables_are_sound, 0, 3);
  tcase_add_test(tc, test_paths);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
