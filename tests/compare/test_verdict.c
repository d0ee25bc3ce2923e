#include "sides.h"

/* Two equal runs; b in another order of arrival. */
struct fixture {
  struct side a, b;
  struct both both;
};

static void start(struct fixture *f) {
  f->a = side_values("linen");
  f->b = side_values("nnx");
}

static struct ab_verdict judge(struct fixture *f) {
  struct ab_verdict v;
  side_run(&f->a, true, false);
  side_run(&f->b, false, false);
  struct ab_comparison c = comparison_of(&f->both, &f->a, &f->b);
  ck_ok(ab_verdict(&v, &c));
  return v;
}

static void stop(struct fixture *f, struct ab_verdict *v) {
  ab_verdict_free(v);
  side_free(&f->a);
  side_free(&f->b);
}

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

START_TEST(a_missing_leaf_is_structure_and_grouped) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct both both;
  struct ab_verdict v;
  side_run(&a, false, false);
  side_run(&b, false, false);
  for (int layer = 0; layer < LAYERS; layer++) { /* only b has them */
    struct ab_identity id = identity(0, layer, "mlp/wi/kernel", AB_BACKWARD);
    side_tensor(&b, &id, AB_F32, (struct ab_shape){1, {4}});
    side_observe(&b, &id);
  }
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_uint_eq(v.changed, 3);
  ck_assert_uint_eq(v.groups, 1);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_MISSING);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/mlp/wi/kernel backward");
  ck_assert_uint_eq(v.group[0].count, 3);
  ab_verdict_free(&v);
  c = comparison_of(&both, &b, &a); /* the other way round they are added */
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_ADDED);
  ab_verdict_free(&v);
  c.partial = true; /* a selection as reference: counted, not wrong */
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.ignored, 3);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* One extra tensor on each side. */
static struct ab_verdict judge_extra(struct side *a, struct side *b, const char *name_a, enum ab_dtype dtype_a,
                                     struct ab_shape shape_a, struct ab_shape shape_b) {
  struct both both;
  struct ab_verdict v;
  struct ab_identity id_a = identity(0, 1, name_a, AB_BACKWARD), id_b = identity(0, 1, "mlp/wi/kernel", AB_BACKWARD);
  struct ab_tensor *ta = side_tensor(a, &id_a, dtype_a, shape_a), *tb = side_tensor(b, &id_b, AB_F32, shape_b);
  for (size_t i = 0; i < 6; i++) {
    ((float *)tb->data)[i] = (float)i;
    if (dtype_a == AB_F32) ((float *)ta->data)[i] = (float)i;
  }
  side_run(a, false, false);
  side_run(b, false, false);
  side_observe(a, &id_a);
  side_observe(b, &id_b);
  struct ab_comparison c = comparison_of(&both, a, b);
  c.expected.tensors[AB_Q_WEIGHT_GRADIENT]++;
  c.expected.elements[AB_Q_WEIGHT_GRADIENT] += 6;
  ck_ok(ab_verdict(&v, &c));
  return v;
}

static const struct ab_shape two_three = {2, {2, 3}}, three_two = {2, {3, 2}};

START_TEST(a_renamed_leaf_is_missing_and_added) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct ab_verdict v = judge_extra(&a, &b, "mlp/wx/kernel", AB_F32, two_three, two_three);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_uint_eq(v.changed, 2);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_MISSING);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/mlp/wi/kernel backward");
  ck_assert_int_eq(v.group[1].change, AB_CHANGE_ADDED);
  ck_assert_str_eq(v.group[1].pattern, "layers/*/mlp/wx/kernel backward");
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(equal_bytes_of_another_shape_are_reshaped) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct ab_verdict v = judge_extra(&a, &b, "mlp/wi/kernel", AB_F32, three_two, two_three);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_RESHAPED);
  ck_assert(ab_shape_equal(&v.group[0].shape_a, &three_two) && ab_shape_equal(&v.group[0].shape_b, &two_three));
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(another_dtype_is_retyped) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct ab_verdict v = judge_extra(&a, &b, "mlp/wi/kernel", AB_F64, two_three, two_three);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_RETYPED);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
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

START_TEST(counts_must_be_the_expected_ones) {
  static const int offsets[] = {-1, 1};
  for (int o = 0; o < 2; o++)
    for (int which = 0; which < 4; which++) {
      struct fixture f;
      struct ab_verdict v;
      start(&f);
      side_run(&f.a, false, false);
      side_run(&f.b, false, false);
      struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
      size_t *counts[] = {&c.expected.steps, &c.expected.tensors[AB_Q_METRIC],
                          &c.expected.tensors[AB_Q_WEIGHT_GRADIENT], &c.expected.elements[AB_Q_WEIGHT_GRADIENT]};
      *counts[which] += (size_t)offsets[o];
      ck_ok(ab_verdict(&v, &c));
      ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
      ck_assert(!v.counts_right);
      stop(&f, &v);
    }
}
END_TEST

START_TEST(a_quantity_that_must_be_there_and_is_not) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.expected.tensors[AB_Q_PARAMETER] = 6; /* both sides forgot them: the streams agree, the config does not */
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  stop(&f, &v);
}
END_TEST

