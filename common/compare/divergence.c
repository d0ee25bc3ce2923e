#include "divergence.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "judge.h"

/* The walk in progress. */
struct walk {
  struct ab_divergence *out;
  const struct ab_recording *reference;
};

/* |a - b| is at least the difference of the norms, of the largest values, and of the sums over sqrt(n). */
static double proven(const struct ab_summary *a, const struct ab_summary *b) {
  if (a->nonfinite || b->nonfinite) return INFINITY;
  double n = (double)(b->count ? b->count : 1);
  double least = fmax(fabs(a->l2 - b->l2), fabs(a->max_abs - b->max_abs));
  return ab_relative(fmax(least, fabs(a->sum - b->sum) / sqrt(n)), b->l2);
}

static void take(struct walk *w, const struct ab_divergent *point, bool differs) {
  struct ab_divergence *d = w->out;
  if (!differs && !d->bit.known && !point->metric) d->good = *point;
  if (differs && !d->bit.known) d->bit = *point;
  if (differs && !d->above.known && !(point->distance <= d->limit)) d->above = *point;
}

static void visit_tensor(struct walk *w, const struct ab_observation *a) {
  const struct ab_recorded *found = ab_recording_find(w->reference, &a->id);
  const struct ab_observation *b = found ? &found->observation : NULL;
  if (!b || a->dtype != b->dtype || !ab_shape_equal(&a->shape, &b->shape)) return;
  struct ab_divergent point = {.known = true, .id = a->id, .at = a->at, .shape = a->shape};
  bool differs = !ab_summary_same(&a->summary, &b->summary) || a->summary.nonfinite;
  if (differs) point.distance = proven(&a->summary, &b->summary);
  take(w, &point, differs);
}

static void visit_metric(struct walk *w, const struct ab_metric *a) {
  const struct ab_recorded_metric *b = ab_recording_metric(w->reference, a->step, a->name);
  if (!b || a->f32 != b->metric.f32) return;
  struct ab_divergent point = {.known = true, .metric = true, .id = ab_metric_identity(a), .at = {-1, -1, -1, false}};
  point.difference = ab_difference_scalar(a->value, b->metric.value, a->f32);
  point.distance = point.difference.rel_l2;
  take(w, &point, point.difference.differing != 0);
}

void ab_divergence_find(struct ab_divergence *out, const struct ab_recording *got,
                        const struct ab_recording *reference) {
  struct walk w = {out, reference};
  *out = (struct ab_divergence){.limit = ab_tier_bound(AB_PAIR_MIXED, AB_Q_ACTIVATION, -1, -1).limit};
  snprintf(out->side, sizeof out->side, "%s", got->name);
  snprintf(out->reference, sizeof out->reference, "%s", reference->name);
  for (size_t o = 0, m = 0; (o < got->observations || m < got->metrics) && !out->above.known;) {
    bool tensor = m == got->metrics || (o < got->observations && got->observation[o].order < got->metric[m].order);
    if (tensor) visit_tensor(&w, &got->observation[o++].observation);
    else visit_metric(&w, &got->metric[m++].metric);
  }
}

ab_status ab_divergence_measure(struct ab_divergent *point, const struct ab_view *got,
                                const struct ab_view *reference) {
  AB_TRY(ab_difference(&point->difference, got, reference));
  point->distance = point->difference.rel_l2;
  return AB_OK;
}

void ab_replayed_say(struct ab_replayed *replayed, const char *format, ...) {
  va_list args;
  if (replayed->lines == AB_REPLAY_LINES) return;
  va_start(args, format);
  vsnprintf(replayed->line[replayed->lines++], AB_REPLAY_TEXT, format, args);
  va_end(args);
}
