/* Which side is wrong, asked of float64: by distance, and where that does not tell, by the slope of the loss. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judgement.h"
#include "norm.h"
#include "shake.h"

enum { SLOPE_SEED = 1 };

double ab_tensor_error(const struct ab_side_result *side, const struct ab_side_result *truth,
                       const struct ab_identity *id) {
  struct ab_view a, b;
  struct ab_difference difference;
  ab_status status = ab_kept_read(side->values, id, &a);
  if (status == AB_OK) status = ab_kept_read(truth->values, id, &b);
  if (status == AB_OK) status = ab_difference(&difference, &a, &b);
  if (status == AB_OK) return ab_distance_of(&difference, truth->recording, id);
  ab_status_clear();
  return (double)NAN;
}

double ab_metric_error(const struct ab_side_result *side, const struct ab_metric *truth) {
  const struct ab_recorded_metric *m = ab_recording_metric(side->recording, truth->step, truth->name);
  if (!m) return (double)NAN;
  bool equal = m->metric.value == truth->value; /* infinities too */
  return ab_relative(equal ? 0 : fabs(m->metric.value - truth->value), fabs(truth->value));
}

/* The first step at which A and B differ, both having begun it with the same parameters; -1 if there is none. */
static int shared_step(const struct ab_verdict *ab) {
  bool inputs = ab->failing_of[AB_Q_INPUT] || ab->changed;
  return inputs || ab->first_bad_step == AB_UNCOUNTED ? -1 : (int)ab->first_bad_step;
}

static bool has_truth(const struct ab_judgement *j) {
  return j->a->arithmetic == AB_ARITHMETIC_F32 && j->b->arithmetic == AB_ARITHMETIC_F32 && j->own.oracle &&
         j->own.truth;
}

static void measure(struct ab_judgement *j, int step) {
  const struct ab_recording *truth = j->own.truth->recording;
  const struct ab_side_result *a = &j->side[AB_SIDE_A], *b = &j->side[AB_SIDE_B];
  for (size_t i = 0; i < truth->observations; i++) {
    const struct ab_identity *id = &truth->observation[i].observation.id;
    if (id->step != step || ab_quantity_of(id) != AB_Q_WEIGHT_GRADIENT) continue;
    ab_distance_add(&j->distance, id, false, ab_tensor_error(a, j->own.truth, id), ab_tensor_error(b, j->own.truth, id),
                    ab_tensor_error(j->own.oracle, j->own.truth, id));
  }
  const struct ab_recorded_metric *loss = ab_recording_metric(truth, step, "loss");
  if (!loss || loss->metric.value == 0) return;
  struct ab_identity id = {.step = step, .microbatch = -1, .layer = -1, .tensor = "loss"};
  ab_distance_add(&j->distance, &id, true, ab_metric_error(a, &loss->metric), ab_metric_error(b, &loss->metric),
                  ab_metric_error(j->own.oracle, &loss->metric));
}

static void tell(struct ab_judgement *j, enum ab_fact fact, const char *side, double times) {
  char shown[24], reason[AB_REASON];
  ab_distance_print(shown, times);
  if (isfinite(times))
    snprintf(reason, sizeof reason, "%.80s is %s x as far from float64 as the float32 oracle", side, shown);
  else
    snprintf(reason, sizeof reason, "%.80s is infinitely far from float64", side);
  ab_fact_set(j->facts, fact, times <= AB_DISTANCE_NEAR, reason);
}

/* Names of the sides as the reports have them. */
static const char *name_of(const struct ab_judgement *j, enum ab_side_place place) {
  return j->side[place].recording->name;
}

static void judge_distance(struct ab_judgement *j) {
  int step = shared_step(&j->verdict[0]);
  if (!ab_verdict_parts(&j->verdict[0]) || step < 0 || !has_truth(j)) return;
  measure(j, step);
  if (!j->distance.known) return;
  tell(j, AB_FACT_A_TRUTH, name_of(j, AB_SIDE_A), j->distance.a);
  tell(j, AB_FACT_B_TRUTH, name_of(j, AB_SIDE_B), j->distance.b);
}

