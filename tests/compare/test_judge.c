/* One tensor at a time, with summaries and fingerprints put in by hand: which of them decides, and by how much. */
#include "cause.h"
#include "judge.h"
#include "sides.h"

/* Two recordings of one tensor without values; side 1 is the reference. */
struct lone {
  struct ab_recording *recording[2];
  struct ab_observation seen[2];
  struct ab_fingerprint print[2];
};

static struct lone lone_new(double l2_a, double l2_b) {
  struct lone l = {.seen = {{.id = identity(0, 0, "x", AB_BACKWARD), .dtype = AB_F32, .shape = {1, {4}}}}};
  const double l2[] = {l2_a, l2_b};
  l.seen[1] = l.seen[0];
  for (int i = 0; i < 2; i++) {
    l.seen[i].summary = (struct ab_summary){.digest = {1, (uint64_t)i}, .count = 4, .l2 = l2[i]};
    l.print[i] = (struct ab_fingerprint){.id = l.seen[0].id, .shape = l.seen[0].shape, .seed = 7,
                                         .summary = l.seen[i].summary};
    ck_ok(ab_recording_new(&l.recording[i], i ? "b" : "a"));
  }
  return l;
}

static void lone_free(struct lone *l) {
  for (int i = 0; i < 2; i++) ab_recording_free(l->recording[i]);
}

static void add_prints(struct lone *l) {
  for (int i = 0; i < 2; i++) ck_ok(ab_recording_add_fingerprint(l->recording[i], &l->print[i]));
}

static struct ab_finding judge_lone(const struct lone *l, double limit, bool *judged, ab_values_fn values) {
  struct ab_comparison c = {.a = l->recording[0], .b = l->recording[1], .pair = AB_PAIR_RECORDED, .values = values};
  struct ab_finding f = {.id = l->seen[0].id, .bound = {AB_TIER_BOUNDED, AB_RULE_GIVEN, limit},
                         .evidence = AB_EVIDENCE_SCALAR, .distance = -1}; /* leftovers that must not count */
  ck_ok(ab_judge_tensor(&f, judged, &c, &l->seen[0], &l->seen[1]));
  return f;
}

/* One projection, one sample or the norms are off; all else is equal. */
static const struct {
  int projection, sample;
  double off, l2_a, l2_b, distance;
} estimates[] = {{0, -1, 8, 4, 4, 0.5},  {15, -1, 8, 4, 4, 0.5}, {15, -1, -8, 4, 4, 0.5}, {3, -1, 8, 5, 4, 0.5},
                 {3, -1, 2, 1, 1, 0.5},
                 {-1, 0, 2, 4, 4, 0.5},  {-1, 7, 2, 4, 4, 0.5},  {-1, 7, -2, 4, 4, 0.5},  {-1, 3, 2, 5, 4, 0.5},
                 {-1, -1, 0, 6, 4, 0.5}, {-1, -1, 0, 2, 4, 0.5}, {-1, -1, 0, 4, 4, 0},    {-1, -1, 0, 0, 0, 0},
                 {-1, -1, 0, 1e-30, 0, INFINITY}, {0, -1, 1e-30, 0, 0, INFINITY}, {-1, 0, 1e-30, 0, 0, INFINITY}};
enum { ESTIMATES = sizeof estimates / sizeof *estimates };

START_TEST(an_estimate_is_the_largest_of_projections_samples_and_norms) {
  double off = estimates[_i].off, expected = estimates[_i].distance;
  int projection = estimates[_i].projection, sample = estimates[_i].sample;
  struct lone l = lone_new(estimates[_i].l2_a, estimates[_i].l2_b);
  bool judged;
  if (projection >= 0) l.print[0].projection[projection] = off;
  if (sample >= 0) l.print[0].sample[sample] = off;
  add_prints(&l);
  struct ab_finding f = judge_lone(&l, expected, &judged, NULL);
  ck_assert_msg(f.distance == expected, "row %d: %g, expected %g", _i, f.distance, expected);
  ck_assert(judged && f.differs && !f.fails && f.evidence == AB_EVIDENCE_ESTIMATE);
  if (expected > 0) ck_assert(judge_lone(&l, fmin(nextafter(expected, 0), 1e300), &judged, NULL).fails);
  lone_free(&l);
}
END_TEST

