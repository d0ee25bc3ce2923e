/* The gemm door of every table: values, accumulation, empty sums, thread counts, and a self test that can fail. */
#include "kernel_test.h"
#include "reference.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "tap.h"
#include "threads.h"

static const int64_t shapes[][3] = {{1, 1, 1},   {7, 5, 3},    {4, 8, 256},  {5, 9, 257},   {64, 128, 64},
                                    {65, 129, 7}, {3, 1030, 11}, {259, 3, 520}, {260, 1030, 2}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct ab_gemm dims_of(const int64_t *s, int variant) {
  struct ab_gemm d = {.m = s[0], .n = s[1], .k = s[2], .ldc = s[1] + 2};
  d.trans_a = variant & 1;
  d.trans_b = variant & 2;
  d.accumulate = variant & 4;
  d.lda = (d.trans_a ? d.m : d.k) + 1;
  d.ldb = (d.trans_b ? d.k : d.n) + 3;
  return d;
}

static size_t a_count(const struct ab_gemm *d) { return (size_t)((d->trans_a ? d->k : d->m) * d->lda); }
static size_t b_count(const struct ab_gemm *d) { return (size_t)((d->trans_b ? d->n : d->k) * d->ldb); }

static void check_variant(const struct ab_kernels *k, const struct ab_gemm *d) {
  size_t cn = (size_t)(d->m * d->ldc);
  void *a = kt_random(k, a_count(d), 1, 1), *b = kt_random(k, b_count(d), 2, 1), *c = kt_random(k, cn, 3, 1);
  double *expected = kt_widen(k, c, cn);
  ref_gemm(expected, kt_widen(k, a, a_count(d)), kt_widen(k, b, b_count(d)), d);
  for (int64_t i = 0; i < d->m && !d->accumulate; i++)
    for (int64_t j = 0; j < d->n; j++) kt_set(k, c, (size_t)(i * d->ldc + j), (double)NAN);
  k->gemm(c, a, b, d);
  kt_close(k, c, expected, cn, "gemm");
  kt_done("gemm");
}

START_TEST(test_values) {
  for (int shape = 0; shape < SHAPES; shape++)
    for (int variant = 0; variant < 8; variant++) {
      struct ab_gemm d = dims_of(shapes[shape], variant);
      check_variant(tables[_i], &d);
    }
}
END_TEST

/* k = 0: zeros, or C untouched when accumulating; nothing at all for an empty C. */
START_TEST(test_empty) {
  const struct ab_kernels *k = tables[_i];
  void *c = kt_new(k, 12), *a = kt_new(k, 4);
  k->gemm(c, a, a, &(struct ab_gemm){.m = 3, .n = 2, .k = 0, .lda = 1, .ldb = 2, .ldc = 4});
  for (size_t i = 0; i < 12; i++) {
    double value = kt_get(k, c, i);
    ck_assert_msg(i % 4 < 2 ? value == 0 : isnan(value), "%s: C[%zu] = %g", k->name, i, value);
  }
  kt_set(k, c, 0, 5);
  k->gemm(c, a, a, &(struct ab_gemm){.m = 1, .n = 1, .k = 0, .lda = 1, .ldb = 1, .ldc = 4, .accumulate = true});
  ck_assert_double_eq(kt_get(k, c, 0), 5);
  k->gemm(c, a, a, &(struct ab_gemm){.m = 0, .n = 2, .k = 3, .lda = 3, .ldb = 2, .ldc = 4});
  k->gemm(c, a, a, &(struct ab_gemm){.m = 2, .n = 0, .k = 3, .lda = 3, .ldb = 1, .ldc = 4});
  ck_assert_double_eq(kt_get(k, c, 0), 5);
  kt_done("empty gemm");
}
END_TEST

/* Six output blocks, ragged at both edges. */
static void *product(const struct ab_kernels *k, const struct ab_gemm *d, int threads) {
  void *a = kt_random(k, a_count(d), 1, 1), *b = kt_random(k, b_count(d), 2, 1);
  void *c = kt_random(k, (size_t)(d->m * d->ldc), 3, 1);
  use_threads(threads);
  k->gemm(c, a, b, d);
  return c;
}

START_TEST(test_threads) {
  const struct ab_kernels *k = tables[_i];
  const int64_t shape[] = {2 * AB_GEMM_BLOCK_ROWS + 5, AB_GEMM_BLOCK_COLS + 21, 30};
  for (int variant = 0; variant < 8; variant += 3) {
    struct ab_gemm d = dims_of(shape, variant);
    size_t n = (size_t)(d.m * d.ldc);
    void *one = product(k, &d, 1), *two = product(k, &d, 2), *four = product(k, &d, 4);
    kt_same_bits(k, one, two, n, "one and two threads");
    kt_same_bits(k, one, four, n, "one and four threads");
    kt_done("threads");
  }
}
END_TEST

/* Inside a parallel region the call is serial and gives the same bits. */
START_TEST(test_inside_region) {
  const struct ab_kernels *k = tables[_i];
  const int64_t shape[] = {AB_GEMM_BLOCK_ROWS + 9, 33, 40};
  struct ab_gemm d = dims_of(shape, 0);
  size_t n = (size_t)(d.m * d.ldc);
  void *a = kt_random(k, a_count(&d), 1, 1), *b = kt_random(k, b_count(&d), 2, 1), *c[5];
  for (int i = 0; i < 5; i++) c[i] = kt_random(k, n, 3, 1);
  k->gemm(c[4], a, b, &d);
#pragma omp parallel for num_threads(4) schedule(static)
  for (int i = 0; i < 4; i++) k->gemm(c[i], a, b, &d);
  for (int i = 0; i < 4; i++) kt_same_bits(k, c[i], c[4], n, "in a parallel region");
  kt_done("parallel region");
}
END_TEST

/* The portable sum depends on k alone: any part of C has the bits of the whole. */
START_TEST(test_portable_split) {
  const struct ab_kernels *k = &ab_kernels_f32_portable;
  struct ab_gemm d = {.m = 23, .n = 45, .k = 600, .lda = 600, .ldb = 45, .ldc = 45}, row = d, column = d;
  void *a = kt_random(k, 23 * 600, 1, 1), *b = kt_random(k, 600 * 45, 2, 1);
  float *whole = kt_new(k, 23 * 45), *parts = kt_new(k, 23 * 45);
  k->gemm(whole, a, b, &d);
  row.m = 1;
  for (int i = 0; i < 23; i++) k->gemm(parts + i * 45, (float *)a + i * 600, b, &row);
  kt_same_bits(k, whole, parts, 23 * 45, "row by row");
  column.n = 1;
  for (int j = 0; j < 45; j++) k->gemm(parts + j, a, (float *)b + j, &column);
  kt_same_bits(k, whole, parts, 23 * 45, "column by column");
  kt_done("portable split");
}
END_TEST

/* Also takes OpenBLAS back to one thread. */
START_TEST(test_self_test) {
  openblas_set_num_threads(2);
  ck_ok(ab_kernels_self_test(tables[_i]));
  ck_assert_int_eq(openblas_get_num_threads(), 1);
}
END_TEST

/* Faults that a BLAS can have; each must be found. */
static void gemm_left_for_k0(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  if (d->k > 0) ab_kernels_f32.gemm(c, a, b, d);
}

static void gemm_reads_c(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  struct ab_gemm wrong = *d;
  wrong.accumulate = true;
  ab_kernels_f32.gemm(c, a, b, &wrong);
}

static void gemm_drops_tail(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  struct ab_gemm wrong = *d;
  if (d->k % 16) wrong.k -= 1;
  ab_kernels_f32.gemm(c, a, b, &wrong);
}

static void gemm_swaps_trans(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  struct ab_gemm wrong = *d;
  if (d->m == d->k) wrong.trans_a = !d->trans_a;
  ab_kernels_f32.gemm(c, a, b, &wrong);
}

static void gemm_writes_padding(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  ab_kernels_f32.gemm(c, a, b, d);
  if (d->ldc > d->n) ((float *)c)[d->n] = 1;
}

static void gemm_off_by_1e4(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  ab_kernels_f32.gemm(c, a, b, d);
  ((float *)c)[(d->m - 1) * d->ldc + d->n - 1] *= 1.0001f;
}

static void (*const broken[])(void *, const void *, const void *, const struct ab_gemm *) = {
    gemm_left_for_k0, gemm_reads_c, gemm_drops_tail, gemm_swaps_trans, gemm_writes_padding, gemm_off_by_1e4};

START_TEST(test_self_test_fails) {
  struct ab_kernels table = ab_kernels_f32;
  table.gemm = broken[_i];
  ck_fails(ab_kernels_self_test(&table), AB_EMISMATCH, "gemm of table f32 is wrong");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gemm");
  TCase *tcase = tcase_create("gemm");
  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, test_values, 0, TABLES);
  tcase_add_loop_test(tcase, test_empty, 0, TABLES);
  tcase_add_loop_test(tcase, test_threads, 0, TABLES);
  tcase_add_loop_test(tcase, test_inside_region, 0, TABLES);
  tcase_add_test(tcase, test_portable_split);
  tcase_add_loop_test(tcase, test_self_test, 0, TABLES);
  tcase_add_loop_test(tcase, test_self_test_fails, 0, (int)(sizeof broken / sizeof broken[0]));
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
