/* The oracle's whole model, trained on the bundles of the real MaxText code: gradients, metrics, final parameters. */
#include "oracle.h"
#include "reference.h"
#include "tap.h"

static const char ISSUE[] = "main-job";

START_TEST(test_training) {
  static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable, &ab_kernels_f64};
  int cases = reference_count(ISSUE, "train");
  struct reference_case c = reference_open(ISSUE, "train", _i % cases);
  struct reference_training training = reference_train(&c, &ab_oracle_model_ops, tables[_i / cases]);
  reference_check_training(&c, &training);
  reference_training_free(&training);
  reference_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("oracle_training");
  TCase *tc = tcase_create("training");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_training, 0, 3 * reference_count(ISSUE, "train"));
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
