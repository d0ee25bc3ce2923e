/* Which side is wrong, asked of float64: by distance and by slope. Sides run in this process, with norms whose epsilon
 * is a little off; a sequential one stands for float64, and two losses by hand for its runs along a direction. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "both_sides.h"
#include "judgement.h"
#include "shake.h"
#include "tap.h"

enum { TRUTH, OWN, NEAR, FAR, RUNS };
static const char *const epsilon[RUNS] = {"normalization_layer_epsilon=1e-5", "normalization_layer_epsilon=1.001e-5",
                                          "normalization_layer_epsilon=1.003e-5", "normalization_layer_epsilon=1e-3"};
static struct ab_case opened;
static struct ab_side_result run[RUNS];

static void set_up(void) {
  for (int i = 0; i < RUNS; i++) {
    char path[] = "/tmp/abpipe-truth-XXXXXX";
    struct side_hooks hooks = {.values = fdopen(mkstemp(path), "w")};
    struct ab_case own;
    side_case_open_with(&own, "circ.yml", (const char *const[]){epsilon[i], "override_model_config=true", NULL});
    run[i] = (struct ab_side_result){0};
    ck_ok(side_run(&run[i].recording, &own, side_route("sequential"), &hooks));
    ck_assert_int_eq(fclose(hooks.values), 0);
    ck_ok(ab_kept_open(&run[i].values, run[i].recording, path, NULL, NULL));
    unlink(path);
    if (i == TRUTH) opened = own;
    else ab_case_close(&own);
  }
}

static void tear_down(void) {
  for (int i = 0; i < RUNS; i++) {
    ab_kept_close(run[i].values);
    ab_recording_free(run[i].recording);
  }
  ab_case_close(&opened);
}

/* The gradient of a run at a step along the direction, the length of it, and the number of weights. */
struct along {
  double slope, length, count;
};

static struct along along(const struct ab_side_result *side, int step) {
  struct along sum = {0};
  for (size_t i = 0; i < side->recording->observations; i++) {
    const struct ab_identity *id = &side->recording->observation[i].observation.id;
    struct ab_view view;
    if (id->step != step || ab_quantity_of(id) != AB_Q_WEIGHT_GRADIENT) continue;
    ck_ok(ab_kept_read(side->values, id, &view));
    for (size_t e = 0; e < ab_view_count(&view); e++) {
      double g = ((const float *)view.data)[e];
      sum.slope += g * ab_shake_sign(1, id->layer, id->tensor, e);
      sum.length += g * g;
      sum.count++;
    }
  }
  sum.slope /= sqrt(sum.count);
  sum.length = sqrt(sum.length);
  return sum;
}

static double length_of_weights(const struct ab_recording *r) {
  double squares = 0;
  for (size_t i = 0; i < r->observations; i++) {
    const struct ab_observation *o = &r->observation[i].observation;
    if (strncmp(o->id.tensor, "input/params/", strlen("input/params/")) == 0) squares += o->summary.l2 * o->summary.l2;
  }
  return sqrt(squares);
}

/* What the two runs along the direction give: a loss that rises by this, at this step. */
static double rise;
static struct {
  size_t runs;
  struct ab_shake up, down;
} slope;

static void put_loss(struct ab_side_result *side, int step, double loss) {
  struct ab_metric metric = {.step = step, .name = "loss", .value = loss};
  ck_ok(ab_recording_new(&side->recording, "moved"));
  ck_ok(ab_recording_add_metric(side->recording, &metric));
  side->values = run[TRUTH].values;
}

ab_status __wrap_ab_judgement_run_slope(struct ab_judgement *j, const char *up, const char *down);
ab_status __wrap_ab_judgement_run_slope(struct ab_judgement *j, const char *up, const char *down) {
  slope.runs++;
  ck_ok(ab_shake_parse(&slope.up, up));
  ck_ok(ab_shake_parse(&slope.down, down));
  put_loss(&j->side[AB_SIDE_SLOPE_UP], slope.up.at, 3 + rise * slope.up.slope);
  put_loss(&j->side[AB_SIDE_SLOPE_DOWN], slope.down.at, 3 + rise * slope.down.slope);
  return AB_OK;
}

struct rig {
  struct ab_judgement j;
  struct ab_side_result side[AB_SIDES];
  struct ab_facts facts;
};

