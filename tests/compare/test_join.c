/* The join at its edges: steps in any order, sides that have more or less, what takes part and what does not. */
#include "sides.h"

enum { MANY = 61, ORDERS = 4 };

/* A permutation of the steps: ascending, descending, from the middle, scrambled (17 and 61 have no common factor). */
static int step_at(int order, int i) {
  if (order == 0) return i;
  if (order == 1) return MANY - 1 - i;
  if (order == 2) return (i + MANY / 2) % MANY;
  return i * 17 % MANY;
}

/* Steps 20, 21 and 40 fail, step 3 differs within its bound of 1e-6. */
static float off_by(int step) {
  if (step == 20 || step == 21 || step == 40) return 1;
  return step == 3 ? 1e-7f : 0;
}

/* Twice over, as tensors of a step do not arrive together. */
static void add_steps(struct side *s, int order, bool off) {
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < MANY; i++) {
      int step = step_at(order, i);
      side_metric(s, step, round ? "loss" : "lr", 1 + (off && round ? off_by(step) : 0));
    }
  ab_recording_complete(s->recording);
}

START_TEST(steps_are_counted_once_in_any_order_of_arrival) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct ab_verdict v;
  add_steps(&a, 0, true);
  add_steps(&b, _i, false);
  struct ab_comparison c = {.a = a.recording, .b = b.recording, .pair = AB_PAIR_RECORDED, .quantities = AB_Q_ALL,
                            .expected = ab_expected_none()};
  c.expected.steps = MANY;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.steps.compared, MANY);
  ck_assert_uint_eq(v.steps.expected, MANY);
  ck_assert(v.counts_right);
  ck_assert_uint_eq(v.exact_steps, MANY - 4);
  ck_assert_uint_eq(v.first_bad_step, 20);
  ck_assert_uint_eq(v.failing, 3);
  ck_assert_uint_eq(v.differing, 4);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* Steps, tensors, elements: each one too many and one too few is not comparable; unpinned, nothing is asked. */
static void pin(struct ab_expected *e, int which, int more) {
  size_t *const pinned[] = {&e->steps, &e->tensors[AB_Q_METRIC], &e->tensors[AB_Q_WEIGHT_GRADIENT],
                            &e->elements[AB_Q_WEIGHT_GRADIENT], &e->tensors[AB_Q_ACTIVATION],
                            &e->elements[AB_Q_ACTIVATION]};
  if (which >= 4) *pinned[which] = 0; /* nothing of it is there: 0 is right */
  *pinned[which] += (size_t)more;
}

START_TEST(every_count_must_be_met_exactly) {
  struct fixture f;
  start(&f);
  side_run(&f.a, true, false);
  side_run(&f.b, false, false);
  for (int more = _i >= 4 ? 0 : -1; more <= 1; more++) {
    struct ab_verdict v;
    struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
    pin(&c.expected, _i, more);
    ck_ok(ab_verdict(&v, &c));
    ck_assert_msg(v.exit == (more ? AB_EXIT_INCOMPARABLE : AB_EXIT_EQUAL), "count %d, %d more: %d", _i, more, v.exit);
    ck_assert(v.counts_right == !more && !v.failing && !v.changed);
    ab_verdict_free(&v);
  }
  side_free(&f.a);
  side_free(&f.b);
}
END_TEST

