/* Pipeline and decoder against the sequential oracle, and against themselves under every switch that must not change
 * bits. */
#include <string.h>

#include "linen.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"

static const struct rig_shape shapes[] = {
    {.stages = 1, .microbatches = 1, .repeats = 1, .layers_per_stage = 1},
    {.stages = 1, .microbatches = 3, .repeats = 2, .layers_per_stage = 1},
    {.stages = 2, .microbatches = 4, .repeats = 1, .layers_per_stage = 1},
    {.stages = 2, .microbatches = 2, .repeats = 3, .layers_per_stage = 1},
    {.stages = 2, .microbatches = 4, .repeats = 2, .layers_per_stage = 2},
    {.stages = 2, .microbatches = 4, .repeats = 2, .layers_per_stage = 2, .scanned_stage = true},
    {.stages = 3, .microbatches = 6, .repeats = 1, .layers_per_stage = 3, .scanned_stage = true},
    {.stages = 3, .microbatches = 6, .repeats = 2, .layers_per_stage = 1, .delay = true},
    {.stages = 3, .microbatches = 9, .repeats = 2, .layers_per_stage = 2, .delay = true},
    {.stages = 4, .microbatches = 8, .repeats = 2, .layers_per_stage = 1, .outside = 2},
    {.stages = 2, .microbatches = 4, .repeats = 1, .layers_per_stage = 2, .scanned_stage = true, .outside = 3},
    {.stages = 5, .microbatches = 5, .repeats = 2, .layers_per_stage = 1, .block = "simple"},
    {.stages = 3, .microbatches = 3, .repeats = 3, .layers_per_stage = 2, .block = "simple_mlp", .outside = 1},
    {.stages = 2, .microbatches = 2, .repeats = 3, .layers_per_stage = 1, .circular = true, .outside = 1},
    {.stages = 4, .microbatches = 8, .repeats = 2, .layers_per_stage = 1, .circular = true},
    {.stages = 3, .microbatches = 3, .repeats = 4, .layers_per_stage = 1, .circular = true, .block = "simple_mlp"},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable};

static void check_pipeline_bits(const struct ab_config *config, const struct ab_kernels *kernels) {
  struct rig_run engine = rig_run_pipeline(&linen_pipeline_ops, kernels, config, NULL);
  struct rig_run oracle = rig_run_pipeline(&ab_oracle_pipeline_ops, kernels, config, NULL);
  rig_same_bits(&engine, &oracle, config, kernels->name);
  rig_run_free(&engine);
  rig_run_free(&oracle);
}

START_TEST(the_pipeline_equals_the_sequential_oracle) {
  struct ab_config config = rig_config(&shapes[_i]);
  for (int t = 0; t < 2; t++) check_pipeline_bits(&config, tables[t]);
}
END_TEST

START_TEST(every_schedule_equals_the_sequential_oracle) {
  for (int m = _i; m <= 10; m += _i)
    for (int r = 1; r <= 4; r++)
      for (int kind = 0; kind < 3; kind++) {
        struct rig_shape shape = {_i, m, r, 1, .delay = kind == 1, .circular = kind == 2, .block = "simple_mlp"};
        struct ab_config config = rig_config(&shape);
        if (m < (shape.delay ? 2 : 1) * _i || (shape.circular && r == 1)) continue;
        check_pipeline_bits(&config, &ab_kernels_f32);
      }
}
END_TEST

START_TEST(in_float64_the_pipeline_is_the_whole_batch_oracle) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct rig_run engine = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f64, &config, NULL);
  struct rig_run oracle = rig_run_pipeline(&ab_oracle_pipeline_ops, &ab_kernels_f64, &config, NULL);
  double distance = rig_distance(&engine, &oracle);
  ck_assert_msg(distance <= 1e-13, "%s: relative L2 %.3g", rig_name(&config), distance);
  rig_run_free(&engine);
  rig_run_free(&oracle);
}
END_TEST

static void check_model_bits(const struct ab_config *config, const struct ab_kernels *kernels) {
  struct rig_run engine = rig_run_model(&linen_model_ops, kernels, config, NULL);
  struct rig_run oracle = rig_run_model(&ab_oracle_model_ops, kernels, config, NULL);
  rig_same_bits(&engine, &oracle, config, kernels->name);
  rig_run_free(&engine);
  rig_run_free(&oracle);
}

START_TEST(the_model_equals_the_sequential_oracle) {
  struct ab_config config = rig_config(&shapes[_i]);
  for (int t = 0; t < 2; t++) check_model_bits(&config, tables[t]);
}
END_TEST

START_TEST(an_unpipelined_model_equals_the_oracle_scanned_or_not) {
  struct ab_config config = rig_config(&RIG(1, 2, 1, 3, .outside = 0));
  static char none[] = "none", minimal[] = "minimal";
  config.pipelined = false;
  for (int scanned = 0; scanned < 2; scanned++) {
    config.scan_layers = scanned;
    check_model_bits(&config, &ab_kernels_f32);
    config.remat_policy = scanned ? minimal : none;
    check_model_bits(&config, &ab_kernels_f32);
  }
}
END_TEST

