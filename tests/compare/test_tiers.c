#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exitcode.h"
#include "fingerprint.h"
#include "metrics.h"
#include "tap.h"
#include "tiers.h"

static struct ab_view f32_view(float *values, int64_t count) {
  return (struct ab_view){.dtype = AB_F32, .shape = {1, {count}}, .stride = {1}, .data = values};
}

START_TEST(a_fingerprint_counts_non_finite_elements_as_zero) {
  float a[3] = {1, NAN, 2}, b[3] = {1, 0, 2};
  struct ab_view view_a = f32_view(a, 3), view_b = f32_view(b, 3);
  struct ab_identity id = {0, 0, -1, 0, AB_BACKWARD, "x"};
  struct ab_fingerprint fa, fb;
  ab_fingerprint(&fa, &id, &view_a, 1);
  ab_fingerprint(&fb, &id, &view_b, 1);
  ck_assert_mem_eq(fa.projection, fb.projection, sizeof fa.projection);
  ck_assert_uint_eq(fa.summary.nonfinite, 1);
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
  struct ab_difference d;
  ck_ok(ab_difference(&d, &view_a, &view_b));
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

START_TEST(long_tensors_are_projected_element_by_element) {
  enum { COUNT = 1300 };
  float values[COUNT];
  struct ab_view view = f32_view(values, COUNT);
  struct ab_identity id = {0, 0, -1, 0, AB_BACKWARD, "x"};
  struct ab_fingerprint f;
  double lane[8] = {0}, sum = 0;
  for (uint64_t i = 0; i < COUNT; i++) {
    uint64_t h = 77 + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    h ^= h >> 31;
    values[i] = 0.1f / (float)(i + 1);
    lane[i % 8] += h >> 9 & 1 ? -(double)values[i] : (double)values[i];
  }
  for (int l = 0; l < 8; l++) sum += lane[l];
  ab_fingerprint(&f, &id, &view, 77);
  ck_assert_double_eq(f.projection[9], sum);
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
  for (int q = 0; q < AB_Q_INPUT; q++) {
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

START_TEST(inputs_and_counts_are_bitwise_everywhere) {
  for (int pair = 0; pair < AB_PAIRS; pair++) {
    ck_assert_int_eq(ab_tier_bound((enum ab_pair)pair, AB_Q_INPUT, 1, 1).tier, AB_TIER_BITWISE);
    ck_assert_int_eq(ab_tier_bound((enum ab_pair)pair, AB_Q_STATE, 1, 1).tier, AB_TIER_BITWISE);
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
    {"intermediates/activation_mean", 3, AB_FORWARD, AB_Q_METRIC},
    {"intermediates", 3, AB_FORWARD, AB_Q_ACTIVATION},
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
    {"input/params/mlp/wo/kernel", 1, AB_FORWARD, AB_Q_INPUT},
    {"input/batch/targets", -1, AB_FORWARD, AB_Q_INPUT},
    {"state/step", -1, AB_UPDATE, AB_Q_STATE},
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
  strcpy(id.tensor, "12/w1/3x/x4/56");
  ab_identity_pattern(text, &id);
  ck_assert_str_eq(text, "layers/*/*/w1/3x/x4/* backward");
  id = (struct ab_identity){-1, 0, -1, -1, AB_UPDATE, "a\x1b[31m/2x"};
  ab_identity_print(text, &id);
  ck_assert_str_eq(text, "a\\x1b[31m/2x update");
  memset(id.tensor, 1, AB_NAME_MAX - 1);
  ab_identity_print(text, &id);
  ck_assert_uint_eq(strlen(text), 4 * (AB_NAME_MAX - 1) + strlen(" update"));
}
END_TEST

/* Of one element, of fewer than samples, and of more than one block of a cursor. */
START_TEST(samples_are_taken_all_over_a_tensor) {
  static const size_t counts[] = {1, 3, 997, 5003};
  static float x[5003];
  struct ab_identity id = {.tensor = "w"};
  size_t far = 0, same = 0;
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)i + 1;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    struct ab_view view = {.dtype = AB_F32, .shape = {1, {(int64_t)counts[c]}}, .data = x};
    struct ab_fingerprint f;
    ab_view_contiguous(&view);
    ab_fingerprint(&f, &id, &view, AB_FINGERPRINT_SEED);
    for (int k = 0; k < AB_SAMPLES; k++) {
      size_t at = ab_fingerprint_position(AB_FINGERPRINT_SEED, k, counts[c]);
      ck_assert_uint_lt(at, counts[c]);
      ck_assert_double_eq(f.sample[k], (double)x[at]);
      far += counts[c] > 1 && at >= counts[c] / 2;
      for (int o = 0; o < k && counts[c] > 3; o++)
        same += at == ab_fingerprint_position(AB_FINGERPRINT_SEED, o, counts[c]);
    }
  }
  ck_assert_uint_gt(far, AB_SAMPLES / 2);
  ck_assert_uint_eq(same, 0);
  ck_assert_uint_eq(ab_fingerprint_position(AB_FINGERPRINT_SEED, 0, 0), 0);
}
END_TEST

/* Last components of parameter paths: alone, some of them are activations. */
START_TEST(parameters_are_known_by_what_their_names_end_in) {
  static const struct {
    const char *name;
    bool alone;
  } leaves[] = {{"kernel", false}, {"scale", false}, {"embedding", false}, {"bias", false},
                {"weights", true}, {"ff_1", true},   {"ff_2", true},       {"out", false}};
  for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
    for (int inside = 0; inside < 2; inside++) {
      struct ab_identity id = {.layer = 1, .phase = AB_FORWARD};
      snprintf(id.tensor, sizeof id.tensor, "%s%s", inside ? "mlp/wo/" : "", leaves[i].name);
      bool parameter = strcmp(leaves[i].name, "out") && (inside || leaves[i].alone);
      ck_assert_msg(ab_quantity_of(&id) == (parameter ? AB_Q_PARAMETER : AB_Q_ACTIVATION), "%s", id.tensor);
      id.phase = AB_BACKWARD;
      ck_assert_msg(ab_quantity_of(&id) == (parameter ? AB_Q_WEIGHT_GRADIENT : AB_Q_COTANGENT), "%s", id.tensor);
    }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("tiers");
  TCase *c = tcase_create("tiers");
  tcase_add_test(c, a_fingerprint_counts_non_finite_elements_as_zero);
  tcase_add_test(c, projections_estimate_the_distance);
  tcase_add_test(c, projections_are_the_documented_ones);
  tcase_add_test(c, long_tensors_are_projected_element_by_element);
  tcase_add_test(c, a_fingerprint_sees_any_layout);
  tcase_add_test(c, samples_are_taken_all_over_a_tensor);
  tcase_add_test(c, parameters_are_known_by_what_their_names_end_in);
  tcase_add_test(c, the_table_of_tiers);
  tcase_add_test(c, inputs_and_counts_are_bitwise_everywhere);
  tcase_add_test(c, the_floor_and_absent_bounds);
  tcase_add_test(c, a_bound_met_exactly_holds_and_the_next_double_does_not);
  tcase_add_test(c, exit_codes_fold_in_their_order);
  tcase_add_loop_test(c, quantities_follow_name_phase_and_layer, 0, sizeof quantity_table / sizeof *quantity_table);
  tcase_add_test(c, identities_print_pattern_and_escape);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
