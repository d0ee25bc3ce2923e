/* Stacked layouts: every bundle's tree, and where each layer's elements stand in it. */
#include "bundle_case.h"

/* Adds 1 to every element of a window. */
static ab_status visit(void *ctx, int layer, const char *name, const struct ab_view *view) {
  size_t *visited = ctx;
  float packed[1 << 14];
  (void)layer, (void)name;
  ck_assert_uint_le(ab_view_count(view), 1 << 14);
  ab_view_pack(packed, view);
  for (size_t i = 0; i < ab_view_count(view); i++) packed[i] += 1.0f;
  ab_view_unpack(view, packed);
  *visited += ab_view_count(view);
  return AB_OK;
}

/* The windows of all layers tile the tree: each element is in exactly one. */
static void check_windows(const struct ab_bundle *bundle) {
  struct ab_tree *tree;
  size_t visited = 0, elements = 0, once = 0;
  ck_ok(ab_layout_tree(&tree, &bundle->layout, AB_F32));
  ck_ok(each_window(&bundle->layout, tree, bundle->config, !bundle->train, visit, &visited));
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    const struct ab_tensor *tensor = ab_tree_at(tree, i);
    for (size_t j = 0; j < tensor->count; j++) once += ((const float *)tensor->data)[j] == 1.0f;
    elements += tensor->count;
  }
  ck_assert_uint_eq(visited, elements);
  ck_assert_uint_eq(once, elements);
  ab_tree_free(tree);
}

/* Opening a bundle checks its paths, shapes and dtypes against the layout, all of them. */
START_TEST(every_bundle_has_the_layout_of_its_config) {
  char path[512];
  struct ab_config *config = case_config(main_cases()[_i]);
  struct ab_bundle *bundle;
  struct ab_results results;
  case_path(path, main_cases()[_i], "");
  ck_ok(ab_bundle_open(&bundle, path, config));
  ck_ok(ab_bundle_expect(&results, bundle));
  ck_assert_uint_eq(ab_tree_size(bundle->params), bundle->layout.leaves);
  ck_assert_uint_eq(ab_tree_size(results.grads), bundle->layout.leaves);
  ck_ok(ab_layout_check(&bundle->layout, bundle->params, AB_F32, path));
  check_windows(bundle);
  ab_results_free(&results);
  ab_bundle_free(bundle);
  ab_config_free(config);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, 0);
}
END_TEST

/* One element of one layer's parameter, and where it must stand. index: of the stacked tensor. */
static const struct {
  const char *name, *param, *path;
  int layer;
  int64_t own[3], index[6];
  int own_rank, rank;
} places[] = {
    /* R = 1, K = 1: [S, a0, a1] */
    {"p02_simple", "weights", "layers/weights", 3, {2, 5}, {3, 2, 5}, 2, 3},
    /* R = 2, S = 4: layer 6 is repeat 1, stage 2 */
    {"p04_llama2",
     "self_attention/key/kernel",
     "layers/self_attention/key/kernel",
     6,
     {1, 1, 7},
     {1, 2, 1, 1, 7},
     3,
     5},
    /* R = 2, S = 2, K = 2 sequential: layer 5 = (1 2 + 0) 2 + 1 */
    {"p10_simple_mlp", "ff_2", "layers/layers_1/ff_2", 5, {3, 4}, {1, 0, 3, 4}, 2, 4},
    /* R = 2, S = 2, K = 2 scanned: layer 7 = (1 2 + 1) 2 + 1 */
    {"p09_simple_mlp", "ff_1", "layers_per_stage/ff_1", 7, {3, 4}, {1, 1, 3, 1, 4}, 2, 5},
    {"p09_llama2",
     "pre_self_attention_layer_norm/scale",
     "layers_per_stage/pre_self_attention_layer_norm/scale",
     2,
     {9},
     {0, 1, 9, 0},
     1,
     4},
    /* K = 2, R = 1 sequential in a whole model */
    {"t17", "mlp/wo/kernel", "decoder/pipeline_module/layers/layers_0/mlp/wo/kernel", 2, {8, 9}, {1, 8, 9}, 2, 3},
    /* R = 1, scanned stage in a whole model; 2 layers after the pipeline */
    {"t03b", "mlp/wi_0/kernel", "decoder/layers_per_stage/mlp/wi_0/kernel", 3, {8, 9}, {1, 8, 1, 9}, 2, 4},
    {"t03b", "mlp/wi_0/kernel", "decoder/layers_outside_pipeline/mlp/wi_0/kernel", 5, {8, 9}, {8, 1, 9}, 2, 3},
    {"t03", "decoder/logits_dense/kernel", "decoder/logits_dense/kernel", -1, {8, 9}, {8, 9}, 2, 2},
};

