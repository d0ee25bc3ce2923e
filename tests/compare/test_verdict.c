#include "sides.h"

static bool is_leaf(const struct ab_finding *f, int step, int layer, int leaf) {
  struct ab_identity id = identity(step, layer, leaf_names[leaf], AB_BACKWARD);
  return ab_identity_equal(&f->id, &id);
}

START_TEST(equal_sides_are_equal_in_any_order_of_arrival) {
  struct fixture f;
  start(&f);
  struct ab_verdict v = judge(&f);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.tensors.compared, 12);
  ck_assert_uint_eq(v.tensors.expected, 12);
  ck_assert_uint_eq(v.elements.compared, 144);
  ck_assert_uint_eq(v.elements.expected, 144);
  ck_assert_uint_eq(v.steps.compared, 2);
  ck_assert_uint_eq(v.metrics.compared, 2);
  ck_assert_uint_eq(v.exact_steps, 2);
  ck_assert_uint_eq(v.first_bad_step, AB_UNCOUNTED);
  ck_assert(v.counts_right && !v.any_difference && !v.uncalibrated);
  stop(&f, &v);
}
END_TEST

START_TEST(one_ulp_in_one_element_is_red_in_the_bitwise_tier) {
  struct fixture f;
  start(&f);
  float *x = side_leaf(&f.a, 1, 2, 0) + 7;
  *x = nextafterf(*x, INFINITY);
  struct ab_verdict v = judge(&f);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert_uint_eq(v.failing, 1);
  ck_assert_uint_eq(v.differing_elements, 1);
  ck_assert(is_leaf(&v.first, 1, 2, 0) && is_leaf(&v.worst, 1, 2, 0));
  ck_assert_uint_eq(v.worst.difference.worst.index, 7);
  ck_assert_uint_eq(v.worst.difference.max_ulp, 1);
  ck_assert_uint_eq(v.first_bad_step, 1);
  ck_assert_uint_eq(v.exact_steps, 1);
  ck_assert_int_eq(v.worst.bound.tier, AB_TIER_BITWISE);
  stop(&f, &v);
}
END_TEST

START_TEST(first_is_first_in_the_reference_order_and_worst_is_worst) {
  struct fixture f;
  start(&f);
  side_leaf(&f.a, 0, 0, 1)[0] += 1;      /* late in b's backward order */
  side_leaf(&f.a, 0, 2, 0)[0] += 0.001f; /* early */
  struct ab_verdict v = judge(&f);
  ck_assert_uint_eq(v.failing, 2);
  ck_assert(is_leaf(&v.first, 0, 2, 0));
  ck_assert(is_leaf(&v.worst, 0, 0, 1));
  stop(&f, &v);
}
END_TEST

START_TEST(a_metric_that_differs_comes_before_the_tensors_behind_it) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_leaf(&f.a, 1, 1, 1)[3] = 0;
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  f.a.recording->metric[1].metric.value = 5.5;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert(v.first.metric && v.first.id.step == 1);
  ck_assert_str_eq(v.first.id.tensor, "loss");
  ck_assert_uint_eq(v.failing, 2);
  stop(&f, &v);
}
END_TEST

START_TEST(first_difference_is_the_first_bit_whether_it_fails_or_not) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  float *early = side_leaf(&f.a, 0, 2, 1), *middle = side_leaf(&f.a, 0, 1, 1);
  *early = nextafterf(*early, 0);
  *middle = nextafterf(*middle, 0);
  side_leaf(&f.a, 0, 0, 0)[0] += 1;
  side_run(&f.a, true, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  ck_ok(ab_verdict(&v, &c));
  ck_assert(is_leaf(&v.first_difference, 0, 2, 1) && !v.first_difference.fails);
  ck_assert(is_leaf(&v.first, 0, 0, 0));
  ck_assert_uint_eq(v.failing, 1);
  ck_assert_uint_eq(v.differing, 3);
  ck_assert_uint_eq(v.first_bad_step, 0);
  ck_assert_uint_eq(v.exact_steps, 1);
  ck_assert(v.uncalibrated);
  stop(&f, &v);
}
END_TEST

