#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "probe.h"
#include "tap.h"

enum { COUNT = 5000 }; /* more than one block, and no multiple of anything */

static float values[COUNT];

static struct ab_view flat(enum ab_dtype dtype, void *data, int64_t count) {
  return (struct ab_view){.dtype = dtype, .shape = {.rank = 1, .dim = {count}}, .stride = {1}, .data = data};
}

static void fill(void) {
  uint32_t state = 1;
  for (int i = 0; i < COUNT; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)state * 0x1p-31f;
  }
}

START_TEST(the_digest_is_xxh3_128_of_the_elements) {
  struct ab_summary summary;
  struct ab_view view = flat(AB_F32, values, COUNT);
  fill();
  ab_summarize(&summary, &view);
  XXH128_hash_t expected = XXH3_128bits(values, sizeof values);
  ck_assert(summary.digest[0] == expected.high64 && summary.digest[1] == expected.low64);
  double squares = 0, sum = 0, most = 0;
  for (int i = 0; i < COUNT; i++) {
    squares += (double)values[i] * values[i];
    sum += values[i];
    most = fmax(most, fabs(values[i]));
  }
  ck_assert_uint_eq(summary.count, COUNT);
  ck_assert_double_eq_tol(summary.l2, sqrt(squares), 1e-12 * summary.l2);
  ck_assert_double_eq_tol(summary.sum, sum, 1e-10);
  ck_assert(summary.max_abs == most);
}
END_TEST

START_TEST(zeros_of_both_signs_are_one_and_counted) {
  struct ab_summary plus, minus;
  struct ab_view view = flat(AB_F32, values, COUNT);
  fill();
  values[0] = values[1500] = values[COUNT - 1] = 0.0f;
  ab_summarize(&plus, &view);
  values[0] = values[1500] = values[COUNT - 1] = -0.0f;
  ab_summarize(&minus, &view);
  ck_assert(!memcmp(plus.digest, minus.digest, sizeof plus.digest));
  ck_assert_uint_eq(plus.negative_zeros, 0);
  ck_assert_uint_eq(minus.negative_zeros, 3);
  ck_assert(signbit(values[0]));
  double d[2] = {0.0, -0.0};
  view = flat(AB_F64, d, 2);
  ab_summarize(&minus, &view);
  ck_assert_uint_eq(minus.negative_zeros, 1);
  XXH128_hash_t expected = XXH3_128bits((double[2]){0, 0}, 16);
  ck_assert(minus.digest[1] == expected.low64);
}
END_TEST

START_TEST(nan_and_infinity_are_counted_wherever_they_stand) {
  static const size_t places[] = {0, 1023, 1024, COUNT / 2, COUNT - 1};
  static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
  struct ab_view view = flat(AB_F32, values, COUNT);
  struct ab_summary clean, dirty;
  for (size_t p = 0; p < sizeof places / sizeof *places; p++)
    for (size_t o = 0; o < sizeof odd / sizeof *odd; o++) {
      fill();
      values[places[p]] = 0;
      ab_summarize(&clean, &view);
      values[places[p]] = odd[o];
      ab_summarize(&dirty, &view);
      ck_assert_uint_eq(dirty.nonfinite, 1);
      ck_assert(dirty.l2 == clean.l2 && dirty.sum == clean.sum && dirty.max_abs == clean.max_abs);
      ck_assert(memcmp(dirty.digest, clean.digest, sizeof clean.digest));
    }
}
END_TEST

START_TEST(one_bit_changes_the_digest) {
  struct ab_view view = flat(AB_F32, values, COUNT);
  struct ab_summary before, after;
  fill();
  ab_summarize(&before, &view);
  values[4321] = nextafterf(values[4321], 2);
  ab_summarize(&after, &view);
  ck_assert(memcmp(before.digest, after.digest, sizeof before.digest));
}
END_TEST

