/* The NNX pipeline on the bundles of kind engine: against the numbers of the real MaxText code and, bit for bit,
 * against the sequential oracle. */
#include <math.h>
#include <string.h>

#include "nnx.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"

static const char ISSUE[] = "main-job";

static void check_bitwise(int i, const struct ab_kernels *kernels) {
  struct reference_case c = reference_open(ISSUE, "engine", i);
  struct reference_run nnx = reference_run_pipeline(&c, &nnx_pipeline_ops, kernels, NULL);
  struct reference_run oracle = reference_run_pipeline(&c, &ab_oracle_pipeline_ops, kernels, NULL);
  reference_check_run(&c, &nnx, kernels);
  rig_check_same_run(c.name, &nnx, &oracle, kernels->dtype);
  reference_run_free(&nnx);
  reference_run_free(&oracle);
  reference_close(&c);
}

START_TEST(test_f32_is_oracle) {
  check_bitwise(_i, &ab_kernels_f32);
}
END_TEST

START_TEST(test_f32_portable_is_oracle) {
  check_bitwise(_i, &ab_kernels_f32_portable);
}
END_TEST

static double distance64(const double *a, const double *b, size_t n) {
  double wrong = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    wrong += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return all > 0 ? sqrt(wrong / all) : sqrt(wrong);
}

static void check_close(const char *name, const char *what, const double *a, const double *b, size_t n) {
  double distance = distance64(a, b, n);
  ck_assert_msg(distance <= 1e-13, "%s: %s is %.3g away from sequential64", name, what, distance);
}

START_TEST(test_f64_near_oracle) {
  struct reference_case c = reference_open(ISSUE, "engine", _i);
  struct reference_run nnx = reference_run_pipeline(&c, &nnx_pipeline_ops, &ab_kernels_f64, NULL);
  struct reference_run oracle = reference_run_pipeline(&c, &ab_oracle_pipeline_ops, &ab_kernels_f64, NULL);
  check_close(c.name, "outputs", nnx.outputs, oracle.outputs, nnx.elements);
  check_close(c.name, "d_inputs", nnx.d_inputs, oracle.d_inputs, nnx.elements);
  for (size_t i = 0; i < ab_tree_size(nnx.grads); i++) {
    const struct ab_tensor *x = ab_tree_at(nnx.grads, i), *y = ab_tree_find(oracle.grads, x->name);
    check_close(c.name, x->name, x->data, y->data, x->count);
  }
  reference_run_free(&nnx);
  reference_run_free(&oracle);
  reference_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_pipeline");
  TCase *tc = tcase_create("bundles");
  int cases = reference_count(ISSUE, "engine");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_f32_is_oracle, 0, cases);
  tcase_add_loop_test(tc, test_f32_portable_is_oracle, 0, cases);
  tcase_add_loop_test(tc, test_f64_near_oracle, 0, cases);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
