/* Which of two sides is nearer to float64: each side's error in units of the float32 oracle's own. */
#pragma once

#include "verdict.h"

/* A side is near when its error is at most this many times the oracle's: the factor of an uncalibrated bound. */
#define AB_DISTANCE_NEAR 4.0
/* The oracle's own error counts as no less than half an ulp of float32. */
#define AB_DISTANCE_LEAST 0x1p-24

struct ab_distance {
  bool known;
  double a, b;               /* of the tensor or metric where the farther of both is farthest */
  struct ab_identity worst;
  bool metric;
};

/* Takes in one tensor or metric: relative L2 (or relative) errors against float64 of both sides and of the oracle. An
 * error that is not a number counts as infinite. */
void ab_distance_add(struct ab_distance *distance, const struct ab_identity *id, bool metric, double a, double b,
                     double own);
/* "1.0", "3.1e5". */
void ab_distance_print(char text[24], double ratio);

/* The slope of the float64 loss along a direction of length 1, and what a gradient says it is. */
struct ab_slope {
  bool known;
  int step;
  double truth;   /* (loss(w + h d) - loss(w - h d)) / 2h */
  double by[2];   /* <gradient of A, d>, <gradient of B, d> */
  double scale;   /* |gradient| / sqrt(parameters): the size of a slope along a random direction */
};
/* A gradient agrees when it is off by at most this part of the scale. A float32 gradient is off by about 1e-6 of it,
 * the finite difference by 1e-8. */
#define AB_SLOPE_TOLERANCE 1e-4
/* |by - truth| / scale of side 0 or 1; infinite when it is not a number. */
double ab_slope_error(const struct ab_slope *slope, int side);
