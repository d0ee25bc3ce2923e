#include "controls.h"

#include <stdint.h>
#include <stdio.h>

#include "controls_parts.h"
#include "mem.h"

/* Which comparisons a control runs on: of pair SAME; SAME and F64; any; any but SAME; with what was recorded earlier,
 * MaxText's numbers or a golden; with a golden whose bits must be reproduced. */
enum tier { BITWISE, WHOLE, ANY, BOUNDED, RECORD, EXACT_RECORD };

static const struct row {
  const char *name;
  enum tier tier;
  ab_damage_fn damage;
  enum ab_exit expected;
  const char *meaning; /* what a verdict that misses it would let through */
} rows[] = {
    {"undamaged copy", WHOLE, ab_damage_nothing, AB_EXIT_EQUAL, "equal runs called different"},
    {"one ulp", BITWISE, ab_damage_one_ulp, AB_EXIT_DIFFERENT, "one bit of one element"},
    {"dropped microbatch", WHOLE, ab_damage_dropped_rows, AB_EXIT_DIFFERENT,
     "the contribution of a microbatch is missing from a gradient"},
    {"doubled microbatch", WHOLE, ab_damage_doubled_rows, AB_EXIT_DIFFERENT,
     "the contribution of a microbatch counts twice"},
    {"microbatch not run", WHOLE, ab_damage_not_run, AB_EXIT_INCOMPARABLE, "no layer saw a microbatch"},
    {"microbatch run twice", WHOLE, ab_damage_run_twice, AB_EXIT_DIFFERENT, "one microbatch ran in another's place"},
    {"swapped stages", WHOLE, ab_damage_swapped_stages, AB_EXIT_DIFFERENT, "two stages in each other's place"},
    {"shifted step", WHOLE, ab_damage_shifted, AB_EXIT_DIFFERENT, "the numbers of a step under the next one"},
    {"scaled loss", ANY, ab_damage_scaled_loss, AB_EXIT_DIFFERENT, "a loss with another denominator"},
    {"scaled gradient", ANY, ab_damage_scaled_gradient, AB_EXIT_DIFFERENT, "a gradient with another denominator"},
    {"NaN in a tensor", ANY, ab_damage_nan, AB_EXIT_DIFFERENT, "a value that is no number"},
    {"the same NaN in both tensors", ANY, ab_damage_nan_both, AB_EXIT_DIFFERENT, "NaN taken as equal to itself"},
    {"NaN in a metric", ANY, ab_damage_metric_nan, AB_EXIT_DIFFERENT, "a metric that is no number"},
    {"the same NaN in both metrics", ANY, ab_damage_metric_nan_both, AB_EXIT_DIFFERENT,
     "NaN taken as equal to itself"},
    {"missing leaf", ANY, ab_damage_missing, AB_EXIT_INCOMPARABLE, "a tensor that one side lacks"},
    {"leaf missing on both sides", ANY, ab_damage_missing_both, AB_EXIT_INCOMPARABLE,
     "a tensor that nobody compared"},
    {"renamed leaf", WHOLE, ab_damage_renamed, AB_EXIT_INCOMPARABLE, "a tensor under another name"},
    {"transposed leaf", WHOLE, ab_damage_transposed, AB_EXIT_INCOMPARABLE, "a tensor with its axes exchanged"},
    {"scaled gradient under a bound", BOUNDED, ab_damage_scaled_gradient, AB_EXIT_DIFFERENT,
     "a bound that a gradient with another denominator fits into"},
    {"metric at its bound", BOUNDED, ab_damage_metric_at, AB_EXIT_EQUAL, "a bound that is tighter than it says"},
    {"metric above its bound", BOUNDED, ab_damage_metric_above, AB_EXIT_DIFFERENT,
     "a bound that is wider than it says"},
    {"tensor at its bound", BOUNDED, ab_damage_tensor_at, AB_EXIT_EQUAL, "a bound that is tighter than it says"},
    {"tensor above its bound", BOUNDED, ab_damage_tensor_above, AB_EXIT_DIFFERENT,
     "a bound that is wider than it says"},
    {"scaled loss against a record", RECORD, ab_damage_scaled_loss, AB_EXIT_DIFFERENT,
     "a golden that any loss agrees with"},
    {"scaled gradient against a record", RECORD, ab_damage_scaled_gradient, AB_EXIT_DIFFERENT,
     "a golden that any gradient agrees with"},
    {"missing leaf against a record", RECORD, ab_damage_missing, AB_EXIT_INCOMPARABLE,
     "a golden of which only a part is looked at"},
    {"one ulp against a golden", EXACT_RECORD, ab_damage_one_ulp, AB_EXIT_DIFFERENT,
     "an exact golden that is not exact"},
};
_Static_assert(sizeof rows / sizeof *rows == AB_CONTROLS, "AB_CONTROLS counts the rows");

