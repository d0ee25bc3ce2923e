/* Residues modulo 2^61 - 1 and the table `exact`, against long division and plain loops. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "m61.h"
#include "mem.h"
#include "tap.h"

#define P AB_M61_PRIME
static const struct ab_kernels *const k = &ab_kernels_exact;

static uint64_t state;

static uint64_t word(void) {
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Every eighth is p - 1, the largest. */
static uint64_t *residues(size_t n) {
  uint64_t *x;
  ck_ok(ab_mem_new(&x, n + 1, sizeof *x));
  for (size_t i = 0; i < n; i++) x[i] = i % 8 ? word() % P : P - 1;
  return x;
}

static const ab_u128 corners[] = {0, 1, P - 1, P, P + 1, 2 * (ab_u128)P, (ab_u128)P * P, ~(ab_u128)0,
                                  (ab_u128)1 << 61, (ab_u128)1 << 122, ((ab_u128)1 << 122) - 1};

START_TEST(reduction_is_the_remainder) {
  for (size_t i = 0; i < sizeof corners / sizeof *corners; i++)
    ck_assert_uint_eq(ab_m61_reduce(corners[i]), (uint64_t)(corners[i] % P));
  for (int i = 0; i < 20000; i++) {
    ab_u128 x = ((ab_u128)word() << 64 | word()) >> (i % 128);
    ck_assert_uint_eq(ab_m61_reduce(x), (uint64_t)(x % P));
  }
}
END_TEST

START_TEST(residues_form_a_field) {
  for (int i = 0; i < 2000; i++) {
    uint64_t a = word() % P, b = word() % P;
    ck_assert_uint_eq(ab_m61_add(a, b), (uint64_t)(((ab_u128)a + b) % P));
    ck_assert_uint_eq(ab_m61_add(ab_m61_subtract(a, b), b), a);
    ck_assert_uint_eq(ab_m61_multiply(a, b), (uint64_t)((ab_u128)a * b % P));
    if (a && i % 20 == 0) ck_assert_uint_eq(ab_m61_multiply(a, ab_m61_inverse(a)), 1);
  }
  ck_assert_uint_eq(ab_m61_add(P - 1, 1), 0);
  ck_assert_uint_eq(ab_m61_subtract(0, P - 1), 1);
}
END_TEST

START_TEST(integers_go_there_and_back) {
  const int64_t integers[] = {0, 1, -1, 1472, -407172, INT64_C(1) << 53, -(INT64_C(1) << 59), (INT64_C(1) << 60) - 1};
  uint64_t residue;
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    ck_assert_int_eq(ab_m61_integer(ab_m61_of_integer(integers[i])), integers[i]);
    if (integers[i] > INT64_C(1) << 53) continue;
    ck_assert(ab_m61_of_double(&residue, (double)integers[i]));
    ck_assert_int_eq(ab_m61_integer(residue), integers[i]);
  }
  ck_assert_uint_eq(ab_m61_of_integer(-1), P - 1);
  ck_assert_uint_eq(ab_m61_of_integer(INT64_MIN), (uint64_t)(P - (((ab_u128)1 << 63) % P)));
  ck_assert_uint_eq(ab_m61_of_integer(INT64_MAX), (uint64_t)(INT64_MAX % P));
}
END_TEST

START_TEST(what_is_no_integer_is_refused) {
  const double refused[] = {0.5, -1e-300, 1e18 * 2, -ldexp(1, 60), ldexp(1, 60), (double)INFINITY, -(double)INFINITY, (double)NAN};
  uint64_t residue = 7;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ck_assert_msg(!ab_m61_of_double(&residue, refused[i]), "%g", refused[i]);
    ck_assert_uint_eq(residue, 7);
  }
  const float values[] = {3, -4, 0.25f, 5};
  uint64_t out[4];
  ck_assert_uint_eq(k->from_f32(out, values, 4), 2);
  ck_assert_uint_eq(k->from_f32(out, values, 2), 2);
  ck_assert_int_eq(ab_m61_integer(out[0]), 3);
  ck_assert_int_eq(ab_m61_integer(out[1]), -4);
}
END_TEST

static const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 2},   {4, 4, 62},  {5, 3, 63},   {7, 9, 64},
                                    {2, 6, 126}, {3, 7, 130}, {6, 5, 400}, {258, 3, 65}, {2, 1027, 3}};

