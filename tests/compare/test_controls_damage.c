/* What each damage does to identities and metrics. */
#include <math.h>
#include <string.h>

#include "controls_parts.h"
#include "mem.h"
#include "tap.h"

/* S = 2, K = 2, R = 2; layers 8 and 9 are outside of the pipeline. */
static const struct ab_control_facts facts = {2, 2, 8, 4}, three = {3, 1, 3, 2}, one = {1, 1, 0, 1};

struct rig {
  struct ab_recording *recording;
  struct ab_comparison c;
  struct ab_control_data data;
  struct ab_trial t;
  double given;
};

static void bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  (void)id, (void)own;
  *given = *(const double *)ctx;
}

static void rig_new(struct rig *rig, const struct ab_control_facts *f) {
  *rig = (struct rig){.given = 1e-3};
  ck_ok(ab_recording_new(&rig->recording, "nnx"));
  rig->c = (struct ab_comparison){.a = rig->recording, .b = rig->recording, .pair = AB_PAIR_RECORDED,
                                  .bounds = bounds, .bounds_ctx = &rig->given};
  rig->data = (struct ab_control_data){.c = &rig->c, .facts = f, .a = rig->recording, .b = rig->recording, .next = 1};
  rig->t = (struct ab_trial){.data = &rig->data, .given = -1};
}

static struct ab_metric metric_of(int step, const char *name, double value, bool f32) {
  struct ab_metric m = {.step = step, .value = value, .f32 = f32};
  strncat(m.name, name, AB_NAME_MAX - 1);
  return m;
}

static void add(struct rig *rig, int step, const char *name, double value, bool f32) {
  struct ab_metric m = metric_of(step, name, value, f32);
  ck_ok(ab_recording_add_metric(rig->recording, &m));
}

/* The value that a metric has after the damage. */
static double edited(const struct rig *rig, int step, const char *name, double value) {
  struct ab_metric m = metric_of(step, name, value, false);
  rig->t.metric(&rig->t, &m);
  return m.value;
}

START_TEST(stages_0_and_1_change_places_in_one_step) {
  static const int other[] = {2, 3, 0, 1, 6, 7, 4, 5, 8, 9};
  struct rig rig;
  rig_new(&rig, &facts);
  ck_ok(ab_damage_swapped_stages(&rig.t));
  for (int layer = -1; layer < 10; layer++)
    for (int step = 0; step < 2; step++) {
      struct ab_identity id = {.step = step, .layer = layer};
      rig.t.source(&rig.t, &id);
      ck_assert_int_eq(id.layer, layer < 0 || step ? layer : other[layer]);
    }
  rig.data.facts = &three;
  struct ab_identity id = {.layer = 2};
  rig.t.source(&rig.t, &id);
  ck_assert_int_eq(id.layer, 2);
  ab_recording_free(rig.recording);
}
END_TEST

START_TEST(a_step_stands_under_the_next_one) {
  struct rig rig;
  rig_new(&rig, &facts);
  add(&rig, 0, "loss", 7, false);
  ck_ok(ab_damage_shifted(&rig.t));
  ck_assert_double_eq(edited(&rig, 1, "loss", 6), 7);
  ck_assert_double_eq(edited(&rig, 0, "loss", 5), 5);
  ck_assert_double_eq(edited(&rig, 1, "lr", 6), 6);
  ck_ok(ab_damage_nothing(&rig.t));
  ck_assert_str_eq(rig.t.on, "steps 0 to 1 as they are");
  rig.data.next = -1;
  ck_ok(ab_damage_nothing(&rig.t));
  ck_assert_str_eq(rig.t.on, "steps 0 to 0 as they are");
  ab_recording_free(rig.recording);
}
END_TEST

START_TEST(two_microbatches_are_enough) {
  static const ab_damage_fn damages[] = {ab_damage_not_run, ab_damage_run_twice};
  for (int i = 0; i < 2; i++) {
    struct rig rig;
    rig_new(&rig, &three);
    ck_ok(damages[i](&rig.t));
    ck_assert(!rig.t.na && rig.t.unseen);
    rig.data.facts = &one;
    ck_ok(damages[i](&rig.t));
    ck_assert(rig.t.na);
    ab_recording_free(rig.recording);
  }
}
END_TEST

/* Metrics in their order, and the one that is damaged; NULL: none can be. */
static const struct {
  struct {
    int step;
    const char *name;
    double value;
  } metric[4];
  const char *name;
} choices[] = {{{{1, "x", 5}, {0, "grad_norm", 3}, {0, "loss", 2}}, "loss"},
               {{{1, "x", 5}, {0, "zero", 0}, {0, "loss", 0}, {0, "grad_norm", 3}}, "grad_norm"},
               {{{0, "a", 4}, {0, "loss", 0}, {0, "b", 3}}, "a"},
               {{{1, "x", 5}, {0, "zero", 0}, {0, "loss", 0}}, NULL}};

