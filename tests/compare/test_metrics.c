#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "metrics.h"
#include "probe.h"
#include "tap.h"

static struct ab_view f32_view(float *values, int64_t count) {
  return (struct ab_view){.dtype = AB_F32, .shape = {1, {count}}, .stride = {1}, .data = values};
}

static struct ab_view f64_view(double *values, int64_t count) {
  return (struct ab_view){.dtype = AB_F64, .shape = {1, {count}}, .stride = {1}, .data = values};
}

static struct ab_difference apart(float *a, float *b, int64_t count) {
  struct ab_view view_a = f32_view(a, count), view_b = f32_view(b, count);
  struct ab_difference d;
  ck_ok(ab_difference(&d, &view_a, &view_b));
  return d;
}

static struct ab_difference apart64(double *a, double *b, int64_t count) {
  struct ab_view view_a = f64_view(a, count), view_b = f64_view(b, count);
  struct ab_difference d;
  ck_ok(ab_difference(&d, &view_a, &view_b));
  return d;
}

enum { N = 1300 }; /* more than two blocks of the cursor, and no multiple of the lanes */

static void fill(float *a, float *b) {
  for (int i = 0; i < N; i++) a[i] = b[i] = 1.0f + (float)i * 0.01f;
}

START_TEST(one_ulp_in_one_element_is_seen_wherever_it_is) {
  static const int places[] = {0, 1, 511, 512, 1023, 1024, N - 1};
  float a[N], b[N];
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
    int i = places[p];
    fill(a, b);
    a[i] = nextafterf(b[i], INFINITY);
    struct ab_difference d = apart(a, b, N);
    ck_assert_uint_eq(d.differing, 1);
    ck_assert_uint_eq(d.first.index, (size_t)i);
    ck_assert_uint_eq(d.worst.index, (size_t)i);
    ck_assert_uint_eq(d.max_ulp, 1);
    ck_assert_double_eq(d.max_abs, (double)a[i] - (double)b[i]);
    ck_assert_uint_eq(d.worst.bits_a, d.worst.bits_b + 1);
    ck_assert(d.rel_l2 > 0);
  }
}
END_TEST

START_TEST(equal_tensors_are_at_distance_zero) {
  float a[N], b[N];
  fill(a, b);
  struct ab_difference d = apart(a, b, N);
  ck_assert_uint_eq(d.differing, 0);
  ck_assert_double_eq(d.rel_l2, 0);
  ck_assert_double_eq(d.max_abs_over_max, 0);
  ck_assert_uint_eq(d.count, N);
}
END_TEST

START_TEST(what_is_not_finite_is_never_equal_wherever_it_is) {
  static const int places[] = {0, N / 2, N - 1};
  static const float values[] = {NAN, INFINITY, -INFINITY};
  for (int p = 0; p < 9; p++)
    for (int which = 1; which <= 3; which++) { /* a, b, both */
      float a[N], b[N];
      fill(a, b);
      a[N / 3] += 100; /* a larger finite difference does not hide it */
      if (which & 1) a[places[p % 3]] = values[p / 3];
      if (which & 2) b[places[p % 3]] = values[p / 3];
      struct ab_difference d = apart(a, b, N);
      ck_assert_uint_eq(d.differing, 2);
      ck_assert_uint_eq(d.nonfinite_a, (size_t)(which & 1));
      ck_assert_uint_eq(d.nonfinite_b, (size_t)(which >> 1));
      ck_assert_uint_eq(d.nonfinite_alike, which == 3);
      ck_assert_uint_eq(d.worst.index, (size_t)places[p % 3]);
      ck_assert(isinf(d.rel_l2) && isinf(d.max_abs_over_max) && !isinf(d.max_abs));
    }
}
END_TEST

START_TEST(infinities_are_not_equal_either) {
  float a[2] = {INFINITY, 1}, b[2] = {INFINITY, 1};
  struct ab_difference d = apart(a, b, 2);
  ck_assert_uint_eq(d.differing, 1);
  ck_assert(isinf(d.rel_l2) && !isnan(d.rel_l2));
}
END_TEST

