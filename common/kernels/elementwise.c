/* Elementwise kernels and sums over whole vectors. */
#include "instance.h"

#include <string.h>

#include "lanes.h"
#include "spread.h"

/* Every float32 is a float and a double. */
size_t KERNEL(from_f32)(void *y_, const float *x, size_t n) {
  real *y = y_;
  for (size_t i = 0; i < n; i++) y[i] = (real)x[i];
  return n;
}

void KERNEL(zero)(void *y_, size_t n) {
  real *y = y_;
  FOR_PIECES(n, SPREAD_ELEMENTS, memset(y + at, 0, count * sizeof(real)));
}

void KERNEL(copy)(void *y_, const void *x_, size_t n) {
  real *y = y_;
  const real *x = x_;
  FOR_PIECES(n, SPREAD_ELEMENTS, memcpy(y + at, x + at, count * sizeof(real)));
}

void KERNEL(fill)(void *y_, double value, size_t n) {
  real *y = y_, v = (real)value;
  for (size_t i = 0; i < n; i++) y[i] = v;
}

HOT static void add_piece(real *y, const real *a, const real *b, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void KERNEL(add)(void *y_, const void *a_, const void *b_, size_t n) {
  real *y = y_;
  const real *a = a_, *b = b_;
  FOR_PIECES(n, SPREAD_ELEMENTS, add_piece(y + at, a + at, b + at, count));
}

HOT void KERNEL(subtract)(void *y_, const void *a_, const void *b_, size_t n) {
  real *y = y_;
  const real *a = a_, *b = b_;
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = a[i] - b[i];
}

HOT void KERNEL(scale)(void *y_, const void *x_, double alpha, size_t n) {
  real *y = y_, factor = (real)alpha;
  const real *x = x_;
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = factor * x[i];
}

HOT double KERNEL(sum)(const void *x, size_t n) { return lanes_sum(x, n); }

HOT double KERNEL(sum_squares)(const void *x, size_t n) { return lanes_dot(x, x, n); }

HOT double KERNEL(dot)(const void *x, const void *y, size_t n) { return lanes_dot(x, y, n); }

double KERNEL(weighted_sum)(const void *x_, const int32_t *w, size_t n) {
  const real *x = x_;
  double lane[LANES] = {0};
  for (size_t i = 0; i < n; i++) lane[i % LANES] += (double)x[i] * (double)w[i];
  return lanes_total(lane);
}

static double squared_deviations(const real *x, double mean, size_t n) {
  double lane[LANES] = {0};
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      double deviation = (double)x[i + (size_t)j] - mean;
      lane[j] += deviation * deviation;
    }
  for (int j = 0; i < n; i++, j++) lane[j] += ((double)x[i] - mean) * ((double)x[i] - mean);
  return lanes_total(lane);
}

void KERNEL(statistics)(void *mean, void *stdev, void *fraction_zero, const void *x_, size_t n) {
  const real *x = x_;
  size_t zeros = 0;
  double average = KERNEL(sum)(x, n) / (double)n;
  for (size_t i = 0; i < n; i++) zeros += x[i] == 0;
  *(real *)mean = (real)average;
  *(real *)stdev = (real)sqrt(squared_deviations(x, average, n) / (double)n);
  *(real *)fraction_zero = (real)((double)zeros / (double)n);
}
