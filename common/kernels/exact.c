/* The kernels of the table `exact`: sums and products of residues modulo 2^61 - 1. Any order of additions gives the
 * same residue. What is no polynomial does not exist here, nor what only whole models use. */
#include <assert.h>
#include <string.h>

#include "instance.h"

enum {
  LAZY = 63,     /* products below p^2 that fit into 128 bits on top of a residue */
  TILE_COLS = 4, /* columns of C at a time */
};

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Columns j .. j+TILE_COLS of op(B), k <= LAZY rows, padded with zeros: [k][TILE_COLS]. */
static void pack(real *panel, const real *b, const struct ab_gemm *d, int64_t columns, int64_t k) {
  int64_t column = d->trans_b ? d->ldb : 1, row = d->trans_b ? 1 : d->ldb;
  for (int64_t p = 0; p < k; p++)
    for (int64_t j = 0; j < TILE_COLS; j++) panel[p * TILE_COLS + j] = j < columns ? b[p * row + j * column] : 0;
}

/* One row of one tile: at most LAZY products, one reduction. */
static void row_sums(real out[TILE_COLS], const real *a, int64_t step, const real *panel, int64_t k) {
  ab_u128 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (int64_t p = 0; p < k; p++, panel += TILE_COLS) {
    ab_u128 x = a[p * step];
    s0 += x * panel[0];
    s1 += x * panel[1];
    s2 += x * panel[2];
    s3 += x * panel[3];
  }
  out[0] = ab_m61_reduce(s0);
  out[1] = ab_m61_reduce(s1);
  out[2] = ab_m61_reduce(s2);
  out[3] = ab_m61_reduce(s3);
}

static void multiply_tile(real *c, const real *a, const real *panel, const struct ab_gemm *d, int64_t columns,
                          int64_t k, bool accumulate) {
  int64_t row = d->trans_a ? 1 : d->lda, step = d->trans_a ? d->lda : 1;
  real sum[TILE_COLS];
  for (int64_t i = 0; i < d->m; i++) {
    row_sums(sum, a + i * row, step, panel, k);
    real *to = c + i * d->ldc;
    for (int64_t j = 0; j < columns; j++) to[j] = accumulate ? ab_m61_add(to[j], sum[j]) : sum[j];
  }
}

void KERNEL(gemm_block)(real *c, const real *a, const real *b, const struct ab_gemm *d) {
  real panel[LAZY * TILE_COLS];
  int64_t a_k = d->trans_a ? d->lda : 1, b_k = d->trans_b ? 1 : d->ldb, b_column = d->trans_b ? d->ldb : 1;
  for (int64_t p = 0; p < d->k; p += LAZY)
    for (int64_t j = 0; j < d->n; j += TILE_COLS) {
      int64_t k = least(LAZY, d->k - p), columns = least(TILE_COLS, d->n - j);
      pack(panel, b + p * b_k + j * b_column, d, columns, k);
      multiply_tile(c + j, a + p * a_k, panel, d, columns, k, d->accumulate || p > 0);
    }
}

size_t KERNEL(from_f32)(void *y_, const float *x, size_t n) {
  real *y = y_;
  for (size_t i = 0; i < n; i++)
    if (!ab_m61_of_double(&y[i], (double)x[i])) return i;
  return n;
}

void KERNEL(zero)(void *y, size_t n) { memset(y, 0, n * sizeof(real)); }

void KERNEL(copy)(void *y, const void *x, size_t n) { memcpy(y, x, n * sizeof(real)); }

static real residue(double value) {
  real out = 0;
  bool integer = ab_m61_of_double(&out, value);
  assert(integer);
  (void)integer;
  return out;
}

void KERNEL(fill)(void *y_, double value, size_t n) {
  real *y = y_, v = residue(value);
  for (size_t i = 0; i < n; i++) y[i] = v;
}

void KERNEL(add)(void *y_, const void *a_, const void *b_, size_t n) {
  real *y = y_;
  const real *a = a_, *b = b_;
  for (size_t i = 0; i < n; i++) y[i] = ab_m61_add(a[i], b[i]);
}

void KERNEL(subtract)(void *y_, const void *a_, const void *b_, size_t n) {
  real *y = y_;
  const real *a = a_, *b = b_;
  for (size_t i = 0; i < n; i++) y[i] = ab_m61_subtract(a[i], b[i]);
}

void KERNEL(scale)(void *y_, const void *x_, double alpha, size_t n) {
  real *y = y_, factor = residue(alpha);
  const real *x = x_;
  for (size_t i = 0; i < n; i++) y[i] = ab_m61_multiply(factor, x[i]);
}

/* A sum as the other tables give it: the integer nearest to zero, rounded to double. */
static double value(real sum) { return (double)ab_m61_integer(sum); }

double KERNEL(sum)(const void *x_, size_t n) {
  const real *x = x_;
  real total = 0;
  for (size_t i = 0; i < n; i++) total = ab_m61_add(total, x[i]);
  return value(total);
}

double KERNEL(dot)(const void *x_, const void *y_, size_t n) {
  const real *x = x_, *y = y_;
  real total = 0;
  for (size_t i = 0; i < n; i++) total = ab_m61_add(total, ab_m61_multiply(x[i], y[i]));
  return value(total);
}

double KERNEL(sum_squares)(const void *x, size_t n) { return KERNEL(dot)(x, x, n); }

double KERNEL(weighted_sum)(const void *x_, const int32_t *w, size_t n) {
  const real *x = x_;
  real total = 0;
  for (size_t i = 0; i < n; i++) total = ab_m61_add(total, ab_m61_multiply(x[i], ab_m61_of_integer(w[i])));
  return value(total);
}

const struct ab_kernels ab_kernels_exact = {
    .name = AB_TABLE_NAME,
    .dtype = AB_M61,
    .element = sizeof(real),
    .polynomial = true,
    POLYNOMIAL_KERNELS,
};