START_TEST(an_early_metric_is_the_first_difference) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_leaf(&f.a, 0, 0, 0)[0] += 1;
  side_run(&f.a, true, false);
  side_run(&f.b, false, false);
  f.a.recording->metric[0].metric.value = 5.5;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert(v.first.metric && v.first_difference.metric && v.first_difference.id.step == 0);
  stop(&f, &v);
}
END_TEST

START_TEST(nan_is_not_equal_to_itself_in_any_tier) {
  for (int pair = 0; pair < AB_PAIRS; pair++) {
    struct fixture f;
    struct ab_verdict v;
    start(&f);
    side_leaf(&f.a, 0, 1, 0)[5] = side_leaf(&f.b, 0, 1, 0)[5] = NAN;
    side_run(&f.a, false, true);
    side_run(&f.b, false, true);
    struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
    c.pair = (enum ab_pair)pair;
    if (_i) c.values = NULL;
    ck_ok(ab_verdict(&v, &c));
    ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
    ck_assert(is_leaf(&v.first, 0, 1, 0) && isinf(v.worst.distance));
    ck_assert_uint_eq(v.nonfinite, 2);
    if (!_i) ck_assert_uint_eq(v.worst.difference.worst.index, 5);
    stop(&f, &v);
  }
}
END_TEST

START_TEST(a_nan_metric_is_not_equal_to_itself) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  f.a.recording->metric[0].metric.value = f.b.recording->metric[0].metric.value = (double)NAN;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert(v.first.metric);
  stop(&f, &v);
}
END_TEST

START_TEST(signs_of_zero_are_equal_and_counted) {
  struct fixture f;
  start(&f);
  side_leaf(&f.a, 0, 0, 0)[0] = 0.0f;
  side_leaf(&f.b, 0, 0, 0)[0] = -0.0f;
  struct ab_verdict v = judge(&f);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.sign_only, 1);
  stop(&f, &v);
}
END_TEST

START_TEST(a_transposed_leaf_of_equal_shape_differs) {
  struct fixture f;
  start(&f);
  float *x = side_leaf(&f.a, 0, 0, 0), old[LEAF];
  memcpy(old, x, sizeof old);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) x[j * 3 + i] = old[i * 4 + j]; /* the same multiset of values */
  struct ab_verdict v = judge(&f);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert(is_leaf(&v.first, 0, 0, 0));
  stop(&f, &v);
}
END_TEST

/* A bounded comparison of one leaf whose distance is known exactly. */
static double given_bound, own_bound;

static void bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  (void)ctx;
  (void)id;
  *given = given_bound;
  *own = own_bound;
}

static struct ab_verdict judge_bounded(struct fixture *f, enum ab_pair pair, double given, double own, bool values) {
  struct ab_verdict v;
  given_bound = given;
  own_bound = own;
  struct ab_comparison c = comparison_of(&f->both, &f->a, &f->b);
  c.pair = pair;
  c.bounds = bounds;
  if (!values) c.values = NULL;
  ck_ok(ab_verdict(&v, &c));
  return v;
}

START_TEST(the_printed_distance_passes_and_one_ulp_less_fails) {
  struct fixture f;
  start(&f);
  side_leaf(&f.a, 0, 1, 1)[2] *= 1.001f;
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_verdict v = judge_bounded(&f, AB_PAIR_RECORDED, 1e-9, -1, true);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  double distance = v.worst.distance;
  ab_verdict_free(&v);
  v = judge_bounded(&f, AB_PAIR_RECORDED, distance, -1, true);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_int_eq(v.worst.bound.rule, AB_RULE_GIVEN);
  ck_assert(!v.uncalibrated && v.any_difference && v.differing == 1 && v.failing == 0);
  ab_verdict_free(&v);
  v = judge_bounded(&f, AB_PAIR_RECORDED, nextafter(distance, 0), -1, true);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ab_verdict_free(&v);
  v = judge_bounded(&f, AB_PAIR_MIXED, -1, distance / 4, true);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_int_eq(v.worst.bound.rule, AB_RULE_UNCALIBRATED);
  ck_assert(v.uncalibrated);
  stop(&f, &v);
}
END_TEST

