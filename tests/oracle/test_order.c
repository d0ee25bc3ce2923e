/* The order in which microbatches are added to a weight gradient: the last first, from +0, one addition each. */
#include "bench.h"
#include "mem.h"
#include "tap.h"

static char simple_mlp[] = "simple_mlp";

static float *chain(struct bench *b, bool last_first, size_t *count) {
  int64_t microbatches = b->config.num_pipeline_microbatches;
  float *sum = NULL;
  for (int64_t i = 0; i < microbatches; i++) {
    float *one = bench_contribution(b, last_first ? microbatches - 1 - i : i, count);
    if (!sum) ck_ok(ab_mem_new(&sum, *count, sizeof *sum));
    for (size_t j = 0; j < *count; j++) sum[j] += one[j];
    ab_mem_free(one);
  }
  return sum;
}

static size_t differing(const float *a, const float *b, size_t count) {
  size_t different = 0;
  for (size_t i = 0; i < count; i++) different += a[i] != b[i];
  return different;
}

START_TEST(test_last_microbatch_first) {
  static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable};
  struct bench b;
  size_t count;
  struct ab_config config = small_config();
  if (_i / 2) config.decoder_block = simple_mlp;
  bench_new(&b, tables[_i % 2], &config);
  float *all = bench_gradients(&b, b.d_outputs, &count);
  float *backwards = chain(&b, true, &count), *forwards = chain(&b, false, &count);
  size_t wrong = differing(all, backwards, count);
  ck_assert_msg(wrong == 0, "%s, %s: %zu of %zu elements are not the chain from the last microbatch",
                b.config.decoder_block, tables[_i % 2]->name, wrong, count);
  ck_assert_msg(differing(all, forwards, count) > 0, "the order does not show");
  ab_mem_free(all);
  ab_mem_free(backwards);
  ab_mem_free(forwards);
  bench_free(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("oracle_order");
  TCase *tc = tcase_create("order");
  tcase_add_loop_test(tc, test_last_microbatch_first, 0, 4);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