/* A and B, of which the verdict says that they differ first at `step`; -1: nowhere. */
static void rig_new(struct rig *rig, int a, int b, int step) {
  *rig = (struct rig){.j = {.opened = opened, .a = side_route("linen"), .b = side_route("nnx")}};
  rig->side[AB_SIDE_A] = run[a];
  rig->side[AB_SIDE_B] = run[b];
  rig->j.side = rig->side;
  rig->j.facts = &rig->facts;
  rig->j.own = (struct ab_own_distance){.oracle = &run[OWN], .truth = &run[TRUTH]};
  rig->j.verdict[0].failing = step >= 0;
  rig->j.verdict[0].first_bad_step = step >= 0 ? (size_t)step : AB_UNCOUNTED;
  rig->facts.known[AB_FACT_AB] = step >= 0 ? AB_BROKEN : AB_HOLDS;
  slope.runs = 0;
}

static void rig_free(struct rig *rig) {
  ab_recording_free(rig->side[AB_SIDE_SLOPE_UP].recording);
  ab_recording_free(rig->side[AB_SIDE_SLOPE_DOWN].recording);
}

static void check(const struct rig *rig, enum ab_fact a, enum ab_known known_a, enum ab_known known_b) {
  ck_assert_msg(rig->facts.known[a] == known_a, "%s: %s", ab_fact_name(a), rig->facts.reason[a]);
  ck_assert_msg(rig->facts.known[a + 1] == known_b, "%s: %s", ab_fact_name(a + 1), rig->facts.reason[a + 1]);
}

START_TEST(the_farther_side_is_wrong) {
  for (int step = 0; step < 2; step++)
    for (int swapped = 0; swapped < 2; swapped++) {
      struct rig rig;
      rig_new(&rig, swapped ? FAR : NEAR, swapped ? NEAR : FAR, step);
      ck_ok(ab_judge_nearer(&rig.j));
      check(&rig, AB_FACT_A_TRUTH, swapped ? AB_BROKEN : AB_HOLDS, swapped ? AB_HOLDS : AB_BROKEN);
      check(&rig, AB_FACT_A_SLOPE, AB_UNKNOWN, AB_UNKNOWN);
      ck_assert_ptr_nonnull(strstr(rig.facts.reason[AB_FACT_A_TRUTH], " x as far from float64 as the float32 oracle"));
      ck_assert_int_eq(ab_cause_of(&rig.facts), swapped ? AB_CAUSE_A_WRONG : AB_CAUSE_B_WRONG);
      ck_assert_int_eq(rig.j.distance.worst.step, step);
      ck_assert_uint_eq(slope.runs, 0);
    }
}
END_TEST

static double *loss_of(int which, int step) {
  for (size_t i = 0; i < run[which].recording->metrics; i++) {
    struct ab_metric *m = &run[which].recording->metric[i].metric;
    if (m->step == step && strcmp(m->name, "loss") == 0) return &m->value;
  }
  ck_abort_msg("no loss of step %d", step);
  return NULL;
}

/* A float64 side that only differentiates ends with a gradient: here with its first, and there is no loss. */
START_TEST(the_last_gradient_counts) {
  struct ab_recording *truth = run[TRUTH].recording;
  size_t all = truth->observations, first = 0;
  double loss = *loss_of(TRUTH, 1);
  struct rig rig;
  while (truth->observation[first].observation.id.step != 1 ||
         ab_quantity_of(&truth->observation[first].observation.id) != AB_Q_WEIGHT_GRADIENT)
    first++;
  truth->observations = first + 1;
  *loss_of(TRUTH, 1) = 0;
  rig_new(&rig, NEAR, FAR, 1);
  ck_ok(ab_judge_nearer(&rig.j));
  check(&rig, AB_FACT_A_TRUTH, AB_HOLDS, AB_BROKEN);
  truth->observations = all;
  *loss_of(TRUTH, 1) = loss;
}
END_TEST

/* The loss counts as a gradient does; a loss of 0 has no relative error. */
START_TEST(a_loss_that_is_off_is_far) {
  for (int zero = 0; zero < 2; zero++) {
    struct rig rig;
    double *truth = loss_of(TRUTH, 0), *moved = loss_of(NEAR, 0), before = *truth, own = *moved;
    *moved = zero ? 1 : 2 * before;
    if (zero) *truth = 0;
    rig_new(&rig, NEAR, OWN, 0);
    ck_ok(ab_judge_nearer(&rig.j));
    check(&rig, AB_FACT_A_TRUTH, zero ? AB_HOLDS : AB_BROKEN, AB_HOLDS);
    ck_assert(rig.j.distance.metric == !zero);
    *truth = before;
    *moved = own;
    rig_free(&rig);
  }
}
END_TEST

