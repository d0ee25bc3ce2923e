/* A small pipeline on the oracle with inputs and cotangents of its own, for tests of the order of sums. */
#pragma once

#include "small.h"

struct bench {
  struct ab_config config;
  struct reference_side s;
  size_t elements, part; /* of the batch, of a microbatch */
  float *inputs, *outputs, *d_outputs, *d_inputs, *masked;
  int32_t *ids;
};

/* The config is taken over; its layers are those of the pipeline. */
void bench_new(struct bench *b, const struct ab_kernels *kernels, const struct ab_config *config);
void bench_free(struct bench *b);
/* Outputs [B, L, E] into `outputs`. */
void bench_forward(struct bench *b, float *outputs);
/* Gradients of one forward and backward under a cotangent, layer after layer; the caller frees. */
float *bench_gradients(struct bench *b, const float *d_outputs, size_t *count);
/* What microbatch m alone contributes; the caller frees. */
float *bench_contribution(struct bench *b, int64_t m, size_t *count);
