/* The object graph: split, merge, update, filters, sharing, stacked axes. */
#include <string.h>

#include "tap.h"
#include "transforms.h"

static struct ab_arena book;
static float storage[256];

static void set_up(void) {
  ck_ok(ab_arena_init(&book, "book", 1 << 18));
  for (int i = 0; i < 256; i++) storage[i] = (float)i;
}
static void tear_down(void) { ab_arena_free(&book); }

static struct nnx_variable variable(nnx_filter type, int rank, const int64_t *dims, void *data) {
  struct nnx_variable v = {.type = type, .value = {.dtype = AB_F32, .shape = {.rank = rank}, .data = data}};
  static const char *const names[] = {"embed", "mlp", "vocab"};
  for (int i = 0; i < rank; i++) {
    v.value.shape.dim[i] = dims[i];
    v.sharding[i] = names[i];
  }
  ab_view_contiguous(&v.value);
  return v;
}

/* layer { attention { query { kernel } }, norm { scale }, rng { count } } */
static struct nnx_node *layer(void) {
  struct nnx_node *module;
  struct nnx_variable kernel = variable(NNX_PARAM, 2, (const int64_t[]){2, 3}, storage);
  struct nnx_variable scale = variable(NNX_PARAM, 1, (const int64_t[]){2}, storage + 6);
  struct nnx_variable count = variable(NNX_RNG_COUNT, 0, NULL, storage + 8);
  ck_ok(nnx_module_new(&module, &book, "Layer"));
  ck_ok(nnx_set_variable(&book, module, "attention/query/kernel", &kernel));
  ck_ok(nnx_set_variable(&book, module, "norm/scale", &scale));
  ck_ok(nnx_set_variable(&book, module, "rng/count", &count));
  ck_ok(nnx_set_static(&book, module, "block", "llama2"));
  return module;
}

static const nnx_filter params_first[] = {NNX_PARAM, NNX_EVERY};

START_TEST(test_split_sorts_by_filter) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2];
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, layer()));
  ck_assert_uint_eq(states[0].count, 2);
  ck_assert_str_eq(states[0].leaf[0].path, "attention/query/kernel");
  ck_assert_str_eq(states[0].leaf[1].path, "norm/scale");
  ck_assert_uint_eq(states[1].count, 1);
  ck_assert_str_eq(states[1].leaf[0].path, "rng/count");
  ck_assert_ptr_eq(states[0].leaf[0].variable.value.data, storage);
}
END_TEST

START_TEST(test_split_needs_a_filter_for_all) {
  struct nnx_graphdef *graphdef;
  struct nnx_state state;
  ck_fails(nnx_split(&graphdef, &state, params_first, 1, &book, layer()), AB_EMISMATCH, "rng/count");
}
END_TEST

START_TEST(test_merge_restores_the_module) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2];
  struct nnx_node *merged;
  struct nnx_variable *scale;
  const void *block;
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, layer()));
  const struct nnx_state *both[] = {&states[1], &states[0]};
  ck_ok(nnx_merge(&merged, &book, graphdef, both, 2));
  ck_assert_str_eq(nnx_module_type(merged), "Layer");
  ck_ok(nnx_get_variable(&scale, merged, "norm/scale"));
  ck_assert_ptr_eq(scale->value.data, storage + 6);
  ck_assert_str_eq(scale->sharding[0], "embed");
  ck_ok(nnx_get_static(&block, merged, "block"));
  ck_assert_str_eq(block, "llama2");
}
END_TEST

START_TEST(test_merge_names_a_missing_variable) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2];
  struct nnx_node *merged;
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, layer()));
  const struct nnx_state *both[] = {&states[0], &states[1]};
  memmove(states[0].leaf, states[0].leaf + 1, sizeof *states[0].leaf);
  states[0].count--;
  ck_fails(nnx_merge(&merged, &book, graphdef, both, 2), AB_ENOTFOUND, "'attention/query/kernel' of type Param");
}
END_TEST

START_TEST(test_merge_refuses_another_type) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2];
  struct nnx_node *merged;
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, layer()));
  const struct nnx_state *both[] = {&states[0], &states[1]};
  states[0].leaf[1].variable.type = NNX_INTERMEDIATE;
  ck_fails(nnx_merge(&merged, &book, graphdef, both, 2), AB_EMISMATCH, "'norm/scale' has type Intermediate");
}
END_TEST

START_TEST(test_read_names_a_missing_variable) {
  struct nnx_variable *found;
  struct nnx_node *module = layer(), *child;
  ck_fails(nnx_get_variable(&found, module, "attention/key/kernel"), AB_ENOTFOUND, "attention/key/kernel");
  ck_fails(nnx_get_module(&child, module, "mlp"), AB_ENOTFOUND, "'mlp'");
}
END_TEST

