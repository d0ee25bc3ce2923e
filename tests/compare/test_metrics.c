#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "exitcode.h"
#include "fingerprint.h"
#include "metrics.h"
#include "tap.h"
#include "tiers.h"

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

START_TEST(nan_is_never_equal_wherever_it_is) {
  static const int places[] = {0, N / 2, N - 1};
  for (int p = 0; p < 3; p++)
    for (int which = 1; which <= 3; which++) { /* a, b, both */
      float a[N], b[N];
      fill(a, b);
      a[N / 3] += 100; /* a larger finite difference does not hide it */
      if (which & 1) a[places[p]] = NAN;
      if (which & 2) b[places[p]] = NAN;
      struct ab_difference d = apart(a, b, N);
      ck_assert_uint_eq(d.differing, 2);
      ck_assert_uint_eq(d.nonfinite_a, (size_t)(which & 1));
      ck_assert_uint_eq(d.nonfinite_b, (size_t)(which >> 1));
      ck_assert_uint_eq(d.worst.index, (size_t)places[p]);
      ck_assert(isinf(d.rel_l2));
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

START_TEST(signs_of_zero_count_apart) {
  float a[3] = {0.0f, -0.0f, 1}, b[3] = {-0.0f, -0.0f, 1};
  struct ab_difference d = apart(a, b, 3);
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

START_TEST(nothing_overflows_or_vanishes) {
  static const double sizes[] = {1e-300, 1e-200, 1e200, 1e300, DBL_MAX / 4};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double a[3] = {2 * sizes[i], sizes[i], 0}, b[3] = {sizes[i], sizes[i], 0};
    struct ab_difference d = apart64(a, b, 3);
    ck_assert_double_eq_tol(d.rel_l2, sqrt(0.5), 1e-12);
    ck_assert_double_eq_tol(d.l2 / sizes[i], 1, 1e-12);
    ck_assert_double_eq_tol(d.max_abs_over_max, 1, 1e-12);
  }
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

START_TEST(projections_estimate_the_distance) {
  enum { COUNT = 4096 };
  static float a[COUNT], b[COUNT];
  struct ab_fingerprint fa, fb;
  struct ab_identity id = {0, 0, -1, 0, AB_BACKWARD, "mlp/wo/kernel"};
  struct ab_view view_a = f32_view(a, COUNT), view_b = f32_view(b, COUNT);
  for (int i = 0; i < COUNT; i++) {
    b[i] = (float)((i * 7919) % 1000) / 500 - 1;
    a[i] = b[i] + (float)((i * 104729) % 1000 - 500) * 1e-6f;
  }
  struct ab_difference d = apart(a, b, COUNT);
  ab_fingerprint(&fa, &id, &view_a, AB_FINGERPRINT_SEED);
  ab_fingerprint(&fb, &id, &view_b, AB_FINGERPRINT_SEED);
  double estimate = ab_fingerprint_distance(&fa, &fb);
  ck_assert_msg(estimate > d.l2 / 2 && estimate < 2 * d.l2, "%g for %g", estimate, d.l2);
  ck_assert_double_eq(ab_fingerprint_distance(&fa, &fa), 0);
  for (int k = 0; k < AB_SAMPLES; k++)
    ck_assert_double_eq(fa.sample[k], (double)a[ab_fingerprint_position(AB_FINGERPRINT_SEED, k, COUNT)]);
}
END_TEST

START_TEST(projections_are_the_documented_ones) {
  float ones[3] = {1, 1, 1};
  struct ab_view view = f32_view(ones, 3);
  struct ab_identity id = {0, 0, -1, 0, AB_BACKWARD, "x"};
  struct ab_fingerprint f;
  ab_fingerprint(&f, &id, &view, 0);
  /* Words 0 to 2 are splitmix64's first outputs for seed 0. */
  static const uint64_t words[] = {UINT64_C(0xe220a8397b1dcdaf), UINT64_C(0x6e789e6aa1b965f4),
                                   UINT64_C(0x06c45d188009454f)};
  for (int j = 0; j < AB_PROJECTIONS; j++) {
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += words[i] >> j & 1 ? -1 : 1;
    ck_assert_double_eq(f.projection[j], sum);
  }
}
END_TEST

START_TEST(a_fingerprint_sees_any_layout) {
  float rows[6] = {1, 2, 3, 4, 5, 6}, columns[6] = {1, 4, 2, 5, 3, 6};
  struct ab_view view = {.dtype = AB_F32, .shape = {2, {2, 3}}, .stride = {3, 1}, .data = rows};
  struct ab_view strided = {.dtype = AB_F32, .shape = {2, {2, 3}}, .stride = {1, 2}, .data = columns};
  struct ab_identity id = {0, 0, -1, 0, AB_BACKWARD, "x"};
  struct ab_fingerprint a, b;
  ab_fingerprint(&a, &id, &view, 1);
  ab_fingerprint(&b, &id, &strided, 1);
  ck_assert_mem_eq(a.projection, b.projection, sizeof a.projection);
  ck_assert_mem_eq(a.sample, b.sample, sizeof a.sample);
  ck_assert_mem_eq(a.summary.digest, b.summary.digest, sizeof a.summary.digest);
}
END_TEST

START_TEST(the_table_of_tiers) {
  for (int q = 0; q < AB_QUANTITIES; q++) {
    struct ab_bound same = ab_tier_bound(AB_PAIR_SAME, (enum ab_quantity)q, 1, 1);
    struct ab_bound f64 = ab_tier_bound(AB_PAIR_F64, (enum ab_quantity)q, 1, 1);
    struct ab_bound given = ab_tier_bound(AB_PAIR_RECORDED, (enum ab_quantity)q, 2e-5, 1);
    struct ab_bound own = ab_tier_bound(AB_PAIR_MIXED, (enum ab_quantity)q, -1, 3e-6);
    ck_assert(same.tier == AB_TIER_BITWISE && same.limit == 0 && same.rule == AB_RULE_BITWISE);
    ck_assert(f64.tier == AB_TIER_BOUNDED && f64.limit == 1e-13 && f64.rule == AB_RULE_FIXED);
    ck_assert(given.limit == 2e-5 && given.rule == AB_RULE_GIVEN && !ab_rule_uncalibrated(given.rule));
    ck_assert(own.limit == 4 * 3e-6 && own.rule == AB_RULE_UNCALIBRATED && ab_rule_uncalibrated(own.rule));
  }
}
END_TEST

START_TEST(the_floor_and_absent_bounds) {
  static const double absent[] = {-1, (double)NAN, (double)INFINITY, 1e-7, 2.5e-7};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    struct ab_bound b = ab_tier_bound(AB_PAIR_MIXED, AB_Q_OUTPUT, -1, absent[i]);
    ck_assert(b.limit == 1e-6 && b.rule == AB_RULE_FLOOR && ab_rule_uncalibrated(b.rule));
  }
  struct ab_bound b = ab_tier_bound(AB_PAIR_RECORDED, AB_Q_OUTPUT, (double)NAN, -1);
  ck_assert(b.rule == AB_RULE_FLOOR);
  b = ab_tier_bound(AB_PAIR_RECORDED, AB_Q_OUTPUT, 0, 1);
  ck_assert(b.rule == AB_RULE_GIVEN && b.limit == 0);
}
END_TEST

START_TEST(a_bound_met_exactly_holds_and_the_next_double_does_not) {
  struct ab_bound b = ab_tier_bound(AB_PAIR_F64, AB_Q_OUTPUT, -1, -1);
  ck_assert(ab_bound_holds(&b, 1e-13));
  ck_assert(!ab_bound_holds(&b, nextafter(1e-13, 1)));
  ck_assert(ab_bound_holds(&b, 0));
  ck_assert(!ab_bound_holds(&b, (double)NAN));
  ck_assert(!ab_bound_holds(&b, (double)INFINITY));
}
END_TEST

START_TEST(exit_codes_fold_in_their_order) {
  static const enum ab_exit order[] = {2, 3, 6, 5, 4, 1, 0};
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 7; j++) ck_assert_int_eq(ab_exit_fold(order[i], order[j]), order[i < j ? i : j]);
  ck_assert_int_eq(ab_exit_fold((enum ab_exit)77, AB_EXIT_EQUAL), AB_EXIT_USAGE);
  ck_assert_str_eq(ab_exit_reason(AB_EXIT_INCOMPARABLE), "not comparable");
}
END_TEST

static const struct {
  const char *tensor;
  int layer;
  enum ab_phase phase;
  enum ab_quantity quantity;
} quantity_table[] = {
    {"query_proj", 3, AB_FORWARD, AB_Q_ACTIVATION},
    {"query_proj", 3, AB_RECOMPUTE, AB_Q_RECOMPUTE},
    {"query_proj", 3, AB_BACKWARD, AB_Q_COTANGENT},
    {"pipeline/outputs", -1, AB_FORWARD, AB_Q_OUTPUT},
    {"embedding", -1, AB_FORWARD, AB_Q_OUTPUT},
    {"pipeline/d_inputs", -1, AB_BACKWARD, AB_Q_INPUT_GRADIENT},
    {"d_logits", -1, AB_BACKWARD, AB_Q_INPUT_GRADIENT},
    {"self_attention/query/kernel", 0, AB_BACKWARD, AB_Q_WEIGHT_GRADIENT},
    {"self_attention/query/kernel", 0, AB_UPDATE, AB_Q_PARAMETER},
    {"token_embedder/embedding", -1, AB_BACKWARD, AB_Q_WEIGHT_GRADIENT},
    {"decoder/decoder_norm/scale", -1, AB_UPDATE, AB_Q_PARAMETER},
    {"weights", 1, AB_BACKWARD, AB_Q_WEIGHT_GRADIENT},
    {"ff_1", 1, AB_UPDATE, AB_Q_PARAMETER},
};

START_TEST(quantities_follow_name_phase_and_layer) {
  struct ab_identity id = {.phase = quantity_table[_i].phase, .layer = quantity_table[_i].layer};
  strcpy(id.tensor, quantity_table[_i].tensor);
  ck_assert_msg(ab_quantity_of(&id) == quantity_table[_i].quantity, "%s is a %s", id.tensor,
                ab_quantity_name(ab_quantity_of(&id)));
}
END_TEST

START_TEST(identities_print_pattern_and_escape) {
  char text[AB_IDENTITY_TEXT];
  struct ab_identity id = {2, 1, 3, 7, AB_BACKWARD, "experts/12/w1"};
  ab_identity_print(text, &id);
  ck_assert_str_eq(text, "step 2 accumulation 1 microbatch 3 layers/7/experts/12/w1 backward");
  ab_identity_pattern(text, &id);
  ck_assert_str_eq(text, "layers/*/experts/*/w1 backward");
  id = (struct ab_identity){-1, 0, -1, -1, AB_UPDATE, "a\x1b[31m/2x"};
  ab_identity_print(text, &id);
  ck_assert_str_eq(text, "a\\x1b[31m/2x update");
  memset(id.tensor, 1, AB_NAME_MAX - 1);
  ab_identity_print(text, &id);
  ck_assert_uint_eq(strlen(text), 4 * (AB_NAME_MAX - 1) + strlen(" update"));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("metrics");
  TCase *c = tcase_create("metrics");
  tcase_add_test(c, one_ulp_in_one_element_is_seen_wherever_it_is);
  tcase_add_test(c, equal_tensors_are_at_distance_zero);
  tcase_add_test(c, nan_is_never_equal_wherever_it_is);
  tcase_add_test(c, infinities_are_not_equal_either);
  tcase_add_test(c, signs_of_zero_count_apart);
  tcase_add_test(c, zero_against_zero_is_zero_and_against_more_infinite);
  tcase_add_test(c, relative_l2_is_the_formula);
  tcase_add_test(c, nothing_overflows_or_vanishes);
  tcase_add_test(c, ulps_cross_zero);
  tcase_add_test(c, float32_meets_float64);
  tcase_add_test(c, views_may_be_strided);
  tcase_add_test(c, integers_are_exact_and_have_no_distance);
  tcase_add_test(c, shapes_and_types_must_fit);
  tcase_add_test(c, values_print_the_same_under_any_locale);
  tcase_add_test(c, bits_and_values_are_inverse);
  tcase_add_test(c, projections_estimate_the_distance);
  tcase_add_test(c, projections_are_the_documented_ones);
  tcase_add_test(c, a_fingerprint_sees_any_layout);
  tcase_add_test(c, the_table_of_tiers);
  tcase_add_test(c, the_floor_and_absent_bounds);
  tcase_add_test(c, a_bound_met_exactly_holds_and_the_next_double_does_not);
  tcase_add_test(c, exit_codes_fold_in_their_order);
  tcase_add_loop_test(c, quantities_follow_name_phase_and_layer, 0, sizeof quantity_table / sizeof *quantity_table);
  tcase_add_test(c, identities_print_pattern_and_escape);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