START_TEST(uncalibrated_is_refused_where_calibration_is_required) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  float *x = side_leaf(&f.a, 0, 1, 1);
  *x = nextafterf(*x, 0);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ab_verdict_free(&v);
  c.calibrated = true;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  stop(&f, &v);
}
END_TEST

START_TEST(a_bounded_tensor_without_values_is_estimated_or_not_judged) {
  for (int fingerprints = 0; fingerprints < 2; fingerprints++) {
    struct fixture f;
    start(&f);
    float *x = side_leaf(&f.a, 0, 1, 1);
    for (int i = 0; i < LEAF; i++) x[i] += (i % 2 ? 1e-4f : -1e-4f);
    side_run(&f.a, false, fingerprints);
    side_run(&f.b, false, fingerprints);
    struct ab_verdict v = judge_bounded(&f, AB_PAIR_RECORDED, 1e-2, -1, false);
    ck_assert_int_eq(v.exit, fingerprints ? AB_EXIT_EQUAL : AB_EXIT_INCOMPARABLE);
    ck_assert_uint_eq(v.unjudged, fingerprints ? 0 : 1);
    ab_verdict_free(&v);
    v = judge_bounded(&f, AB_PAIR_RECORDED, 1e-6, -1, false); /* norms alone prove that this is too far */
    ck_assert_int_eq(v.failing, 1);
    ck_assert_int_eq(v.worst.evidence, fingerprints ? AB_EVIDENCE_ESTIMATE : AB_EVIDENCE_DIGEST);
    stop(&f, &v);
  }
}
END_TEST

START_TEST(float32_against_float64_by_values) {
  struct side a = side_values("linen"), b = side_new("sequential64");
  struct both both;
  struct ab_verdict v;
  for (int step = 0; step < STEPS; step++)
    for (int layer = 0; layer < LAYERS; layer++)
      for (int leaf = 0; leaf < 2; leaf++) {
        struct ab_identity id = identity(step, layer, leaf_names[leaf], AB_BACKWARD);
        struct ab_tensor *t = side_tensor(&b, &id, AB_F64, (struct ab_shape){2, {3, 4}});
        const float *near = side_leaf(&a, step, layer, leaf);
        for (int i = 0; i < LEAF; i++) ((double *)t->data)[i] = (double)near[i] * (1 + 1e-8);
      }
  side_run(&a, false, false);
  side_run(&b, false, false);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  c.pair = AB_PAIR_MIXED;
  c.retyped = true;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_int_eq(v.worst.bound.rule, AB_RULE_FLOOR);
  ck_assert_double_eq_tol(v.worst.distance, 1e-8, 1e-9);
  ab_verdict_free(&v);
  c.retyped = false;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(a_failing_callback_ends_the_judgement) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_leaf(&f.a, 0, 0, 0)[0] = 1e9f;
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ab_tree_free(f.a.tree);
  ck_ok(ab_tree_new(&f.a.tree));
  ck_ok(ab_verdict(&v, &c)); /* not kept: red without values */
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert_int_eq(v.worst.evidence, AB_EVIDENCE_DIGEST);
  ab_verdict_free(&v);
  struct ab_shape wrong = {1, {2}};
  struct ab_identity id = identity(0, 0, leaf_names[0], AB_BACKWARD);
  side_tensor(&f.a, &id, AB_F32, wrong);
  ck_fails(ab_verdict(&v, &c), AB_ESHAPE, "cannot be compared");
  side_free(&f.a);
  side_free(&f.b);
}
END_TEST

static ab_status broken_values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  (void)ctx;
  (void)side;
  (void)out;
  return AB_FAIL(AB_EIO, "cannot read %s", observation->id.tensor);
}

START_TEST(a_step_that_differs_within_its_bound_is_not_bad) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  float *x = side_leaf(&f.a, 0, 1, 1);
  *x = nextafterf(*x, 0);
  side_leaf(&f.a, 1, 1, 1)[0] += 1;
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.first_bad_step, 1);
  ck_assert_uint_eq(v.exact_steps, 0);
  stop(&f, &v);
}
END_TEST