/* {norm of a, of b, distance that they prove}. What they do not prove to be too far is not judged. */
static const double norms[][3] = {{6, 4, 0.5}, {2, 4, 0.5}, {0, 4, 1}, {4, 4, 0}, {1e-30, 0, INFINITY}, {0, 0, 0}};

START_TEST(norms_alone_condemn_and_never_acquit) {
  struct lone l = lone_new(norms[_i][0], norms[_i][1]);
  double proven = norms[_i][2];
  bool judged;
  struct ab_finding f = judge_lone(&l, proven, &judged, NULL);
  ck_assert_msg(f.distance == proven, "row %d: %g, expected %g", _i, f.distance, proven);
  ck_assert(!judged && f.differs && !f.fails && f.evidence == AB_EVIDENCE_DIGEST);
  f = judge_lone(&l, proven > 0 ? fmin(proven / 2, 1e300) : -1, &judged, NULL);
  ck_assert(judged && f.fails);
  lone_free(&l);
}
END_TEST

/* Which part of the two fingerprints keeps them from being compared. */
START_TEST(fingerprints_of_something_else_are_none) {
  struct lone l = lone_new(4, 4);
  bool judged;
  if (_i == 0) l.print[0].seed++;
  if (_i == 1) l.print[0].shape = (struct ab_shape){2, {2, 2}};
  if (_i < 2) add_prints(&l);
  if (_i > 2) ck_ok(ab_recording_add_fingerprint(l.recording[_i - 3], &l.print[_i - 3]));
  struct ab_finding f = judge_lone(&l, 1, &judged, NULL);
  ck_assert_msg(!judged && f.evidence == AB_EVIDENCE_DIGEST, "row %d", _i);
  lone_free(&l);
}
END_TEST

/* Another order of the same elements: norms, and by chance projections, are equal, and the bits are not. */
START_TEST(other_bits_fail_the_bitwise_tier_without_any_distance) {
  struct lone l = lone_new(4, 4);
  bool judged;
  if (_i) add_prints(&l);
  struct ab_comparison c = {.a = l.recording[0], .b = l.recording[1]};
  struct ab_finding f = {.id = l.seen[0].id, .bound = {AB_TIER_BITWISE, AB_RULE_BITWISE, 0}};
  ck_ok(ab_judge_tensor(&f, &judged, &c, &l.seen[0], &l.seen[1]));
  ck_assert(judged && f.differs && f.fails && f.distance == 0);
  lone_free(&l);
}
END_TEST

/* A non-finite element anywhere: no evidence can be near, whatever else is equal. */
START_TEST(a_non_finite_value_fails_without_values_too) {
  for (int equal = 0; equal < 2; equal++)
    for (int tier = AB_TIER_BITWISE; tier <= AB_TIER_BOUNDED; tier++) {
      struct lone l = lone_new(4, 4);
      bool judged;
      l.seen[_i].summary.nonfinite = 1;
      if (equal) memcpy(l.seen[0].summary.digest, l.seen[1].summary.digest, sizeof l.seen[0].summary.digest);
      add_prints(&l);
      struct ab_comparison c = {.a = l.recording[0], .b = l.recording[1]};
      struct ab_finding f = {.id = l.seen[0].id, .bound = {(enum ab_tier)tier, AB_RULE_GIVEN, 1e300}};
      ck_ok(ab_judge_tensor(&f, &judged, &c, &l.seen[0], &l.seen[1]));
      ck_assert_msg(judged && f.fails && f.differs && isinf(f.distance), "side %d, tier %d, equal %d", _i, tier, equal);
      lone_free(&l);
    }
}
END_TEST

