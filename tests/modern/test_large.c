/* Microbatches of 1024 tokens, where a product accumulated in place differs in bits from one added afterwards. */
#include <string.h>

#include "mem.h"
#include "nnx.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"
#include "threads.h"

static char simple_mlp[] = "simple_mlp";

static struct ab_config large(const char *block) {
  struct ab_config config = rig_config(3, 3, 2, 1, 1);
  if (block) config.decoder_block = simple_mlp;
  config.max_target_length = 512;
  return config;
}

static void check_threads(const struct ab_config *config, const struct ab_kernels *kernels, const char *what) {
  for (int threads = 1; threads <= 4; threads *= 2) {
    use_threads(threads);
    rig_check_same(what, rig_run(&nnx_pipeline_ops, kernels, config, NULL),
                   rig_run(&ab_oracle_pipeline_ops, kernels, config, NULL));
  }
}

START_TEST(test_simple_mlp_is_oracle) {
  struct ab_config config = large(simple_mlp);
  check_threads(&config, &ab_kernels_f32, "f32");
  check_threads(&config, &ab_kernels_f32_portable, "f32-portable");
}
END_TEST

START_TEST(test_llama2_is_oracle) {
  struct ab_config config = large(NULL);
  use_threads(2);
  rig_check_same("f32", rig_run(&nnx_pipeline_ops, &ab_kernels_f32, &config, NULL),
                 rig_run(&ab_oracle_pipeline_ops, &ab_kernels_f32, &config, NULL));
}
END_TEST

/* A sum in another order: the product first, then one addition onto the accumulator. */
static _Thread_local float product[64 * 64];

static void reassociated_gemm(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  struct ab_gemm alone = *dims;
  if (!dims->accumulate || dims->ldc != dims->n) {
    ab_kernels_f32_portable.gemm(c, a, b, dims);
    return;
  }
  ck_assert_int_le(dims->m * dims->n, 64 * 64);
  alone.accumulate = false;
  ab_kernels_f32_portable.gemm(product, a, b, &alone);
  ab_kernels_f32_portable.add(c, c, product, (size_t)(dims->m * dims->n));
}

/* The comparison above sees a reassociated weight gradient. */
START_TEST(test_reassociation_shows) {
  struct ab_config config = large(simple_mlp);
  struct ab_kernels reassociating = ab_kernels_f32_portable;
  reassociating.gemm = reassociated_gemm;
  double distance = rig_distance(rig_run(&nnx_pipeline_ops, &reassociating, &config, NULL),
                                 rig_run(&ab_oracle_pipeline_ops, &ab_kernels_f32_portable, &config, NULL));
  ck_assert_msg(distance > 0 && distance < 1e-5, "distance %.3g", distance);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_large");
  TCase *tc = tcase_create("large");
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_simple_mlp_is_oracle);
  tcase_add_test(tc, test_llama2_is_oracle);
  tcase_add_test(tc, test_reassociation_shows);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
