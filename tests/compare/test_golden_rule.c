/* Which bound a golden is judged by: the caller's, it has none of its own; and that a run may hold more than a golden. */
#include "golden.h"
#include "sides.h"

struct known {
  double given, own;
};

static void known_bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  const struct known *known = ctx;
  (void)id;
  *given = known->given;
  *own = known->own;
}

/* What the caller knows; what governs. 0 is a bound: only the same bits are near enough. */
static const struct {
  struct known known;
  enum ab_rule rule;
  double limit;
} rows[] = {{{-1, -1}, AB_RULE_FLOOR, 1e-6},          {{0, -1}, AB_RULE_GIVEN, 0},
            {{1e-8, 1e-5}, AB_RULE_GIVEN, 1e-8},      {{1e-4, 1e-5}, AB_RULE_GIVEN, 1e-4},
            {{-1, 1e-5}, AB_RULE_UNCALIBRATED, 4e-5}, {{0, 1e-5}, AB_RULE_GIVEN, 0}};

static struct ab_verdict judge_golden(const struct side *run, const struct side *side, struct ab_golden *g,
                                      struct known *known, bool portable) {
  struct ab_verdict v;
  struct ab_expected expected = expected_run();
  struct ab_comparison c = ab_golden_comparison(g, run->recording, side->recording, portable, &expected);
  if (known) c.bounds = known_bounds;
  c.bounds_ctx = known;
  ck_ok(ab_verdict(&v, &c));
  return v;
}

START_TEST(a_golden_that_is_not_exact_is_judged_by_the_callers_bounds) {
  char fast[] = "fast";
  struct ab_golden g = {.numerics = fast};
  struct known known = rows[_i].known;
  for (int near = 0; near < 2; near++) {
    struct side run = side_values("linen"), side = side_values("golden");
    float *x = side_leaf(&run, 1, 2, 0);
    /* Far: all elements by one part in 2^14. Near: one element by its last bit. */
    for (int i = 0; i < LEAF && !near; i++) x[i] *= 1 + 0x1p-14f;
    if (near) x[0] = nextafterf(x[0], 9);
    side_run(&run, true, true);
    side_run(&side, false, true);
    struct ab_verdict v = judge_golden(&run, &side, &g, &known, true);
    ck_assert_msg(v.worst.bound.rule == rows[_i].rule && v.worst.bound.limit == rows[_i].limit, "row %d: rule %d, %g",
                  _i, (int)v.worst.bound.rule, v.worst.bound.limit);
    ck_assert(v.worst.distance > 0 && v.pair == AB_PAIR_RECORDED);
    ck_assert_int_eq(v.exit, v.worst.distance <= rows[_i].limit ? AB_EXIT_EQUAL : AB_EXIT_DIFFERENT);
    ab_verdict_free(&v);
    side_free(&run);
    side_free(&side);
  }
}
END_TEST

START_TEST(what_only_the_run_has_is_ignored_and_what_it_lacks_is_not) {
  char portable[] = "portable";
  struct ab_golden g = {.numerics = portable};
  for (int more = 0; more < 2; more++) {
    struct side run = side_values("linen"), side = side_values("golden");
    struct ab_identity id = identity(0, 7, "mlp/wo/kernel", AB_BACKWARD);
    struct side *has = more ? &run : &side;
    side_tensor(has, &id, AB_F32, (struct ab_shape){1, {4}});
    side_observe(has, &id);
    side_run(&run, true, true);
    side_run(&side, false, true);
    struct ab_verdict v = judge_golden(&run, &side, &g, NULL, true);
    ck_assert_int_eq(v.exit, more ? AB_EXIT_EQUAL : AB_EXIT_INCOMPARABLE);
    ck_assert_uint_eq(v.ignored, more);
    ck_assert(v.pair == AB_PAIR_SAME);
    ab_verdict_free(&v);
    side_free(&run);
    side_free(&side);
  }
}
END_TEST