/* |w| of what A began with, and how many elements it has. */
static double length_of_weights(const struct ab_recording *a, double *count) {
  double squares = 0;
  *count = 0;
  for (size_t i = 0; i < a->observations; i++) {
    const struct ab_observation *o = &a->observation[i].observation;
    if (ab_quantity_of(&o->id) != AB_Q_INPUT || o->dtype != AB_F32) continue;
    if (strncmp(o->id.tensor, "input/params/", strlen("input/params/")) != 0) continue;
    squares += o->summary.l2 * o->summary.l2;
    *count += (double)o->summary.count;
  }
  return sqrt(squares);
}

/* <gradient, d> of one side at `step`, and |gradient|; false when a value is not there. */
static bool along(double *slope, double *length, const struct ab_side_result *side, int step, double count) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < side->recording->observations; i++) {
    const struct ab_identity *id = &side->recording->observation[i].observation.id;
    struct ab_view view;
    if (id->step != step || ab_quantity_of(id) != AB_Q_WEIGHT_GRADIENT) continue;
    if (ab_kept_read(side->values, id, &view) != AB_OK || view.dtype != AB_F32) return ab_status_clear(), false;
    const float *g = view.data;
    size_t elements = ab_view_count(&view);
    for (size_t e = 0; e < elements; e++) {
      sum += (double)g[e] * ab_shake_sign(SLOPE_SEED, id->layer, id->tensor, e);
      squares += (double)g[e] * (double)g[e];
    }
  }
  *slope = isnan(sum) ? NAN : sum / sqrt(count); /* without the sign that invalid operations give */
  *length = sqrt(squares);
  return true;
}

static void take_slope(struct ab_judgement *j, int step, double h, double count) {
  const struct ab_recorded_metric *loss[2];
  double length[2];
  for (int i = 0; i < 2; i++) {
    const struct ab_side_result *moved = &j->side[AB_SIDE_SLOPE_UP + i];
    loss[i] = moved->values ? ab_recording_metric(moved->recording, step, "loss") : NULL;
    if (!loss[i] || !along(&j->slope.by[i], &length[i], &j->side[AB_SIDE_A + i], step, count)) return;
  }
  j->slope.truth = (loss[0]->metric.value - loss[1]->metric.value) / (2 * h);
  j->slope.scale = fmin(length[0], length[1]) / sqrt(count);
  if (!(j->slope.scale > 0)) j->slope.scale = fmax(length[0], length[1]) / sqrt(count);
  j->slope.step = step;
  j->slope.known = true;
}

static void tell_slope(struct ab_judgement *j, enum ab_fact fact, int side) {
  char reason[AB_REASON];
  double error = ab_slope_error(&j->slope, side);
  snprintf(reason, sizeof reason, "%.80s has slope %.9g along a direction where the float64 loss has %.9g, off by %.1e "
           "of a gradient's size", name_of(j, side ? AB_SIDE_B : AB_SIDE_A), j->slope.by[side], j->slope.truth, error);
  ab_fact_set(j->facts, fact, error <= AB_SLOPE_TOLERANCE, reason);
}

/* Two float64 runs with the weights of one step moved to both sides. */
static ab_status judge_slope(struct ab_judgement *j, int step) {
  double count, length = length_of_weights(j->side[AB_SIDE_A].recording, &count);
  struct ab_shake shake = {.seed = SLOPE_SEED, .at = step, .slope = cbrt(DBL_EPSILON) * length};
  char text[2][AB_SHAKE_TEXT];
  double h = shake.slope;
  if (!(h > 0) || !ab_recording_metric(j->own.truth->recording, step, "loss")) return AB_OK;
  ab_shake_print(text[0], &shake);
  shake.slope = -h;
  ab_shake_print(text[1], &shake);
  AB_TRY(ab_judgement_run_slope(j, text[0], text[1]));
  take_slope(j, step, h, count);
  if (!j->slope.known) return AB_OK;
  tell_slope(j, AB_FACT_A_SLOPE, 0);
  tell_slope(j, AB_FACT_B_SLOPE, 1);
  return AB_OK;
}

ab_status ab_judge_nearer(struct ab_judgement *j) {
  judge_distance(j);
  bool open = ab_verdict_parts(&j->verdict[0]) && ab_cause_of(j->facts) == AB_CAUSE_UNDECIDED;
  int step = j->verdict[0].failing ? shared_step(&j->verdict[0]) : 0;
  if (!has_truth(j) || step < 0 || (!open && !j->request.check_slope)) return AB_OK;
  return judge_slope(j, step);
}