/* A merged module is a new one: what update puts into it does not reach the old one. */
START_TEST(test_update_replaces_values) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2], changed;
  struct nnx_node *module = layer(), *merged;
  struct nnx_variable *found;
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, module));
  const struct nnx_state *both[] = {&states[0], &states[1]};
  ck_ok(nnx_merge(&merged, &book, graphdef, both, 2));
  ck_ok(nnx_state_copy(&changed, &book, &states[0]));
  changed.leaf[1].variable.value.data = storage + 100;
  ck_ok(nnx_update(merged, &changed));
  ck_ok(nnx_get_variable(&found, merged, "norm/scale"));
  ck_assert_ptr_eq(found->value.data, storage + 100);
  ck_ok(nnx_get_variable(&found, module, "norm/scale"));
  ck_assert_ptr_eq(found->value.data, storage + 6);
  changed.leaf[0].path = "attention/value/kernel";
  ck_fails(nnx_update(merged, &changed), AB_ENOTFOUND, "attention/value/kernel");
}
END_TEST

/* A module reached over two ways is one node before and after: a tied layer stays tied. */
START_TEST(test_sharing_survives) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2];
  struct nnx_node *parent, *shared = layer(), *merged, *a, *b;
  ck_ok(nnx_module_new(&parent, &book, "Tied"));
  ck_ok(nnx_set_module(&book, parent, "encoder", shared));
  ck_ok(nnx_set_module(&book, parent, "decoder", shared));
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, parent));
  ck_assert_uint_eq(states[0].count, 2);
  ck_assert_str_eq(states[0].leaf[0].path, "encoder/attention/query/kernel");
  const struct nnx_state *both[] = {&states[0], &states[1]};
  ck_ok(nnx_merge(&merged, &book, graphdef, both, 2));
  ck_ok(nnx_get_module(&a, merged, "encoder"));
  ck_ok(nnx_get_module(&b, merged, "decoder"));
  ck_assert_ptr_eq(a, b);
}
END_TEST

static struct nnx_state stacked(const struct nnx_axis *axis) {
  struct nnx_graphdef *graphdef;
  struct nnx_state states[2];
  struct nnx_node *module;
  struct nnx_variable kernel = variable(NNX_PARAM, 2, (const int64_t[]){2, 3}, NULL);
  struct nnx_variable scale = variable(NNX_PARAM, 1, (const int64_t[]){2}, NULL);
  struct nnx_variable key = variable(NNX_RNG_KEY, 1, (const int64_t[]){2}, NULL);
  ck_ok(nnx_module_new(&module, &book, "Layer"));
  ck_ok(nnx_set_variable(&book, module, "kernel", &kernel));
  ck_ok(nnx_set_variable(&book, module, "scale", &scale));
  ck_ok(nnx_set_variable(&book, module, "key", &key));
  ck_ok(nnx_add_axis(module, &book, axis));
  ck_ok(nnx_split(&graphdef, states, params_first, 2, &book, module));
  ck_ok(nnx_materialize(&states[0], &book));
  ck_assert_int_eq(states[1].leaf[0].variable.value.shape.dim[0], axis->size);
  return states[0];
}

START_TEST(test_axis_one_is_strided) {
  struct nnx_axis axis = {.axis = 1, .size = 4, .name = "layers"};
  struct nnx_state state = stacked(&axis), slice;
  const struct nnx_variable *kernel = &state.leaf[0].variable;
  ck_assert_int_eq(kernel->value.shape.dim[1], 4);
  ck_assert_str_eq(kernel->sharding[1], "layers");
  ck_assert_str_eq(kernel->sharding[2], "mlp");
  ck_assert_int_eq(state.leaf[1].variable.value.shape.dim[1], 4);
  ck_ok(nnx_index_axis(&slice, &book, &state, &axis, 3));
  ck_assert_int_eq(slice.leaf[0].variable.value.shape.rank, 2);
  ck_assert_int_eq(slice.leaf[0].variable.value.stride[0], 12);
  ck_assert_str_eq(slice.leaf[0].variable.sharding[1], "mlp");
  ck_assert(!nnx_contiguous(&slice.leaf[0].variable.value));
  ck_assert_ptr_eq(slice.leaf[1].variable.value.data, (float *)state.leaf[1].variable.value.data + 3);
}
END_TEST

START_TEST(test_axis_zero_is_contiguous) {
  struct nnx_axis axis = {.axis = 0, .size = 4, .name = "layers"}, repeats = {.size = 4, .name = "circular_repeats"};
  struct nnx_state state = stacked(&axis), slice;
  ck_ok(nnx_index_axis(&slice, &book, &state, &axis, 2));
  ck_assert(nnx_contiguous(&slice.leaf[0].variable.value));
  ck_assert_ptr_eq(slice.leaf[0].variable.value.data, (float *)state.leaf[0].variable.value.data + 12);
  ck_fails(nnx_index_axis(&slice, &book, &state, &repeats, 2), AB_EMISMATCH, "named 'layers', expected 'circular");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_graph");
  TCase *tc = tcase_create("graph");
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, test_split_sorts_by_filter);
  tcase_add_test(tc, test_split_needs_a_filter_for_all);
  tcase_add_test(tc, test_merge_restores_the_module);
  tcase_add_test(tc, test_merge_names_a_missing_variable);
  tcase_add_test(tc, test_merge_refuses_another_type);
  tcase_add_test(tc, test_read_names_a_missing_variable);
  tcase_add_test(tc, test_update_replaces_values);
  tcase_add_test(tc, test_sharing_survives);
  tcase_add_test(tc, test_axis_one_is_strided);
  tcase_add_test(tc, test_axis_zero_is_contiguous);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
