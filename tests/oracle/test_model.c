/* The oracle's whole model: finite differences, layouts and remat that must not matter, observations, memory. */
#include <math.h>
#include <string.h>

#include "mem.h"
#include "observed.h"
#include "oracle.h"
#include "small.h"
#include "tap.h"

static char simple_mlp[] = "simple_mlp", none[] = "none", minimal[] = "minimal";

/* Pipelined with a layer outside, without a pipeline, two layers per stage, and another block. */
enum { SHAPES = 4 };
static struct ab_config shape(int i) {
  struct ab_config c = small_config();
  if (i == 1) c.pipelined = false;
  if (i == 2) c.num_pipeline_repeats = 1;
  if (i == 3) c.decoder_block = simple_mlp;
  small_derive(&c);
  return c;
}

/* A direction of the same size as a leaf's values; dot of gradient and direction, and a step along it. */
struct walk {
  double step, slope;
  bool measure;
};

static ab_status along(void *ctx, int layer, const char *name, const struct ab_view *view) {
  struct walk *walk = ctx;
  uint64_t seed = (uint64_t)(layer + 5) * 7919 + strlen(name) * 104729 + (unsigned char)name[strlen(name) / 2];
  size_t count = ab_view_count(view);
  double *values = view->data;
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double direction = seed >> 63 ? 1 : -1;
    if (walk->measure)
      walk->slope += direction * values[i];
    else
      values[i] += walk->step * direction;
  }
  return AB_OK;
}

static double loss_at(struct small_run *run, const struct ab_batch *batch, double step) {
  struct walk walk = {.step = step};
  struct ab_loss_terms terms;
  ck_ok(run->s.side.model_ops->leaves(run->s.side.model, AB_PARAMS, along, &walk));
  ck_ok(run->s.side.model_ops->step(run->s.side.model, batch, &terms));
  walk.step = -step;
  ck_ok(run->s.side.model_ops->leaves(run->s.side.model, AB_PARAMS, along, &walk));
  return terms.loss;
}

START_TEST(test_directional_difference) {
  struct ab_config config = shape(_i);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &ab_oracle_model_ops, &ab_kernels_f64, &config, &batch.batch, NULL);
  struct walk walk = {.measure = true};
  ck_ok(run.s.side.model_ops->leaves(run.s.side.model, AB_GRADS, along, &walk));
  const double h = 1e-6;
  double quotient = (loss_at(&run, &batch.batch, h) - loss_at(&run, &batch.batch, -h)) / (2 * h);
  ck_assert_msg(fabs(quotient - walk.slope) <= 1e-7 * fabs(walk.slope), "shape %d: slope %.12g, quotient %.12g", _i,
                walk.slope, quotient);
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

struct outcome {
  double loss;
  void *grads;
  size_t count;
};

static struct outcome outcome_of(const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                                 const struct ab_config *config) {
  struct outcome out;
  struct small_batch batch = small_batch_new(config);
  struct small_run run;
  small_run_new(&run, ops, kernels, config, &batch.batch, NULL);
  out.loss = run.terms.loss;
  out.count = small_gradients(&out.grads, &run, config);
  small_run_free(&run);
  small_batch_free(&batch);
  return out;
}

static void check_equal_bits(struct outcome a, struct outcome b, const struct ab_kernels *k, const char *what) {
  ck_assert_msg(a.loss == b.loss && isfinite(a.loss), "%s: loss %.17g and %.17g", what, a.loss, b.loss);
  ck_assert_uint_eq(a.count, b.count);
  ck_assert_msg(memcmp(a.grads, b.grads, a.count * k->element) == 0, "%s: gradients differ", what);
  ab_mem_free(a.grads);
  ab_mem_free(b.grads);
}

/* What is kept for backward changes no bit. */
START_TEST(test_remat_keeps_bits) {
  static char *const policies[] = {none, minimal};
  struct ab_config config = shape(_i);
  for (int policy = 0; policy < 2; policy++)
    for (int flag = 0; flag < 2; flag++) {
      struct ab_config other = config;
      other.remat_policy = policies[policy];
      other.set_remat_policy_on_pipeline_iterations = flag;
      other.scan_layers = flag;
      check_equal_bits(outcome_of(&ab_oracle_model_ops, &ab_kernels_f32, &config),
                       outcome_of(&ab_oracle_model_ops, &ab_kernels_f32, &other), &ab_kernels_f32, policies[policy]);
    }
}
END_TEST