START_TEST(equal_digests_are_evidence_enough) {
  struct lone l = lone_new(4, 4);
  bool judged;
  memcpy(l.seen[0].summary.digest, l.seen[1].summary.digest, sizeof l.seen[0].summary.digest);
  struct ab_finding f = judge_lone(&l, 0, &judged, NULL);
  ck_assert(judged && !f.differs && !f.fails && f.evidence == AB_EVIDENCE_DIGEST && f.distance == 0);
  lone_free(&l);
}
END_TEST

static int absent;
static const struct lone *asked;
static float zeros[4];

/* Values of one side only; each is asked for its own. */
static ab_status half_kept(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  (void)ctx;
  ck_assert_ptr_eq(observation, &asked->seen[side]);
  if (side == absent) return AB_FAIL(AB_ENOTFOUND, "not kept");
  *out = (struct ab_view){.dtype = AB_F32, .shape = {1, {4}}, .stride = {1}, .data = zeros};
  return AB_OK;
}

START_TEST(values_of_one_side_are_no_values) {
  struct lone l = lone_new(4, 4);
  bool judged;
  absent = _i;
  asked = &l;
  struct ab_finding f = judge_lone(&l, 1, &judged, half_kept);
  ck_assert(!judged && f.evidence == AB_EVIDENCE_DIGEST && f.differs);
  absent = -1; /* both, and they are equal: digests differ all the same, which only different dtypes explain */
  f = judge_lone(&l, 1, &judged, half_kept);
  ck_assert(judged && f.evidence == AB_EVIDENCE_VALUES && f.differs && !f.fails);
  l.seen[_i].dtype = AB_F64;
  f = judge_lone(&l, 1, &judged, half_kept);
  ck_assert(judged && f.evidence == AB_EVIDENCE_VALUES && !f.differs && !f.fails);
  lone_free(&l);
}
END_TEST

START_TEST(metrics_are_judged_in_their_own_tier) {
  struct ab_metric a = {.step = 3, .name = "loss", .value = 1 + 1e-9}, b = {.step = 3, .name = "loss", .value = 1};
  struct ab_finding f = {.bound = {AB_TIER_BITWISE, AB_RULE_BITWISE, 0}};
  ab_judge_metric(&f, &a, &b);
  ck_assert(f.differs && f.fails && f.evidence == AB_EVIDENCE_SCALAR);
  ck_assert_double_eq_tol(f.distance, 1e-9, 1e-15);
  f.bound = (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_GIVEN, 1e-8};
  ab_judge_metric(&f, &a, &b);
  ck_assert(f.differs && !f.fails);
  f.bound.limit = 1e-10;
  ab_judge_metric(&f, &a, &b);
  ck_assert(f.differs && f.fails);
  a.f32 = b.f32 = true; /* in float32 both are 1 */
  ab_judge_metric(&f, &a, &b);
  ck_assert(!f.differs && !f.fails);
  a.f32 = false; /* one of them is more than that */
  ab_judge_metric(&f, &a, &b);
  ck_assert(f.differs && f.fails);
  a.f32 = true;
  b.f32 = false;
  ab_judge_metric(&f, &a, &b);
  ck_assert(f.differs && f.fails);
  struct ab_identity id = ab_metric_identity(&a);
  ck_assert(id.step == 3 && id.accumulation == -1 && id.microbatch == -1 && id.layer == -1 && id.phase == AB_UPDATE);
  ck_assert_str_eq(id.tensor, "loss");
}
END_TEST

START_TEST(no_bound_is_above_the_ceiling) {
  struct ab_bound given = ab_tier_bound(AB_PAIR_RECORDED, AB_Q_OUTPUT, 1, -1);
  struct ab_bound own = ab_tier_bound(AB_PAIR_MIXED, AB_Q_OUTPUT, -1, 1);
  ck_assert(given.limit == 1e-3 && given.rule == AB_RULE_GIVEN);
  ck_assert(own.limit == 1e-3 && own.rule == AB_RULE_UNCALIBRATED);
  ck_assert(ab_tier_bound(AB_PAIR_RECORDED, AB_Q_OUTPUT, 9e-4, -1).limit == 9e-4);
  ck_assert(ab_tier_bound(AB_PAIR_MIXED, AB_Q_OUTPUT, -1, 2e-4).limit == 4 * 2e-4);
}
END_TEST