START_TEST(only_the_same_that_is_not_finite_is_alike) {
  static const double values[] = {1, NAN, INFINITY, -INFINITY, 0};
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 5; k++)
      ck_assert_msg(ab_same_nonfinite(values[i], values[k]) == (i == k && !isfinite(values[i])), "%g and %g", values[i],
                    values[k]);
}
END_TEST

START_TEST(the_worst_element_is_the_first_of_the_largest_or_the_first_non_finite) {
  float a[8] = {1, 3, 1, 4, 1, 4, 1, 1}, b[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  ck_assert_uint_eq(apart(a, b, 8).worst.index, 3);
  a[3] = 3.5f;
  a[5] = 3.25f;
  struct ab_difference d = apart(a, b, 8);
  ck_assert_uint_eq(d.worst.index, 3);
  ck_assert_double_eq(d.max_abs, 2.5);
  ck_assert_uint_eq(d.first.index, 1);
  a[6] = NAN;
  a[7] = INFINITY;
  ck_assert_uint_eq(apart(a, b, 8).worst.index, 6);
}
END_TEST

START_TEST(signs_of_zero_count_apart) {
  float a[4] = {0.0f, -0.0f, -0.0f, 1}, b[4] = {-0.0f, -0.0f, -0.0f, 1};
  struct ab_difference d = apart(a, b, 4);
  ck_assert_uint_eq(d.differing, 0);
  ck_assert_uint_eq(d.sign_only, 1);
  ck_assert_double_eq(d.rel_l2, 0);
}
END_TEST

START_TEST(zero_against_zero_is_zero_and_against_more_infinite) {
  float zero[4] = {0}, other[4] = {0, 1e-30f, 0, 0};
  struct ab_difference d = apart(zero, zero, 4);
  ck_assert_double_eq(d.rel_l2, 0);
  ck_assert_double_eq(d.max_abs_over_max, 0);
  d = apart(other, zero, 4);
  ck_assert(isinf(d.rel_l2) && isinf(d.max_abs_over_max));
  d = apart(zero, other, 4);
  ck_assert_double_eq(d.rel_l2, 1);
}
END_TEST

START_TEST(relative_l2_is_the_formula) {
  float a[4] = {3, 4, 0, 1}, b[4] = {3, 0, 3, 1};
  struct ab_difference d = apart(a, b, 4);
  ck_assert_double_eq(d.l2, 5);
  ck_assert_double_eq_tol(d.l2_b, sqrt(19), 1e-15);
  ck_assert_double_eq_tol(d.rel_l2, 5 / sqrt(19), 1e-15);
  ck_assert_double_eq(d.max_abs, 4);
  ck_assert_double_eq_tol(d.max_abs_over_max, 4.0 / 3, 1e-15);
  ck_assert_uint_eq(d.worst.index, 1);
  ck_assert_uint_eq(d.differing, 2);
}
END_TEST

/* The order of summation is part of the result: eight lanes by i mod 8, folded as ab_summarize folds. */
START_TEST(sums_run_in_the_order_of_the_summaries) {
  float a[N], b[N];
  fill(a, b);
  for (int i = 0; i < N; i++) a[i] += 0.1f / (float)(i + 1);
  double lane[8] = {0};
  for (int i = 0; i < N; i++) lane[i % 8] += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  double sum = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  struct ab_difference d = apart(a, b, N);
  struct ab_view view = f32_view(b, N);
  struct ab_summary summary;
  ab_summarize(&summary, &view);
  ck_assert_double_eq(d.l2, sqrt(sum));
  ck_assert_double_eq(d.l2_b, summary.l2);
}
END_TEST

START_TEST(nothing_overflows_or_vanishes) {
  static const double sizes[] = {1e-300, 1e-200, 1e200, 1e300, DBL_MAX / 4};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double a[3] = {2 * sizes[i], sizes[i], 0}, b[3] = {sizes[i], sizes[i], 0};
    struct ab_difference d = apart64(a, b, 3);
    ck_assert_double_eq_tol(d.rel_l2, sqrt(0.5), 1e-12);
    ck_assert_double_eq_tol(d.l2 / sizes[i], 1, 1e-12);
    ck_assert_double_eq_tol(d.l2_b / sizes[i], sqrt(2), 1e-12);
    ck_assert_double_eq_tol(d.max_abs_over_max, 1, 1e-12);
    ck_assert_uint_eq(d.count, 3);
  }
  double mixed[2] = {1, 2e-200}, small[2] = {1, 1e-200}; /* one of both alone is out of range */
  ck_assert_double_eq_tol(apart64(mixed, small, 2).rel_l2 / 1e-200, 1, 1e-12);
  ck_assert_double_eq_tol(apart64(mixed, small + 1, 1).rel_l2 / 1e200, 1, 1e-12);
  double a[1] = {DBL_MAX}, b[1] = {-DBL_MAX};
  struct ab_difference d = apart64(a, b, 1);
  ck_assert_double_eq_tol(d.rel_l2, 2, 1e-12);
  ck_assert_uint_eq(d.nonfinite_a + d.nonfinite_b, 0);
}
END_TEST