/* Where float64 cannot tell by distance, and only there, it is asked for the slope. */
START_TEST(between_two_near_sides_the_slope_decides) {
  static const double off[] = {-1.1, -0.9, 0, 0.9, 1.1};
  for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
    struct rig rig;
    const struct along g = along(&run[NEAR], 1);
    enum ab_known known = fabs(off[i]) < 1 ? AB_HOLDS : AB_BROKEN;
    rise = g.slope + off[i] * AB_SLOPE_TOLERANCE * g.length / sqrt(g.count);
    rig_new(&rig, NEAR, NEAR, 1);
    ck_ok(ab_judge_nearer(&rig.j));
    check(&rig, AB_FACT_A_TRUTH, AB_HOLDS, AB_HOLDS);
    check(&rig, AB_FACT_A_SLOPE, known, known);
    ck_assert_uint_eq(slope.runs, 1);
    ck_assert(slope.up.at == 1 && slope.down.at == 1 && slope.up.seed == 1 && slope.down.seed == 1);
    ck_assert(slope.up.slope == -slope.down.slope);
    ck_assert_double_eq_tol(slope.up.slope / (cbrt(DBL_EPSILON) * length_of_weights(run[NEAR].recording)), 1, 1e-12);
    rig_free(&rig);
  }
}
END_TEST

START_TEST(the_side_whose_gradient_is_no_slope_is_wrong) {
  for (int swapped = 0; swapped < 2; swapped++) {
    struct rig rig;
    rise = along(&run[NEAR], 0).slope;
    rig_new(&rig, swapped ? FAR : NEAR, swapped ? NEAR : FAR, 0);
    rig.j.request.check_slope = true;
    ck_ok(ab_judge_nearer(&rig.j));
    check(&rig, AB_FACT_A_SLOPE, swapped ? AB_BROKEN : AB_HOLDS, swapped ? AB_HOLDS : AB_BROKEN);
    const struct along near = along(&run[NEAR], 0), far = along(&run[FAR], 0);
    ck_assert_double_eq_tol(rig.j.slope.scale / (fmin(near.length, far.length) / sqrt(near.count)), 1, 1e-12);
    ck_assert(rig.j.slope.known && rig.j.slope.by[swapped] == along(&run[NEAR], 0).slope);
    rig_free(&rig);
  }
}
END_TEST

/* 1: inputs differ; 2: structure does; 3: no oracle; 4: no float64; 5, 6: A's or B's arithmetic is another;
 * 7: nothing differs; 8: what differs is NaN in both. */
START_TEST(where_float64_has_no_say_nothing_is_said) {
  for (int why = 1; why <= 8; why++) {
    struct rig rig;
    rig_new(&rig, NEAR, FAR, why == 7 ? -1 : 0);
    if (why == 1) rig.j.verdict[0].failing_of[AB_Q_INPUT] = 1;
    if (why == 2) rig.j.verdict[0].changed = 1;
    if (why == 3) rig.j.own.oracle = NULL;
    if (why == 4) rig.j.own.truth = NULL;
    if (why == 5) rig.j.a = side_route("linen64");
    if (why == 6) rig.j.b = side_route("nnx64");
    if (why == 8) rig.j.verdict[0].alike = 1;
    ck_ok(ab_judge_nearer(&rig.j));
    check(&rig, AB_FACT_A_TRUTH, AB_UNKNOWN, AB_UNKNOWN);
    check(&rig, AB_FACT_A_SLOPE, AB_UNKNOWN, AB_UNKNOWN);
    ck_assert_msg(slope.runs == 0, "reason %d", why);
    rig_free(&rig);
  }
}
END_TEST

/* Asked for it, sides that agree are held to the slope of their first step. */
START_TEST(sides_that_agree_can_be_held_to_the_slope) {
  struct rig rig;
  rise = along(&run[NEAR], 0).slope;
  rig_new(&rig, NEAR, NEAR, -1);
  rig.j.request.check_slope = true;
  ck_ok(ab_judge_nearer(&rig.j));
  check(&rig, AB_FACT_A_TRUTH, AB_UNKNOWN, AB_UNKNOWN);
  check(&rig, AB_FACT_A_SLOPE, AB_HOLDS, AB_HOLDS);
  ck_assert_int_eq(slope.up.at, 0);
  rig_free(&rig);
}
END_TEST

