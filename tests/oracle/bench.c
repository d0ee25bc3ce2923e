#include "bench.h"

#include <string.h>

#include "mem.h"
#include "oracle.h"
#include "tap.h"

static void fill(float *values, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = (float)((double)(seed >> 11) / 9007199254740992.0 - 0.5);
  }
}

void bench_new(struct bench *b, const struct ab_kernels *kernels, const struct ab_config *config) {
  b->config = *config;
  b->config.num_decoder_layers = b->config.pipeline_parallel_layers;
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

void bench_free(struct bench *b) {
  void *arrays[] = {b->inputs, b->outputs, b->d_outputs, b->d_inputs, b->masked, b->ids};
  for (size_t i = 0; i < 6; i++) ab_mem_free(arrays[i]);
  reference_side_free(&b->s);
}

void bench_forward(struct bench *b, float *outputs) {
  size_t arena = ab_arena_mark(&b->s.arena), book = ab_arena_mark(&b->s.book);
  ck_ok(b->s.side.pipeline_ops->forward(b->s.side.pipeline, outputs, b->inputs, b->ids, b->ids));
  ab_arena_release(&b->s.arena, arena);
  ab_arena_release(&b->s.book, book);
}

float *bench_gradients(struct bench *b, const float *d_outputs, size_t *count) {
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

float *bench_contribution(struct bench *b, int64_t m, size_t *count) {
  memset(b->masked, 0, b->elements * sizeof(float));
  memcpy(b->masked + (size_t)m * b->part, b->d_outputs + (size_t)m * b->part, b->part * sizeof(float));
  return bench_gradients(b, b->masked, count);
}
