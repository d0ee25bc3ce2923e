/* How NNXCircularPipeline relates to NNXPipeline, line by line, and what it must not change: bubbles, remat, the form
 * of the loop, threads; what it fetches and recomputes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "nnx.h"
#include "observed.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"
#include "threads.h"
#include "upstream.h"

static char none[] = "none", full[] = "full", minimal[] = "minimal", simple[] = "simple", simple_mlp[] = "simple_mlp";

/* Stages, microbatches, repeats: outputs rotate for M = S, and go through circular storage for M > S. */
static const struct shape {
  int s, m, r;
} shapes[] = {{2, 2, 2}, {2, 8, 4}, {3, 3, 3}, {3, 6, 2}, {4, 4, 2}, {4, 8, 3}, {5, 10, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct ab_config plain_config(int i) {
  return rig_config(shapes[i].s, shapes[i].m, shapes[i].r, 1, 1);
}

static struct ab_config circular_config(int i) {
  struct ab_config config = plain_config(i);
  config.pipeline_fsdp_ag_per_repeat = true;
  return config;
}

static struct ab_config faithful_config(int i) {
  struct ab_config config = circular_config(i);
  config.upstream_faithful = 1u << AB_DEFECT_B1;
  return config;
}

static const char *name_of(int i) {
  static char name[64];
  snprintf(name, sizeof name, "S%d M%d R%d", shapes[i].s, shapes[i].m, shapes[i].r);
  return name;
}

static struct rig_result run_on(const struct ab_kernels *kernels, const struct ab_config *config) {
  return rig_run(&nnx_pipeline_ops, kernels, config, NULL);
}

static struct rig_result run32(const struct ab_config *config) {
  return run_on(&ab_kernels_f32, config);
}

static struct rig_result oracle_on(const struct ab_kernels *kernels, const struct ab_config *config) {
  return rig_run(&ab_oracle_pipeline_ops, kernels, config, NULL);
}

START_TEST(test_is_oracle) {
  struct ab_config configs[] = {circular_config(_i), faithful_config(_i)};
  for (int mode = 0; mode < 2; mode++) {
    struct ab_config *config = &configs[mode];
    rig_check_same(name_of(_i), run32(config), oracle_on(&ab_kernels_f32, config));
    rig_check_same(name_of(_i), run_on(&ab_kernels_f32_portable, config),
                   oracle_on(&ab_kernels_f32_portable, config));
    double distance = rig_distance(run_on(&ab_kernels_f64, config), oracle_on(&ab_kernels_f64, config));
    ck_assert_msg(distance <= 1e-13, "%s: %.3g from sequential64", name_of(_i), distance);
  }
}
END_TEST

/* Integers: no order of additions can hide a fault, so all must be equal, to NNXPipeline too. */
START_TEST(test_exact) {
  char *const blocks[] = {simple, simple_mlp};
  for (int i = 0; i < 2; i++) {
    struct ab_config plain = plain_config(_i), circular = circular_config(_i), faithful = faithful_config(_i);
    plain.decoder_block = circular.decoder_block = faithful.decoder_block = blocks[i];
    rig_check_same(name_of(_i), run_on(&ab_kernels_exact, &circular), oracle_on(&ab_kernels_exact, &circular));
    rig_check_same(name_of(_i), run_on(&ab_kernels_exact, &circular), run_on(&ab_kernels_exact, &plain));
    rig_check_same(name_of(_i), run_on(&ab_kernels_exact, &faithful), oracle_on(&ab_kernels_exact, &faithful));
  }
}
END_TEST

/* How two float32 results compare over [first, first + count). */
struct comparison {
  size_t unequal;
  double distance;
};

static struct comparison compare(const struct rig_result *a, const struct rig_result *b, size_t first, size_t count) {
  const float *x = (const float *)a->values + first, *y = (const float *)b->values + first;
  struct comparison out = {0};
  for (size_t i = 0; i < count; i++) out.unequal += x[i] != y[i];
  out.distance = reference_distance(x, AB_F32, y, count);
  return out;
}

/* Activations bit for bit; weight gradients too at stage 0; at the others the terms of the next window are summed
 * apart, which shows in some bits of the whole and is no more than rounding. */
static void check_tiers(const char *name, const struct rig_result *plain, const struct rig_result *circular,
                        const struct ab_config *config) {
  size_t layers = (size_t)config->pipeline_parallel_layers, reordered = 0;
  size_t activations = 2 * (size_t)(config->micro_batch_size_to_train_on * config->max_target_length * config->emb_dim);
  size_t part = (plain->count - activations) / layers;
  ck_assert_msg(compare(circular, plain, 0, activations).unequal == 0, "%s: outputs or input gradients differ", name);
  for (size_t layer = 0; layer < layers; layer++) {
    struct comparison weights = compare(circular, plain, activations + layer * part, part);
    bool first_stage = layer % (size_t)config->num_stages == 0;
    reordered += weights.unequal;
    ck_assert_msg(weights.distance <= 5e-7, "%s: layer %zu is %.3g away", name, layer, weights.distance);
    ck_assert_msg(!first_stage || weights.unequal == 0, "%s: layer %zu differs at stage 0", name, layer);
  }
  ck_assert_msg(reordered > layers, "%s: the order of additions shows in %zu elements", name, reordered);
}

START_TEST(test_tiers) {
  struct ab_config config = circular_config(_i), plain_one = plain_config(_i);
  struct rig_result plain = run32(&plain_one), circular = run32(&config);
  if (config.num_pipeline_microbatches > 2) check_tiers(name_of(_i), &plain, &circular, &config);
  else rig_check_same(name_of(_i), run32(&config), run32(&plain_one)); /* two terms have one order */
  ab_mem_free(plain.values);
  ab_mem_free(circular.values);
}
END_TEST

/* B1: stages from the third run late repeats with weights of the repeat before, and no stage runs the last one's. */
START_TEST(test_prefetch_defect) {
  struct ab_config config = circular_config(_i), faithful_one = faithful_config(_i);
  struct rig_result intended = run32(&config), faithful = run32(&faithful_one);
  size_t layers = (size_t)config.pipeline_parallel_layers, stages = (size_t)config.num_stages;
  size_t elements = (size_t)(config.micro_batch_size_to_train_on * config.max_target_length * config.emb_dim);
  size_t part = (intended.count - 2 * elements) / layers;
  double distance = compare(&faithful, &intended, 0, elements).distance;
  ck_assert_msg(stages == 2 ? distance == 0 : distance > 0.01, "%s: outputs are %.3g away", name_of(_i), distance);
  for (size_t layer = 0; layer < layers; layer++) {
    const float *gradient = (const float *)faithful.values + 2 * elements + layer * part;
    size_t zeros = 0;
    for (size_t i = 0; i < part; i++) zeros += gradient[i] == 0;
    bool unused = layer >= layers - stages && layer % stages >= 2;
    ck_assert_msg(unused ? zeros == part : zeros < part / 2, "%s: layer %zu has %zu zeros", name_of(_i), layer, zeros);
  }
  ab_mem_free(intended.values);
  ab_mem_free(faithful.values);
}
END_TEST

START_TEST(test_bubbles_and_loop_form_change_nothing) {
  struct ab_config config = circular_config(_i), computing = config, unrolled = config;
  computing.compute_bubbles = true;
  unrolled.scan_pipeline_iterations = false;
  rig_check_same(name_of(_i), run32(&config), run32(&computing));
  rig_check_same(name_of(_i), run32(&config), run32(&unrolled));
}
END_TEST

/* The remat of windows, of iterations, and of layers. */
START_TEST(test_remat_keeps_bits) {
  static const struct {
    char *policy;
    bool iterations, faithful;
  } variants[] = {{none, true, false}, {minimal, true, false}, {full, false, true}, {minimal, false, false}};
  struct ab_config config = circular_config(_i); /* full, with remat of the iterations */
  for (int i = 0; i < 4; i++) {
    struct ab_config other = config;
    other.remat_policy = variants[i].policy;
    other.set_remat_policy_on_pipeline_iterations = variants[i].iterations;
    other.upstream_faithful = variants[i].faithful ? 1u << AB_DEFECT_B13 : 0;
    rig_check_same(name_of(_i), run32(&config), run32(&other));
  }
}
END_TEST

START_TEST(test_threads_keep_bits) {
  struct ab_config config = circular_config(_i);
  for (int threads = 2; threads <= 4; threads += 2) {
    use_threads(1);
    struct rig_result one = run32(&config);
    use_threads(threads);
    rig_check_same(name_of(_i), one, run32(&config));
  }
}
END_TEST

START_TEST(test_step_repeats) {
  struct ab_config config = circular_config(_i);
  rig_check_repeats(name_of(_i), &nnx_pipeline_ops, &config);
}
END_TEST

/* The dry run's memory is the run's. */
START_TEST(test_plan_is_exact) {
  struct ab_config config = circular_config(_i);
  struct rig rig;
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
  ck_ok(rig_forward(&rig));
  ck_ok(rig_backward(&rig));
  ck_assert_uint_eq(rig.s.arena.high, rig.s.arena.size);
  ck_assert_uint_eq(rig.s.slab.high, rig.s.slab.size);
  rig_free(&rig);
}
END_TEST

static const struct {
  bool iterations, faithful;
  int backward; /* fetches per stage and repeat */
} remats[] = {{true, false, 1}, {false, false, 1}, {true, true, 1}, {false, true, 0}};

/* One fetch per window, none for the drain; again in the backward pass where windows are rematerialised. */
START_TEST(test_gathers) {
  for (int i = 0; i < 4; i++) {
    struct ab_config config = circular_config(_i);
    struct rig rig;
    config.set_remat_policy_on_pipeline_iterations = remats[i].iterations;
    config.upstream_faithful = remats[i].faithful ? 1u << AB_DEFECT_B13 : 0;
    rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
    int64_t leaves = ab_block_find(config.decoder_block)->param_count, once = shapes[_i].r * leaves;
    ck_ok(rig_forward(&rig));
    for (int s = 0; s < shapes[_i].s; s++) ck_assert_int_eq(rig.s.mesh.by_stage[s].gathers, once);
    ck_assert_int_eq(ab_mesh_ledger(&rig.s.mesh).gather_bytes, (int64_t)rig.weights * 4);
    ck_ok(rig_backward(&rig));
    for (int s = 0; s < shapes[_i].s; s++)
      ck_assert_int_eq(rig.s.mesh.by_stage[s].gathers, once * (1 + remats[i].backward));
    rig_free(&rig);
  }
}
END_TEST

static struct ab_config once_config(int i) {
  struct ab_config config = rig_config(3, 6, i % 2 + 1, i / 2 + 1, i == 5 ? 2 : 1);
  config.scan_layers_per_stage = i / 2 == 1;
  config.set_remat_policy_on_pipeline_iterations = i != 4;
  return config;
}

/* pipeline_fsdp_ag_once: all fetches before the loop, none in the backward pass, and NNXPipeline's bits. */
START_TEST(test_ag_once) {
  struct ab_config plain = once_config(_i), once = plain;
  struct rig rig;
  once.pipeline_fsdp_ag_once = true;
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &once, NULL);
  int64_t leaves = ab_block_find(once.decoder_block)->param_count * once.num_pipeline_repeats;
  if (!once.scan_layers_per_stage) leaves *= once.num_layers_per_pipeline_stage;
  ck_ok(rig_forward(&rig));
  for (int s = 0; s < 3; s++) ck_assert_int_eq(rig.s.mesh.by_stage[s].gathers, leaves);
  ck_assert_int_eq(ab_mesh_ledger(&rig.s.mesh).gather_bytes, (int64_t)rig.weights * 4);
  ck_ok(rig_backward(&rig));
  for (int s = 0; s < 3; s++) ck_assert_int_eq(rig.s.mesh.by_stage[s].gathers, leaves);
  rig_check_same("ag_once", rig_result_of(&rig, &once), run32(&plain));
  rig_free(&rig);
}
END_TEST

/* Everything that a run counts but carried weights, and the loop state after every iteration, as one sum that knows their order. */
struct trace {
  uint64_t sum;
  int loops, executed, recomputed;
};

static void mix(struct trace *trace, uint64_t value) {
  trace->sum = (trace->sum ^ value) * 0x9e3779b97f4a7c15u;
  trace->sum ^= trace->sum >> 29;
}

static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct trace *trace = ctx;
  (void)values;
  if (strncmp(o->id.tensor, "loop/", 5) != 0) return AB_OK;
  trace->loops++;
  mix(trace, o->summary.digest[0]);
  mix(trace, (uint64_t)o->at.iteration);
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  struct trace *trace = ctx;
  if (strcmp(name, AB_COUNT_W_CURR) == 0 || strcmp(name, AB_COUNT_W_NEXT) == 0) return AB_OK; /* test_remat.c */
  const int numbers[] = {id->microbatch, id->layer, at->iteration, at->stage, at->repeat, at->bubble};
  for (const char *p = name; *p; p++) mix(trace, (unsigned char)*p);
  for (int i = 0; i < 6; i++) mix(trace, (uint64_t)numbers[i]);
  mix(trace, (uint64_t)amount);
  trace->executed += strcmp(name, AB_COUNT_EXECUTE) == 0;
  trace->recomputed += strncmp(name, AB_COUNT_RECOMPUTE, strlen(AB_COUNT_RECOMPUTE)) == 0;
  return AB_OK;
}

