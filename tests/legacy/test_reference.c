/* The engine on the bundles of the real MaxText code: inside the manifest's bounds, and bitwise equal to the oracle. In
 * the cases of upstream's defect B1 by default to what was meant, faithfully to what the real code gives.
 */
#include "bits.h"
#include "capture.h"
#include "linen.h"
#include "oracle.h"
#include "linen_pipeline_utils.h"
#include "reference.h"

static const char MAIN[] = "main-job", CIRCULAR[] = "circular";
static const char *const defective[] = {"e05_simple", "p08_simple", "p08_simple_mlp", "p08_llama2"};
enum { DEFECTIVE = sizeof defective / sizeof defective[0] };
static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable};

static void check_against_both(const struct reference_case *c, const struct ab_kernels *kernels) {
  struct reference_run engine = reference_run_pipeline(c, &linen_pipeline_ops, kernels, NULL);
  struct reference_run oracle = reference_run_pipeline(c, &ab_oracle_pipeline_ops, kernels, NULL);
  reference_check_run(c, &engine, kernels);
  same_floats(c->name, "outputs", engine.outputs, oracle.outputs, engine.elements);
  same_floats(c->name, "d_inputs", engine.d_inputs, oracle.d_inputs, engine.elements);
  same_trees(c->name, engine.grads, oracle.grads);
  ck_assert_msg(engine.loss == oracle.loss, "%s: loss %a, the oracle's %a", c->name, engine.loss, oracle.loss);
  reference_run_free(&engine);
  reference_run_free(&oracle);
}

START_TEST(the_pipeline_is_maxtexts_and_the_oracles) {
  struct reference_case c = reference_open(MAIN, "engine", _i);
  for (int t = 0; t < 2; t++) check_against_both(&c, tables[t]);
  reference_close(&c);
}
END_TEST

START_TEST(weights_gathered_ahead_give_what_was_meant) {
  struct reference_case c = reference_open(CIRCULAR, "engine", _i);
  for (int t = 0; t < 2; t++) check_against_both(&c, tables[t]);
  reference_close(&c);
}
END_TEST

START_TEST(and_faithfully_what_maxtext_gives) {
  struct reference_case c = reference_open_faithful(defective[_i]);
  for (int t = 0; t < 2; t++) check_against_both(&c, tables[t]);
  reference_close(&c);
}
END_TEST

/* o03: every gradient is a sum of single products, so that the order of additions is all that differs. Each engine is
 * inside the bounds and equal to the oracle (above); they part at stage 1 and only there. */
START_TEST(the_order_of_additions_shows_at_stage_one) {
  struct reference_case c = reference_open_named("o03_order");
  struct reference_run circular = reference_run_pipeline(&c, &linen_pipeline_ops, &ab_kernels_f32, NULL);
  c.config->pipeline_fsdp_ag_per_repeat = false;
  struct reference_run plain = reference_run_pipeline(&c, &linen_pipeline_ops, &ab_kernels_f32, NULL);
  const struct ab_tensor *a = ab_tree_at(circular.grads, 0), *b = ab_tree_at(plain.grads, 0);
  size_t layer = a->count / (size_t)c.config->pipeline_parallel_layers, differing[2] = {0};
  for (size_t i = 0; i < a->count; i++)
    differing[i / layer % 2] += ((const float *)a->data)[i] != ((const float *)b->data)[i];
  ck_assert_uint_eq(differing[0], 0);
  ck_assert_uint_gt(differing[1], layer / 2);
  reference_run_free(&circular);
  reference_run_free(&plain);
  reference_close(&c);
}
END_TEST

static double relative(const double *a, const double *b, size_t n) {
  double apart = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return all > 0 ? sqrt(apart / all) : sqrt(apart);
}

static void check_float64(const struct reference_case *c) {
  struct reference_run engine = reference_run_pipeline(c, &linen_pipeline_ops, &ab_kernels_f64, NULL);
  struct reference_run oracle = reference_run_pipeline(c, &ab_oracle_pipeline_ops, &ab_kernels_f64, NULL);
  ck_assert_double_le(relative(engine.outputs, oracle.outputs, engine.elements), 1e-13);
  ck_assert_double_le(relative(engine.d_inputs, oracle.d_inputs, engine.elements), 1e-13);
  for (size_t i = 0; i < ab_tree_size(engine.grads); i++) {
    const struct ab_tensor *x = ab_tree_at(engine.grads, i), *y = ab_tree_find(oracle.grads, x->name);
    ck_assert_ptr_nonnull(y);
    double distance = relative(x->data, y->data, x->count);
    ck_assert_msg(distance <= 1e-13, "%s: %s is %.3g away", c->name, x->name, distance);
  }
  reference_run_free(&engine);
  reference_run_free(&oracle);
}

