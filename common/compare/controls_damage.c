#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controls_parts.h"

/* Edits. */

static bool is_leaf(const struct ab_trial *t, const struct ab_observation *o) {
  return ab_identity_equal(&o->id, &t->data->leaf.observation.id);
}

static bool drop_leaf(const struct ab_trial *t, struct ab_observation *o) { return !is_leaf(t, o); }

static bool rename_leaf(const struct ab_trial *t, struct ab_observation *o) {
  char name[AB_NAME_MAX];
  if (!is_leaf(t, o)) return true;
  memcpy(name, o->id.tensor, sizeof name);
  snprintf(o->id.tensor, sizeof o->id.tensor, "renamed/%.*s", (int)sizeof name - 9, name);
  return true;
}

static bool drop_microbatch(const struct ab_trial *t, struct ab_observation *o) {
  return o->id.step != t->data->step || o->id.microbatch != t->data->facts->microbatches - 1;
}

/* Sources: whose content is found under an identity. */

static void first_microbatch(const struct ab_trial *t, struct ab_identity *id) {
  if (id->step == t->data->step && id->microbatch == t->data->facts->microbatches - 1) id->microbatch = 0;
}

static void other_stage(const struct ab_trial *t, struct ab_identity *id) {
  const struct ab_control_facts *f = t->data->facts;
  if (id->layer < 0 || id->layer >= f->pipeline_layers || id->step != t->data->step) return;
  int stage = id->layer / f->layers_per_stage % f->stages;
  if (stage == 0) id->layer += f->layers_per_stage;
  if (stage == 1) id->layer -= f->layers_per_stage;
}

static void step_before(const struct ab_trial *t, struct ab_identity *id) {
  if (id->step == t->data->next) id->step = t->data->step;
}

static void shift_metric(const struct ab_trial *t, struct ab_metric *m) {
  const struct ab_recorded_metric *before = ab_recording_metric(t->data->a, t->data->step, m->name);
  if (m->step == t->data->next && before) m->value = before->metric.value;
}

static void put_metric(const struct ab_trial *t, struct ab_metric *m) {
  if (m->step == t->data->step && strcmp(m->name, t->name) == 0) m->value = t->amount;
}

/* Damages. */

ab_status ab_damage_nothing(struct ab_trial *t) {
  snprintf(t->on, sizeof t->on, "steps %d to %d as they are", t->data->step,
           t->data->next < 0 ? t->data->step : t->data->next);
  return AB_OK;
}

static ab_status by_leaf(struct ab_trial *t, bool (*edit)(const struct ab_trial *, struct ab_observation *)) {
  if (!t->data->leaf.values) {
    ab_trial_na(t, "no weight gradient with values");
    return AB_OK;
  }
  ab_identity_print(t->on, &t->data->leaf.observation.id);
  t->observation = edit;
  return AB_OK;
}

ab_status ab_damage_missing(struct ab_trial *t) { return by_leaf(t, drop_leaf); }

ab_status ab_damage_missing_both(struct ab_trial *t) {
  t->both_sides = true;
  return by_leaf(t, drop_leaf);
}

ab_status ab_damage_renamed(struct ab_trial *t) { return by_leaf(t, rename_leaf); }

static ab_status by_microbatch(struct ab_trial *t) {
  int last = t->data->facts->microbatches - 1;
  if (last < 1) {
    ab_trial_na(t, "one microbatch");
    return AB_OK;
  }
  snprintf(t->on, sizeof t->on, "step %d microbatch %d, all of its layers", t->data->step, last);
  t->unseen = true;
  snprintf(t->why, sizeof t->why, "no tensors of single microbatches that differ");
  return AB_OK;
}

ab_status ab_damage_not_run(struct ab_trial *t) {
  t->observation = drop_microbatch;
  return by_microbatch(t);
}

ab_status ab_damage_run_twice(struct ab_trial *t) {
  t->source = first_microbatch;
  return by_microbatch(t);
}

