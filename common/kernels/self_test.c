/* A small gemm against a double loop at the start of every side. Such faults exist: some BLAS kernels left C as it was
 * for k = 0, read C although beta was 0, or summed wrongly for odd sizes on some processors. */
#include "kernels.h"

#include <float.h>
#include <math.h>

#include "blas.h"
#include "m61.h"
#include "mem.h"

struct shape3 {
  int64_t m, n, k;
};

static const struct shape3 shapes[] = {{1, 1, 1},    {3, 5, 2},   {7, 13, 17},  {16, 16, 16},
                                       {33, 31, 29}, {1, 70, 65}, {65, 1, 130}, {64, 64, 64},
                                       {48, 96, 33}, {5, 4, 0},   {37, 51, 400}};

enum { PAD = 3, LARGEST = 70 * (400 + PAD) }; /* elements of one operand */

/* Operands twice: as doubles, and in the table's dtype. */
struct bench {
  double *a, *b, *c;
  void *ta, *tb, *tc;
};

/* A word that is no residue stands for NaN. */
static double get(const struct ab_kernels *k, const void *x, int64_t i) {
  if (k->dtype == AB_F32) return (double)((const float *)x)[i];
  if (k->dtype == AB_F64) return ((const double *)x)[i];
  uint64_t residue = ((const uint64_t *)x)[i];
  return residue < AB_M61_PRIME ? (double)ab_m61_integer(residue) : (double)NAN;
}

static void set(const struct ab_kernels *k, void *x, int64_t i, double value) {
  if (k->dtype == AB_F32)
    ((float *)x)[i] = (float)value;
  else if (k->dtype == AB_F64)
    ((double *)x)[i] = value;
  else if (!ab_m61_of_double((uint64_t *)x + i, value))
    ((uint64_t *)x)[i] = UINT64_MAX;
}

/* Small odd integers: exact in every dtype, their products not all equal. */
static double sample(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return 2 * (double)(*state >> 22) - 1023;
}

/* Elements that a case may touch, of any of its operands. */
static int64_t extent(const struct ab_gemm *d) {
  int64_t a = (d->trans_a ? d->k : d->m) * d->lda, b = (d->trans_b ? d->n : d->k) * d->ldb, c = d->m * d->ldc;
  int64_t larger = a > b ? a : b;
  return larger > c ? larger : c;
}

static void fill_operands(struct bench *bench, const struct ab_kernels *k, const struct ab_gemm *d) {
  uint32_t state = 1;
  for (int64_t i = 0, count = extent(d); i < count; i++) {
    bench->a[i] = sample(&state);
    bench->b[i] = sample(&state);
    bench->c[i] = d->accumulate ? sample(&state) : (double)NAN;
    set(k, bench->ta, i, bench->a[i]);
    set(k, bench->tb, i, bench->b[i]);
    set(k, bench->tc, i, bench->c[i]);
  }
}

/* Distance of one element from its double sum, in units of the error bound k eps sum |a b|. */
static double element_error(const struct bench *bench, const struct ab_kernels *k, const struct ab_gemm *d, int64_t i,
                            int64_t j) {
  int64_t at = i * d->ldc + j;
  double sum = d->accumulate ? bench->c[at] : 0, size = fabs(sum);
  for (int64_t p = 0; p < d->k; p++) {
    double term = bench->a[d->trans_a ? p * d->lda + i : i * d->lda + p] *
                  bench->b[d->trans_b ? j * d->ldb + p : p * d->ldb + j];
    sum += term;
    size += fabs(term);
  }
  double bound = (double)(d->k + 4) * (k->dtype == AB_F64 ? DBL_EPSILON : FLT_EPSILON) * size;
  double error = fabs(get(k, bench->tc, at) - sum);
  return error == 0 ? 0 : error / bound;
}

/* What lies between the rows must not have been written. */
static bool padding_kept(const struct bench *bench, const struct ab_kernels *k, const struct ab_gemm *d) {
  for (int64_t i = 0; i < d->m; i++)
    for (int64_t j = d->n; j < d->ldc; j++) {
      double now = get(k, bench->tc, i * d->ldc + j), before = bench->c[i * d->ldc + j];
      if (!(now == before || (isnan(now) && isnan(before)))) return false;
    }
  return true;
}

static ab_status check_case(struct bench *bench, const struct ab_kernels *k, const struct ab_gemm *d) {
  fill_operands(bench, k, d);
  k->gemm(bench->tc, bench->ta, bench->tb, d);
  double worst = padding_kept(bench, k, d) ? 0 : (double)INFINITY;
  for (int64_t i = 0; i < d->m; i++)
    for (int64_t j = 0; j < d->n; j++) {
      double error = element_error(bench, k, d, i, j);
      if (!(error <= worst)) worst = error;
    }
  if (worst <= 1) return AB_OK;
  return AB_FAIL(AB_EMISMATCH,
                 "gemm of table %s is wrong for m %d n %d k %d trans %d%d accumulate %d: error is %g times "
                 "the expected bound (BLAS core %s)",
                 k->name, (int)d->m, (int)d->n, (int)d->k, d->trans_a, d->trans_b, d->accumulate, worst,
                 ab_blas_core_running());
}

/* Both transposes, with and without accumulation: 8 variants. */
static ab_status check_shape(struct bench *bench, const struct ab_kernels *k, const struct shape3 *s) {
  for (int variant = 0; variant < 8; variant++) {
    struct ab_gemm d = {.m = s->m, .n = s->n, .k = s->k, .ldc = s->n + PAD};
    d.trans_a = variant & 1;
    d.trans_b = variant & 2;
    d.accumulate = variant & 4;
    d.lda = (d.trans_a ? s->m : s->k) + PAD;
    d.ldb = (d.trans_b ? s->k : s->n) + PAD;
    AB_TRY(check_case(bench, k, &d));
  }
  return AB_OK;
}

static void bench_free(struct bench *bench) {
  void *blocks[] = {bench->a, bench->b, bench->c, bench->ta, bench->tb, bench->tc};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) ab_mem_free(blocks[i]);
}

static ab_status bench_new(struct bench *bench) {
  AB_TRY(ab_mem_new(&bench->a, LARGEST, sizeof(double)));
  AB_TRY(ab_mem_new(&bench->b, LARGEST, sizeof(double)));
  AB_TRY(ab_mem_new(&bench->c, LARGEST, sizeof(double)));
  AB_TRY(ab_mem_new(&bench->ta, LARGEST, sizeof(double)));
  AB_TRY(ab_mem_new(&bench->tb, LARGEST, sizeof(double)));
  return ab_mem_new(&bench->tc, LARGEST, sizeof(double));
}

static ab_status check_shapes(struct bench *bench, const struct ab_kernels *kernels) {
  AB_TRY(bench_new(bench));
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) AB_TRY(check_shape(bench, kernels, &shapes[i]));
  return AB_OK;
}

ab_status ab_kernels_self_test(const struct ab_kernels *kernels) {
  if (kernels->dry) return AB_OK;
  if (!ab_blas_one_thread())
    return AB_FAIL(AB_EMISMATCH, "OpenBLAS does not confirm one thread: set OPENBLAS_NUM_THREADS=1");
  struct bench bench = {0};
  ab_status status = check_shapes(&bench, kernels);
  bench_free(&bench);
  return status;
}