START_TEST(nothing_compared_is_never_equal) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  c.expected = ab_expected_none();
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  c.expected = (struct ab_expected){0};
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  side_free(&a);
  side_free(&b);
  struct fixture f; /* all there, but no quantity takes part */
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  c = comparison_of(&f.both, &f.a, &f.b);
  c.quantities = 0;
  c.expected = ab_expected_none();
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  stop(&f, &v);
}
END_TEST

START_TEST(an_unfinished_side_is_never_judged) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  f.a.recording->complete = false;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_fails(ab_verdict(&v, &c), AB_ECOMM, "side 'linen' did not finish");
  side_free(&f.a);
  side_free(&f.b);
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
  c.calibrated = true;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(ab_cause_of(&v, NULL, NULL), AB_CAUSE_UNCALIBRATED);
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

START_TEST(many_renamed_leaves_become_one_line) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct both both;
  struct ab_verdict v;
  side_run(&a, false, false);
  side_run(&b, false, false);
  for (int i = 0; i < 1472; i++) {
    char name[AB_NAME_MAX];
    snprintf(name, sizeof name, "experts/%d/w1", i);
    struct ab_observation o = {.id = identity(0, i % 4, name, AB_BACKWARD), .at = {-1, -1, -1, false}, .dtype = AB_F32};
    o.summary.count = 1;
    ck_ok(ab_recording_observe(b.recording, &o));
  }
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.groups, 1);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/experts/*/w1 backward");
  ck_assert_uint_eq(v.group[0].count, 1472);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(more_patterns_than_are_kept_are_counted) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  for (int i = 0; i < 100; i++) {
    char name[AB_NAME_MAX];
    snprintf(name, sizeof name, "x%d", i);
    struct ab_observation o = {.id = identity(0, -1, name, AB_FORWARD), .at = {-1, -1, -1, false}, .dtype = AB_F32};
    ck_ok(ab_recording_observe(b.recording, &o));
  }
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.changed, 100);
  ck_assert_uint_eq(v.groups, AB_GROUPS_MAX);
  ck_assert_uint_eq(v.groups_left_out, 100 - AB_GROUPS_MAX);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(causes) {
  struct ab_verdict equal = {.exit = AB_EXIT_EQUAL, .any = true, .counts_right = true};
  struct ab_verdict red = {.exit = AB_EXIT_DIFFERENT, .any = true, .counts_right = true};
  struct ab_verdict shape = {.exit = AB_EXIT_INCOMPARABLE, .any = true, .counts_right = true, .changed = 1};
  ck_assert_int_eq(ab_cause_of(&equal, &equal, &equal), AB_CAUSE_EQUAL);
  ck_assert_int_eq(ab_cause_of(&equal, NULL, NULL), AB_CAUSE_EQUAL);
  ck_assert_int_eq(ab_cause_of(&red, &red, &equal), AB_CAUSE_A_WRONG);
  ck_assert_int_eq(ab_cause_of(&red, &equal, &red), AB_CAUSE_B_WRONG);
  ck_assert_int_eq(ab_cause_of(&equal, &red, &red), AB_CAUSE_BOTH_MOVED);
  ck_assert_int_eq(ab_cause_of(&red, &red, &red), AB_CAUSE_UNDECIDED);
  ck_assert_int_eq(ab_cause_of(&red, NULL, NULL), AB_CAUSE_UNDECIDED);
  ck_assert_int_eq(ab_cause_of(&red, &shape, &red), AB_CAUSE_STRUCTURE);
  ck_assert_str_eq(ab_cause_name(AB_CAUSE_BOTH_MOVED), "both moved");
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
  tcase_add_loop_test(c, nan_is_not_equal_to_itself_in_any_tier, 0, 2);
  tcase_add_test(c, a_nan_metric_is_not_equal_to_itself);
  tcase_add_test(c, signs_of_zero_are_equal_and_counted);
  tcase_add_test(c, a_missing_leaf_is_structure_and_grouped);
  tcase_add_test(c, a_renamed_leaf_is_missing_and_added);
  tcase_add_test(c, equal_bytes_of_another_shape_are_reshaped);
  tcase_add_test(c, another_dtype_is_retyped);
  tcase_add_test(c, a_transposed_leaf_of_equal_shape_differs);
  tcase_add_test(c, counts_must_be_the_expected_ones);
  tcase_add_test(c, a_quantity_that_must_be_there_and_is_not);
  tcase_add_test(c, nothing_compared_is_never_equal);
  tcase_add_test(c, an_unfinished_side_is_never_judged);
  tcase_add_test(c, the_printed_distance_passes_and_one_ulp_less_fails);
  tcase_add_test(c, uncalibrated_is_refused_where_calibration_is_required);
  tcase_add_test(c, a_bounded_tensor_without_values_is_estimated_or_not_judged);
  tcase_add_test(c, float32_against_float64_by_values);
  tcase_add_test(c, a_failing_callback_ends_the_judgement);
  tcase_add_test(c, many_renamed_leaves_become_one_line);
  tcase_add_test(c, more_patterns_than_are_kept_are_counted);
  tcase_add_test(c, causes);
  tcase_add_test(c, any_refused_allocation_is_a_clean_failure);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