START_TEST(ulps_cross_zero) {
  double a[1] = {4.9406564584124654e-324}, b[1] = {-4.9406564584124654e-324};
  ck_assert_uint_eq(apart64(a, b, 1).max_ulp, 2);
  float c[1] = {1}, e[1] = {-1};
  ck_assert_uint_eq(apart(c, e, 1).max_ulp, 2 * UINT64_C(0x3f800000));
}
END_TEST

/* One pair among elements that are equal, whole lanes of them: in vectors, and one by one. */
START_TEST(steps_are_counted_in_vectors_too) {
  static const double pairs[][3] = {{0x1p-149, -0x1p-149, 2}, {0x1p-149, 0, 1},  {0, 0x1p-149, 1}, {-0x1p-149, -0.0, 1},
                                    {-0.0, 0x1p-149, 1},      {-2, -1, 0x800000}, {1, -1, 0x7f000000}};
  for (int p = 0; p < 7; p++) {
    float a[32], b[32], sparse_a[64], sparse_b[64];
    for (int i = 0; i < 32; i++) a[i] = b[i] = (float)(i - 16);
    a[5] = (float)pairs[p][0];
    b[5] = (float)pairs[p][1];
    for (int i = 0; i < 32; i++) sparse_a[2 * i] = a[i], sparse_b[2 * i] = b[i];
    struct ab_view view_a = f32_view(sparse_a, 32), view_b = f32_view(sparse_b, 32);
    struct ab_difference d;
    view_a.stride[0] = view_b.stride[0] = 2;
    ck_ok(ab_difference(&d, &view_a, &view_b));
    ck_assert_uint_eq(d.max_ulp, (uint64_t)pairs[p][2]);
    ck_assert_uint_eq(apart(a, b, 32).max_ulp, (uint64_t)pairs[p][2]);
  }
}
END_TEST

START_TEST(equal_elements_are_scaled_in_vectors_too) {
  double a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = b[i] = i < 8 ? 1e200 : 0;
  ck_assert_double_eq_tol(apart64(a, b, 16).l2_b / 1e200, sqrt(8), 1e-12);
}
END_TEST

START_TEST(what_lies_behind_is_not_looked_at) {
  for (int count = 7; count < 10; count++) {
    float a[12], b[12];
    for (int i = 0; i < 12; i++) a[i] = b[i] = i < count ? 1 : 1e30f;
    a[0] = 2;
    ck_assert_double_eq(apart(a, b, count).max_abs_over_max, 1);
  }
}
END_TEST

START_TEST(float32_meets_float64) {
  float a[2] = {0.1f, 2};
  double b[2] = {0.1, 2};
  struct ab_view view_a = f32_view(a, 2), view_b = f64_view(b, 2);
  struct ab_difference d;
  ck_ok(ab_difference(&d, &view_a, &view_b));
  ck_assert_uint_eq(d.differing, 1);
  ck_assert(!d.has_ulp);
  ck_assert_uint_eq(d.worst.bits_a, 0x3dcccccd);
  ck_assert_uint_eq(d.worst.bits_b, UINT64_C(0x3fb999999999999a));
  ck_assert_double_eq_tol(d.max_abs, (double)0.1f - 0.1, 1e-20);
}
END_TEST

