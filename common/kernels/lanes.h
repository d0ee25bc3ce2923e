/* Reductions of one vector: LANES running doubles, element i in lane i mod LANES, and a fixed tree at the end. */
#pragma once

#include <stddef.h>

enum { LANES = 8 };

static inline double lanes_total(const double lane[LANES]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Adds x to the lanes; the next piece of the same vector may follow if n is a multiple of LANES. */
static inline void lanes_add(double lane[LANES], const real *x, size_t n) {
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + (size_t)j];
  for (int j = 0; i < n; i++, j++) lane[j] += (double)x[i];
}

static inline double lanes_sum(const real *x, size_t n) {
  double lane[LANES] = {0};
  lanes_add(lane, x, n);
  return lanes_total(lane);
}

static inline double lanes_dot(const real *x, const real *y, size_t n) {
  double lane[LANES] = {0};
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + (size_t)j] * (double)y[i + (size_t)j];
  for (int j = 0; i < n; i++, j++) lane[j] += (double)x[i] * (double)y[i];
  return lanes_total(lane);
}

/* sum x (y w): the product of y and w is rounded to real first. */
static inline double lanes_dot3(const real *x, const real *y, const real *w, size_t n) {
  double lane[LANES] = {0};
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      size_t at = i + (size_t)j;
      lane[j] += (double)x[at] * (double)(y[at] * w[at]);
    }
  for (int j = 0; i < n; i++, j++) lane[j] += (double)x[i] * (double)(y[i] * w[i]);
  return lanes_total(lane);
}

/* The largest of n >= 1 elements; NaN is passed over (the sum of a softmax shows it). */
static inline real lanes_max(const real *x, size_t n) {
  real lane[LANES];
  for (int j = 0; j < LANES; j++) lane[j] = x[0];
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) lane[j] = x[i + (size_t)j] > lane[j] ? x[i + (size_t)j] : lane[j];
  for (int j = 0; i < n; i++, j++) lane[j] = x[i] > lane[j] ? x[i] : lane[j];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
  return lane[0];
}