ab_status ab_damage_swapped_stages(struct ab_trial *t) {
  if (t->data->facts->stages < 2) {
    ab_trial_na(t, "one stage");
    return AB_OK;
  }
  snprintf(t->on, sizeof t->on, "step %d, layers of stages 0 and 1", t->data->step);
  t->source = other_stage;
  t->unseen = true;
  snprintf(t->why, sizeof t->why, "both stages hold the same values");
  return AB_OK;
}

ab_status ab_damage_shifted(struct ab_trial *t) {
  if (t->data->next < 0) {
    ab_trial_na(t, "one step");
    return AB_OK;
  }
  snprintf(t->on, sizeof t->on, "step %d under step %d", t->data->step, t->data->next);
  t->source = step_before;
  t->metric = shift_metric;
  t->unseen = true;
  snprintf(t->why, sizeof t->why, "both steps hold the same values");
  return AB_OK;
}

/* The loss, else the first metric of the step that is not 0. */
static const struct ab_metric *some_metric(const struct ab_control_data *d) {
  const struct ab_recorded_metric *loss = ab_recording_metric(d->b, d->step, "loss");
  if (loss && loss->metric.value != 0) return &loss->metric;
  for (size_t i = 0; i < d->b->metrics; i++)
    if (d->b->metric[i].metric.step == d->step && d->b->metric[i].metric.value != 0) return &d->b->metric[i].metric;
  return NULL;
}

static const struct ab_metric *by_metric(struct ab_trial *t) {
  const struct ab_metric *metric = some_metric(t->data);
  if (!metric) {
    ab_trial_na(t, "no metric other than 0");
    return NULL;
  }
  snprintf(t->on, sizeof t->on, "step %d metric %s", metric->step, metric->name);
  t->name = metric->name;
  t->metric = put_metric;
  return metric;
}

ab_status ab_damage_scaled_loss(struct ab_trial *t) {
  const struct ab_metric *metric = by_metric(t);
  int m = t->data->facts->microbatches;
  if (metric) t->amount = m > 1 ? metric->value / m : 2 * metric->value;
  return AB_OK;
}

ab_status ab_damage_metric_nan(struct ab_trial *t) {
  if (by_metric(t)) t->amount = NAN;
  return AB_OK;
}

ab_status ab_damage_metric_nan_both(struct ab_trial *t) {
  t->both_sides = true;
  return ab_damage_metric_nan(t);
}

/* The value furthest from the reference that the bound lets pass, or the next one. */
static double at_bound(double b, double limit, bool f32, bool above) {
  double size = fabs(b), at = b + size * limit;
  if (f32) at = (double)(float)at;
  for (int i = 0; i < 64 && !(fabs(at - b) / size <= limit); i++)
    at = f32 ? (double)nextafterf((float)at, -INFINITY) : nextafter(at, -INFINITY);
  for (int i = 0; i < 64; i++) {
    double next = f32 ? (double)nextafterf((float)at, INFINITY) : nextafter(at, INFINITY);
    if (!(fabs(next - b) / size <= limit)) return above ? next : at;
    at = next;
  }
  return at;
}

static ab_status metric_bound(struct ab_trial *t, bool above) {
  const struct ab_metric *b = by_metric(t);
  if (!b) return AB_OK;
  const struct ab_recorded_metric *a = ab_recording_metric(t->data->a, b->step, b->name);
  struct ab_identity id = {.step = b->step, .accumulation = -1, .microbatch = -1, .layer = -1, .phase = AB_UPDATE};
  memcpy(id.tensor, b->name, sizeof id.tensor);
  struct ab_bound bound = ab_trial_bound(t, &id);
  if (bound.tier == AB_TIER_BITWISE || !a) ab_trial_na(t, "metrics are compared bit for bit");
  else t->amount = at_bound(b->value, bound.limit, a->metric.f32 && b->f32, above);
  if (t->amount == b->value) t->metric = NULL; /* no other float32 is within the bound */
  return AB_OK;
}

ab_status ab_damage_metric_at(struct ab_trial *t) { return metric_bound(t, false); }
ab_status ab_damage_metric_above(struct ab_trial *t) { return metric_bound(t, true); }