const char *ab_control_name(size_t row) { return rows[row].name; }
const char *ab_control_meaning(size_t row) { return rows[row].meaning; }

const char *ab_control_outcome_name(enum ab_control_outcome outcome) {
  static const char *const names[] = {[AB_CONTROL_NOT_RUN] = "not run",
                                      [AB_CONTROL_CAUGHT] = "caught",
                                      [AB_CONTROL_MISSED] = "missed",
                                      [AB_CONTROL_NA] = "n/a"};
  return names[outcome];
}

void ab_trial_na(struct ab_trial *t, const char *why) {
  t->na = true;
  snprintf(t->why, sizeof t->why, "%s", why);
}

/* The observation whose content the copy of `was` gets. */
static const struct ab_observation *source_of(const struct ab_trial *t, const struct ab_observation *was) {
  struct ab_identity id = was->id;
  if (!t->source) return was;
  t->source(t, &id);
  const struct ab_recorded *source = ab_recording_find(t->data->a, &id);
  return source ? &source->observation : was;
}

/* Values that moved, in a buffer of their own: a reader of equal sides may have one for both. */
static ab_status moved_values(struct ab_trial *t, const struct ab_observation *from, struct ab_view *out) {
  const struct ab_comparison *c = t->data->c;
  struct ab_view view;
  if (!c->values) return AB_FAIL(AB_ENOTFOUND, "no values were kept");
  AB_TRY(c->values(c->values_ctx, 0, from, &view));
  AB_TRY(ab_mem_resize(&t->moved, ab_view_count(&view) + 1, ab_dtype_size(view.dtype)));
  ab_view_pack(t->moved, &view);
  *out = (struct ab_view){.dtype = view.dtype, .shape = view.shape, .data = t->moved};
  ab_view_contiguous(out);
  return AB_OK;
}

/* What the trial's verdict asks for. */
static ab_status trial_values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  struct ab_trial *t = ctx;
  const struct ab_comparison *c = t->data->c;
  if (side == 0 && t->source) return moved_values(t, source_of(t, observation), out);
  bool damaged = t->values && (side == 0 || t->both_sides) && ab_identity_equal(&observation->id, &t->with.id);
  if (!damaged && !c->values) return AB_FAIL(AB_ENOTFOUND, "no values were kept");
  if (!damaged) return c->values(c->values_ctx, side, observation, out);
  *out = (struct ab_view){.dtype = t->with.dtype, .shape = t->with.shape, .data = t->values};
  ab_view_contiguous(out);
  return AB_OK;
}

static void trial_bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  const struct ab_trial *t = ctx;
  const struct ab_comparison *c = t->data->c;
  if (c->bounds) c->bounds(c->bounds_ctx, id, given, own);
  if (t->given >= 0 && ab_identity_equal(id, &t->with.id)) *given = t->given;
}

struct ab_bound ab_trial_bound(const struct ab_trial *t, const struct ab_identity *id) {
  double given = -1, own = -1;
  struct ab_trial *ctx = (struct ab_trial *)(uintptr_t)t;
  bool metric = ab_recording_metric(t->data->b, id->step, id->tensor) != NULL;
  trial_bounds(ctx, id, &given, &own);
  return ab_comparison_bound(t->data->c, id, metric ? AB_Q_METRIC : ab_quantity_of(id), given, own);
}

/* What a damage did to a copy; hidden: only to quantities that float64 routes do not owe each other. */
struct effect {
  bool changed, hidden;
};

static bool same(const struct ab_observation *a, const struct ab_observation *b) {
  return ab_identity_equal(&a->id, &b->id) && ab_summary_same(&a->summary, &b->summary) &&
         ab_shape_equal(&a->shape, &b->shape);
}

