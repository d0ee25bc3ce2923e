/* Elementwise kernels, views, sums, embedding, optimizer: exact expectations where the arithmetic is exact. */
#include "kernel_test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tap.h"

static const size_t lengths[] = {0, 1, 7, 8, 9, 64, 131};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static double rounded(const struct ab_kernels *k, double x) { return k->dtype == AB_F64 ? x : (double)(float)x; }

#define EXPECT(value)                                                                                        \
  for (size_t i = 0; i < n; i++)                                                                             \
  ck_assert_msg(kt_get(k, y, i) == (value), "%s, table %s: [%zu] is %.9g, expected %.9g", __func__, k->name, i, \
                kt_get(k, y, i), (value))

static void check_elementwise(const struct ab_kernels *k, size_t n) {
  void *x = kt_random(k, n, 1, 3), *w = kt_random(k, n, 2, 3), *y = kt_new(k, n);
  double *a = kt_widen(k, x, n), *b = kt_widen(k, w, n);
  k->zero(y, n);
  EXPECT(0.0);
  k->fill(y, 1.1, n);
  EXPECT(rounded(k, 1.1));
  k->copy(y, x, n);
  EXPECT(a[i]);
  k->add(y, x, w, n);
  EXPECT(rounded(k, a[i] + b[i]));
  k->subtract(y, x, w, n);
  EXPECT(rounded(k, a[i] - b[i]));
  k->scale(y, x, 0.1, n);
  EXPECT(rounded(k, rounded(k, 0.1) * a[i]));
  k->copy(y, x, n);
  k->add(y, y, w, n);
  EXPECT(rounded(k, a[i] + b[i]));
  k->subtract(y, w, y, n);
  EXPECT(rounded(k, b[i] - rounded(k, a[i] + b[i])));
  k->copy(y, x, n);
  k->scale(y, y, -2, n);
  EXPECT(-2 * a[i]);
  kt_done("elementwise");
}

START_TEST(test_elementwise) {
  for (int i = 0; i < LENGTHS; i++) check_elementwise(tables[_i], lengths[i]);
}
END_TEST

