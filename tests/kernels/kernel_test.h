/* Buffers with guard bytes, random values, and comparison with double references. */
#pragma once

#include "kernels.h"

/* The tables that compute. */
enum { TABLES = 3 };
extern const struct ab_kernels *const tables[TABLES];

/* n elements of the table's dtype, filled with a NaN pattern, guard bytes on both sides. Lives until kt_done. */
void *kt_new(const struct ab_kernels *k, size_t n);
double *kt_doubles(size_t n);
int32_t *kt_ints(size_t n);
/* Normal-like values of the given spread, from a linear congruential generator, the same on every machine; doubles use
 * all their digits, so that sums round. */
void *kt_random(const struct ab_kernels *k, size_t n, uint32_t seed, double spread);
/* Integers in [low, high]. */
int32_t *kt_random_ints(size_t n, uint32_t seed, int32_t low, int32_t high);
/* The same values as doubles. */
double *kt_widen(const struct ab_kernels *k, const void *x, size_t n);
/* Fails if a guard byte changed. */
void kt_guards(const char *what);
/* Checks all guards and frees all buffers. */
void kt_done(const char *what);

double kt_get(const struct ab_kernels *k, const void *x, size_t i);
void kt_set(const struct ab_kernels *k, void *x, size_t i, double value);
/* Largest difference within `tolerance` times the largest expected value, tolerance 4e-6 for floats and 1e-13 for
 * doubles. */
void kt_close(const struct ab_kernels *k, const void *actual, const double *expected, size_t n, const char *what);
void kt_same_bits(const struct ab_kernels *k, const void *a, const void *b, size_t n, const char *what);
