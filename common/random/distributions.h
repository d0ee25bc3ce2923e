/* jax.random's distributions on float32 and int32, over threefry.h. uniform, bernoulli and randint give JAX's bits;
 * normal and truncated_normal promise 2 ulp and give its bits in every vector of the test data. All are the same on
 * every machine (arithmetic of + - * /, fma and sqrt only).
 */
#pragma once

#include "threefry.h"

/* In [minval, maxval): jax.random.uniform. */
void ab_random_uniform(float *out, struct ab_key key, size_t n, float minval, float maxval);
/* 1 where uniform < p: jax.random.bernoulli. */
void ab_random_bernoulli(uint8_t *out, struct ab_key key, size_t n, float p);
/* In [minval, maxval); maxval > minval: jax.random.randint, int32. */
void ab_random_randint(int32_t *out, struct ab_key key, size_t n, int32_t minval, int32_t maxval);
/* Mean 0, standard deviation 1: jax.random.normal. */
void ab_random_normal(float *out, struct ab_key key, size_t n);
/* The same, conditioned on (lower, upper): jax.random.truncated_normal. */
void ab_random_truncated_normal(float *out, struct ab_key key, size_t n, float lower, float upper);