START_TEST(bits_that_agree_need_no_calibration) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  c.calibrated = true;
  ck_ok(ab_verdict(&v, &c));
  ck_assert(!v.uncalibrated);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  stop(&f, &v);
}
END_TEST

START_TEST(initial_values_are_no_step) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  struct ab_identity id = identity(-1, 0, "mlp/wo/kernel", AB_UPDATE);
  side_tensor(&f.a, &id, AB_F32, (struct ab_shape){1, {4}});
  side_tensor(&f.b, &id, AB_F32, (struct ab_shape){1, {4}});
  side_observe(&f.a, &id);
  side_observe(&f.b, &id);
  v = judge(&f);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.steps.compared, STEPS);
  ck_assert_uint_eq(v.unpinned, 1);
  stop(&f, &v);
}
END_TEST

/* Projections that happen to be equal: samples and norms still prove a distance. */
START_TEST(an_estimate_is_never_below_what_samples_or_norms_prove) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  for (int i = 0; i < LEAF; i++) side_leaf(&f.a, 0, 1, _i)[i] *= _i ? -1 : 2;
  side_run(&f.a, false, true);
  side_run(&f.b, false, true);
  struct ab_identity id = identity(0, 1, leaf_names[_i], AB_BACKWARD);
  for (size_t i = 0; i < f.a.recording->fingerprints; i++) {
    struct ab_fingerprint *a = &f.a.recording->fingerprint[i];
    const struct ab_fingerprint *b = ab_recording_fingerprint(f.b.recording, &a->id);
    if (!ab_identity_equal(&a->id, &id)) continue;
    memcpy(a->projection, b->projection, sizeof a->projection);
    if (!_i) memcpy(a->sample, b->sample, sizeof a->sample); /* then the norms remain, and else the samples */
  }
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  c.values = NULL;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert(is_leaf(&v.worst, 0, 1, _i));
  ck_assert_int_eq(v.worst.evidence, AB_EVIDENCE_ESTIMATE);
  stop(&f, &v);
}
END_TEST

START_TEST(integers_are_never_within_a_bound) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  struct ab_identity id = identity(0, 0, "counts", AB_FORWARD);
  *(int32_t *)side_tensor(&f.a, &id, AB_I32, (struct ab_shape){0})->data = 1;
  side_tensor(&f.b, &id, AB_I32, (struct ab_shape){0});
  side_observe(&f.a, &id);
  side_observe(&f.b, &id);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_RECORDED;
  given_bound = 100;
  c.bounds = bounds;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ck_assert(isinf(v.worst.distance) && v.worst.difference.integers);
  stop(&f, &v);
}
END_TEST

START_TEST(values_that_cannot_be_read_end_the_judgement) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_leaf(&f.a, 0, 0, 0)[0] = 1e9f;
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.values = broken_values;
  ck_fails(ab_verdict(&v, &c), AB_EIO, "cannot read mlp/wo/kernel");
  side_free(&f.a);
  side_free(&f.b);
}
END_TEST

START_TEST(an_unjudged_tensor_is_never_equal_even_without_expected_counts) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  float *x = side_leaf(&f.a, 0, 1, 1);
  *x = nextafterf(*x, 0);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  c.values = NULL;
  c.expected = ab_expected_none();
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.unjudged, 1);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  stop(&f, &v);
}
END_TEST

START_TEST(fingerprints_of_other_seeds_say_nothing) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  float *x = side_leaf(&f.a, 0, 1, 1);
  *x = nextafterf(*x, 0);
  side_run(&f.a, false, true);
  side_run(&f.b, false, true);
  for (size_t i = 0; i < f.a.recording->fingerprints; i++) f.a.recording->fingerprint[i].seed++;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.pair = AB_PAIR_MIXED;
  c.values = NULL;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.unjudged, 1);
  stop(&f, &v);
}
END_TEST