static void check_same_pair(const struct ab_value_pair *a, const struct ab_value_pair *b) {
  ck_assert_uint_eq(a->index, b->index);
  ck_assert(a->bits_a == b->bits_a && a->bits_b == b->bits_b);
}

static void check_same(const struct ab_difference *a, const struct ab_difference *b) {
  ck_assert_uint_eq(a->differing, b->differing);
  ck_assert_uint_eq(a->sign_only, b->sign_only);
  ck_assert(a->nonfinite_a == b->nonfinite_a && a->nonfinite_b == b->nonfinite_b);
  ck_assert(a->max_abs == b->max_abs && a->max_abs_over_max == b->max_abs_over_max);
  ck_assert(a->l2 == b->l2 && a->l2_b == b->l2_b && a->rel_l2 == b->rel_l2);
  ck_assert(a->max_ulp == b->max_ulp && a->has_ulp == b->has_ulp);
  check_same_pair(&a->first, &b->first);
  check_same_pair(&a->worst, &b->worst);
}

/* Whole chunks are measured in vectors, strided views one by one: the same, whichever side is the float. */
START_TEST(float32_meets_float64_in_any_layout) {
  static const double odd[] = {0, NAN, -0.0, 1e300, 0x1p-1074};
  static float narrow[2 * N];
  static double wide[N];
  for (size_t o = 0; o < sizeof odd / sizeof *odd; o++) {
    for (int i = 0; i < N; i++) narrow[2 * i] = i % 7 ? 1.0f + (float)i * 0.01f : 0;
    for (int i = 0; i < N; i++) wide[i] = (double)narrow[2 * i] * (i % 3 ? 1 : 1 + 1e-9 * (i % 11));
    if (o) wide[N - 14] = odd[o];
    float straight[N];
    for (int i = 0; i < N; i++) straight[i] = narrow[2 * i];
    struct ab_view view = f32_view(straight, N), view64 = f64_view(wide, N), apart_view = f32_view(narrow, N);
    apart_view.stride[0] = 2;
    struct ab_difference fast, slow;
    ck_ok(ab_difference(&fast, &view, &view64));
    ck_ok(ab_difference(&slow, &apart_view, &view64));
    ck_assert_uint_gt(fast.differing, 100);
    ck_assert_uint_eq(fast.max_ulp, 0);
    check_same(&fast, &slow);
    ck_ok(ab_difference(&fast, &view64, &view));
    ck_ok(ab_difference(&slow, &view64, &apart_view));
    check_same(&fast, &slow);
  }
}
END_TEST

enum { LINES = 100, COLUMNS = 21, M = LINES * COLUMNS, STEP = 2 * COLUMNS }; /* M: two chunks and a rest */

/* Equal in the first chunk; two elements are off by the most, and one before them by less. */
static double value_of(int i, bool b) {
  double more = i == 1030 ? 0.25 : i == 1100 || i == 2060 ? 0.5 : 0;
  if (i == 1200) return b ? -0.0 : 0;
  return 1 + i % 64 + (b ? 0 : more);
}

static void lay_out(void *data, enum ab_dtype dtype, const int64_t stride[2], bool b) {
  memset(data, b ? 0x41 : 0x3f, sizeof(double) * LINES * STEP);
  for (int i = 0; i < M; i++) {
    int64_t at = i / COLUMNS * stride[0] + i % COLUMNS * stride[1];
    if (dtype == AB_F32) ((float *)data)[at] = (float)value_of(i, b);
    else ((double *)data)[at] = value_of(i, b);
  }
}

static double in_a[LINES * STEP], in_b[LINES * STEP];

static struct ab_difference laid_out(enum ab_dtype dtype, int64_t line, int64_t column) {
  struct ab_view view = {.dtype = dtype, .shape = {2, {LINES, COLUMNS}}, .stride = {line, column}, .data = in_a};
  struct ab_view view_b = view;
  struct ab_difference d;
  view_b.data = in_b;
  lay_out(in_a, dtype, view.stride, false);
  lay_out(in_b, dtype, view.stride, true);
  ck_ok(ab_difference(&d, &view, &view_b));
  return d;
}