static uint64_t element(const uint64_t *a, const uint64_t *b, const struct ab_gemm *d, int64_t i, int64_t j) {
  uint64_t sum = 0;
  for (int64_t p = 0; p < d->k; p++)
    sum = (uint64_t)((sum + (ab_u128)a[d->trans_a ? p * d->lda + i : i * d->lda + p] *
                                b[d->trans_b ? j * d->ldb + p : p * d->ldb + j]) % P);
  return sum;
}

static void check_gemm(const struct ab_gemm *d) {
  size_t na = (size_t)((d->trans_a ? d->k : d->m) * d->lda), nb = (size_t)((d->trans_b ? d->n : d->k) * d->ldb),
         nc = (size_t)(d->m * d->ldc);
  uint64_t *a = residues(na), *b = residues(nb), *c = residues(nc), *before;
  ck_ok(ab_mem_new(&before, nc, sizeof *before));
  memcpy(before, c, nc * sizeof *c);
  k->gemm(c, a, b, d);
  for (int64_t i = 0; i < d->m; i++)
    for (int64_t j = 0; j < d->ldc; j++) {
      int64_t at = i * d->ldc + j;
      uint64_t sum = j < d->n ? element(a, b, d, i, j) : 0;
      uint64_t expected = j >= d->n ? before[at] : d->accumulate ? ab_m61_add(before[at], sum) : sum;
      ck_assert_msg(c[at] == expected, "m %d n %d k %d trans %d%d accumulate %d: C[%d,%d]", (int)d->m, (int)d->n,
                    (int)d->k, d->trans_a, d->trans_b, d->accumulate, (int)i, (int)j);
    }
  uint64_t *blocks[] = {a, b, c, before};
  for (int i = 0; i < 4; i++) ab_mem_free(blocks[i]);
}

START_TEST(gemm_is_the_sum_of_products) {
  for (int variant = 0; variant < 8; variant++) {
    struct ab_gemm d = {.m = shapes[_i][0], .n = shapes[_i][1], .k = shapes[_i][2], .trans_a = variant & 1,
                        .trans_b = variant & 2, .accumulate = variant & 4};
    d.lda = (d.trans_a ? d.m : d.k) + 1;
    d.ldb = (d.trans_b ? d.k : d.n) + 3;
    d.ldc = d.n + 2;
    check_gemm(&d);
  }
}
END_TEST

/* The largest sum that is reduced at once. */
START_TEST(gemm_does_not_overflow) {
  enum { K = 300 };
  uint64_t *a = residues(K), c;
  for (int i = 0; i < K; i++) a[i] = P - 1;
  k->gemm(&c, a, a, &(struct ab_gemm){.m = 1, .n = 1, .k = K, .lda = K, .ldb = 1, .ldc = 1});
  ck_assert_uint_eq(c, K);
  ab_mem_free(a);
}
END_TEST

START_TEST(an_empty_sum_is_zero) {
  uint64_t c[3] = {5, 6, 7};
  struct ab_gemm d = {.m = 1, .n = 2, .lda = 1, .ldb = 2, .ldc = 3, .accumulate = true};
  k->gemm(c, NULL, NULL, &d);
  ck_assert_uint_eq(c[0], 5);
  d.accumulate = false;
  k->gemm(c, NULL, NULL, &d);
  ck_assert(c[0] == 0 && c[1] == 0 && c[2] == 7);
}
END_TEST

/* What no floating point table can promise: any order of a sum gives the same. */
START_TEST(order_does_not_matter) {
  enum { K = 200, N = 6 };
  uint64_t *a = residues(K), *b = residues(K * N), whole[N], parts[N] = {0};
  k->gemm(whole, a, b, &(struct ab_gemm){.m = 1, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N});
  for (int p = K; p-- > 0;)
    k->gemm(parts, a + p, b + p * N, &(struct ab_gemm){.m = 1, .n = N, .k = 1, .lda = 1, .ldb = N, .ldc = N,
                                                       .accumulate = true});
  ck_assert_mem_eq(whole, parts, sizeof whole);
  ab_mem_free(a);
  ab_mem_free(b);
}
END_TEST

START_TEST(elementwise_kernels_are_modular) {
  enum { N = 101 };
  uint64_t *a = residues(N), *b = residues(N), y[N];
  k->add(y, a, b, N);
  for (int i = 0; i < N; i++) ck_assert_uint_eq(y[i], (uint64_t)(((ab_u128)a[i] + b[i]) % P));
  k->subtract(y, y, b, N);
  ck_assert_mem_eq(y, a, sizeof y);
  k->scale(y, a, -3, N);
  for (int i = 0; i < N; i++) ck_assert_uint_eq(y[i], (uint64_t)((ab_u128)a[i] * (P - 3) % P));
  k->fill(y, -2, N);
  ck_assert(y[0] == P - 2 && y[N - 1] == P - 2);
  k->copy(y, b, N);
  ck_assert_mem_eq(y, b, sizeof y);
  k->zero(y, N);
  ck_assert(y[0] == 0 && y[N - 1] == 0);
  ab_mem_free(a);
  ab_mem_free(b);
}
END_TEST