static bool wants_loop(void *ctx, const struct ab_identity *id) {
  (void)ctx;
  return strncmp(id->tensor, "loop/", 5) == 0;
}

static struct trace trace_of(const struct ab_config *config) {
  static const struct ab_probe_ops tracing = {on_observe, on_count};
  struct trace trace = {0};
  struct ab_probe *probe;
  ck_ok(ab_probe_new(&probe, &tracing, &trace, AB_LEVEL_FULL, (int)config->num_stages));
  ab_probe_want(probe, wants_loop, NULL);
  ab_mem_free(rig_run(&nnx_pipeline_ops, &ab_kernels_f32, config, probe).values);
  ab_probe_free(probe);
  return trace;
}

/* Cells, bubbles, recomputed operators, and every buffer of every iteration. */
START_TEST(test_same_course_as_the_plain_pipeline) {
  for (int computing = 0; computing < 2; computing++) {
    struct ab_config plain = plain_config(_i), circular = circular_config(_i);
    plain.compute_bubbles = circular.compute_bubbles = computing;
    struct trace a = trace_of(&plain), b = trace_of(&circular);
    int buffers = ab_use_circ_storage(&circular) ? 6 : 4;
    ck_assert_int_eq(b.loops, buffers * (int)ab_total_iterations(&circular));
    ck_assert_int_eq(b.executed, shapes[_i].s * shapes[_i].m * shapes[_i].r);
    ck_assert_msg(a.sum == b.sum, "%s: another course", name_of(_i));
  }
}
END_TEST

