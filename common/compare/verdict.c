#include "verdict.h"

#include <math.h>
#include <string.h>

#include "judge.h"
#include "mem.h"

struct step_row {
  int step;
  bool differs, fails;
};

/* The join in progress. */
struct join {
  const struct ab_comparison *c;
  struct ab_verdict *v;
  struct ab_groups groups;
  struct step_row *step; /* ascending */
  size_t steps, capacity;
  size_t elements[AB_QUANTITIES];
};

static void note_change(struct join *j, enum ab_quantity quantity, enum ab_change change) {
  j->v->changed++;
  j->v->changed_of[quantity]++;
  j->v->lacking_of[quantity] += change == AB_CHANGE_MISSING || change == AB_CHANGE_ADDED;
}

/* Where `step` is or belongs; steps come nearly in order, so the search starts at the end. */
static size_t step_position(const struct join *j, int step) {
  size_t low = 0, high = j->steps;
  if (high && j->step[high - 1].step <= step) return j->step[high - 1].step == step ? high - 1 : high;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (j->step[middle].step < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static ab_status note_step(struct join *j, const struct ab_finding *finding) {
  int step = finding->id.step;
  if (step < 0) return AB_OK;
  size_t at = step_position(j, step);
  if (at == j->steps || j->step[at].step != step) {
    if (j->steps == j->capacity) {
      AB_TRY(ab_mem_resize(&j->step, 2 * j->capacity + 16, sizeof *j->step));
      j->capacity = 2 * j->capacity + 16;
    }
    memmove(&j->step[at + 1], &j->step[at], (j->steps - at) * sizeof *j->step);
    j->step[at] = (struct step_row){.step = step};
    j->steps++;
  }
  j->step[at].differs |= finding->differs;
  j->step[at].fails |= finding->fails;
  return AB_OK;
}

/* What the worst finding is chosen by: how many times its bound. */
static double score(const struct ab_finding *finding) {
  return finding->bound.limit > 0 ? finding->distance / finding->bound.limit : finding->distance;
}

static bool worse(const struct ab_finding *a, const struct ab_finding *b) {
  if (a->fails != b->fails) return a->fails;
  if (a->differs != b->differs) return a->differs;
  return score(a) > score(b);
}

/* Findings that differ: the worst of each quantity, and a list. */
static ab_status keep(struct ab_verdict *v, const struct ab_finding *f) {
  if (!f->differs) return AB_OK;
  if (!v->differing_of[f->quantity] || worse(f, &v->worst_of[f->quantity])) v->worst_of[f->quantity] = *f;
  if (v->findings == AB_FINDINGS_MAX) return AB_OK;
  if (v->findings == v->findings_room) {
    AB_TRY(ab_mem_resize(&v->finding, 2 * v->findings_room + 16, sizeof *v->finding));
    v->findings_room = 2 * v->findings_room + 16;
  }
  v->finding[v->findings++] = *f;
  return AB_OK;
}

static ab_status tally(struct ab_verdict *v, const struct ab_finding *f) {
  AB_TRY(keep(v, f));
  v->differing += f->differs;
  v->failing += f->fails;
  v->alike += f->fails && f->alike;
  v->differing_of[f->quantity] += f->differs;
  v->failing_of[f->quantity] += f->fails;
  v->differing_elements += f->difference.differing;
  if (f->differs && ab_rule_uncalibrated(f->bound.rule)) v->uncalibrated = true;
  if (!v->any || worse(f, &v->worst)) v->worst = *f;
  v->any = true;
  if (f->differs && (!v->any_difference || f->order < v->first_difference.order)) v->first_difference = *f;
  v->any_difference |= f->differs;
  if (f->fails && (v->failing == 1 || f->order < v->first.order)) v->first = *f;
  return AB_OK;
}

struct ab_bound ab_comparison_bound(const struct ab_comparison *c, const struct ab_identity *id,
                                    enum ab_quantity quantity, double given, double own) {
  bool bounded = c->pair == AB_PAIR_MIXED && quantity != AB_Q_INPUT && quantity != AB_Q_STATE && !(given >= 0);
  double calibrated = c->calibration && bounded ? ab_calibration_bound(c->calibration, id, quantity) : -1;
  if (calibrated >= 0)
    return (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_CALIBRATED, fmin(calibrated, AB_BOUND_MOST)};
  return ab_tier_bound(c->pair, quantity, given, own);
}

static struct ab_bound bound_of(const struct ab_comparison *c, const struct ab_identity *id,
                                enum ab_quantity quantity) {
  double given = -1, own = -1;
  if (c->bounds) c->bounds(c->bounds_ctx, id, &given, &own);
  return ab_comparison_bound(c, id, quantity, given, own);
}

static size_t apart(uint64_t a, uint64_t b) { return (size_t)(a > b ? a - b : b - a); }

static ab_status judge_tensor(struct join *j, const struct ab_recorded *ra, const struct ab_recorded *rb) {
  const struct ab_observation *a = &ra->observation, *b = &rb->observation;
  enum ab_quantity quantity = ab_quantity_of(&b->id);
  struct ab_finding f = {.id = b->id, .at_a = a->at, .at_b = b->at, .order = rb->order, .quantity = quantity,
                         .shape = b->shape, .bound = bound_of(j->c, &b->id, quantity)};
  bool judged;
  AB_TRY(ab_judge_tensor(&f, &judged, j->c, a, b));
  if (!judged) {
    j->v->unjudged++;
    return AB_OK;
  }
  bool seen = j->c->apart || f.evidence == AB_EVIDENCE_VALUES;
  j->v->sign_only += seen ? f.difference.sign_only : apart(a->summary.negative_zeros, b->summary.negative_zeros);
  j->v->nonfinite += seen ? f.difference.nonfinite_a + f.difference.nonfinite_b
                          : (size_t)(a->summary.nonfinite + b->summary.nonfinite);
  if (!b->summary.count && !j->v->empty++) memcpy(j->v->first_empty, b->id.tensor, sizeof j->v->first_empty);
  j->v->by_quantity[quantity].compared++;
  j->elements[quantity] += (size_t)b->summary.count;
  AB_TRY(tally(j->v, &f));
  return note_step(j, &f);
}

static bool both_float(enum ab_dtype a, enum ab_dtype b) {
  return (a == AB_F32 || a == AB_F64) && (b == AB_F32 || b == AB_F64);
}

static ab_status join_tensor(struct join *j, const struct ab_recorded *rb) {
  const struct ab_observation *b = &rb->observation;
  if (!ab_takes_part(j->c, ab_quantity_of(&b->id))) return AB_OK;
  const struct ab_recorded *ra = ab_recording_find(j->c->a, &b->id);
  enum ab_change change;
  if (!ra)
    change = AB_CHANGE_MISSING;
  else if (!ab_shape_equal(&ra->observation.shape, &b->shape))
    change = AB_CHANGE_RESHAPED;
  else if (ra->observation.dtype != b->dtype && !(j->c->retyped && both_float(ra->observation.dtype, b->dtype)))
    change = AB_CHANGE_RETYPED;
  else
    return judge_tensor(j, ra, rb);
  note_change(j, ab_quantity_of(&b->id), change);
  return ab_groups_add(&j->groups, change, ra ? &ra->observation : NULL, b);
}

static ab_status judge_metric(struct join *j, const struct ab_recorded_metric *ra,
                              const struct ab_recorded_metric *rb) {
  struct ab_finding f = {.metric = true, .id = ab_metric_identity(&rb->metric), .order = rb->order,
                         .quantity = AB_Q_METRIC};
  f.at_a = f.at_b = (struct ab_where){-1, -1, -1, false};
  f.bound = bound_of(j->c, &f.id, AB_Q_METRIC);
  ab_judge_metric(&f, &ra->metric, &rb->metric);
  j->v->nonfinite += f.difference.nonfinite_a + f.difference.nonfinite_b;
  j->v->sign_only += f.difference.sign_only;
  j->v->by_quantity[AB_Q_METRIC].compared++;
  AB_TRY(tally(j->v, &f));
  return note_step(j, &f);
}

static ab_status join_metric(struct join *j, const struct ab_recorded_metric *rb) {
  if (!ab_takes_part(j->c, AB_Q_METRIC)) return AB_OK;
  const struct ab_recorded_metric *ra = ab_recording_metric(j->c->a, rb->metric.step, rb->metric.name);
  if (ra && (ra->metric.f32 == rb->metric.f32 || j->c->retyped)) return judge_metric(j, ra, rb);
  enum ab_change change = ra ? AB_CHANGE_RETYPED : AB_CHANGE_MISSING;
  note_change(j, AB_Q_METRIC, change);
  return ab_groups_add_metric(&j->groups, change, &rb->metric);
}

/* What only a has. */
static ab_status join_rest(struct join *j) {
  const struct ab_recording *a = j->c->a, *b = j->c->b;
  for (size_t i = 0; i < a->observations; i++) {
    const struct ab_observation *o = &a->observation[i].observation;
    if (!ab_takes_part(j->c, ab_quantity_of(&o->id)) || ab_recording_find(b, &o->id)) continue;
    j->v->ignored += j->c->partial;
    if (j->c->partial) continue;
    note_change(j, ab_quantity_of(&o->id), AB_CHANGE_ADDED);
    AB_TRY(ab_groups_add(&j->groups, AB_CHANGE_ADDED, o, NULL));
  }
  for (size_t i = 0; i < a->metrics && ab_takes_part(j->c, AB_Q_METRIC); i++) {
    const struct ab_metric *m = &a->metric[i].metric;
    if (ab_recording_metric(b, m->step, m->name)) continue;
    j->v->ignored += j->c->partial;
    if (j->c->partial) continue;
    note_change(j, AB_Q_METRIC, AB_CHANGE_ADDED);
    AB_TRY(ab_groups_add_metric(&j->groups, AB_CHANGE_ADDED, m));
  }
  return AB_OK;
}

static ab_status join_all(struct join *j) {
  const struct ab_recording *b = j->c->b;
  for (size_t i = 0; i < b->observations; i++) AB_TRY(join_tensor(j, &b->observation[i]));
  for (size_t i = 0; i < b->metrics; i++) AB_TRY(join_metric(j, &b->metric[i]));
  return join_rest(j);
}

static void add_tally(struct ab_tally *sum, size_t expected, size_t compared) {
  sum->compared += compared;
  if (expected != AB_UNCOUNTED) sum->expected += expected;
}

/* Sums over the quantities that the caller pinned; false when one of them is not what was expected. */
static bool count(struct join *j) {
  struct ab_verdict *v = j->v;
  const struct ab_expected *e = &j->c->expected;
  bool right = e->steps == AB_UNCOUNTED || e->steps == j->steps;
  v->steps = (struct ab_tally){e->steps, j->steps};
  for (int q = 0; q < AB_QUANTITIES; q++) {
    bool metric = q == AB_Q_METRIC, part = ab_takes_part(j->c, (enum ab_quantity)q);
    size_t tensors = part ? e->tensors[q] : AB_UNCOUNTED, elements = part && !metric ? e->elements[q] : AB_UNCOUNTED;
    struct ab_tally *row = &v->by_quantity[q];
    row->expected = tensors;
    if (tensors != AB_UNCOUNTED && tensors != row->compared) right = false;
    if (elements != AB_UNCOUNTED && elements != j->elements[q]) right = false;
    add_tally(metric ? &v->metrics : &v->tensors, tensors, tensors == AB_UNCOUNTED ? 0 : row->compared);
    add_tally(&v->elements, elements, elements == AB_UNCOUNTED ? 0 : j->elements[q]);
    v->unpinned += tensors == AB_UNCOUNTED ? row->compared : 0;
  }
  return right;
}

static void count_steps(struct join *j) {
  j->v->first_bad_step = AB_UNCOUNTED;
  for (size_t i = j->steps; i-- > 0;) {
    if (j->step[i].fails) j->v->first_bad_step = (size_t)j->step[i].step;
    j->v->exact_steps += !j->step[i].differs;
  }
}

/* Of tensors without elements there is nothing to compare but their headers. */
static bool any_number(const struct join *j) {
  size_t numbers = j->v->by_quantity[AB_Q_METRIC].compared;
  for (int q = 0; q < AB_QUANTITIES; q++) numbers += j->elements[q];
  return numbers > 0;
}

static enum ab_exit outcome(const struct join *j, bool counts_right) {
  const struct ab_verdict *v = j->v;
  bool uncalibrated = j->c->calibrated && v->uncalibrated;
  bool incomparable = !ab_verdict_compared(v) || v->changed || v->unjudged || !counts_right || uncalibrated;
  enum ab_exit exit = incomparable ? AB_EXIT_INCOMPARABLE : AB_EXIT_EQUAL;
  return ab_exit_fold(exit, v->failing ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL);
}

static void hand_over_groups(struct join *j) {
  ab_groups_sort(&j->groups);
  j->v->groups = j->groups.rows < AB_GROUPS_MAX ? j->groups.rows : AB_GROUPS_MAX;
  j->v->groups_left_out = j->groups.rows - j->v->groups;
  j->v->group = j->groups.row;
  j->groups.row = NULL;
}

static ab_status check_complete(const struct ab_recording *recording) {
  if (recording->complete) return AB_OK;
  return AB_FAIL(AB_ECOMM, "side '%s' did not finish, so that nothing can be said about it", recording->name);
}

ab_status ab_verdict(struct ab_verdict *out, const struct ab_comparison *comparison) {
  AB_TRY(check_complete(comparison->a));
  AB_TRY(check_complete(comparison->b));
  struct ab_verdict v = {.name_a = comparison->a->name, .name_b = comparison->b->name, .pair = comparison->pair,
                         .headers = comparison->headers};
  struct join j = {.c = comparison, .v = &v};
  ab_status status = join_all(&j);
  if (status == AB_OK) {
    v.counts_right = count(&j);
    count_steps(&j);
    v.numberless = !comparison->headers && !any_number(&j);
    v.exit = outcome(&j, v.counts_right);
    hand_over_groups(&j);
  }
  ab_groups_free(&j.groups);
  ab_mem_free(j.step);
  if (status != AB_OK) ab_mem_free(v.finding);
  AB_TRY(status);
  *out = v;
  return AB_OK;
}

void ab_verdict_free(struct ab_verdict *verdict) {
  ab_mem_free(verdict->group);
  ab_mem_free(verdict->finding);
  verdict->group = NULL;
  verdict->finding = NULL;
  verdict->findings = verdict->findings_room = 0;
}