/* The whole batch through the pipeline's span is the model without a pipeline, bit for bit. */
START_TEST(test_whole_batch_is_unpipelined) {
  struct ab_config piped = shape(0), plain = shape(1);
  check_equal_bits(outcome_of(&ab_oracle_model_ops_whole_batch, &ab_kernels_f32, &piped),
                   outcome_of(&ab_oracle_model_ops, &ab_kernels_f32, &plain), &ab_kernels_f32, "float32");
  check_equal_bits(outcome_of(&ab_oracle_model_ops, &ab_kernels_f64, &piped),
                   outcome_of(&ab_oracle_model_ops, &ab_kernels_f64, &plain), &ab_kernels_f64, "float64");
}
END_TEST

/* Float32 by microbatch stays within rounding of float64. */
START_TEST(test_f32_near_f64) {
  struct ab_config config = shape(_i);
  struct outcome fine = outcome_of(&ab_oracle_model_ops, &ab_kernels_f64, &config);
  struct outcome coarse = outcome_of(&ab_oracle_model_ops, &ab_kernels_f32, &config);
  double wrong = 0, all = 0;
  for (size_t i = 0; i < fine.count; i++) {
    double x = (double)((float *)coarse.grads)[i], y = ((double *)fine.grads)[i];
    wrong += (x - y) * (x - y);
    all += y * y;
  }
  ck_assert_msg(sqrt(wrong / all) < 2e-6, "shape %d: %g", _i, sqrt(wrong / all));
  ck_assert_msg(sqrt(wrong / all) > 1e-9, "shape %d: float32 is not rounded?", _i);
  ab_mem_free(fine.grads);
  ab_mem_free(coarse.grads);
}
END_TEST

/* A second step gives the bits of the first: accumulators start at zero, arenas return to their marks. */
START_TEST(test_step_repeats) {
  struct ab_config config = shape(_i);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &ab_oracle_model_ops, &ab_kernels_f32, &config, &batch.batch, NULL);
  void *first, *second;
  size_t count = small_gradients(&first, &run, &config), calls = ab_mem_stats().calls;
  size_t arena = run.s.arena.used, book = run.s.book.used;
  ck_ok(run.s.side.model_ops->step(run.s.side.model, &batch.batch, &run.terms));
  ck_assert_uint_eq(ab_mem_stats().calls, calls);
  ck_assert_uint_eq(run.s.arena.used, arena);
  ck_assert_uint_eq(run.s.book.used, book);
  small_gradients(&second, &run, &config);
  ck_assert_int_eq(memcmp(first, second, count * sizeof(float)), 0);
  ab_mem_free(first);
  ab_mem_free(second);
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

/* The dry run's arena is exactly what a step takes. */
START_TEST(test_plan_is_exact) {
  struct ab_config config = shape(_i);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &ab_oracle_model_ops, &ab_kernels_f32, &config, &batch.batch, NULL);
  ck_assert_uint_eq(run.s.arena.high, run.s.arena.size);
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

START_TEST(test_refuses_other_batch) {
  struct ab_config config = shape(0);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &ab_oracle_model_ops, &ab_kernels_f32, &config, &batch.batch, NULL);
  struct ab_batch cut = batch.batch;
  cut.rows--;
  ck_fails(run.s.side.model_ops->step(run.s.side.model, &cut, &run.terms), AB_ESHAPE, "5 rows");
  ab_status_clear();
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

/* How often each thing was reported. */
struct tally {
  int whole[16], layer_outputs[8][8], outside_outputs, recomputed, executions;
};
static const struct {
  const char *name;
  enum ab_phase phase;
  bool pipeline;
} whole_names[] = {
    {AB_OBS_EMBEDDING, AB_FORWARD, false},    {AB_OBS_INPUTS, AB_FORWARD, true},
    {AB_OBS_OUTPUTS, AB_FORWARD, true},       {AB_OBS_DECODER_NORM, AB_FORWARD, false},
    {AB_OBS_LOGITS, AB_FORWARD, false},       {AB_OBS_D_LOGITS, AB_BACKWARD, false},
    {AB_OBS_D_DECODER_NORM, AB_BACKWARD, false}, {AB_OBS_D_OUTPUTS, AB_BACKWARD, true},
    {AB_OBS_D_INPUTS, AB_BACKWARD, true},
};
enum { WHOLE_NAMES = sizeof whole_names / sizeof whole_names[0] };

