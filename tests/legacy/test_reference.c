/* The engine on the bundles of the real MaxText code: inside the manifest's bounds, and bitwise equal to the oracle. */
#include "bits.h"
#include "capture.h"
#include "linen.h"
#include "oracle.h"
#include "linen_pipeline_utils.h"
#include "reference.h"

static const char ISSUE[] = "main-job";
static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable};

START_TEST(the_pipeline_is_maxtexts_and_the_oracles) {
  struct reference_case c = reference_open(ISSUE, "engine", _i);
  for (int t = 0; t < 2; t++) {
    struct reference_run engine = reference_run_pipeline(&c, &linen_pipeline_ops, tables[t], NULL);
    struct reference_run oracle = reference_run_pipeline(&c, &ab_oracle_pipeline_ops, tables[t], NULL);
    reference_check_run(&c, &engine, tables[t]);
    same_floats(c.name, "outputs", engine.outputs, oracle.outputs, engine.elements);
    same_floats(c.name, "d_inputs", engine.d_inputs, oracle.d_inputs, engine.elements);
    same_trees(c.name, engine.grads, oracle.grads);
    ck_assert_msg(engine.loss == oracle.loss, "%s: loss %a, the oracle's %a", c.name, engine.loss, oracle.loss);
    reference_run_free(&engine);
    reference_run_free(&oracle);
  }
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

START_TEST(in_float64_every_leaf_is_the_oracles) {
  struct reference_case c = reference_open(ISSUE, "engine", _i);
  struct reference_run engine = reference_run_pipeline(&c, &linen_pipeline_ops, &ab_kernels_f64, NULL);
  struct reference_run oracle = reference_run_pipeline(&c, &ab_oracle_pipeline_ops, &ab_kernels_f64, NULL);
  ck_assert_double_le(relative(engine.outputs, oracle.outputs, engine.elements), 1e-13);
  ck_assert_double_le(relative(engine.d_inputs, oracle.d_inputs, engine.elements), 1e-13);
  for (size_t i = 0; i < ab_tree_size(engine.grads); i++) {
    const struct ab_tensor *x = ab_tree_at(engine.grads, i), *y = ab_tree_find(oracle.grads, x->name);
    ck_assert_ptr_nonnull(y);
    double distance = relative(x->data, y->data, x->count);
    ck_assert_msg(distance <= 1e-13, "%s: %s is %.3g away", c.name, x->name, distance);
  }
  reference_run_free(&engine);
  reference_run_free(&oracle);
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
  int engine = reference_count(ISSUE, "engine");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, the_pipeline_is_maxtexts_and_the_oracles, 0, engine);
  tcase_add_loop_test(tc, in_float64_every_leaf_is_the_oracles, 0, engine);
  tcase_add_loop_test(tc, loop_states_are_maxtexts, 0, LOOP_CASES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
