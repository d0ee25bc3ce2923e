/* The same bits for any number of threads, and proof that there were several. */
#include <pthread.h>

#include "linen.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"
#include "threads.h"

/* A table that notes which threads called its gemm. */
enum { MAX_THREADS = 16 };
static struct {
  pthread_mutex_t lock;
  pthread_t id[MAX_THREADS];
  int count;
} callers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_caller(void) {
  int i = 0;
  pthread_mutex_lock(&callers.lock);
  while (i < callers.count && !pthread_equal(callers.id[i], pthread_self())) i++;
  if (i == callers.count && i < MAX_THREADS) callers.id[callers.count++] = pthread_self();
  pthread_mutex_unlock(&callers.lock);
}

static void noting_gemm(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  note_caller();
  ab_kernels_f32.gemm(c, a, b, dims);
}

static int expected_threads(int asked, int stages) {
  int given = use_threads(asked);
  return given < stages ? given : stages;
}

static struct rig_run run_with(int threads, const struct ab_config *config, const struct ab_kernels *kernels) {
  use_threads(threads);
  callers.count = 0;
  struct rig_run run = rig_run_pipeline(&linen_pipeline_ops, kernels, config, NULL);
  return run;
}

static const struct rig_shape shapes[] = {
    {.stages = 3, .microbatches = 6, .repeats = 2, .layers_per_stage = 1},
    {.stages = 4, .microbatches = 4, .repeats = 2, .layers_per_stage = 2, .scanned_stage = true},
    {.stages = 3, .microbatches = 6, .repeats = 1, .layers_per_stage = 2, .delay = true},
    {.stages = 4, .microbatches = 8, .repeats = 2, .layers_per_stage = 1, .circular = true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

START_TEST(one_two_and_four_threads_give_the_same_bits) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct ab_kernels noting = ab_kernels_f32;
  noting.gemm = noting_gemm;
  struct rig_run one = run_with(1, &config, &noting);
  ck_assert_int_eq(callers.count, 1);
  for (int threads = 2; threads <= 4; threads += 2) {
    struct rig_run many = run_with(threads, &config, &noting);
    ck_assert_int_eq(callers.count, expected_threads(threads, (int)config.num_stages));
    rig_same_bits(&many, &one, &config, "threads");
    rig_run_free(&many);
  }
  rig_run_free(&one);
}
END_TEST

/* 1024 tokens per microbatch: a weight gradient is then summed over several blocks inside one gemm, where adding onto
 * what is there differs from adding afterwards. */
START_TEST(a_thousand_tokens_per_microbatch_equal_the_oracle) {
  struct ab_config config = rig_config(&RIG(3, 3, 1, 1, .delay = false));
  config.max_target_length = 128;
  config.micro_batch_size_to_train_on = 3 * 8;
  config.num_query_heads = config.num_kv_heads = 1;
  struct rig_run engine = run_with(2, &config, &ab_kernels_f32);
  struct rig_run oracle = rig_run_pipeline(&ab_oracle_pipeline_ops, &ab_kernels_f32, &config, NULL);
  rig_same_bits(&engine, &oracle, &config, "1024 tokens");
  rig_run_free(&engine);
  rig_run_free(&oracle);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_threads");
  TCase *tc = tcase_create("threads");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, one_two_and_four_threads_give_the_same_bits, 0, SHAPES);
  tcase_add_test(tc, a_thousand_tokens_per_microbatch_equal_the_oracle);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
