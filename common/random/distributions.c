#include "distributions.h"

#include <math.h>
#include <stdbool.h>

#include "float_bits.h"

/* Compiled for wider vectors and with fused operations too where the compiler can; the same bits. */
#if AB_CLONES
#define HOT __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define HOT
#endif

static const float sqrt2 = 0x1.6a09e6p0f;

/* 23 random mantissa bits in [1, 2), minus 1. */
static float unit_float(uint32_t word) {
  return ab_float_of_bits((word >> 9) | 0x3f800000u) - 1.0f;
}

static float uniform_at(struct ab_key key, size_t i, size_t n, float minval, float maxval) {
  float x = fmaf(unit_float(ab_random_word(key, i, n)), maxval - minval, minval); /* XLA contracts it */
  return x > minval ? x : minval;
}

void ab_random_uniform(float *out, struct ab_key key, size_t n, float minval, float maxval) {
  for (size_t i = 0; i < n; i++) out[i] = uniform_at(key, i, n, minval, maxval);
}

void ab_random_bernoulli(uint8_t *out, struct ab_key key, size_t n, float p) {
  for (size_t i = 0; i < n; i++) out[i] = uniform_at(key, i, n, 0.0f, 1.0f) < p;
}

/* Two words per value, so that the bias of the remainder is negligible: (high 2^32 + low) mod span. */
void ab_random_randint(int32_t *out, struct ab_key key, size_t n, int32_t minval, int32_t maxval) {
  struct ab_key half[2];
  ab_key_split(half, key, 2);
  uint32_t span = (uint32_t)maxval - (uint32_t)minval;
  uint32_t multiplier = 0x10000u % span;
  multiplier = multiplier * multiplier % span;
  for (size_t i = 0; i < n; i++) {
    uint32_t high = ab_random_word(half[0], i, n) % span, low = ab_random_word(half[1], i, n) % span;
    out[i] = (int32_t)((uint32_t)minval + (high * multiplier + low) % span);
  }
}

/* -log(1 - u) for u in [0, 1), relative error about 1e-16; no libm, whose last bits differ between machines. Selects
 * instead of branches, so that loops over it vectorise: 1 - u = 2^exponent mantissa, and log of the mantissa is
 * 2 atanh((mantissa - 1)/(mantissa + 1)). */
static inline double minus_log1p_minus(double u) {
  const uint64_t fraction = UINT64_C(0xfffffffffffff), half = UINT64_C(1022) << 52, integer = UINT64_C(0x433) << 52;
  bool near = u < 0.5;
  double rest = 1.0 - u;
  uint64_t bits = ab_bits_of_double(rest);
  double mantissa = ab_double_of_bits((bits & fraction) | half);
  double exponent = near ? 0.0 : ab_double_of_bits(bits >> 52 | integer) - (0x1p52 + 1022);
  double s = (near ? -u : mantissa - 1.0) / (near ? 2.0 - u : mantissa + 1.0);
  double square = s * s, series = 0.0;
#pragma GCC unroll 20
  for (int k = 39; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return -(2.0 * s * series + exponent * 0x1.62e42fefa39efp-1);
}

/* XLA's ErfInv32 (Giles, "Approximating the erfinv function"), in float32 as there. */
static inline float erf_inverse(float x) {
  static const float central[9] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                   -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  static const float tail[9] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  float w = (float)minus_log1p_minus((double)(x * x));
  bool near = w < 5.0f;
  w = near ? w - 2.5f : sqrtf(w) - 3.0f;
  float p = near ? central[0] : tail[0];
#pragma GCC unroll 8
  for (int i = 1; i < 9; i++) p = fmaf(p, w, near ? central[i] : tail[i]);
  return p * x;
}

/* Uniform values in (-1, 1) to normal ones, in place. */
HOT static void to_normal(float *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = sqrt2 * erf_inverse(x[i]);
}

void ab_random_normal(float *out, struct ab_key key, size_t n) {
  ab_random_uniform(out, key, n, nextafterf(-1.0f, 0.0f), 1.0f);
  to_normal(out, n);
}

void ab_random_truncated_normal(float *out, struct ab_key key, size_t n, float lower, float upper) {
  float a = (float)erf((double)(lower / sqrt2)), b = (float)erf((double)(upper / sqrt2));
  float least = nextafterf(lower, INFINITY), most = nextafterf(upper, -INFINITY);
  ab_random_uniform(out, key, n, a, b);
  to_normal(out, n);
  for (size_t i = 0; i < n; i++) out[i] = out[i] < least ? least : out[i] > most ? most : out[i];
}