/* One tensor or metric, the n-th of all, is in one side only. */
START_TEST(whatever_one_side_lacks_is_missed) {
  for (int lacking = 0; lacking < 2; lacking++)
    for (int partial = 0; partial < 2; partial++) {
      struct side side[2] = {side_values("linen"), side_values("nnx")};
      struct both both;
      struct ab_verdict v;
      for (int s = 0; s < 2; s++) {
        for (int n = 0; n < STEPS * LAYERS * 2; n++) {
          struct ab_identity id = identity(n / (LAYERS * 2), n / 2 % LAYERS, leaf_names[n % 2], AB_BACKWARD);
          if (s != lacking || n != _i) side_observe(&side[s], &id);
        }
        for (int step = 0; step < STEPS; step++)
          if (s != lacking || step + STEPS * LAYERS * 2 != _i) side_metric(&side[s], step, "loss", 1);
        ab_recording_complete(side[s].recording);
      }
      struct ab_comparison c = comparison_of(&both, &side[0], &side[1]);
      c.expected = ab_expected_none();
      c.partial = partial;
      ck_ok(ab_verdict(&v, &c));
      bool ignored = lacking == 1 && partial;
      ck_assert_msg(v.exit == (ignored ? AB_EXIT_EQUAL : AB_EXIT_INCOMPARABLE), "side %d lacks %d", lacking, _i);
      ck_assert_uint_eq(v.changed, !ignored);
      ck_assert_uint_eq(v.changed_of[_i < STEPS * LAYERS * 2 ? AB_Q_WEIGHT_GRADIENT : AB_Q_METRIC], !ignored);
      ck_assert_uint_eq(v.ignored, ignored);
      ck_assert_uint_eq(v.groups, !ignored);
      if (!ignored) ck_assert_int_eq(v.group[0].change, lacking ? AB_CHANGE_ADDED : AB_CHANGE_MISSING);
      ab_verdict_free(&v);
      side_free(&side[0]);
      side_free(&side[1]);
    }
}
END_TEST

/* Everything is wrong in the quantity that does not take part, and nothing else is. */
START_TEST(a_quantity_that_takes_no_part_is_not_looked_at) {
  enum ab_quantity out = _i ? AB_Q_METRIC : AB_Q_WEIGHT_GRADIENT;
  for (int part = 0; part < 2; part++) {
    struct fixture f;
    struct ab_verdict v;
    start(&f);
    if (!_i) side_leaf(&f.a, 0, 0, 0)[0] += 1;
    struct ab_identity more = identity(0, 5, leaf_names[0], AB_BACKWARD);
    struct ab_identity less = identity(0, 6, leaf_names[0], AB_BACKWARD);
    for (int s = 0; s < 2 && !_i; s++) {
      side_tensor(s ? &f.b : &f.a, s ? &less : &more, AB_F32, (struct ab_shape){1, {4}});
      side_observe(s ? &f.b : &f.a, s ? &less : &more);
    }
    side_metric(&f.a, 0, "lr", 1); /* the value, and names that only one side has */
    side_metric(&f.b, 0, "lr", _i ? 2 : 1);
    if (_i) side_metric(&f.a, 0, "more", 1);
    if (_i) side_metric(&f.b, 0, "less", 1);
    side_run(&f.a, false, false);
    side_run(&f.b, false, false);
    struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
    c.expected = ab_expected_none();
    if (!part) c.expected.tensors[out] = c.expected.elements[out] = 999; /* nor is it expected */
    if (!part) c.quantities &= ~(1u << out);
    ck_ok(ab_verdict(&v, &c));
    ck_assert_uint_eq(v.failing, part);
    ck_assert_uint_eq(v.changed, part ? 2 : 0);
    ck_assert_int_eq(v.exit, part ? AB_EXIT_INCOMPARABLE : AB_EXIT_EQUAL);
    ck_assert_uint_eq(v.by_quantity[out].compared > 0, part);
    stop(&f, &v);
  }
}
END_TEST

/* {what a has, what b has, whether dtypes may differ, whether they are then comparable}. */
static const struct {
  enum ab_dtype a, b;
  bool retyped, comparable;
} dtypes[] = {{AB_F32, AB_F64, true, true},   {AB_F64, AB_F32, true, true},   {AB_F32, AB_F64, false, false},
              {AB_I32, AB_F32, true, false},  {AB_F32, AB_I32, true, false},  {AB_I32, AB_F64, true, false},
              {AB_F64, AB_I32, true, false},  {AB_I32, AB_I64, true, false},  {AB_I32, AB_I32, false, true},
              {AB_F64, AB_F64, false, true}};