START_TEST(equal_digests_of_different_dtypes_prove_nothing) {
  struct side a = side_values("linen"), b = side_values("sequential64");
  struct both both;
  struct ab_verdict v;
  side_leaf(&a, 0, 0, 0)[0] += 1;
  side_run(&a, false, false);
  side_run(&b, false, false);
  struct ab_observation *oa = NULL, *ob = NULL; /* the leaf, claimed as float64 with a's digest */
  for (size_t i = 0; i < a.recording->observations; i++) {
    oa = &a.recording->observation[i].observation;
    ob = &b.recording->observation[i].observation;
    if (memcmp(oa->summary.digest, ob->summary.digest, sizeof oa->summary.digest) != 0) break;
  }
  memcpy(ob->summary.digest, oa->summary.digest, sizeof oa->summary.digest);
  ob->dtype = AB_F64;
  struct ab_comparison c = comparison_of(&both, &a, &b);
  c.pair = AB_PAIR_MIXED;
  c.retyped = true;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* Refuses the allocation number `fuse`. */
static size_t fuse;
static void *fused_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  return fuse-- == 0 ? NULL : aligned_alloc(AB_ALIGN, bytes);
}
static void fused_release(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  (void)bytes;
  free(block);
}

START_TEST(any_refused_allocation_is_a_clean_failure) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_leaf(&f.a, 0, 0, 0)[0] = 1e9f;
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_observation o = {.id = identity(0, -1, "x", AB_FORWARD), .at = {-1, -1, -1, false}, .dtype = AB_F32};
  ck_ok(ab_recording_observe(f.b.recording, &o));
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  size_t before = ab_mem_stats().live_blocks;
  const struct ab_allocator fused = {NULL, fused_alloc, fused_release};
  ab_status status = AB_ENOMEM;
  size_t n = 0;
  for (; status != AB_OK && n < 100; n++) {
    fuse = n;
    ab_mem_install(&fused);
    status = ab_verdict(&v, &c);
    ab_mem_install(NULL);
    if (status != AB_OK) ck_assert_int_eq(status, AB_ENOMEM);
    if (status != AB_OK) ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
  }
  ck_assert_uint_gt(n, 3);
  ck_assert_int_eq(status, AB_OK);
  stop(&f, &v);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("verdict");
  TCase *c = tcase_create("verdict");
  tcase_add_test(c, equal_sides_are_equal_in_any_order_of_arrival);
  tcase_add_test(c, one_ulp_in_one_element_is_red_in_the_bitwise_tier);
  tcase_add_test(c, first_is_first_in_the_reference_order_and_worst_is_worst);
  tcase_add_test(c, a_metric_that_differs_comes_before_the_tensors_behind_it);
  tcase_add_test(c, first_difference_is_the_first_bit_whether_it_fails_or_not);
  tcase_add_test(c, an_early_metric_is_the_first_difference);
  tcase_add_loop_test(c, nan_is_not_equal_to_itself_in_any_tier, 0, 2);
  tcase_add_test(c, a_nan_metric_is_not_equal_to_itself);
  tcase_add_test(c, signs_of_zero_are_equal_and_counted);
  tcase_add_test(c, a_transposed_leaf_of_equal_shape_differs);
  tcase_add_test(c, the_printed_distance_passes_and_one_ulp_less_fails);
  tcase_add_test(c, uncalibrated_is_refused_where_calibration_is_required);
  tcase_add_test(c, a_bounded_tensor_without_values_is_estimated_or_not_judged);
  tcase_add_test(c, float32_against_float64_by_values);
  tcase_add_test(c, a_failing_callback_ends_the_judgement);
  tcase_add_test(c, a_step_that_differs_within_its_bound_is_not_bad);
  tcase_add_test(c, bits_that_agree_need_no_calibration);
  tcase_add_test(c, initial_values_are_no_step);
  tcase_add_loop_test(c, an_estimate_is_never_below_what_samples_or_norms_prove, 0, 2);
  tcase_add_test(c, integers_are_never_within_a_bound);
  tcase_add_test(c, values_that_cannot_be_read_end_the_judgement);
  tcase_add_test(c, an_unjudged_tensor_is_never_equal_even_without_expected_counts);
  tcase_add_test(c, fingerprints_of_other_seeds_say_nothing);
  tcase_add_test(c, equal_digests_of_different_dtypes_prove_nothing);
  tcase_add_test(c, any_refused_allocation_is_a_clean_failure);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
