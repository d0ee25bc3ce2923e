/* What a golden keeps of a tensor: digest and norms, sampled values, and seeded +-1 projections that estimate a
 * distance.
 *
 * Element i of the row-major order gets the 64-bit word h(seed, i) = mix(seed + (i + 1) * 0x9e3779b97f4a7c15), mix
 * being splitmix64's finaliser (0xbf58476d1ce4e5b9, 0x94d049bb133111eb; shifts 30, 27, 31); projection j is sum over
 * i of (bit j of h ? -x_i : +x_i) in double, element order, eight lanes by i mod 8, lanes added 0 to 7. Non-finite
 * elements count as 0 there. Sample k is element h(~seed, k) mod count. E[(p_a - p_b)^2] = |a-b|^2.
 */
#pragma once

#include "probe.h"

enum { AB_SAMPLES = 8, AB_PROJECTIONS = 16 };

/* Fixed seed of stored goldens; a golden records the one it used. */
#define AB_FINGERPRINT_SEED UINT64_C(0x6162706970650001)

struct ab_fingerprint {
  struct ab_identity id;
  enum ab_dtype dtype;
  struct ab_shape shape;
  struct ab_summary summary;
  uint64_t seed;
  double sample[AB_SAMPLES];         /* widened exactly; a count of 0 leaves zeros */
  double projection[AB_PROJECTIONS];
};

/* AB_F32 and AB_F64, others are converted to double. Reads the tensor: never in a dry run. */
void ab_fingerprint(struct ab_fingerprint *out, const struct ab_identity *id, const struct ab_view *view,
                    uint64_t seed);
/* Flat row-major index of sample k. */
size_t ab_fingerprint_position(uint64_t seed, int k, size_t count);
/* Estimate of |a-b|_2 from the projections: sqrt(mean of squares); relative standard error about 18 %. 0 if all are
 * equal. Both have the same seed and shape. */
double ab_fingerprint_distance(const struct ab_fingerprint *a, const struct ab_fingerprint *b);
