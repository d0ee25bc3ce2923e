/* The NNX engine trained on MaxText's own runs: inside the bounds of its numbers, and bit for bit the oracle's. */
#include <string.h>

#include "nnx.h"
#include "oracle.h"
#include "reference.h"
#include "tap.h"

static const char ISSUE[] = "main-job";

static void check_tree(const char *name, const struct ab_tree *a, const struct ab_tree *b) {
  for (size_t i = 0; i < ab_tree_size(a); i++) {
    const struct ab_tensor *x = ab_tree_at(a, i), *y = ab_tree_find(b, x->name);
    ck_assert_msg(y && x->count == y->count, "%s: %s", name, x->name);
    for (size_t j = 0; j < x->count; j++)
      ck_assert_msg(((float *)x->data)[j] == ((float *)y->data)[j], "%s: element %zu of %s", name, j, x->name);
  }
}

static void check_training(int i, const struct ab_kernels *kernels) {
  struct reference_case c = reference_open(ISSUE, "train", i);
  struct reference_training nnx = reference_train(&c, &nnx_model_ops, kernels);
  struct reference_training oracle = reference_train(&c, &ab_oracle_model_ops, kernels);
  reference_check_training(&c, &nnx);
  ck_assert_int_eq(nnx.steps, oracle.steps);
  ck_assert_msg(memcmp(nnx.metrics, oracle.metrics, (size_t)nnx.steps * sizeof *nnx.metrics) == 0,
                "%s: metrics of nnx and sequential differ", c.name);
  check_tree(c.name, nnx.grads, oracle.grads);
  check_tree(c.name, nnx.params, oracle.params);
  reference_training_free(&nnx);
  reference_training_free(&oracle);
  reference_close(&c);
}

START_TEST(test_training_f32) {
  check_training(_i, &ab_kernels_f32);
}
END_TEST

START_TEST(test_training_portable) {
  check_training(_i, &ab_kernels_f32_portable);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_training");
  TCase *tc = tcase_create("training");
  int trainings = reference_count(ISSUE, "train");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_training_f32, 0, trainings);
  tcase_add_loop_test(tc, test_training_portable, 0, 2);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