/* A gradient of nothing is measured by the other one's; a side that began with no weights has no direction. */
START_TEST(a_side_without_a_gradient_is_no_slope) {
  for (int lacking = 0; lacking < 2; lacking++) {
    struct rig rig;
    const struct along g = along(&run[NEAR], 0);
    rise = g.slope;
    rig_new(&rig, NEAR, NEAR, -1);
    rig.j.request.check_slope = true;
    ck_ok(ab_recording_new(&rig.side[lacking].recording, "nothing"));
    ck_ok(ab_judge_nearer(&rig.j));
    ck_assert_uint_eq(slope.runs, lacking == AB_SIDE_B);
    if (lacking == AB_SIDE_B) check(&rig, AB_FACT_A_SLOPE, AB_HOLDS, AB_BROKEN);
    if (lacking == AB_SIDE_B) ck_assert_double_eq_tol(rig.j.slope.scale / (g.length / sqrt(g.count)), 1, 1e-12);
    ab_recording_free(rig.side[lacking].recording);
    rig_free(&rig);
  }
}
END_TEST

START_TEST(a_metric_has_a_relative_error) {
  static const struct {
    double side, truth, error;
  } rows[] = {{2, 2, 0}, {0, 0, 0}, {2.5, 2, 0.25}, {1.5, 2, 0.25}, {-2.5, -2, 0.25}, {INFINITY, INFINITY, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_side_result side = {0};
    struct ab_metric truth = {.step = 1, .name = "loss", .value = rows[i].truth}, metric = truth;
    metric.value = rows[i].side;
    ck_ok(ab_recording_new(&side.recording, "a"));
    ck_assert(isnan(ab_metric_error(&side, &truth)));
    ck_ok(ab_recording_add_metric(side.recording, &metric));
    ck_assert_msg(ab_metric_error(&side, &truth) == rows[i].error, "row %zu", i);
    ab_recording_free(side.recording);
  }
}
END_TEST

/* The bound of a tensor or of a metric: the farther of two oracles counts, and without any there is none. */
START_TEST(the_bound_is_the_distance_of_the_oracles) {
  const struct ab_side_result *truth = &run[TRUTH];
  size_t seen[2] = {0};
  for (size_t i = 0; i < truth->recording->observations + truth->recording->metrics; i++) {
    struct ab_identity id = {.microbatch = -1, .layer = -1};
    bool metric = i >= truth->recording->observations;
    const struct ab_metric *m = metric ? &truth->recording->metric[i - truth->recording->observations].metric : NULL;
    if (metric) snprintf(id.tensor, sizeof id.tensor, "%s", m->name);
    if (metric) id.step = m->step;
    else id = truth->recording->observation[i].observation.id;
    double near = metric ? ab_metric_error(&run[NEAR], m) : ab_tensor_error(&run[NEAR], truth, &id);
    double far = metric ? ab_metric_error(&run[FAR], m) : ab_tensor_error(&run[FAR], truth, &id);
    if (!(near < far)) continue;
    seen[metric]++;
    for (int who = 0; who < 5; who++) { /* bit 0: the far one is the other; 4: no oracle; 3: no truth */
      struct ab_own_distance own = {&run[NEAR], truth, who == 1 || who == 2 ? &run[FAR] : NULL};
      double given = -1, bound = -1;
      if (who == 2) own.oracle = &run[FAR], own.other = &run[NEAR];
      if (who == 3) own.truth = NULL;
      if (who == 4) own.oracle = NULL;
      ab_own_bounds(&own, &id, &given, &bound);
      ck_assert_msg(bound == (who >= 3 ? -1 : who ? far : near), "%s, case %d: %g", id.tensor, who, bound);
    }
  }
  ck_assert(seen[0] > 30 && seen[1] > 2);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("truth");
  TCase *tests = tcase_create("truth");
  tcase_add_unchecked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, the_farther_side_is_wrong);
  tcase_add_test(tests, the_last_gradient_counts);
  tcase_add_test(tests, a_loss_that_is_off_is_far);
  tcase_add_test(tests, between_two_near_sides_the_slope_decides);
  tcase_add_test(tests, the_side_whose_gradient_is_no_slope_is_wrong);
  tcase_add_test(tests, where_float64_has_no_say_nothing_is_said);
  tcase_add_test(tests, sides_that_agree_can_be_held_to_the_slope);
  tcase_add_test(tests, a_side_without_a_gradient_is_no_slope);
  tcase_add_test(tests, a_metric_has_a_relative_error);
  tcase_add_test(tests, the_bound_is_the_distance_of_the_oracles);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
