/* Scopes, boxed variables, lifted axes and the module tree. */
#include <string.h>

#include "linen_decoder.h"
#include "linen.h"
#include "rig.h"
#include "tap.h"

static struct ab_arena slab, book;
static struct ab_exec exec;
static struct linen_variables variables;
static struct linen_scope root;

static void set_up(void) {
  ck_ok(ab_arena_init(&slab, "slab", 1 << 20));
  ck_ok(ab_arena_init(&book, "book", 1 << 20));
  exec = (struct ab_exec){.kernels = &ab_kernels_f32, .slab = &slab, .arena = &slab, .book = &book};
  linen_variables_init(&variables, &exec);
  root = linen_scope_root(&variables, LINEN_PARAMS);
}

static void tear_down(void) {
  ab_arena_free(&slab);
  ab_arena_free(&book);
}

static const char *const names[] = {"embed", "mlp"};
static const struct linen_declaration kernel = {"kernel", {2, {3, 4}}, names};

START_TEST(init_creates_boxed_variables_under_their_path) {
  struct linen_scope decoder, dense;
  struct linen_partitioned box;
  ck_ok(linen_scope_push(&decoder, &root, "decoder"));
  ck_ok(linen_scope_push(&dense, &decoder, "logits_dense"));
  ck_ok(linen_scope_param(&box, &dense, &kernel));
  const struct linen_variable *v = linen_variables_find(&variables, LINEN_PARAMS, "decoder/logits_dense/kernel");
  ck_assert_ptr_nonnull(v);
  ck_assert_ptr_eq(v->box.value.data, box.value.data);
  ck_assert_str_eq(box.names[1], "mlp");
  ck_ok(linen_scope_param(&box, &dense, &kernel));
  ck_assert_uint_eq(variables.count, 1);
}
END_TEST

START_TEST(apply_creates_nothing_and_names_what_is_missing) {
  struct linen_partitioned box;
  struct linen_scope apply = linen_scope_root(&variables, ""), other = linen_scope_root(&variables, "intermediates");
  ck_fails(linen_scope_param(&box, &apply, &kernel), AB_ENOTFOUND, "'kernel'");
  ck_fails(linen_scope_param(&box, &other, &kernel), AB_ENOTFOUND, "params");
  ck_assert_uint_eq(variables.count, 0);
  ck_ok(linen_scope_variable(&box, &other, "intermediates", &kernel));
  ck_assert_ptr_null(linen_variables_find(&variables, LINEN_PARAMS, "kernel"));
  ck_ok(linen_scope_param(&box, &root, &kernel));
  ck_ok(linen_scope_param(&box, &apply, &kernel));
  ck_ok(linen_variables_delete(&variables, LINEN_PARAMS, "kernel"));
  ck_fails(linen_scope_param(&box, &apply, &kernel), AB_ENOTFOUND, "'kernel'");
  ck_fails(linen_variables_delete(&variables, LINEN_PARAMS, "kernel"), AB_ENOTFOUND, "kernel");
}
END_TEST

START_TEST(a_mutable_filter_of_everything_admits_every_collection) {
  struct linen_scope all = linen_scope_root(&variables, "*");
  ck_assert(linen_scope_is_mutable(&all, LINEN_PARAMS) && linen_scope_is_mutable(&all, "intermediates"));
  ck_assert(!linen_scope_is_mutable(&root, "intermediates"));
}
END_TEST

START_TEST(a_popped_scope_answers_nothing) {
  struct linen_partitioned box;
  struct linen_scope child;
  ck_ok(linen_scope_push(&child, &root, "mlp"));
  linen_scope_pop(&child);
  ck_fails(linen_scope_param(&box, &child, &kernel), AB_EMISMATCH, "popped");
}
END_TEST

START_TEST(another_shape_is_refused_with_the_path) {
  struct linen_partitioned box;
  struct linen_declaration wider = {"kernel", {2, {3, 5}}, names};
  ck_ok(linen_scope_param(&box, &root, &kernel));
  ck_fails(linen_scope_param(&box, &root, &wider), AB_ESHAPE, "'kernel' has shape [3, 4], the module declares [3, 5]");
}
END_TEST