/* A side that did not finish. */
START_TEST(a_failure_is_passed_on) {
  char portable[] = "portable";
  struct ab_golden g = {.numerics = portable};
  struct ab_expected expected = expected_run();
  struct ab_verdict v;
  struct side run = side_values("linen"), side = side_values("golden");
  side_run(&side, false, true);
  struct ab_comparison c = ab_golden_comparison(&g, run.recording, side.recording, true, &expected);
  ck_fails(ab_verdict(&v, &c), AB_ECOMM, "linen");
  side_free(&run);
  side_free(&side);
}
END_TEST

/* A leaf of every kind and step, the last step only once, and one behind the end that no selection may see. */
START_TEST(a_selection_keeps_the_ends) {
  static const struct {
    int step;
    const char *tensor;
    enum ab_phase phase;
    bool ends; /* whether the selection keeps it */
  } kept[] = {{-1, "input/params/mlp/wo/kernel", AB_FORWARD, true},  {1, "mlp/wo/kernel", AB_BACKWARD, false},
              {0, "mlp/wo/kernel", AB_BACKWARD, true},               {0, "mlp/wo/kernel", AB_UPDATE, false},
              {0, "output", AB_FORWARD, true},                       {1, "mlp/wo/kernel", AB_UPDATE, false},
              {2, "mlp/wo/kernel", AB_UPDATE, true},                 {9, "mlp/wo/kernel", AB_UPDATE, false}};
  enum { LEAVES = sizeof kept / sizeof *kept - 1 };
  for (enum ab_selection selection = 0; selection < AB_SELECTIONS; selection++) {
    struct ab_fingerprint leaf[LEAVES + 1] = {0};
    size_t order[LEAVES + 1], at = 0, metric_order[1] = {0};
    for (size_t i = 0; i <= LEAVES; i++) {
      leaf[i].id = identity(kept[i].step, -1, kept[i].tensor, kept[i].phase);
      order[i] = 10 + i;
    }
    struct ab_golden g = {.leaf = leaf, .leaf_order = order, .leaves = LEAVES, .metric_order = metric_order};
    ck_ok(ab_golden_select(&g, selection));
    ck_assert_int_eq(g.selection, selection);
    for (size_t i = 0; i < LEAVES; i++) {
      if (selection == AB_SELECT_ENDS && !kept[i].ends) continue;
      ck_assert_msg(leaf[at].id.step == kept[i].step && !strcmp(leaf[at].id.tensor, kept[i].tensor) &&
                        leaf[at].id.phase == kept[i].phase, "leaf %zu is not kept", i);
      ck_assert_uint_eq(order[at], selection == AB_SELECT_ENDS ? at : 10 + i);
      at++;
    }
    ck_assert_uint_eq(g.leaves, at);
  }
}
END_TEST

START_TEST(a_selection_of_nothing_is_refused) {
  struct ab_fingerprint leaf = {.id = identity(1, 0, "mlp/wo/kernel", AB_BACKWARD)};
  size_t order = 0;
  struct ab_golden g = {.leaf = &leaf, .leaf_order = &order, .leaves = 1};
  ck_fails(ab_golden_select(&g, AB_SELECT_ENDS), AB_EMISMATCH, "'ends' keeps no tensor");
}
END_TEST

START_TEST(selections_have_names) {
  enum ab_selection found;
  for (enum ab_selection s = 0; s < AB_SELECTIONS; s++) {
    ck_ok(ab_selection_find(&found, ab_selection_name(s)));
    ck_assert_int_eq(found, s);
  }
  ck_fails(ab_selection_find(&found, "some"), AB_ENOTFOUND, "'some'; expected all or ends");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("golden_rule");
  TCase *tests = tcase_create("golden_rule");
  tcase_add_loop_test(tests, a_golden_that_is_not_exact_is_judged_by_the_callers_bounds, 0, sizeof rows / sizeof *rows);
  tcase_add_test(tests, what_only_the_run_has_is_ignored_and_what_it_lacks_is_not);
  tcase_add_test(tests, a_failure_is_passed_on);
  tcase_add_test(tests, a_selection_keeps_the_ends);
  tcase_add_test(tests, a_selection_of_nothing_is_refused);
  tcase_add_test(tests, selections_have_names);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
