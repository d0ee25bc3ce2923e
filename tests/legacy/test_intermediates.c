/* The collection `intermediates` as Linen's lifted transforms stack it: paths, shapes, axis names, and whose slice a
 * cell writes. */

#include "linen_circular.h"
#include "mem.h"
#include "rig.h"
#include "tap.h"
#include "upstream.h"

/* A pipeline that is the root of its tree, all weights zero. */
struct alone {
  struct ab_arena slab, arena, book;
  struct ab_mesh mesh;
  struct ab_exec exec;
  struct ab_config config;
  struct linen_pipeline *pipeline;
  struct linen_state state;
};

static void create(struct alone *a, const struct rig_shape *shape, bool sequential) {
  *a = (struct alone){.config = rig_config(shape)};
  a->config.record_internal_nn_metrics = 1;
  a->config.scan_layers_per_stage = !sequential;
  ck_ok(ab_arena_init(&a->slab, "slab", 1 << 20));
  ck_ok(ab_arena_init(&a->arena, "arena", 8 << 20));
  ck_ok(ab_arena_init(&a->book, "book", 4 << 20));
  ck_ok(ab_mesh_init_local(&a->mesh, &ab_kernels_f32, (int)a->config.num_stages));
  a->exec = (struct ab_exec){
      .kernels = &ab_kernels_f32, .slab = &a->slab, .arena = &a->arena, .book = &a->book, .mesh = &a->mesh};
  ck_ok(linen_create_pipeline(&a->pipeline, NULL, "", &a->config, &a->exec));
  ck_ok(linen_state_init(&a->state, &a->pipeline->base, &a->exec));
}

static void destroy(struct alone *a) {
  ab_mesh_free(&a->mesh);
  ab_arena_free(&a->slab);
  ab_arena_free(&a->arena);
  ab_arena_free(&a->book);
}

static void call(struct alone *a) {
  struct linen_scope params = linen_state_params(&a->state);
  struct ab_batch batch = rig_batch(&a->config);
  size_t count = (size_t)(batch.rows * batch.length * a->config.emb_dim);
  float *x = rig_numbers(count, 7, &ab_kernels_f32), *y;
  ck_ok(ab_arena_take(&a->arena, &y, count, sizeof *y));
  ck_ok(linen_pipeline_call(a->pipeline, &params, y, x, batch.inputs_position, batch.inputs_segmentation));
  ab_mem_free(x);
}

static void must_have(const struct alone *a, const char *path, const struct ab_shape *shape) {
  static const char *const axes[] = {"iterations", "layers", "layers_per_stage"};
  const struct linen_variables *dict = &a->pipeline->intermediates.variables;
  const struct linen_variable *v = linen_variables_find(dict, "intermediates", path);
  ck_assert_msg(v != NULL, "no '%s'", path);
  ck_assert_msg(ab_shape_equal(&v->box.value.shape, shape), "'%s' has another shape", path);
  for (int i = 0; i < shape->rank; i++) ck_assert_str_eq(v->box.names[i], axes[i]);
}

/* S 2, M 4, R 2: 9 iterations. Repeats are no axis. */
START_TEST(variables_are_stacked_over_iterations_and_stages) {
  static const struct {
    int layers;
    bool sequential, circular;
    const char *path[2];
    struct ab_shape shape;
  } rows[] = {{1, false, false, {"layers/activation_mean"}, {2, {9, 2}}},
              {1, false, true, {"layers/activation_stdev"}, {2, {9, 2}}},
              {3, false, false, {"layers_per_stage/activation_fraction_zero"}, {3, {9, 2, 3}}},
              {2, true, false, {"layers/layers_0/activation_mean", "layers/layers_1/activation_stdev"}, {2, {9, 2}}}};
  struct rig_shape shape = RIG(2, 4, 2, rows[_i].layers, .circular = rows[_i].circular);
  struct alone a;
  create(&a, &shape, rows[_i].sequential);
  call(&a);
  for (int i = 0; i < 2 && rows[_i].path[i]; i++) must_have(&a, rows[_i].path[i], &rows[_i].shape);
  ck_assert_uint_eq(a.pipeline->intermediates.variables.count, rows[_i].sequential ? 2 * AB_SOWN : AB_SOWN);
  ck_assert_uint_eq(a.state.variables.count, a.state.cotangents.count); /* the params' dict did not grow */
  destroy(&a);
}
END_TEST

/* The value that a real cell wrote lies in its slice; bubbles that do not run leave zeros. Zero weights make every
 * output of `simple` zero, whose fraction of zeros is 1. */
START_TEST(cells_that_run_fill_their_slice_and_no_other) {
  struct rig_shape shape = RIG(2, 4, 2, 1, .block = "simple");
  struct alone a;
  create(&a, &shape, false);
  call(&a);
  for (int64_t t = 0; t < 9; t++)
    for (int64_t s = 0; s < 2; s++) {
      void *value;
      ck_ok(linen_intermediates_read(&value, &a.pipeline->intermediates, 0, AB_SOWN_FRACTION_ZERO,
                                     (const int64_t[]){t, s}));
      ck_assert_float_eq(*(float *)value, t - s >= 0 && t - s < 8);
      void *same;
      ck_ok(linen_intermediates_read_flat(&same, &a.pipeline->intermediates, 0, AB_SOWN_FRACTION_ZERO, 2 * t + s));
      ck_assert_ptr_eq(same, value);
    }
  destroy(&a);
}
END_TEST

/* upstream_faithful=B20: a stage applied with nothing mutable. */
START_TEST(an_immutable_stage_records_nothing) {
  struct rig_shape shape = RIG(2, 4, 2, 1, .circular = _i == 1);
  struct alone a;
  create(&a, &shape, false);
  a.config.upstream_faithful = 1u << AB_DEFECT_B20;
  call(&a);
  ck_assert_uint_eq(a.pipeline->intermediates.variables.count, 0);
  destroy(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("intermediates");
  TCase *tc = tcase_create("intermediates");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, variables_are_stacked_over_iterations_and_stages, 0, 4);
  tcase_add_test(tc, cells_that_run_fill_their_slice_and_no_other);
  tcase_add_loop_test(tc, an_immutable_stage_records_nothing, 0, 2);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