static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct tally *tally = ctx;
  (void)values;
  ck_assert_uint_eq(o->summary.nonfinite, 0);
  for (int i = 0; i < WHOLE_NAMES && o->id.layer < 0; i++)
    if (strcmp(whole_names[i].name, o->id.tensor) == 0 && whole_names[i].phase == o->id.phase) tally->whole[i]++;
  if (o->id.layer < 0 || strcmp(o->id.tensor, "layer_output") != 0 || o->id.phase != AB_FORWARD) return AB_OK;
  if (o->id.microbatch < 0)
    tally->outside_outputs++;
  else
    tally->layer_outputs[o->id.layer][o->id.microbatch]++;
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  struct tally *tally = ctx;
  (void)at;
  ck_assert_int_ge(id->layer, 0);
  if (strcmp(name, AB_COUNT_EXECUTE) == 0) tally->executions += (int)amount;
  if (strcmp(name, AB_COUNT_RECOMPUTE "attention") == 0) tally->recomputed += (int)amount;
  return AB_OK;
}

static struct tally tally_of(const struct ab_model_ops *ops, const struct ab_config *config) {
  static const struct ab_probe_ops probe_ops = {on_observe, on_count};
  struct tally tally = {0};
  struct ab_probe *probe;
  ck_ok(ab_probe_new(&probe, &probe_ops, &tally, AB_LEVEL_DIGEST, 1));
  struct small_batch batch = small_batch_new(config);
  struct small_run run;
  small_run_new(&run, ops, &ab_kernels_f32, config, &batch.batch, probe);
  small_run_free(&run);
  small_batch_free(&batch);
  ab_probe_free(probe);
  return tally;
}

static void check_whole(const struct tally *tally, bool pipelined) {
  for (int i = 0; i < WHOLE_NAMES; i++)
    ck_assert_msg(tally->whole[i] == (pipelined || !whole_names[i].pipeline), "%s: %d times", whole_names[i].name,
                  tally->whole[i]);
}

START_TEST(test_observations) {
  struct ab_config config = shape(0);
  struct tally tally = tally_of(_i ? &ab_oracle_model_ops_whole_batch : &ab_oracle_model_ops_by_microbatch, &config);
  check_whole(&tally, true);
  for (int layer = 0; layer < 8; layer++)
    for (int m = 0; m < 8; m++) ck_assert_int_eq(tally.layer_outputs[layer][m], layer < 4 && m < 3);
  ck_assert_int_eq(tally.outside_outputs, 1);
  ck_assert_int_eq(tally.executions, 4 * 3 + 1);
  ck_assert_int_eq(tally.recomputed, 4 * 3 + 1);
}
END_TEST

START_TEST(test_observations_unpipelined) {
  struct ab_config config = shape(1);
  struct tally tally = tally_of(&ab_oracle_model_ops, &config);
  check_whole(&tally, false);
  ck_assert_int_eq(tally.outside_outputs, 5);
  ck_assert_int_eq(tally.executions, 5);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("oracle_model");
  TCase *tc = tcase_create("model");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_directional_difference, 0, SHAPES);
  tcase_add_loop_test(tc, test_remat_keeps_bits, 0, SHAPES);
  tcase_add_test(tc, test_whole_batch_is_unpipelined);
  tcase_add_loop_test(tc, test_f32_near_f64, 0, SHAPES);
  tcase_add_loop_test(tc, test_step_repeats, 0, SHAPES);
  tcase_add_loop_test(tc, test_plan_is_exact, 0, SHAPES);
  tcase_add_test(tc, test_refuses_other_batch);
  tcase_add_loop_test(tc, test_observations, 0, 2);
  tcase_add_test(tc, test_observations_unpipelined);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