static void note(struct effect *effect, const struct ab_comparison *c, const struct ab_observation *was) {
  if (c->pair == AB_PAIR_F64 && !ab_takes_part(c, ab_quantity_of(&was->id))) effect->hidden = true;
  else effect->changed = true;
}

static ab_status copy_tensors(struct ab_recording *out, struct effect *effect, const struct ab_trial *t,
                              const struct ab_recording *from) {
  for (size_t i = 0; i < from->observations; i++) {
    const struct ab_observation *was = &from->observation[i].observation;
    struct ab_observation o = *source_of(t, was);
    o.id = was->id;
    bool kept = !t->observation || t->observation(t, &o);
    bool changed = !kept || !same(&o, was);
    if (!changed) AB_TRY(ab_control_copy(out, &o, from));
    else if (kept) AB_TRY(ab_recording_observe(out, &o));
    if (changed) note(effect, t->data->c, was);
  }
  return AB_OK;
}

static ab_status copy(struct ab_recording **out, struct effect *effect, const struct ab_trial *t,
                      const struct ab_recording *from) {
  AB_TRY(ab_recording_new(out, from->name));
  AB_TRY(copy_tensors(*out, effect, t, from));
  for (size_t i = 0; i < from->metrics; i++) {
    struct ab_metric m = from->metric[i].metric;
    if (t->metric) t->metric(t, &m);
    AB_TRY(ab_recording_add_metric(*out, &m));
    effect->changed |= m.value != from->metric[i].metric.value;
  }
  ab_recording_complete(*out);
  return AB_OK;
}

/* Everything that the undamaged reference holds must be compared. */
static struct ab_expected pinned(const struct ab_control_data *d) {
  struct ab_expected e = {.steps = d->next < 0 ? 1 : 2};
  for (size_t i = 0; i < d->b->observations; i++) {
    const struct ab_observation *o = &d->b->observation[i].observation;
    enum ab_quantity quantity = ab_quantity_of(&o->id);
    e.tensors[quantity]++;
    e.elements[quantity] += (size_t)o->summary.count;
  }
  e.tensors[AB_Q_METRIC] += d->b->metrics;
  if (!ab_takes_part(d->c, AB_Q_METRIC) || !d->b->metrics) e.steps = AB_UNCOUNTED;
  return e;
}

static ab_status judge(struct ab_control_result *out, struct ab_trial *t, const struct ab_recording *a,
                       const struct ab_recording *b, ab_verdict_fn verdict) {
  struct ab_comparison c = *t->data->c;
  struct ab_verdict v = {0};
  c.a = a;
  c.b = b;
  c.expected = pinned(t->data);
  c.values = trial_values;
  c.values_ctx = t;
  c.bounds = trial_bounds;
  c.bounds_ctx = t;
  AB_TRY(verdict(&v, &c));
  out->got = v.exit;
  out->outcome = v.exit == out->expected ? AB_CONTROL_CAUGHT : AB_CONTROL_MISSED;
  ab_verdict_free(&v);
  return AB_OK;
}

/* A damage that changes no digest is not applicable where that may be, and missed where values were changed. */
static void unchanged(struct ab_control_result *out, const struct ab_trial *t, bool hidden) {
  out->outcome = t->unseen || hidden ? AB_CONTROL_NA : AB_CONTROL_MISSED;
  snprintf(out->why, sizeof out->why, "%s", hidden      ? "not compared between float64 routes"
                                            : t->unseen ? t->why
                                                        : "the digest of other values is the same");
}

static ab_status judge_copies(struct ab_control_result *out, struct ab_trial *t, ab_verdict_fn verdict) {
  struct ab_recording *a = NULL, *b = NULL;
  struct effect effect = {0};
  ab_status status = copy(&a, &effect, t, t->data->a);
  if (status == AB_OK && t->both_sides) status = copy(&b, &effect, t, t->data->b);
  bool damages = t->observation || t->metric || t->source;
  if (status == AB_OK && damages && !effect.changed) unchanged(out, t, effect.hidden);
  else if (status == AB_OK) status = judge(out, t, a, b ? b : t->data->b, verdict);
  ab_recording_free(a);
  ab_recording_free(b);
  return status;
}

