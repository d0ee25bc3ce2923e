/* Sown variables of the NNX engine: their paths, types, shapes and axis names, the targets of a cell, and where
 * upstream_faithful=B20 fails.
 */
#include "pipeline.h"
#include "rig.h"
#include "tap.h"
#include "upstream.h"

enum { S = 2, T = 9 }; /* M 4, R 2 */

static struct ab_arena slab, arena, book;
static struct ab_mesh mesh;
static struct ab_exec exec;
static struct ab_config config;

static void set_up(void) {
  ck_ok(ab_arena_init(&slab, "slab", 1 << 20));
  ck_ok(ab_arena_init(&arena, "arena", 8 << 20));
  ck_ok(ab_arena_init(&book, "book", 8 << 20));
  ck_ok(ab_mesh_init_local(&mesh, &ab_kernels_f32, S));
  exec = (struct ab_exec){.kernels = &ab_kernels_f32, .slab = &slab, .arena = &arena, .book = &book, .mesh = &mesh};
}

static void tear_down(void) {
  ab_mesh_free(&mesh);
  ab_arena_free(&slab);
  ab_arena_free(&arena);
  ab_arena_free(&book);
}

static void choose(int layers, bool scanned) {
  config = rig_config(S, 4, 2, layers, 1);
  config.record_internal_nn_metrics = 1;
  config.scan_layers_per_stage = scanned;
}

static struct nnx_pipeline *create(void) {
  struct nnx_pipeline *p;
  struct nnx_node *module;
  ck_ok(nnx_pipeline_new(&p, &module, &config, &exec));
  return p;
}

static const struct layout {
  int layers;
  bool scanned;
  const char *path; /* of the last layer */
  struct ab_shape shape;
  size_t variables;
} layouts[] = {{1, false, "activation_stdev", {2, {T, S}}, AB_SOWN},
               {3, true, "scanned_layers/activation_stdev", {3, {T, S, 3}}, AB_SOWN},
               {3, false, "layers_2/activation_stdev", {2, {T, S}}, 3 * AB_SOWN}};

static struct nnx_run start(const struct layout *layout) {
  choose(layout->layers, layout->scanned);
  struct nnx_run run = {.pipeline = create()};
  ck_ok(nnx_start_sowing(&run));
  return run;
}

START_TEST(scan_outputs_are_stacked_over_iterations_and_stages) {
  static const char *const axes[] = {"iterations", "layers", "layers_per_stage"};
  struct nnx_run run = start(&layouts[_i]);
  const struct nnx_leaf *leaf = nnx_state_find(&run.sown, layouts[_i].path);
  ck_assert_uint_eq(run.sown.count, layouts[_i].variables);
  ck_assert_msg(leaf != NULL, "no '%s'", layouts[_i].path);
  ck_assert_uint_eq(leaf->variable.type, NNX_INTERMEDIATE);
  ck_assert(ab_shape_equal(&leaf->variable.value.shape, &layouts[_i].shape));
  for (int i = 0; i < layouts[_i].shape.rank; i++) ck_assert_str_eq(leaf->variable.sharding[i], axes[i]);
}
END_TEST

/* Marks what every cell would write and finds all of it in row-major order. */
START_TEST(each_cell_has_targets_of_its_own) {
  struct nnx_run run = start(&layouts[_i]);
  int layers = layouts[_i].layers, mark = 0;
  ck_ok(ab_arena_take_zeroed(&book, &run.stage, S, sizeof *run.stage));
  for (int t = 0; t < T; t++)
    for (int s = 0; s < S; s++) {
      ck_ok(nnx_sow_in_cell(&run, t, s));
      for (int k = 0; k < layers; k++) *(float *)run.stage[s].call.sown[k][AB_SOWN_STDEV] = (float)++mark;
    }
  for (int k = 0; k < layers; k++) {
    struct ab_view view;
    ck_ok(nnx_sown_variable(&view, &run.pipeline->stack, &run.sown, k, AB_SOWN_STDEV));
    const float *value = view.data;
    for (int cell = 0; cell < T * S; cell++)
      ck_assert_float_eq(layouts[_i].scanned ? value[cell * layers + k] : value[cell], (float)(cell * layers + k + 1));
  }
}
END_TEST

START_TEST(an_unknown_variable_is_named) {
  struct nnx_run run = start(&layouts[0]);
  struct nnx_state none = {0};
  struct ab_view view;
  ck_fails(nnx_sown_variable(&view, &run.pipeline->stack, &none, 0, AB_SOWN_MEAN), AB_ENOTFOUND, "'activation_mean'");
}
END_TEST

/* B20 by class: the circular pipeline has no template, the other one no place for fresh leaves where it scatters. */
START_TEST(b20_drops_or_fails_by_class) {
  static const struct {
    bool circular;
    int repeats;
    bool on, fails;
  } rows[] = {{true, 2, false, false}, {false, 2, true, true}, {false, 1, true, false}};
  choose(1, false);
  config.pipeline_fsdp_ag_per_repeat = rows[_i].circular;
  config.num_pipeline_repeats = rows[_i].repeats;
  config.upstream_faithful = 1u << AB_DEFECT_B20;
  struct nnx_run run = {.pipeline = create()};
  ck_assert(run.pipeline->sowing.on == rows[_i].on && run.pipeline->sowing.fresh_leaves_fail == rows[_i].fails);
  if (rows[_i].fails)
    ck_fails(nnx_start_sowing(&run), AB_EMISMATCH, "'layers/activation_mean' (Intermediate) after its call");
  else
    ck_ok(nnx_start_sowing(&run));
  ck_assert_uint_eq(run.sown.count, rows[_i].on && !rows[_i].fails ? AB_SOWN : 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sown");
  TCase *tc = tcase_create("sown");
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_loop_test(tc, scan_outputs_are_stacked_over_iterations_and_stages, 0, 3);
  tcase_add_loop_test(tc, each_cell_has_targets_of_its_own, 0, 3);
  tcase_add_test(tc, an_unknown_variable_is_named);
  tcase_add_loop_test(tc, b20_drops_or_fails_by_class, 0, 3);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
