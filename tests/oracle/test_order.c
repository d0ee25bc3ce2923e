/* The order in which microbatches are added to a weight gradient: the last first, from +0, one addition each. */
#include <math.h>
#include <string.h>

#include "mem.h"
#include "oracle.h"
#include "small.h"
#include "tap.h"

struct bench {
  struct ab_config config;
  struct reference_side s;
  size_t elements, part; /* of the batch, of a microbatch */
  float *inputs, *outputs, *d_outputs, *d_inputs, *masked;
  int32_t *ids;
};

static char simple_mlp[] = "simple_mlp";

static void fill(float *values, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = (float)((double)(seed >> 11) / 9007199254740992.0 - 0.5);
  }
}

static void bench_new(struct bench *b, const struct ab_kernels *kernels, int block) {
  b->config = small_config();
  b->config.num_decoder_layers = b->config.pipeline_parallel_layers;
  if (block) b->config.decoder_block = simple_mlp;
  small_derive(&b->config);
  size_t tokens = (size_t)(b->config.micro_batch_size_to_train_on * b->config.max_target_length);
  b->elements = tokens * (size_t)b->config.emb_dim;
  b->part = b->elements / (size_t)b->config.num_pipeline_microbatches;
  float **arrays[] = {&b->inputs, &b->outputs, &b->d_outputs, &b->d_inputs, &b->masked};
  for (size_t i = 0; i < 5; i++) {
    ck_ok(ab_mem_new(arrays[i], b->elements, sizeof(float)));
    fill(*arrays[i], b->elements, i + 1);
  }
  ck_ok(ab_mem_new(&b->ids, tokens, sizeof *b->ids));
  for (size_t i = 0; i < tokens; i++) b->ids[i] = (int32_t)(i % 5 / 3);
  reference_pipeline_new(&b->s, &ab_oracle_pipeline_ops, kernels, &b->config, NULL);
  small_params(&b->s);
}

static void bench_free(struct bench *b) {
  void *arrays[] = {b->inputs, b->outputs, b->d_outputs, b->d_inputs, b->masked, b->ids};
  for (size_t i = 0; i < 6; i++) ab_mem_free(arrays[i]);
  reference_side_free(&b->s);
}

/* Gradients of one forward and backward under a cotangent; the caller frees. */
static float *gradients(struct bench *b, const float *d_outputs, size_t *count) {
  void *out;
  size_t arena = ab_arena_mark(&b->s.arena), book = ab_arena_mark(&b->s.book);
  const struct ab_pipeline_ops *ops = b->s.side.pipeline_ops;
  ck_ok(ops->forward(b->s.side.pipeline, b->outputs, b->inputs, b->ids, b->ids));
  ck_ok(ops->backward(b->s.side.pipeline, b->d_inputs, d_outputs));
  *count = small_side_gradients(&out, &b->s, &b->config);
  ab_arena_release(&b->s.arena, arena);
  ab_arena_release(&b->s.book, book);
  return out;
}

/* What microbatch m alone contributes. */
static float *contribution(struct bench *b, int64_t m, size_t *count) {
  memset(b->masked, 0, b->elements * sizeof(float));
  memcpy(b->masked + (size_t)m * b->part, b->d_outputs + (size_t)m * b->part, b->part * sizeof(float));
  return gradients(b, b->masked, count);
}

static float *chain(struct bench *b, bool last_first, size_t *count) {
  int64_t microbatches = b->config.num_pipeline_microbatches;
  float *sum = NULL;
  for (int64_t i = 0; i < microbatches; i++) {
    float *one = contribution(b, last_first ? microbatches - 1 - i : i, count);
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
  bench_new(&b, tables[_i % 2], _i / 2);
  float *all = gradients(&b, b.d_outputs, &count);
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