static ab_status try_one(struct ab_control_result *out, const struct row *row, const struct ab_control_data *data,
                         ab_verdict_fn verdict) {
  struct ab_trial t = {.data = data, .given = -1, .expected = row->expected};
  ab_status status = row->damage(&t);
  *out = (struct ab_control_result){.expected = t.expected};
  snprintf(out->on, sizeof out->on, "%s", t.on);
  if (status == AB_OK && (t.na || (t.why[0] && !t.unseen))) {
    out->outcome = t.na ? AB_CONTROL_NA : AB_CONTROL_MISSED;
    snprintf(out->why, sizeof out->why, "%s", t.why);
  } else if (status == AB_OK) {
    status = judge_copies(out, &t, verdict);
  }
  ab_mem_free(t.values);
  ab_mem_free(t.moved);
  return status;
}

/* Of two sides only a golden is a selection of the other's arithmetic. */
static bool is_record(const struct ab_comparison *c) {
  return c->pair == AB_PAIR_RECORDED || (c->pair == AB_PAIR_SAME && c->partial);
}

static bool serves(const struct row *row, const struct ab_comparison *c) {
  enum ab_pair pair = c->pair;
  bool whole = pair == AB_PAIR_RECORDED && !c->partial; /* a command hands over what it has, with values */
  if (whole) return row->tier == RECORD || row->tier == ANY || row->tier == BOUNDED;
  if (is_record(c)) return row->tier == RECORD || (row->tier == EXACT_RECORD && pair == AB_PAIR_SAME);
  switch (row->tier) {
    case BITWISE: return pair == AB_PAIR_SAME;
    case WHOLE: return pair == AB_PAIR_SAME || pair == AB_PAIR_F64;
    case ANY: return true;
    case BOUNDED: return pair != AB_PAIR_SAME;
    default: return false;
  }
}

static bool due(const struct ab_controls *controls, size_t i, const struct ab_comparison *c) {
  return serves(&rows[i], c) && controls->row[i].outcome == AB_CONTROL_NOT_RUN;
}

static bool any_due(const struct ab_controls *controls, const struct ab_comparison *c) {
  for (size_t i = 0; i < AB_CONTROLS; i++)
    if (due(controls, i, c)) return true;
  return false;
}

ab_status ab_controls_run(struct ab_controls *controls, const struct ab_comparison *comparison,
                          const struct ab_control_facts *facts, ab_verdict_fn verdict) {
  struct ab_control_data data;
  ab_status status = AB_OK;
  if (!any_due(controls, comparison)) return AB_OK;
  bool narrow = comparison->pair == AB_PAIR_MIXED || is_record(comparison);
  AB_TRY(ab_control_data_new(&data, comparison, facts, narrow));
  for (size_t i = 0; i < AB_CONTROLS && status == AB_OK; i++)
    if (due(controls, i, comparison)) status = try_one(&controls->row[i], &rows[i], &data, verdict);
  ab_control_data_free(&data);
  return status;
}

void ab_controls_close(struct ab_controls *controls) {
  static const char *const lacking[] = {[BITWISE] = "no bitwise comparison", [WHOLE] = "no bitwise comparison",
                                        [ANY] = "no comparison", [BOUNDED] = "no bounded comparison",
                                        [RECORD] = "no golden or bundle", [EXACT_RECORD] = "no exact golden"};
  for (size_t i = 0; i < AB_CONTROLS; i++) {
    struct ab_control_result *r = &controls->row[i];
    if (r->outcome != AB_CONTROL_NOT_RUN) continue;
    r->outcome = AB_CONTROL_NA;
    r->expected = rows[i].expected;
    snprintf(r->why, sizeof r->why, "%s", lacking[rows[i].tier]);
  }
}

size_t ab_controls_count(const struct ab_controls *controls, enum ab_control_outcome outcome) {
  size_t count = 0;
  for (size_t i = 0; i < AB_CONTROLS; i++) count += controls->row[i].outcome == outcome;
  return count;
}

bool ab_controls_missed(char *text, size_t size, const struct ab_controls *controls) {
  for (size_t i = 0; i < AB_CONTROLS; i++) {
    const struct ab_control_result *r = &controls->row[i];
    if (r->outcome != AB_CONTROL_MISSED) continue;
    if (r->why[0])
      snprintf(text, size, "control '%s' was not caught: %s (%s)", rows[i].name, r->why, r->on);
    else
      snprintf(text, size, "control '%s' was not caught: exit %d, expected %d, with %s: this comparison cannot be "
               "trusted", rows[i].name, (int)r->got, (int)r->expected, r->on);
    return true;
  }
  return false;
}