START_TEST(only_floats_may_be_of_another_width_and_only_when_told) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  struct ab_identity id = identity(0, 0, "x", AB_FORWARD);
  side_tensor(&a, &id, dtypes[_i].a, (struct ab_shape){1, {4}});
  side_tensor(&b, &id, dtypes[_i].b, (struct ab_shape){1, {4}});
  side_observe(&a, &id);
  side_observe(&b, &id);
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  c.pair = AB_PAIR_MIXED;
  c.expected = ab_expected_none();
  c.retyped = dtypes[_i].retyped;
  ck_ok(ab_verdict(&v, &c));
  ck_assert_msg(v.exit == (dtypes[_i].comparable ? AB_EXIT_EQUAL : AB_EXIT_INCOMPARABLE), "row %d: %d", _i, v.exit);
  if (!dtypes[_i].comparable) ck_assert_int_eq(v.group[0].change, AB_CHANGE_RETYPED);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* Counts that are in no exit code but in every report. */
START_TEST(zeros_and_non_finite_values_are_summed_over_all) {
  for (int values = 0; values < 2; values++) {
    struct fixture f;
    struct ab_verdict v;
    start(&f);
    for (int layer = 0; layer < LAYERS; layer++) {
      for (int i = 0; i < 2; i++) side_leaf(&f.a, 0, layer, 0)[i] = -0.f, side_leaf(&f.b, 0, layer, 0)[i] = 0.f;
      side_leaf(&f.a, 0, layer, 0)[3] = 5; /* so that values are asked for */
      side_leaf(&f.b, 1, layer, 1)[0] = NAN;
      side_leaf(&f.b, 1, layer, 1)[1] = INFINITY;
    }
    side_leaf(&f.a, 1, 0, 1)[0] = NAN;
    side_metric(&f.a, 0, "lr", -0.f);
    side_metric(&f.b, 0, "lr", 0);
    side_metric(&f.a, 0, "grad_norm", NAN);
    side_metric(&f.b, 0, "grad_norm", 1);
    side_metric(&f.a, 1, "grad_norm", 1);
    side_metric(&f.b, 1, "grad_norm", INFINITY);
    side_run(&f.a, false, false);
    side_run(&f.b, false, false);
    struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
    if (!values) c.values = NULL;
    ck_ok(ab_verdict(&v, &c));
    ck_assert_uint_eq(v.nonfinite, LAYERS * 2 + 1 + 2);
    ck_assert_uint_eq(v.sign_only, LAYERS * 2 + 1);
    ck_assert_uint_eq(v.failing, LAYERS * 2 + 2);
    ck_assert_uint_eq(v.failing_of[AB_Q_METRIC], 2);
    ck_assert_uint_eq(v.failing_of[AB_Q_WEIGHT_GRADIENT], LAYERS * 2);
    ck_assert_uint_eq(v.differing_of[AB_Q_METRIC], 2);
    ck_assert_uint_eq(v.differing_of[AB_Q_WEIGHT_GRADIENT], LAYERS * 2);
    ck_assert_uint_eq(v.differing_elements, (values ? LAYERS * 3 : 0) + 2);
    stop(&f, &v);
  }
}
END_TEST

/* The bound of a calibrated identity, and where none applies. */
static void given(void *ctx, const struct ab_identity *id, double *bound, double *own) {
  (void)id;
  *bound = *(const double *)ctx;
  *own = 1e-5;
}

START_TEST(calibration_binds_float32_against_float64_alone) {
  struct ab_calibration *k;
  struct ab_identity id = identity(0, 0, "x", AB_BACKWARD);
  char kind[AB_KIND_TEXT];
  double known = 7e-4;
  ck_ok(ab_mem_new(&k, 1, sizeof *k));
  k->layers = k->reduction = 64;
  k->runs = 59;
  for (int q = 0; q < AB_QUANTITIES; q++) {
    ab_calibration_kind(kind, &id, (enum ab_quantity)q);
    ck_ok(ab_calibration_add(k, kind, 1e-6));
  }
  ab_calibration_conclude(k);
  struct ab_comparison c = {.calibration = k, .bounds = given, .bounds_ctx = &known};
  for (int pair = 0; pair < AB_PAIRS; pair++)
    for (int q = 0; q < AB_QUANTITIES; q++)
      for (int told = 0; told < 3; told++) {
        double bound = told == 2 ? 0 : told ? known : -1;
        c.pair = (enum ab_pair)pair;
        struct ab_bound got = ab_comparison_bound(&c, &id, (enum ab_quantity)q, bound, 1e-5);
        bool calibrated = pair == AB_PAIR_MIXED && q != AB_Q_INPUT && q != AB_Q_STATE && !told;
        struct ab_bound plain = ab_tier_bound((enum ab_pair)pair, (enum ab_quantity)q, bound, 1e-5);
        ck_assert_msg((got.rule == AB_RULE_CALIBRATED) == calibrated, "pair %d, quantity %d, told %d", pair, q, told);
        double limit = ab_calibration_bound(k, &id, (enum ab_quantity)q);
        if (calibrated) ck_assert(got.tier == AB_TIER_BOUNDED && got.limit == limit);
        else ck_assert(got.rule == plain.rule && got.limit == plain.limit && got.tier == plain.tier);
      }
  id.tensor[0] = 'y'; /* of another kind nothing is known */
  ck_assert_int_eq(ab_comparison_bound(&c, &id, AB_Q_OUTPUT, -1, 1e-5).rule != AB_RULE_CALIBRATED, 1);
  ab_calibration_free(k);
}
END_TEST