START_TEST(a_metric_that_is_not_0_is_damaged) {
  struct rig rig;
  rig_new(&rig, &facts);
  for (int i = 0; i < 4 && choices[_i].metric[i].name; i++)
    add(&rig, choices[_i].metric[i].step, choices[_i].metric[i].name, choices[_i].metric[i].value, false);
  ck_ok(ab_damage_scaled_loss(&rig.t));
  ck_assert_int_eq(rig.t.na, !choices[_i].name);
  if (choices[_i].name) {
    ck_assert_str_eq(rig.t.name, choices[_i].name);
    ck_assert_double_eq(edited(&rig, 0, choices[_i].name, 9), rig.t.amount);
    ck_assert_double_eq(edited(&rig, 1, choices[_i].name, 9), 9);
    ck_assert_double_eq(edited(&rig, 0, "other", 9), 9);
  }
  ab_recording_free(rig.recording);
}
END_TEST

START_TEST(a_loss_is_scaled_by_the_microbatches) {
  struct rig rig;
  rig_new(&rig, &facts);
  add(&rig, 0, "loss", 6, false);
  ck_ok(ab_damage_scaled_loss(&rig.t));
  ck_assert_double_eq(rig.t.amount, 1.5);
  rig.data.facts = &one;
  ck_ok(ab_damage_scaled_loss(&rig.t));
  ck_assert_double_eq(rig.t.amount, 12);
  ck_ok(ab_damage_metric_nan(&rig.t));
  ck_assert(isnan(rig.t.amount) && !rig.t.both_sides);
  ck_ok(ab_damage_metric_nan_both(&rig.t));
  ck_assert(isnan(rig.t.amount) && rig.t.both_sides);
  ab_recording_free(rig.recording);
}
END_TEST

static double apart(double value, double reference) { return fabs(value - reference) / fabs(reference); }

static void check_bound(double value, double limit, bool f32) {
  struct rig rig;
  rig_new(&rig, &facts);
  rig.given = limit;
  add(&rig, 0, "loss", value, f32);
  ck_ok(ab_damage_metric_at(&rig.t));
  double at = rig.t.amount;
  ck_ok(ab_damage_metric_above(&rig.t));
  ck_assert_msg(apart(at, value) <= limit && apart(rig.t.amount, value) > limit, "%g: %.17g to %.17g is no bound %g",
                value, at, rig.t.amount, limit);
  ck_assert_double_eq(rig.t.amount, f32 ? (double)nextafterf((float)at, INFINITY) : nextafter(at, INFINITY));
  ck_assert_int_eq(f32 && (double)(float)at != at, 0);
  ab_recording_free(rig.recording);
}

START_TEST(a_bound_lies_between_neighbours) {
  static const double limits[] = {1e-3, 3e-5, 1e-6, 0x1p-12};
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < 40; i++)
      for (int f32 = 0; f32 < 2; f32++) {
        float value = (i % 2 ? -1.f : 1.f) * (1 + 0.137f * (float)i) * (i % 3 ? i % 3 == 1 ? 1e-4f : 1e4f : 1);
        check_bound((double)value, limits[k], f32);
      }
}
END_TEST

START_TEST(a_bound_below_a_step_of_float32_leaves_the_metric) {
  struct rig rig;
  rig_new(&rig, &facts);
  rig.given = 1e-9;
  add(&rig, 0, "loss", 6, true);
  ck_ok(ab_damage_metric_at(&rig.t));
  ck_assert(!rig.t.na && !rig.t.metric);
  rig.c.pair = AB_PAIR_SAME;
  ck_ok(ab_damage_metric_at(&rig.t));
  ck_assert_str_eq(rig.t.why, "metrics are compared bit for bit");
  ab_recording_free(rig.recording);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("controls_damage");
  TCase *tcase = tcase_create("controls_damage");
  tcase_add_test(tcase, stages_0_and_1_change_places_in_one_step);
  tcase_add_test(tcase, a_step_stands_under_the_next_one);
  tcase_add_test(tcase, two_microbatches_are_enough);
  tcase_add_loop_test(tcase, a_metric_that_is_not_0_is_damaged, 0, (int)(sizeof choices / sizeof *choices));
  tcase_add_test(tcase, a_loss_is_scaled_by_the_microbatches);
  tcase_add_test(tcase, a_bound_lies_between_neighbours);
  tcase_add_test(tcase, a_bound_below_a_step_of_float32_leaves_the_metric);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
