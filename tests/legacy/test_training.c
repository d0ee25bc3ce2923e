/* The whole Linen model trained on the bundles of the real MaxText code: inside the manifest's bounds, and gradients,
 * parameters and every metric of every step bitwise equal to the oracle's.
 */
#include <string.h>

#include "bits.h"
#include "linen.h"
#include "oracle.h"
#include "reference.h"

static const char MAIN[] = "main-job", CIRCULAR[] = "circular";
static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable};

START_TEST(training_is_maxtexts_and_the_oracles) {
  int plain = reference_count(MAIN, "train"), i = _i / 2;
  struct reference_case c =
      i < plain ? reference_open(MAIN, "train", i) : reference_open(CIRCULAR, "train", i - plain);
  const struct ab_kernels *kernels = tables[_i % 2];
  struct reference_training engine = reference_train(&c, &linen_model_ops, kernels);
  struct reference_training oracle = reference_train(&c, &ab_oracle_model_ops, kernels);
  reference_check_training(&c, &engine);
  same_trees(c.name, engine.grads, oracle.grads);
  same_trees(c.name, engine.params, oracle.params);
  for (int step = 0; step < engine.steps; step++)
    ck_assert_msg(!memcmp(&engine.metrics[step], &oracle.metrics[step], sizeof engine.metrics[step]),
                  "%s: metrics of step %d", c.name, step);
  reference_training_free(&engine);
  reference_training_free(&oracle);
  reference_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_training");
  TCase *tc = tcase_create("training");
  int cases = reference_count(MAIN, "train") + reference_count(CIRCULAR, "train");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, training_is_maxtexts_and_the_oracles, 0, 2 * cases);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