static ab_status nowhere(void *ctx, const struct ab_observation *a, const struct ab_observation *b,
                         struct ab_difference *out) {
  (void)ctx, (void)out;
  return AB_FAIL(AB_ENOTFOUND, "%s and %s were not walked over", a->id.tensor, b->id.tensor);
}

START_TEST(what_was_not_walked_over_is_not_equal) {
  struct side a = side_values("a"), b = side_values("b");
  struct both both;
  struct ab_verdict v;
  side_run(&a, false, false);
  side_run(&b, false, false);
  struct ab_comparison comparison = comparison_of(&both, &a, &b);
  comparison.apart = nowhere;
  ck_ok(ab_verdict(&v, &comparison));
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* Of a walk nothing is known but its difference. differing, non-finite in a, in b, alike. */
static const struct {
  size_t differing, a, b, alike;
  bool same; /* all that differs is the same NaN or infinity in both */
} walked[] = {{2, 2, 2, 2, true}, {3, 2, 2, 2, false}, {2, 2, 2, 1, false}, {1, 1, 0, 0, false}, {1, 0, 0, 0, false}};
enum { WALKED = sizeof walked / sizeof *walked };

static ab_status walked_over(void *ctx, const struct ab_observation *a, const struct ab_observation *b,
                             struct ab_difference *out) {
  const int *row = ctx;
  (void)a, (void)b;
  *out = (struct ab_difference){.count = 4, .differing = walked[*row].differing, .nonfinite_a = walked[*row].a,
                                .nonfinite_b = walked[*row].b, .nonfinite_alike = walked[*row].alike,
                                .rel_l2 = INFINITY};
  return AB_OK;
}

START_TEST(the_same_nan_in_both_says_nothing_of_who_is_wrong) {
  struct side a = side_values("a"), b = side_values("b");
  struct both both;
  struct ab_verdict v;
  struct ab_facts facts = {0};
  side_run(&a, false, false);
  side_run(&b, false, false);
  struct ab_comparison comparison = comparison_of(&both, &a, &b);
  comparison.apart = walked_over;
  comparison.values_ctx = &_i;
  ck_ok(ab_verdict(&v, &comparison));
  ab_fact_verdict(&facts, AB_FACT_AB, &v);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert(v.first.alike == walked[_i].same && ab_verdict_parts(&v) == !walked[_i].same);
  ck_assert_int_eq(ab_cause_of(&facts), walked[_i].same ? AB_CAUSE_NOT_FINITE : AB_CAUSE_UNDECIDED);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(a_code_that_is_none_has_no_reason) {
  ck_assert_str_eq(ab_exit_reason(AB_EXIT_SELFTEST), "self-test failed");
  ck_assert_str_eq(ab_exit_reason((enum ab_exit)7), "unknown exit code");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("judge");
  TCase *tests = tcase_create("judge");
  tcase_add_loop_test(tests, an_estimate_is_the_largest_of_projections_samples_and_norms, 0, ESTIMATES);
  tcase_add_loop_test(tests, norms_alone_condemn_and_never_acquit, 0, sizeof norms / sizeof *norms);
  tcase_add_loop_test(tests, fingerprints_of_something_else_are_none, 0, 5);
  tcase_add_loop_test(tests, other_bits_fail_the_bitwise_tier_without_any_distance, 0, 2);
  tcase_add_loop_test(tests, a_non_finite_value_fails_without_values_too, 0, 2);
  tcase_add_test(tests, equal_digests_are_evidence_enough);
  tcase_add_loop_test(tests, values_of_one_side_are_no_values, 0, 2);
  tcase_add_test(tests, metrics_are_judged_in_their_own_tier);
  tcase_add_test(tests, no_bound_is_above_the_ceiling);
  tcase_add_test(tests, what_was_not_walked_over_is_not_equal);
  tcase_add_loop_test(tests, the_same_nan_in_both_says_nothing_of_who_is_wrong, 0, WALKED);
  tcase_add_test(tests, a_code_that_is_none_has_no_reason);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