START_TEST(in_float64_every_leaf_is_the_oracles) {
  int plain = reference_count(MAIN, "engine");
  struct reference_case c = _i < plain ? reference_open(MAIN, "engine", _i)
                                       : reference_open(CIRCULAR, "engine", _i - plain);
  check_float64(&c);
  reference_close(&c);
}
END_TEST

START_TEST(and_faithfully_too) {
  struct reference_case c = reference_open_faithful(defective[_i]);
  check_float64(&c);
  reference_close(&c);
}
END_TEST

static const char *const loop_cases[] = {"p01_llama2",       "p03_simple", "p04_simple",
                                         "p05_simple_mlp",   "p11_simple", "p12_simple"};
enum { LOOP_CASES = sizeof loop_cases / sizeof loop_cases[0] };

static void check_ids(const struct reference_case *c, const struct ab_tensor *microbatch,
                      const struct ab_tensor *repeat) {
  struct linen_schedule schedule;
  ck_ok(linen_schedule_of(&schedule, c->config));
  for (int i = 0; i < schedule.iterations * schedule.stages; i++) {
    struct linen_ids ids = linen_get_microbatch_and_repeat_ids(&schedule, i / schedule.stages, i % schedule.stages);
    int given = ((const int32_t *)repeat->data)[i], last = schedule.repeats - 1;
    ck_assert_int_eq(ids.microbatch, ((const int32_t *)microbatch->data)[i]);
    ck_assert_int_eq(ids.repeat, given < last ? given : last);
  }
}

/* One loop buffer after every iteration. */
static void check_buffer(const struct reference_case *c, const struct capture *capture, const struct ab_tensor *want) {
  char name[AB_NAME_MAX];
  size_t iterations = (size_t)want->shape.dim[0], n = want->count / iterations;
  snprintf(name, sizeof name, "loop/%s", want->name);
  for (size_t t = 0; t < iterations; t++) {
    const struct capture_tensor *got = capture_find(capture, name, (int)t);
    ck_assert_uint_eq(got->count, n);
    double distance = reference_distance(got->values, AB_F32, (const float *)want->data + t * n, n);
    ck_assert_msg(distance <= 2e-6, "%s: %s after iteration %zu is %.3g away", c->name, name, t, distance);
  }
}

START_TEST(loop_states_are_maxtexts) {
  struct reference_case c = reference_open_named(loop_cases[_i]);
  struct ab_tree *want = reference_tensors(&c, "loop_states.safetensors");
  struct capture capture;
  size_t buffers = 0;
  c.config->compute_bubbles = true;
  capture_new(&capture, AB_LEVEL_FULL, (int)c.config->num_stages, "loop/");
  struct reference_run run = reference_run_pipeline(&c, &linen_pipeline_ops, &ab_kernels_f32, capture.probe);
  for (size_t i = 0; i < ab_tree_size(want); i++)
    if (ab_tree_at(want, i)->dtype == AB_F32) check_buffer(&c, &capture, ab_tree_at(want, i)), buffers++;
  ck_assert_uint_eq(buffers, ab_tree_size(want) - 2);
  check_ids(&c, ab_tree_find(want, "microbatch_ids"), ab_tree_find(want, "repeat_ids"));
  reference_run_free(&run);
  capture_free(&capture);
  ab_tree_free(want);
  reference_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_reference");
  TCase *tc = tcase_create("reference");
  int engine = reference_count(MAIN, "engine"), circular = reference_count(CIRCULAR, "engine");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, the_pipeline_is_maxtexts_and_the_oracles, 0, engine);
  tcase_add_loop_test(tc, weights_gathered_ahead_give_what_was_meant, 0, circular);
  tcase_add_loop_test(tc, and_faithfully_what_maxtext_gives, 0, DEFECTIVE);
  tcase_add_test(tc, the_order_of_additions_shows_at_stage_one);
  tcase_add_loop_test(tc, in_float64_every_leaf_is_the_oracles, 0, engine + circular);
  tcase_add_loop_test(tc, and_faithfully_too, 0, DEFECTIVE);
  tcase_add_loop_test(tc, loop_states_are_maxtexts, 0, LOOP_CASES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