/* The lanes and the tree, spelled out. */
static double in_lanes(const double *x, size_t n) {
  double lane[8] = {0};
  for (size_t i = 0; i < n; i++) lane[i % 8] += x[i];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void check_sums(const struct ab_kernels *k, size_t n) {
  void *x = kt_random(k, n, 1, 3), *y = kt_random(k, n, 2, 3);
  int32_t *w = kt_random_ints(n, 3, 0, 1);
  double *a = kt_widen(k, x, n), *b = kt_widen(k, y, n), *term = kt_doubles(n);
  ck_assert_double_eq(k->sum(x, n), in_lanes(a, n));
  for (size_t i = 0; i < n; i++) term[i] = a[i] * a[i];
  ck_assert_double_eq(k->sum_squares(x, n), in_lanes(term, n));
  for (size_t i = 0; i < n; i++) term[i] = a[i] * b[i];
  ck_assert_double_eq(k->dot(x, y, n), in_lanes(term, n));
  for (size_t i = 0; i < n; i++) term[i] = a[i] * w[i];
  ck_assert_double_eq(k->weighted_sum(x, w, n), in_lanes(term, n));
  kt_done("sums");
}

START_TEST(test_sums) {
  for (int i = 0; i < LENGTHS; i++) check_sums(tables[_i], lengths[i]);
}
END_TEST

static struct ab_view view_of(const struct ab_kernels *k, void *data, int rank, const int64_t *dim,
                              const int64_t *stride) {
  struct ab_view view = {.dtype = k->dtype, .data = data, .shape.rank = rank};
  for (int i = 0; i < rank; i++) view.shape.dim[i] = dim[i], view.stride[i] = stride[i];
  return view;
}

/* Layer 2 of a stack [3, 4, 2, 5] whose layer axis is the second, to and from contiguous [3, 2, 5]. */
START_TEST(test_views) {
  const struct ab_kernels *k = tables[_i];
  const int64_t dim[] = {3, 2, 5}, stacked[] = {40, 5, 1}, plain[] = {10, 5, 1}, columns[] = {2, 1, 6};
  void *stack = kt_random(k, 120, 1, 1), *flat = kt_new(k, 30), *turned = kt_new(k, 30);
  struct ab_view layer = view_of(k, (char *)stack + 20 * k->element, 3, dim, stacked);
  struct ab_view out = view_of(k, flat, 3, dim, plain), column = view_of(k, turned, 3, dim, columns);
  double *before = kt_widen(k, stack, 120);
  k->copy_view(&out, &layer);
  k->copy_view(&column, &out);
  k->add_view(&layer, &column);
  k->add_view(&layer, &out);
  for (size_t i = 0; i < 120; i++) {
    size_t e = i / 40, l = i / 10 % 4, rest = i % 10;
    double once = rounded(k, before[i] + before[i]);
    ck_assert_double_eq(kt_get(k, stack, i), l == 2 ? rounded(k, once + before[i]) : before[i]);
    if (l != 2) continue;
    ck_assert_double_eq(kt_get(k, flat, e * 10 + rest), before[i]);
    ck_assert_double_eq(kt_get(k, turned, e * 2 + rest / 5 + rest % 5 * 6), before[i]);
  }
  kt_done("views");
}
END_TEST

START_TEST(test_view_corners) {
  const struct ab_kernels *k = tables[_i];
  void *x = kt_random(k, 6, 1, 1), *y = kt_new(k, 6);
  struct ab_view scalar = view_of(k, x, 0, NULL, NULL), to = view_of(k, y, 0, NULL, NULL);
  k->copy_view(&to, &scalar);
  ck_assert_double_eq(kt_get(k, y, 0), kt_get(k, x, 0));
  ck_assert(isnan(kt_get(k, y, 1)));
  const int64_t none[] = {2, 0, 3}, one[] = {1, 6, 1}, stride[] = {99, 1, 77};
  struct ab_view empty_from = view_of(k, x, 3, none, stride), empty_to = view_of(k, y, 3, none, stride);
  k->copy_view(&empty_to, &empty_from);
  ck_assert(isnan(kt_get(k, y, 1)));
  struct ab_view line_from = view_of(k, x, 3, one, stride), line_to = view_of(k, y, 3, one, stride);
  k->copy_view(&line_to, &line_from);
  kt_same_bits(k, x, y, 6, "axes of extent 1");
  kt_done("view corners");
}
END_TEST

/* Known and unknown ids; the gradient is accumulated in token order. */
START_TEST(test_embed) {
  const struct ab_kernels *k = tables[_i];
  const int32_t ids[] = {3, 0, 7, 3, -1, 6, 3};
  struct ab_embed_dims d = {.tokens = 7, .emb = 5, .vocab = 7};
  void *table = kt_random(k, 35, 1, 1), *y = kt_new(k, 35), *dy = kt_random(k, 35, 2, 1),
       *dtable = kt_random(k, 35, 3, 1);
  double *expected = kt_widen(k, dtable, 35);
  k->embed(y, table, ids, &d);
  k->embed_weight(dtable, dy, ids, &d);
  for (size_t i = 0; i < 35; i++) {
    int32_t id = ids[i / 5];
    bool known = id >= 0 && id < 7;
    ck_assert_double_eq(kt_get(k, y, i), known ? kt_get(k, table, (size_t)id * 5 + i % 5) : 0);
    if (!known) continue;
    double *sum = &expected[(size_t)id * 5 + i % 5];
    *sum = rounded(k, *sum + kt_get(k, dy, i));
  }
  for (size_t i = 0; i < 35; i++) ck_assert_double_eq(kt_get(k, dtable, i), expected[i]);
  kt_done("embed");
}
END_TEST

/* Three steps of AdamW against the formulas of optax in double. */
START_TEST(test_adamw) {
  const struct ab_kernels *k = tables[_i];
  enum { N = 19 };
  void *p = kt_random(k, N, 1, 1), *mu = kt_new(k, N), *nu = kt_new(k, N);
  k->zero(mu, N);
  k->zero(nu, N);
  double *pp = kt_widen(k, p, N), m[N] = {0}, v[N] = {0};
  for (int step = 1; step <= 3; step++) {
    void *g = kt_random(k, N, (uint32_t)(10 + step), 2);
    struct ab_adamw rule = {.b1 = 0.9,
                            .b2 = 0.95,
                            .epsilon = 1e-8,
                            .epsilon_root = 1e-6,
                            .weight_decay = 0.1,
                            .learning_rate = 0.01,
                            .correction1 = 1 - pow(0.9, step),
                            .correction2 = 1 - pow(0.95, step)};
    k->adamw(p, mu, nu, g, &rule, N);
    for (size_t i = 0; i < N; i++) {
      double x = kt_get(k, g, i);
      m[i] = 0.1 * x + 0.9 * m[i];
      v[i] = 0.05 * x * x + 0.95 * v[i];
      double update = m[i] / rule.correction1 / (sqrt(v[i] / rule.correction2 + 1e-6) + 1e-8) + 0.1 * pp[i];
      pp[i] -= 0.01 * update;
    }
  }
  kt_close(k, p, pp, N, "parameters");
  kt_close(k, mu, m, N, "mu");
  kt_close(k, nu, v, N, "nu");
  kt_done("adamw");
}
END_TEST

START_TEST(test_sgd_and_clip) {
  const struct ab_kernels *k = tables[_i];
  enum { n = 19 };
  void *y = kt_random(k, n, 1, 1), *g = kt_random(k, n, 2, 1);
  double *p = kt_widen(k, y, n), *x = kt_widen(k, g, n);
  k->sgd(y, g, 0.3, n);
  EXPECT(rounded(k, p[i] - rounded(k, rounded(k, 0.3) * x[i])));
  k->copy(y, g, n);
  k->clip(y, 7.7, 0.3, n);
  EXPECT(rounded(k, rounded(k, x[i] / rounded(k, 7.7)) * rounded(k, 0.3)));
  kt_done("sgd and clip");
}
END_TEST

static void statistics_of(const struct ab_kernels *k, double out[3], const void *x, size_t n) {
  void *y[3] = {kt_new(k, 1), kt_new(k, 1), kt_new(k, 1)};
  k->statistics(y[0], y[1], y[2], x, n);
  for (int i = 0; i < 3; i++) out[i] = kt_get(k, y[i], 0);
}

/* Against two plain passes, every length around the number of lanes, about 1 in 4 elements zero. */
START_TEST(test_statistics) {
  const struct ab_kernels *k = tables[_i];
  double epsilon = k->dtype == AB_F64 ? 0x1p-50 : 0x1p-23, out[3];
  for (size_t n = 1; n <= 41; n++) {
    void *x = kt_random(k, n, (int)n, 3);
    double *v = kt_widen(k, x, n), sum = 0, squares = 0, zeros = 0;
    for (size_t i = 0; i < n; i += 4) kt_set(k, x, i, v[i] = i % 8 ? -0.0 : 0.0);
    for (size_t i = 0; i < n; i++) sum += v[i];
    for (size_t i = 0; i < n; i++) squares += (v[i] - sum / (double)n) * (v[i] - sum / (double)n);
    for (size_t i = 0; i < n; i++) zeros += v[i] == 0;
    statistics_of(k, out, x, n);
    ck_assert_double_eq_tol(out[0], sum / (double)n, 3 * epsilon);
    ck_assert_double_eq_tol(out[1], sqrt(squares / (double)n), 3 * epsilon);
    ck_assert_double_eq(out[2], rounded(k, zeros / (double)n));
    kt_done("statistics");
  }
}
END_TEST

/* 2, 4, 4, 4, 5, 5, 7, 9: mean 5, deviation 2 over 8 and not over 7. A constant deviates by 0 even far from it, whose
 * square is no element; NaN shows in both moments and is no zero. */
START_TEST(test_statistics_by_hand) {
  static const double given[] = {2, 4, 4, 4, 5, 5, 7, 9};
  const struct ab_kernels *k = tables[_i];
  void *x = kt_new(k, 8);
  double out[3];
  for (size_t i = 0; i < 8; i++) kt_set(k, x, i, given[i]);
  statistics_of(k, out, x, 8);
  ck_assert(out[0] == 5 && out[1] == 2 && out[2] == 0);
  k->fill(x, 0x1p100, 8);
  statistics_of(k, out, x, 8);
  ck_assert(out[0] == 0x1p100 && out[1] == 0 && out[2] == 0);
  k->zero(x, 8);
  kt_set(k, x, 3, NAN);
  statistics_of(k, out, x, 8);
  ck_assert(isnan(out[0]) && isnan(out[1]) && out[2] == 0.875);
  kt_done("statistics by hand");
}
END_TEST

/* Nothing is flushed: the smallest numbers keep their bits. */
START_TEST(test_subnormals) {
  const struct ab_kernels *k = tables[_i];
  double tiny = k->dtype == AB_F64 ? 0x1p-1074 : 0x1p-149;
  void *x = kt_new(k, 9), *y = kt_new(k, 9);
  k->fill(x, tiny, 9);
  k->add(y, x, x, 9);
  for (size_t i = 0; i < 9; i++) ck_assert_double_eq(kt_get(k, y, i), 2 * tiny);
  kt_done("subnormals");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("elementwise");
  TCase *tcase = tcase_create("tables");
  tcase_add_loop_test(tcase, test_elementwise, 0, TABLES);
  tcase_add_loop_test(tcase, test_sums, 0, TABLES);
  tcase_add_loop_test(tcase, test_views, 0, TABLES);
  tcase_add_loop_test(tcase, test_view_corners, 0, TABLES);
  tcase_add_loop_test(tcase, test_embed, 0, TABLES);
  tcase_add_loop_test(tcase, test_adamw, 0, TABLES);
  tcase_add_loop_test(tcase, test_sgd_and_clip, 0, TABLES);
  tcase_add_loop_test(tcase, test_statistics, 0, TABLES);
  tcase_add_loop_test(tcase, test_statistics_by_hand, 0, TABLES);
  tcase_add_loop_test(tcase, test_subnormals, 0, TABLES);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