/* The order of summation is part of the result: element i in lane i mod 8, and a fixed tree. */
static double laned(const double *x, int count, bool square) {
  double l[8] = {0};
  for (int i = 0; i < count; i++) l[i % 8] += square ? x[i] * x[i] : x[i];
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

START_TEST(sums_run_in_eight_lanes_for_every_width) {
  static double wide[COUNT];
  static const int counts[] = {1, 7, 8, 1023, 1024, 1025, COUNT};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (int odd = 0; odd < 2; odd++) { /* a -0 takes the other path */
      struct ab_summary narrow, summary;
      fill();
      if (odd) values[counts[c] / 2] = -0.0f;
      for (int i = 0; i < COUNT; i++) wide[i] = (double)values[i];
      struct ab_view view = flat(AB_F32, values, counts[c]), view64 = flat(AB_F64, wide, counts[c]);
      ab_summarize(&narrow, &view);
      ck_assert(narrow.sum == laned(wide, counts[c], false) && narrow.l2 == sqrt(laned(wide, counts[c], true)));
      for (int i = 0; i < COUNT; i++) wide[i] *= 1.1;
      ab_summarize(&summary, &view64);
      ck_assert(summary.sum == laned(wide, counts[c], false) && summary.l2 == sqrt(laned(wide, counts[c], true)));
      ck_assert(summary.max_abs == 1.1 * narrow.max_abs && summary.negative_zeros == (uint64_t)odd);
    }
}
END_TEST

/* The same elements in any layout give the same summary, bit by bit. */
START_TEST(layout_does_not_matter) {
  static float turned[COUNT];
  struct ab_summary straight, strided;
  struct ab_view view = {.dtype = AB_F32, .shape = {.rank = 3, .dim = {5, 40, 25}}, .data = values};
  fill();
  ab_view_contiguous(&view);
  ab_summarize(&straight, &view);
  struct ab_view other = view;
  other.data = turned;
  other.stride[0] = 1;
  other.stride[1] = 125;
  other.stride[2] = 5;
  ab_view_unpack(&other, values);
  ck_assert(memcmp(turned, values, sizeof values));
  ab_summarize(&strided, &other);
  ck_assert(!memcmp(&straight, &strided, sizeof straight));
}
END_TEST

START_TEST(doubles_of_every_size_have_a_norm) {
  static const double sizes[] = {1e-320, 1e-300, 1e-160, 1, 1e160, 1e300};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double pair[2] = {3 * sizes[i], -4 * sizes[i]};
    struct ab_view view = flat(AB_F64, pair, 2);
    struct ab_summary summary;
    ab_summarize(&summary, &view);
    ck_assert_msg(fabs(summary.l2 / sizes[i] - 5) < 1e-3, "%g: %g", sizes[i], summary.l2);
    ck_assert(summary.max_abs == 4 * sizes[i]);
  }
}
END_TEST

START_TEST(integers_and_residues_have_summaries) {
  struct ab_summary a, b;
  int32_t i32[3] = {-3, 4, 0};
  struct ab_view view = flat(AB_I32, i32, 3);
  ab_summarize(&a, &view);
  ck_assert(a.l2 == 5 && a.sum == 1 && a.max_abs == 4 && a.nonfinite == 0);
  const uint64_t p = ((uint64_t)1 << 61) - 1;
  uint64_t reduced[2] = {0, 5}, unreduced[2] = {p, p + 5};
  view = flat(AB_M61, reduced, 2);
  ab_summarize(&a, &view);
  view.data = unreduced;
  ab_summarize(&b, &view);
  ck_assert(!memcmp(&a, &b, sizeof a));
}
END_TEST

START_TEST(nothing_has_a_summary) {
  struct ab_summary summary;
  struct ab_view view = flat(AB_F32, values, 0);
  ab_summarize(&summary, &view);
  XXH128_hash_t expected = XXH3_128bits("", 0);
  ck_assert(summary.digest[0] == expected.high64 && summary.digest[1] == expected.low64);
  ck_assert(summary.count == 0 && summary.l2 == 0 && summary.max_abs == 0);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("summary");
  TCase *c = tcase_create("summary");
  tcase_add_test(c, the_digest_is_xxh3_128_of_the_elements);
  tcase_add_test(c, zeros_of_both_signs_are_one_and_counted);
  tcase_add_test(c, nan_and_infinity_are_counted_wherever_they_stand);
  tcase_add_test(c, one_bit_changes_the_digest);
  tcase_add_test(c, sums_run_in_eight_lanes_for_every_width);
  tcase_add_test(c, layout_does_not_matter);
  tcase_add_test(c, doubles_of_every_size_have_a_norm);
  tcase_add_test(c, integers_and_residues_have_summaries);
  tcase_add_test(c, nothing_has_a_summary);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