/* Each iteration is rematerialised whatever set_remat_policy_on_pipeline_iterations says. */
START_TEST(test_iterations_are_always_rematerialised) {
  for (int faithful = 0; faithful < 2; faithful++) {
    struct ab_config on = circular_config(_i), off = on;
    off.set_remat_policy_on_pipeline_iterations = false;
    off.upstream_faithful = faithful ? 1u << AB_DEFECT_B13 : 0;
    struct trace a = trace_of(&on), b = trace_of(&off);
    ck_assert_int_gt(a.recomputed, 0);
    ck_assert_int_eq(a.recomputed, b.recomputed);
    ck_assert(a.sum == b.sum);
  }
}
END_TEST

static void add_relations(TCase *tc) {
  tcase_add_loop_test(tc, test_is_oracle, 0, SHAPES);
  tcase_add_loop_test(tc, test_exact, 0, SHAPES);
  tcase_add_loop_test(tc, test_tiers, 0, SHAPES);
  tcase_add_loop_test(tc, test_prefetch_defect, 0, SHAPES);
  tcase_add_loop_test(tc, test_same_course_as_the_plain_pipeline, 0, SHAPES);
}

int main(void) {
  Suite *suite = suite_create("nnx_tiers");
  TCase *tc = tcase_create("tiers");
  tcase_set_timeout(tc, 60);
  add_relations(tc);
  tcase_add_loop_test(tc, test_bubbles_and_loop_form_change_nothing, 0, SHAPES);
  tcase_add_loop_test(tc, test_remat_keeps_bits, 0, SHAPES);
  tcase_add_loop_test(tc, test_threads_keep_bits, 0, SHAPES);
  tcase_add_loop_test(tc, test_step_repeats, 0, SHAPES);
  tcase_add_loop_test(tc, test_plan_is_exact, 0, SHAPES);
  tcase_add_loop_test(tc, test_gathers, 0, SHAPES);
  tcase_add_loop_test(tc, test_ag_once, 0, 6);
  tcase_add_loop_test(tc, test_iterations_are_always_rematerialised, 0, SHAPES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