/* [R, S, a0, K, a1] as of a scanned stage: repeats and stages first, layers at axis 1 of the stage's own leaf. */
START_TEST(lifted_axes_stack_outermost_first_and_unstack_again) {
  struct linen_axis axes[] = {{0, 2, LINEN_WHOLE, "circular_repeats"}, {0, 5, LINEN_WHOLE, "layers"},
                              {1, 7, LINEN_WHOLE, "layers_per_stage"}};
  static const int64_t want[] = {2, 5, 3, 7, 4};
  static const char *const want_names[] = {"circular_repeats", "layers", "embed", "layers_per_stage", "mlp"};
  struct linen_scope lifted = root;
  struct linen_partitioned box;
  for (int i = 0; i < 3; i++) ck_ok(linen_scope_lift(&lifted, &axes[i]));
  ck_ok(linen_scope_param(&box, &lifted, &kernel));
  ck_assert_int_eq(box.value.shape.rank, 5);
  for (int i = 0; i < 5; i++) {
    ck_assert_int_eq(box.value.shape.dim[i], want[i]);
    ck_assert_str_eq(box.names[i], want_names[i]);
  }
  const float *base = box.value.data;
  lifted.axis[0].index = 1;
  lifted.axis[1].index = 3;
  lifted.axis[2].index = 6;
  ck_ok(linen_scope_param(&box, &lifted, &kernel));
  ck_assert_int_eq(box.value.shape.rank, 2);
  ck_assert_int_eq(box.value.stride[0], 7 * 4);
  ck_assert_ptr_eq(box.value.data, base + ((1 * 5 + 3) * 3 * 7 + 6) * 4);
  ck_assert_str_eq(box.names[0], "embed");
}
END_TEST

START_TEST(a_vector_is_scanned_along_its_last_axis) {
  struct linen_axis scan = {1, 7, LINEN_WHOLE, "layers"};
  struct linen_declaration scale = {"scale", {1, {4}}, names};
  struct linen_scope lifted = root;
  struct linen_partitioned box;
  ck_ok(linen_scope_lift(&lifted, &scan));
  ck_ok(linen_scope_param(&box, &lifted, &scale));
  ck_assert_int_eq(box.value.shape.dim[0], 4);
  ck_assert_int_eq(box.value.shape.dim[1], 7);
}
END_TEST

START_TEST(a_transform_removes_only_the_axis_that_it_added) {
  struct linen_axis stages = {0, 5, LINEN_WHOLE, "layers"};
  struct linen_scope lifted = root;
  struct linen_partitioned box;
  ck_ok(linen_scope_lift(&lifted, &stages));
  ck_ok(linen_scope_param(&box, &lifted, &kernel));
  lifted.axis[0].name = "circular_repeats";
  lifted.axis[0].index = 0;
  ck_fails(linen_scope_param(&box, &lifted, &kernel), AB_EMISMATCH, "named 'layers'");
}
END_TEST

START_TEST(two_children_of_one_name_are_refused) {
  static const struct linen_module_ops ops = {.class_name = "Decoder"};
  struct linen_module parent, a, b;
  linen_module_root(&parent, &ops);
  ck_ok(linen_module_adopt(&a, &ops, &parent, "layers"));
  ck_fails(linen_module_adopt(&b, &ops, &parent, "layers"), AB_EMISMATCH, "'layers' already");
}
END_TEST

/* The state of a side, which the engine's public header does not show. */
static struct linen_state *state_of(struct rig_side *side) {
  return &((struct linen_transformer *)side->side.model)->state;
}

static ab_status step(struct rig_side *side, const struct ab_config *config) {
  struct ab_batch batch = rig_batch(config);
  struct ab_loss_terms terms;
  return side->side.model_ops->step(side->side.model, &batch, &terms);
}

