#include "golden_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

const char *ab_move_name(enum ab_move_kind kind) {
  static const char *const names[] = {"removed", "added", "reshaped", "moved"};
  return names[kind];
}

static double relative(double distance, double a, double b) {
  double scale = fmax(fabs(a), fabs(b));
  return distance == 0 ? 0 : scale > 0 ? distance / scale : INFINITY;
}

static void add(struct ab_golden_diff *d, const struct ab_golden_move *move) {
  if (!d->moves || move->id.step < d->first_step) d->first_step = move->id.step;
  d->of_kind[move->kind]++;
  d->move[d->moves++] = *move;
}

static struct ab_golden_move metric_move(enum ab_move_kind kind, const struct ab_metric *m, size_t order) {
  struct ab_golden_move move = {.kind = kind, .metric = true, .order = order};
  move.id = (struct ab_identity){.step = m->step, .accumulation = -1, .microbatch = -1, .layer = -1};
  memcpy(move.id.tensor, m->name, sizeof move.id.tensor);
  return move;
}

static void one_metric(struct ab_golden_diff *d, const struct ab_recording *old, const struct ab_metric *m,
                       size_t order) {
  const struct ab_recorded_metric *was = ab_recording_metric(old, m->step, m->name);
  struct ab_golden_move move = metric_move(was ? AB_MOVE_VALUE : AB_MOVE_ADDED, m, order);
  double before = was ? was->metric.value : 0;
  d->compared += was != NULL;
  if (was && before == m->value && was->metric.f32 == m->f32) return;
  move.before = before;
  move.after = m->value;
  if (was) move.change = relative(fabs(m->value - before), m->value, before);
  add(d, &move);
}

static bool same_form(const struct ab_fingerprint *a, const struct ab_fingerprint *b) {
  return a->dtype == b->dtype && ab_shape_equal(&a->shape, &b->shape);
}

static double leaf_change(const struct ab_fingerprint *a, const struct ab_fingerprint *b) {
  double l2 = fabs(a->summary.l2 - b->summary.l2);
  double distance = a->seed == b->seed ? fmax(ab_fingerprint_distance(a, b), l2) : l2;
  return relative(distance, a->summary.l2, b->summary.l2);
}

static void one_leaf(struct ab_golden_diff *d, const struct ab_recording *old, const struct ab_fingerprint *f,
                     size_t order) {
  const struct ab_fingerprint *was = ab_recording_fingerprint(old, &f->id);
  struct ab_golden_move move = {.kind = AB_MOVE_ADDED, .id = f->id, .order = order, .after = f->summary.l2};
  d->compared += was != NULL;
  if (was && same_form(was, f) && ab_summary_same(&was->summary, &f->summary)) return;
  if (was) {
    move.kind = same_form(was, f) ? AB_MOVE_VALUE : AB_MOVE_RESHAPED;
    move.before = was->summary.l2;
    if (move.kind == AB_MOVE_VALUE) move.change = leaf_change(was, f);
  }
  add(d, &move);
}

static void removed(struct ab_golden_diff *d, const struct ab_golden *old, const struct ab_recording *now) {
  for (size_t i = 0; i < old->metrics; i++) {
    struct ab_golden_move move = metric_move(AB_MOVE_REMOVED, &old->metric[i], old->metric_order[i]);
    move.before = old->metric[i].value;
    if (!ab_recording_metric(now, old->metric[i].step, old->metric[i].name)) add(d, &move);
  }
  for (size_t i = 0; i < old->leaves; i++) {
    const struct ab_fingerprint *f = &old->leaf[i];
    struct ab_golden_move move = {
        .kind = AB_MOVE_REMOVED, .id = f->id, .order = old->leaf_order[i], .before = f->summary.l2};
    if (!ab_recording_fingerprint(now, &f->id)) add(d, &move);
  }
}

static void compare_keys(struct ab_golden_diff *d, const struct ab_golden *old, const struct ab_golden *now) {
  const char *gone = NULL, *other = NULL;
  size_t i = 0, k = 0;
  while (i < old->configs || k < now->configs) {
    int order = i == old->configs ? 1 : k == now->configs ? -1 : strcmp(old->config[i].key, now->config[k].key);
    const char *key = order <= 0 ? old->config[i].key : now->config[k].key;
    bool changed = order == 0 && strcmp(old->config[i].value, now->config[k].value) != 0;
    d->keys_removed += order < 0;
    d->keys_added += order > 0;
    d->keys_changed += changed;
    if (order < 0 && !gone) gone = key;
    if ((order > 0 || changed) && !other) other = key;
    i += order <= 0;
    k += order >= 0;
  }
  d->key = gone ? gone : other;
}

/* Removed, added, reshaped, then values by size. */
static int by_badness(const void *x, const void *y) {
  const struct ab_golden_move *a = x, *b = y;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->change != b->change) return a->change > b->change ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

/* VALUE moves stand last, the largest first. */
static void take_quantiles(struct ab_golden_diff *d) {
  size_t n = d->of_kind[AB_MOVE_VALUE];
  const struct ab_golden_move *value = d->move + (d->moves - n);
  if (!n) return;
  const double share[] = {0.5, 0.9, 0.99};
  double *out[] = {&d->q50, &d->q90, &d->q99};
  for (int i = 0; i < 3; i++) *out[i] = value[n - (size_t)ceil(share[i] * (double)n)].change;
  d->largest = value[0].change;
}

static ab_status fill(struct ab_golden_diff *d, const struct ab_golden *old, const struct ab_golden *now,
                      const struct ab_recording *old_side, const struct ab_recording *new_side) {
  size_t most = old->metrics + old->leaves + now->metrics + now->leaves;
  AB_TRY(ab_mem_new(&d->move, most, sizeof *d->move));
  for (size_t i = 0; i < now->metrics; i++) one_metric(d, old_side, &now->metric[i], now->metric_order[i]);
  for (size_t i = 0; i < now->leaves; i++) one_leaf(d, old_side, &now->leaf[i], now->leaf_order[i]);
  removed(d, old, new_side);
  compare_keys(d, old, now);
  qsort(d->move, d->moves, sizeof *d->move, by_badness);
  take_quantiles(d);
  return AB_OK;
}

ab_status ab_golden_diff(struct ab_golden_diff *out, const struct ab_golden *old, const struct ab_golden *now) {
  struct ab_recording *sides[2] = {0};
  struct ab_golden_diff d = {0};
  ab_status status = ab_golden_recording(&sides[0], old);
  if (status == AB_OK) status = ab_golden_recording(&sides[1], now);
  if (status == AB_OK) status = fill(&d, old, now, sides[0], sides[1]);
  ab_recording_free(sides[0]);
  ab_recording_free(sides[1]);
  if (status == AB_OK) *out = d;
  else ab_golden_diff_free(&d);
  AB_TRY(status);
  return AB_OK;
}

void ab_golden_diff_free(struct ab_golden_diff *diff) {
  ab_mem_free(diff->move);
  diff->move = NULL;
}

ab_status ab_golden_check_no_loss(const struct ab_golden_diff *d, const char *what) {
  char text[AB_IDENTITY_TEXT];
  if (d->keys_removed)
    return AB_FAIL(AB_EMISMATCH, "%s would lose %zu config keys, first '%s'", what, d->keys_removed, d->key);
  if (!d->of_kind[AB_MOVE_REMOVED]) return AB_OK;
  ab_identity_print(text, &d->move[0].id);
  return AB_FAIL(AB_EMISMATCH, "%s would shrink by %zu metrics and tensors, first '%s'", what,
                 d->of_kind[AB_MOVE_REMOVED], text);
}