static struct ab_difference in_pieces(enum ab_dtype dtype) {
  static const int sizes[] = {3, 2, 1, 8, 1030, 7};
  struct ab_difference_walk walk;
  struct ab_difference d;
  ck_ok(ab_difference_begin(&walk, dtype, dtype, M));
  for (int at = 0, n, k = 0; at < M; at += n, k++) {
    n = sizes[k % 6] < M - at ? sizes[k % 6] : M - at;
    struct ab_view view = {.dtype = dtype, .shape = {1, {n}}, .stride = {1}}, view_b = view;
    view.data = (unsigned char *)in_a + (size_t)at * ab_dtype_size(dtype);
    view_b.data = (unsigned char *)in_b + (size_t)at * ab_dtype_size(dtype);
    ab_difference_add(&walk, &view, &view_b);
  }
  ck_assert(ab_difference_end(&d, &walk));
  return d;
}

START_TEST(any_layout_and_any_pieces_are_the_same) {
  static const enum ab_dtype dtypes[] = {AB_F32, AB_F64};
  for (int t = 0; t < 2; t++) {
    struct ab_difference padded = laid_out(dtypes[t], COLUMNS + 3, 1), sparse = laid_out(dtypes[t], STEP, 2);
    struct ab_difference flat = laid_out(dtypes[t], COLUMNS, 1), pieces = in_pieces(dtypes[t]);
    double squares = 0;
    for (int i = 0; i < M; i++) squares += value_of(i, true) * value_of(i, true);
    ck_assert_double_eq_tol(flat.l2_b, sqrt(squares), 1e-9);
    ck_assert_double_eq(flat.l2, 0.75);
    ck_assert(flat.differing == 3 && flat.sign_only == 1 && flat.first.index == 1030 && flat.worst.index == 1100);
    check_same(&flat, &padded);
    check_same(&flat, &sparse);
    check_same(&flat, &pieces);
  }
}
END_TEST

START_TEST(views_may_be_strided) {
  float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 3, 5, 2, 4, 6.5f};
  struct ab_view view_a = {.dtype = AB_F32, .shape = {2, {2, 3}}, .stride = {1, 2}, .data = a};
  struct ab_view view_b = {.dtype = AB_F32, .shape = {2, {2, 3}}, .stride = {3, 1}, .data = b};
  struct ab_difference d;
  ck_ok(ab_difference(&d, &view_a, &view_b));
  ck_assert_uint_eq(d.differing, 1);
  ck_assert_uint_eq(d.worst.index, 5);
}
END_TEST

START_TEST(integers_are_exact_and_have_no_distance) {
  int64_t a[2] = {INT64_MAX, 5}, b[2] = {INT64_MAX - 1, 5};
  struct ab_view view_a = {.dtype = AB_I64, .shape = {1, {2}}, .stride = {1}, .data = a}, view_b = view_a;
  view_b.data = b;
  struct ab_difference d;
  ck_ok(ab_difference(&d, &view_a, &view_b));
  ck_assert(d.integers);
  ck_assert_uint_eq(d.differing, 1);
  ck_assert_uint_eq(d.first.index, 0);
  ck_assert_double_eq(d.rel_l2, 0);
  uint64_t m61 = (UINT64_C(1) << 61) - 1, c[2] = {5, m61 + 3}, e[2] = {5 + m61, 4}; /* residues: equal, unequal */
  struct ab_view view_c = {.dtype = AB_M61, .shape = {1, {2}}, .stride = {1}, .data = c}, view_e = view_c;
  view_e.data = e;
  ck_ok(ab_difference(&d, &view_c, &view_e));
  ck_assert_uint_eq(d.differing, 1);
  ck_assert_uint_eq(d.first.index, 1);
  ck_assert_double_eq(d.first.a, 3);
  ck_assert_double_eq(d.first.b, 4);
}
END_TEST

