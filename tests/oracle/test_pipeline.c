/* The oracle's pipeline module against the numbers of the real MaxText code, in every arithmetic. */
#include "oracle.h"
#include "reference.h"
#include "tap.h"

static const char ISSUE[] = "main-job";

static void check_case(int i, const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels) {
  struct reference_case c = reference_open(ISSUE, "engine", i);
  struct reference_run run = reference_run_pipeline(&c, ops, kernels, NULL);
  reference_check_run(&c, &run, kernels);
  reference_run_free(&run);
  reference_close(&c);
}

START_TEST(test_f32) {
  check_case(_i, &ab_oracle_pipeline_ops, &ab_kernels_f32);
}
END_TEST

START_TEST(test_f32_portable) {
  check_case(_i, &ab_oracle_pipeline_ops, &ab_kernels_f32_portable);
}
END_TEST

START_TEST(test_f64) {
  check_case(_i, &ab_oracle_pipeline_ops, &ab_kernels_f64);
}
END_TEST

/* Whole batch or by microbatch: equal up to rounding in float64. */
START_TEST(test_orders_agree) {
  struct reference_case c = reference_open(ISSUE, "engine", _i);
  struct reference_run whole = reference_run_pipeline(&c, &ab_oracle_pipeline_ops_whole_batch, &ab_kernels_f64, NULL);
  struct reference_run parts = reference_run_pipeline(&c, &ab_oracle_pipeline_ops_by_microbatch, &ab_kernels_f64, NULL);
  for (size_t i = 0; i < ab_tree_size(whole.grads); i++) {
    const struct ab_tensor *a = ab_tree_at(whole.grads, i), *b = ab_tree_at(parts.grads, i);
    double wrong = 0, all = 0;
    for (size_t j = 0; j < a->count; j++) {
      double x = ((const double *)a->data)[j], y = ((const double *)b->data)[j];
      wrong += (x - y) * (x - y);
      all += y * y;
    }
    ck_assert_msg(wrong <= 1e-26 * all, "%s: %s", c.name, a->name);
  }
  reference_run_free(&whole);
  reference_run_free(&parts);
  reference_close(&c);
}
END_TEST

START_TEST(test_manifest_has_the_cases) {
  ck_assert_int_ge(reference_count(ISSUE, "engine"), 30);
  ck_assert_int_eq(reference_count(ISSUE, "train"), 8);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("oracle_pipeline");
  TCase *tc = tcase_create("pipeline");
  int cases = reference_count(ISSUE, "engine");
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_manifest_has_the_cases);
  tcase_add_loop_test(tc, test_f32, 0, cases);
  tcase_add_loop_test(tc, test_f32_portable, 0, cases);
  tcase_add_loop_test(tc, test_f64, 0, cases);
  tcase_add_loop_test(tc, test_orders_agree, 0, cases);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