START_TEST(a_step_without_one_of_its_variables_fails_with_the_path) {
  struct ab_config config = rig_config(&RIG(2, 2, 2, 2, .scanned_stage = _i, .outside = 1));
  struct ab_side ops = {.model_ops = &linen_model_ops};
  struct rig_side side;
  rig_new(&side, &ops, &ab_kernels_f32, &config, NULL);
  struct linen_variables *all = &state_of(&side)->variables;
  ck_ok(step(&side, &config));
  size_t count = all->count, arena = side.arena.used;
  for (size_t i = 0; i < count; i++) {
    struct linen_variable *first = all->first;
    ck_ok(linen_variables_delete(all, LINEN_PARAMS, first->path));
    ck_fails(step(&side, &config), AB_ENOTFOUND, first->path);
    ck_assert_uint_eq(all->count, count - 1);
    ck_assert_uint_eq(side.arena.used, arena);
    first->next = NULL;
    all->last->next = first;
    all->last = first;
    all->count++;
  }
  ck_ok(step(&side, &config));
  rig_free(&side);
}
END_TEST

/* decoders.py: scan_decoder_layers names the axis as the tree. */
static const char *expected_name(const struct ab_layout_leaf *leaf, int axis) {
  bool outside = strstr(leaf->path, "layers_outside_pipeline") && !strncmp(leaf->logical[axis], "layers", 6);
  return outside ? "layers_outside_pipeline" : leaf->logical[axis];
}

START_TEST(the_tree_has_maxtexts_paths_and_shapes) {
  struct rig_shape shapes[] = {RIG(2, 2, 1, 1, .outside = 2), RIG(2, 2, 2, 1, .delay = false),
                               RIG(2, 2, 2, 2, .delay = false), RIG(2, 2, 2, 2, .scanned_stage = true),
                               RIG(3, 3, 1, 2, .scanned_stage = true, .outside = 1)};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    struct ab_config config = rig_config(&shapes[i]);
    struct ab_side ops = {.model_ops = &linen_model_ops};
    struct rig_side side;
    struct ab_layout layout;
    rig_new(&side, &ops, &ab_kernels_f32, &config, NULL);
    ck_ok(ab_layout_new(&layout, &config, false));
    ck_assert_uint_eq(state_of(&side)->variables.count, layout.leaves);
    for (size_t l = 0; l < layout.leaves; l++) {
      const struct ab_layout_leaf *leaf = &layout.leaf[l];
      const struct linen_variable *v = linen_variables_find(&state_of(&side)->variables, LINEN_PARAMS, leaf->path);
      ck_assert_msg(v && ab_shape_equal(&v->box.value.shape, &leaf->shape), "%s: %s", rig_name(&config), leaf->path);
      for (int a = 0; a < leaf->shape.rank; a++)
        ck_assert_msg(!strcmp(v->box.names[a], expected_name(leaf, a)), "%s: %s axis %d is '%s', expected '%s'",
                      rig_name(&config), leaf->path, a, v->box.names[a], expected_name(leaf, a));
    }
    ab_layout_free(&layout);
    rig_free(&side);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_scope");
  TCase *tc = tcase_create("scope");
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, init_creates_boxed_variables_under_their_path);
  tcase_add_test(tc, apply_creates_nothing_and_names_what_is_missing);
  tcase_add_test(tc, a_mutable_filter_of_everything_admits_every_collection);
  tcase_add_test(tc, a_popped_scope_answers_nothing);
  tcase_add_test(tc, another_shape_is_refused_with_the_path);
  tcase_add_test(tc, lifted_axes_stack_outermost_first_and_unstack_again);
  tcase_add_test(tc, a_vector_is_scanned_along_its_last_axis);
  tcase_add_test(tc, a_transform_removes_only_the_axis_that_it_added);
  tcase_add_test(tc, two_children_of_one_name_are_refused);
  tcase_add_loop_test(tc, a_step_without_one_of_its_variables_fails_with_the_path, 0, 2);
  tcase_add_test(tc, the_tree_has_maxtexts_paths_and_shapes);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