START_TEST(shapes_and_types_must_fit) {
  float a[4] = {0};
  int32_t b[4] = {0};
  struct ab_view view_a = f32_view(a, 4), short_view = f32_view(a, 3);
  struct ab_view ints = {.dtype = AB_I32, .shape = {1, {4}}, .stride = {1}, .data = b};
  struct ab_difference d;
  ck_fails(ab_difference(&d, &view_a, &short_view), AB_ESHAPE, "[4] and [3]");
  ck_fails(ab_difference(&d, &view_a, &ints), AB_ESHAPE, "F32 and I32");
}
END_TEST

/* A locale with a decimal comma, if the machine has one. */
static locale_t comma_locale(void) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    locale_t found = newlocale(LC_ALL_MASK, names[i], (locale_t)0);
    if (found) return found;
  }
  return (locale_t)0;
}

START_TEST(values_print_the_same_under_any_locale) {
  char text[64];
  locale_t comma = comma_locale(), old = comma ? uselocale(comma) : (locale_t)0;
  ab_value_print(text, sizeof text, (double)0.1f, 0x3dcccccd, AB_F32);
  ck_assert_str_eq(text, "0.1 (0x3dcccccd)");
  ab_value_print(text, sizeof text, 0.1, UINT64_C(0x3fb999999999999a), AB_F64);
  ck_assert_str_eq(text, "0.1 (0x3fb999999999999a)");
  ab_value_print(text, sizeof text, (double)NAN, 0x7fc00000, AB_F32);
  ck_assert_str_eq(text, "nan (0x7fc00000)");
  ab_value_print(text, sizeof text, 0, 0, AB_F32);
  ck_assert_str_eq(text, "0 (0x00000000)");
  ab_value_print(text, sizeof text, 9007199254740992, (UINT64_C(1) << 53) + 1, AB_I64);
  ck_assert_str_eq(text, "9007199254740993 (0x0020000000000001)");
  ab_value_print(text, sizeof text, -2, UINT32_MAX - 1, AB_I32);
  ck_assert_str_eq(text, "-2 (0xfffffffe)");
  if (comma) uselocale(old);
  if (comma) freelocale(comma);
}
END_TEST

START_TEST(bits_and_values_are_inverse) {
  static const double values[] = {0.1, -0.0, 1e-310, DBL_MAX, 3};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    double back = ab_value_of(ab_bits_of(values[i], false), false), narrow = (double)(float)values[i];
    ck_assert_mem_eq(&back, &values[i], sizeof back);
    back = ab_value_of(ab_bits_of(narrow, true), true);
    ck_assert_mem_eq(&back, &narrow, sizeof back);
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("metrics");
  TCase *c = tcase_create("metrics");
  tcase_add_test(c, one_ulp_in_one_element_is_seen_wherever_it_is);
  tcase_add_test(c, equal_tensors_are_at_distance_zero);
  tcase_add_test(c, what_is_not_finite_is_never_equal_wherever_it_is);
  tcase_add_test(c, infinities_are_not_equal_either);
  tcase_add_test(c, only_the_same_that_is_not_finite_is_alike);
  tcase_add_test(c, the_worst_element_is_the_first_of_the_largest_or_the_first_non_finite);
  tcase_add_test(c, signs_of_zero_count_apart);
  tcase_add_test(c, zero_against_zero_is_zero_and_against_more_infinite);
  tcase_add_test(c, relative_l2_is_the_formula);
  tcase_add_test(c, sums_run_in_the_order_of_the_summaries);
  tcase_add_test(c, nothing_overflows_or_vanishes);
  tcase_add_test(c, ulps_cross_zero);
  tcase_add_test(c, steps_are_counted_in_vectors_too);
  tcase_add_test(c, equal_elements_are_scaled_in_vectors_too);
  tcase_add_test(c, what_lies_behind_is_not_looked_at);
  tcase_add_test(c, float32_meets_float64);
  tcase_add_test(c, float32_meets_float64_in_any_layout);
  tcase_add_test(c, any_layout_and_any_pieces_are_the_same);
  tcase_add_test(c, views_may_be_strided);
  tcase_add_test(c, integers_are_exact_and_have_no_distance);
  tcase_add_test(c, shapes_and_types_must_fit);
  tcase_add_test(c, values_print_the_same_under_any_locale);
  tcase_add_test(c, bits_and_values_are_inverse);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
