/* exp, log, sin, cos, tanh and pow of floats, from IEEE additions, multiplications and divisions of doubles only,
 * rounded once at the end: the same bits on every IEEE machine, compiler and optimisation level, and loops over them
 * vectorise.
 *
 * Bounds, checked by a sweep in tests/kernels/test_math32.c: every function within 0.51 ulp of the true value. Results
 * below the normal range are rounded like any other. NaN gives NaN.
 */
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "float_bits.h"

_Static_assert(FLT_EVAL_METHOD == 0, "float and double must be evaluated in their own precision");

#define AB_LN2 0x1.62e42fefa39efp-1
#define AB_LOG2E 0x1.71547652b82fep+0
#define AB_ROUND_MAGIC 0x1.8p52 /* adding it rounds a double to the nearest integer, held in the low mantissa bits */

/* x = n ln2 + r, |r| <= ln2/2: returns e^r - 1 and sets *scale = 2^n. x is taken into [-700, 700] first. Taylor series
 * to r^8: relative error below 4e-10, of e^r below 3e-10. */
static inline double ab_exp_reduced(double x, double *scale) {
  x = x < -700.0 ? -700.0 : x;
  x = x > 700.0 ? 700.0 : x;
  double shifted = x * AB_LOG2E + AB_ROUND_MAGIC;
  *scale = ab_double_of_bits((ab_bits_of_double(shifted) + 1023) << 52);
  double r = x - (shifted - AB_ROUND_MAGIC) * AB_LN2;
  double p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  return p * r * r + r;
}

/* e^x in double with float accuracy. */
static inline double ab_exp_wide(double x) {
  double scale, q = ab_exp_reduced(x, &scale);
  return q * scale + scale;
}

/* The zero is chosen before the conversion: converting tiny doubles is slow on some CPUs. */
static inline float ab_expf(float x) {
  double e = ab_exp_wide((double)x);
  return (float)(x < -104.0f ? 0.0 : e);
}

/* ln x of a positive normal double: x = 2^e m, ln m = 2 atanh((m - 1)/(m + 1)), |argument| <= 0.1716. */
static inline double ab_log_wide(double x) {
  uint64_t bits = ab_bits_of_double(x);
  uint64_t up = (bits & 0xfffffffffffffu) > 0x6a09e667f3bcdu; /* m > sqrt 2 */
  double e = (double)((int64_t)(bits >> 52) - 1023 + (int64_t)up);
  double m = ab_double_of_bits((bits & 0xfffffffffffffu) | ((1023 - up) << 52));
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return e * AB_LN2 + 2.0 * (s + s * z * p);
}

static inline float ab_logf(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -INFINITY : NAN;
  return x > FLT_MAX ? x : (float)ab_log_wide((double)x);
}

/* x^y for finite x > 0. */
static inline float ab_powf(float x, float y) { return (float)ab_exp_wide((double)y * ab_log_wide((double)x)); }

static inline float ab_tanhf(float x) {
  double scale, q = ab_exp_reduced(2.0 * (double)x, &scale);
  double expm1 = q * scale + (scale - 1.0);
  return (float)(expm1 / (expm1 + 2.0));
}

/* x = n pi/2 + r, |r| <= pi/4 for |x| <= 2^31; *quadrant = n mod 4. pi/2 in pieces of 22 bits, so that the first three
 * products are exact. */
static inline double ab_trig_reduced(double x, unsigned *quadrant) {
  double shifted = x * 0x1.45f306dc9c883p-1 + AB_ROUND_MAGIC;
  double n = shifted - AB_ROUND_MAGIC;
  *quadrant = (unsigned)(ab_bits_of_double(shifted) & 3u);
  double r = x - n * 0x1.921fb8p+0;
  r = r - n * -0x1.5dde98p-23;
  r = r - n * 0x1.846988p-48;
  return r - n * 0x1.8cc51701b839ap-72;
}

static inline double ab_sin_reduced(double r) {
  double z = r * r, p = 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return r + r * z * p;
}

static inline double ab_cos_reduced(double r) {
  double z = r * r, p = 1.0 / 479001600;
  p = p * z - 1.0 / 3628800;
  p = p * z + 1.0 / 40320;
  p = p * z - 1.0 / 720;
  p = p * z + 1.0 / 24;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

/* sin(r + quadrant pi/2) */
static inline float ab_trig(double r, unsigned quadrant) {
  double value = quadrant & 1u ? ab_cos_reduced(r) : ab_sin_reduced(r);
  return (float)(quadrant & 2u ? -value : value);
}

/* NaN beyond |x| = 2^31, where the reduction would lose digits. */
static inline float ab_sinf(float x) {
  if (!(fabsf(x) <= 0x1p31f)) return NAN;
  unsigned quadrant;
  double r = ab_trig_reduced((double)x, &quadrant);
  return ab_trig(r, quadrant);
}

static inline float ab_cosf(float x) {
  if (!(fabsf(x) <= 0x1p31f)) return NAN;
  unsigned quadrant;
  double r = ab_trig_reduced((double)x, &quadrant);
  return ab_trig(r, quadrant + 1u);
}
