#include "distributions.h"

#include <math.h>
#include <string.h>

static const float sqrt2 = 0x1.6a09e6p0f;

/* 23 random mantissa bits in [1, 2), minus 1. */
static float unit_float(uint32_t word) {
  uint32_t bits = (word >> 9) | 0x3f800000u;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x - 1.0f;
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

/* -log(1 - u) for u in [0, 1), relative error about 1e-16; no libm, whose last bits differ between machines. */
static double minus_log1p_minus(double u) {
  int exponent = 0;
  double mantissa = u < 0.5 ? 1.0 - u : frexp(1.0 - u, &exponent);
  double s = exponent == 0 && u < 0.5 ? -u / (2.0 - u) : (mantissa - 1.0) / (mantissa + 1.0);
  double square = s * s, series = 0.0;
  for (int k = 39; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return -(2.0 * s * series + exponent * 0x1.62e42fefa39efp-1);
}

/* XLA's ErfInv32 (Giles, "Approximating the erfinv function"), in float32 as there. */
static float erf_inverse(float x) {
  static const float central[9] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                   -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  static const float tail[9] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  float w = (float)minus_log1p_minus((double)(x * x));
  const float *c = w < 5.0f ? central : tail;
  w = w < 5.0f ? w - 2.5f : sqrtf(w) - 3.0f;
  float p = c[0];
  for (int i = 1; i < 9; i++) p = fmaf(p, w, c[i]);
  return p * x;
}

void ab_random_normal(float *out, struct ab_key key, size_t n) {
  float lowest = nextafterf(-1.0f, 0.0f);
  for (size_t i = 0; i < n; i++) out[i] = sqrt2 * erf_inverse(uniform_at(key, i, n, lowest, 1.0f));
}

void ab_random_truncated_normal(float *out, struct ab_key key, size_t n, float lower, float upper) {
  float a = (float)erf((double)(lower / sqrt2)), b = (float)erf((double)(upper / sqrt2));
  float least = nextafterf(lower, INFINITY), most = nextafterf(upper, -INFINITY);
  for (size_t i = 0; i < n; i++) {
    float x = sqrt2 * erf_inverse(uniform_at(key, i, n, a, b));
    out[i] = x < least ? least : x > most ? most : x;
  }
}