/* The rank of findings: what fails, then what differs, then by how many times its bound. */
START_TEST(the_worst_is_the_one_farthest_above_its_own_bound) {
  static const struct {
    float metric, leaf;
    bool metric_is_worst;
  } rows[] = {{1e-4f, 1e-3f, false}, {1e-3f, 1e-4f, true}, {0, 1e-4f, false}, {1e-4f, 0, true}};
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  for (int i = 0; i < LEAF; i++) side_leaf(&f.a, 0, 1, 1)[i] *= 1 + rows[_i].leaf;
  side_metric(&f.a, 0, "lr", 1 + rows[_i].metric);
  side_metric(&f.b, 0, "lr", 1);
  v = judge(&f);
  ck_assert_msg(v.worst.metric == rows[_i].metric_is_worst, "row %d", _i);
  ck_assert_uint_eq(v.failing, (rows[_i].metric > 0) + (rows[_i].leaf > 0));
  stop(&f, &v);
}
END_TEST

START_TEST(neither_side_may_be_unfinished) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct side *side[] = {&f.a, &f.b};
  side[_i]->recording->complete = false;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_fails(ab_verdict(&v, &c), AB_ECOMM, _i ? "'nnx' did not finish" : "'linen' did not finish");
  side_free(&f.a);
  side_free(&f.b);
}
END_TEST

/* Names that fall on one place of the index are still told apart. */
START_TEST(a_metric_is_found_by_its_own_name_alone) {
  struct side s = side_new("linen");
  char name[32];
  for (int i = 0; i < 400; i += 2) {
    snprintf(name, sizeof name, "metric %d", i);
    side_metric(&s, 0, name, (float)i);
  }
  for (int i = 0; i < 400; i++) {
    snprintf(name, sizeof name, "metric %d", i);
    const struct ab_recorded_metric *found = ab_recording_metric(s.recording, 0, name);
    ck_assert_msg(i % 2 ? !found : found && found->metric.value == i, "%s", name);
    ck_assert_ptr_null(ab_recording_metric(s.recording, 1, name));
  }
  side_free(&s);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("join");
  TCase *tests = tcase_create("join");
  tcase_add_loop_test(tests, steps_are_counted_once_in_any_order_of_arrival, 0, ORDERS);
  tcase_add_loop_test(tests, every_count_must_be_met_exactly, 0, 6);
  tcase_add_loop_test(tests, whatever_one_side_lacks_is_missed, 0, STEPS * LAYERS * 2 + STEPS);
  tcase_add_loop_test(tests, a_quantity_that_takes_no_part_is_not_looked_at, 0, 2);
  tcase_add_loop_test(tests, only_floats_may_be_of_another_width_and_only_when_told, 0, sizeof dtypes / sizeof *dtypes);
  tcase_add_test(tests, zeros_and_non_finite_values_are_summed_over_all);
  tcase_add_test(tests, calibration_binds_float32_against_float64_alone);
  tcase_add_loop_test(tests, the_worst_is_the_one_farthest_above_its_own_bound, 0, 4);
  tcase_add_loop_test(tests, neither_side_may_be_unfinished, 0, 2);
  tcase_add_test(tests, a_metric_is_found_by_its_own_name_alone);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