/* What may be switched without changing a bit. */
static void switch_bubbles(struct ab_config *c) { c->compute_bubbles = true; }
static void switch_remat(struct ab_config *c) { c->set_remat_policy_on_pipeline_iterations = false; }
static void switch_scan(struct ab_config *c) { c->scan_pipeline_iterations = false; }
static void switch_repeats(struct ab_config *c) { c->scan_pipeline_repeats = true; }
static void switch_unrolled_kept(struct ab_config *c) {
  c->scan_pipeline_iterations = false;
  c->set_remat_policy_on_pipeline_iterations = false;
  c->compute_bubbles = true;
}
static const struct {
  const char *name;
  void (*apply)(struct ab_config *config);
} switches[] = {{"ab_compute_bubbles=true", switch_bubbles},
                {"set_remat_policy_on_pipeline_iterations=false", switch_remat},
                {"scan_pipeline_iterations=false", switch_scan},
                {"scan_pipeline_repeats=true", switch_repeats},
                {"all three", switch_unrolled_kept}};
enum { SWITCHES = sizeof switches / sizeof switches[0] };

START_TEST(switches_keep_the_bits) {
  struct ab_config config = rig_config(&shapes[_i]), other = config;
  struct rig_run base = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &config, NULL);
  for (int i = 0; i < SWITCHES; i++) {
    other = config;
    switches[i].apply(&other);
    struct rig_run run = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &other, NULL);
    rig_same_bits(&run, &base, &config, switches[i].name);
    rig_run_free(&run);
  }
  rig_run_free(&base);
}
END_TEST

START_TEST(a_second_pass_gives_the_same_as_the_first) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
  struct rig_side side;
  rig_new(&side, &ops, &ab_kernels_f32, &config, NULL);
  struct rig_run first = rig_pass(&side, &config), second = rig_pass(&side, &config);
  rig_same_bits(&second, &first, &config, "second pass");
  rig_run_free(&first);
  rig_run_free(&second);
  rig_free(&side);
}
END_TEST

/* The arenas have the planned size, so that a plan too small has failed already; one too large would show here. */
START_TEST(the_dry_run_plans_the_memory_exactly) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct ab_side ops[] = {{.pipeline_ops = &linen_pipeline_ops}, {.model_ops = &linen_model_ops}};
  for (int i = 0; i < 2; i++) {
    struct rig_side side;
    rig_new(&side, &ops[i], &ab_kernels_f32, &config, NULL);
    struct rig_run run = rig_pass(&side, &config);
    ck_assert_uint_eq(side.slab.high, side.planned[0]);
    ck_assert_uint_eq(side.arena.high, side.planned[1]);
    ck_assert_uint_eq(side.book.high, side.planned[2]);
    rig_run_free(&run);
    rig_free(&side);
  }
}
END_TEST

START_TEST(remat_keeps_only_the_inputs_of_layers) {
  struct ab_config config = rig_config(&shapes[4]), kept = config;
  struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
  struct rig_side side, larger;
  kept.set_remat_policy_on_pipeline_iterations = false;
  rig_new(&side, &ops, &ab_kernels_f32, &config, NULL);
  rig_new(&larger, &ops, &ab_kernels_f32, &kept, NULL);
  ck_assert_uint_gt(larger.planned[1], side.planned[1] * 3 / 2);
  rig_free(&side);
  rig_free(&larger);
}
END_TEST

START_TEST(impossible_numbers_are_refused) {
  struct ab_config config = rig_config(&shapes[2]);
  struct ab_arena arena;
  struct ab_exec exec = {.kernels = &ab_kernels_f32, .slab = &arena, .arena = &arena, .book = &arena};
  struct ab_pipeline *pipeline;
  ck_ok(ab_arena_init(&arena, "all", 1 << 16));
  config.num_pipeline_microbatches = 3;
  ck_fails(linen_pipeline_ops.create(&pipeline, &config, &exec), AB_ECONFIG, "num_pipeline_microbatches");
  config.num_pipeline_microbatches = -1;
  ck_fails(linen_pipeline_ops.create(&pipeline, &config, &exec), AB_ECONFIG, "num_pipeline_microbatches");
  config.num_pipeline_microbatches = 4;
  config.decoder_block = config.opt_type;
  ck_fails(linen_pipeline_ops.create(&pipeline, &config, &exec), AB_ECONFIG, "adamw");
  ab_arena_free(&arena);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_pipeline");
  TCase *tc = tcase_create("pipeline");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, the_pipeline_equals_the_sequential_oracle, 0, SHAPES);
  tcase_add_loop_test(tc, every_schedule_equals_the_sequential_oracle, 1, 6);
  tcase_add_loop_test(tc, in_float64_the_pipeline_is_the_whole_batch_oracle, 0, SHAPES);
  tcase_add_loop_test(tc, the_model_equals_the_sequential_oracle, 0, SHAPES);
  tcase_add_test(tc, an_unpipelined_model_equals_the_oracle_scanned_or_not);
  tcase_add_loop_test(tc, switches_keep_the_bits, 0, SHAPES);
  tcase_add_loop_test(tc, a_second_pass_gives_the_same_as_the_first, 0, SHAPES);
  tcase_add_loop_test(tc, the_dry_run_plans_the_memory_exactly, 0, SHAPES);
  tcase_add_test(tc, remat_keeps_only_the_inputs_of_layers);
  tcase_add_test(tc, impossible_numbers_are_refused);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