START_TEST(views_are_copied_and_added) {
  enum { R = 3, C = 5 };
  uint64_t *from = residues(R * C), to[C * R], before[C * R];
  struct ab_view f = {.dtype = AB_M61, .shape = {2, {R, C}}, .stride = {C, 1}, .data = from};
  struct ab_view t = {.dtype = AB_M61, .shape = {2, {R, C}}, .stride = {1, R}, .data = to};
  k->copy_view(&t, &f);
  for (int i = 0; i < R; i++)
    for (int j = 0; j < C; j++) ck_assert_uint_eq(to[j * R + i], from[i * C + j]);
  memcpy(before, to, sizeof to);
  k->add_view(&t, &f);
  for (int i = 0; i < R; i++)
    for (int j = 0; j < C; j++)
      ck_assert_uint_eq(to[j * R + i], (uint64_t)(((ab_u128)before[j * R + i] + from[i * C + j]) % P));
  ab_mem_free(from);
}
END_TEST

START_TEST(sums_are_the_nearest_integers) {
  uint64_t x[4], y[4];
  const int32_t w[] = {1, 0, -2, 3};
  const int64_t xi[] = {5, -7, 11, -200}, yi[] = {-3, 2, 1, 4};
  for (int i = 0; i < 4; i++) {
    x[i] = ab_m61_of_integer(xi[i]);
    y[i] = ab_m61_of_integer(yi[i]);
  }
  ck_assert_double_eq(k->sum(x, 4), -191);
  ck_assert_double_eq(k->sum_squares(x, 4), 25 + 49 + 121 + 40000);
  ck_assert_double_eq(k->dot(x, y, 4), -15 - 14 + 11 - 800);
  ck_assert_double_eq(k->weighted_sum(x, w, 4), 5 - 22 - 600);
}
END_TEST

static void gemm_drops_tail(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  struct ab_gemm wrong = *d;
  if (d->k > 63) wrong.k -= 1;
  k->gemm(c, a, b, &wrong);
}

START_TEST(the_self_test_holds_and_can_fail) {
  struct ab_kernels table = *k;
  ck_ok(ab_kernels_self_test(k));
  table.gemm = gemm_drops_tail;
  ck_fails(ab_kernels_self_test(&table), AB_EMISMATCH, "gemm of table exact is wrong");
}
END_TEST

START_TEST(the_tables_say_what_they_are) {
  const struct ab_kernels *dry = ab_kernels_dry(AB_M61);
  ck_assert(k->polynomial && !k->dry && k->dtype == AB_M61 && k->element == 8);
  ck_assert(dry->polynomial && dry->dry && dry->dtype == AB_M61 && dry->element == 8);
  ck_assert(!ab_kernels_f32.polynomial && !ab_kernels_f64.polynomial && !ab_kernels_dry(AB_F64)->polynomial);
  ck_assert(!k->norm && !k->attention && !k->swiglu && !k->cross_entropy && !k->adamw);
  ck_assert_uint_eq(dry->from_f32(NULL, NULL, 9), 9);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("exact");
  TCase *tcase = tcase_create("exact");
  tcase_add_test(tcase, reduction_is_the_remainder);
  tcase_add_test(tcase, residues_form_a_field);
  tcase_add_test(tcase, integers_go_there_and_back);
  tcase_add_test(tcase, what_is_no_integer_is_refused);
  tcase_add_loop_test(tcase, gemm_is_the_sum_of_products, 0, (int)(sizeof shapes / sizeof *shapes));
  tcase_add_test(tcase, gemm_does_not_overflow);
  tcase_add_test(tcase, an_empty_sum_is_zero);
  tcase_add_test(tcase, order_does_not_matter);
  tcase_add_test(tcase, elementwise_kernels_are_modular);
  tcase_add_test(tcase, views_are_copied_and_added);
  tcase_add_test(tcase, sums_are_the_nearest_integers);
  tcase_add_test(tcase, the_self_test_holds_and_can_fail);
  tcase_add_test(tcase, the_tables_say_what_they_are);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