static float *element(const struct ab_tensor *tensor, const int64_t *index) {
  int64_t offset = 0;
  for (int i = 0; i < tensor->shape.rank; i++) offset = offset * tensor->shape.dim[i] + index[i];
  return (float *)tensor->data + offset;
}

START_TEST(each_layer_stands_where_maxtext_puts_it) {
  struct ab_config *config = case_config(places[_i].name);
  struct ab_layout layout;
  struct ab_tree *tree;
  struct ab_tensor *tensor;
  struct ab_view view;
  ck_ok(ab_layout_new(&layout, config, places[_i].name[0] != 't'));
  ck_ok(ab_layout_tree(&tree, &layout, AB_F32));
  ck_ok(ab_tree_get(&tensor, tree, places[_i].path, "tree"));
  ck_assert_int_eq(tensor->shape.rank, places[_i].rank);
  ck_ok(ab_layout_view(&view, &layout, tree, places[_i].layer, places[_i].param));
  ck_assert_int_eq(view.shape.rank, places[_i].own_rank);
  for (int i = places[_i].own_rank; i-- > 0;) view = ab_view_index(&view, i, places[_i].own[i]);
  ck_assert_ptr_eq(view.data, element(tensor, places[_i].index));
  ab_tree_free(tree);
  ab_layout_free(&layout);
  ab_config_free(config);
}
END_TEST

/* Layouts that no bundle has: no pipeline. */
static struct ab_config plain_config(bool scan) {
  return (struct ab_config){.decoder_block = "simple",
                            .emb_dim = 4,
                            .vocab_size = 5,
                            .num_decoder_layers = 3,
                            .pipeline_parallel_layers = 3,
                            .scan_layers = scan,
                            .param_scan_axis = 1};
}

START_TEST(without_a_pipeline_layers_are_scanned_or_named) {
  struct ab_config c = plain_config(true);
  struct ab_layout layout;
  char shape[64];
  ck_ok(ab_layout_new(&layout, &c, false));
  ck_assert_uint_eq(layout.leaves, 4);
  ck_assert_str_eq(layout.leaf[1].path, "decoder/layers/weights");
  ab_shape_print(shape, sizeof shape, &layout.leaf[1].shape);
  ck_assert_str_eq(shape, "[4, 3, 4]");
  ck_assert_str_eq(layout.leaf[1].logical[1], "layers");
  ab_layout_free(&layout);
  c = plain_config(false);
  ck_ok(ab_layout_new(&layout, &c, false));
  ck_assert_uint_eq(layout.leaves, 6);
  ck_assert_str_eq(layout.leaf[3].path, "decoder/layers_2/weights");
  ab_layout_free(&layout);
}
END_TEST

START_TEST(what_is_not_there_is_named) {
  struct ab_config c = plain_config(true);
  struct ab_layout layout;
  struct ab_tree *tree;
  struct ab_view view;
  ck_ok(ab_layout_new(&layout, &c, false));
  ck_ok(ab_layout_tree(&tree, &layout, AB_F32));
  ck_fails(ab_layout_view(&view, &layout, tree, 3, "weights"), AB_ENOTFOUND, "'weights' of layer 3");
  ck_fails(ab_layout_view(&view, &layout, tree, 0, "bias"), AB_ENOTFOUND, "'bias' of layer 0");
  ck_fails(ab_layout_view(&view, &layout, tree, -1, "weights"), AB_ENOTFOUND, "layer -1");
  ab_tree_free(tree);
  ab_layout_free(&layout);
  c.decoder_block = "conformer";
  ck_fails(ab_layout_new(&layout, &c, false), AB_ECONFIG, "conformer");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("layout");
  TCase *c = tcase_create("layout");
  tcase_add_loop_test(c, every_bundle_has_the_layout_of_its_config, 0, main_case_count());
  tcase_add_loop_test(c, each_layer_stands_where_maxtext_puts_it, 0, (int)(sizeof places / sizeof *places));
  tcase_add_test(c, without_a_pipeline_layers_are_scanned_or_named);
  tcase_add_test(c, what_is_not_there_is_named);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
