#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_search.h"
#include "mem.h"

/* A zero tensor is the same as any other: it names nothing. */
static bool same(const struct ab_observation *a, const struct ab_observation *b) {
  return a->summary.max_abs > 0 && !a->summary.nonfinite && ab_summary_same(&a->summary, &b->summary);
}

ab_status ab_match_not_finite(struct ab_search *s) {
  char text[AB_IDENTITY_TEXT], place[64] = "";
  const struct ab_recording *got = s->q->got;
  if (!s->got->observation.summary.nonfinite || s->truth->observation.summary.nonfinite) return AB_OK;
  const struct ab_observation *first = NULL;
  for (size_t i = 0; i < got->observations && !first; i++)
    if (got->observation[i].observation.summary.nonfinite) first = &got->observation[i].observation;
  ab_identity_print(text, &first->id);
  if (first->at.iteration >= 0)
    snprintf(place, sizeof place, " (iteration %d, stage %d)", first->at.iteration, first->at.stage);
  ab_search_say(s, "has %llu values that are NaN or infinite; the first tensor with one is %.160s%s",
                (unsigned long long)s->got->observation.summary.nonfinite, text, place);
  return AB_OK;
}

ab_status ab_match_zero(struct ab_search *s) {
  const struct ab_summary *got = &s->got->observation.summary, *truth = &s->truth->observation.summary;
  if (got->max_abs != 0 || got->nonfinite || truth->max_abs == 0) return AB_OK;
  ab_search_say(s, "is zero in all %llu elements; expected values up to %.6g", (unsigned long long)got->count,
                truth->max_abs);
  return AB_OK;
}

static bool near(double x, double y, double scale) { return fabs(x - y) <= 2e-6 * scale; }

/* A tensor whose values are not kept has three numbers: all three times k, or the same numbers in other places. */
ab_status ab_match_norms(struct ab_search *s) {
  const struct ab_summary *x = &s->got->observation.summary, *y = &s->truth->observation.summary;
  double k = x->l2 / y->l2, spread = y->l2 * sqrt((double)y->count);
  char name[96];
  if (s->x || s->y || x->nonfinite || y->l2 == 0 || x->l2 == 0 || y->count < 8) return AB_OK;
  if (y->sum * x->sum < 0) k = -k;
  if (!near(x->max_abs, fabs(k) * y->max_abs, x->max_abs) || !near(x->sum, k * y->sum, fabs(k) * spread)) return AB_OK;
  if (fabs(k - 1) > 1e-4) {
    if (!ab_search_name(name, s->q, k)) return AB_OK;
    ab_search_say_as(s, "constant-factor", "is the truth times %.6g%s, by norm, sum and largest value", k, name);
  } else if (fabs(k - 1) < 1e-12 && x->max_abs == y->max_abs && fabs(x->sum - y->sum) <= 1e-12 * spread) {
    ab_search_say_as(s, "permuted", "has the truth's values in other places, by norm, sum and largest value");
  }
  return AB_OK;
}

/* The first of the truth's tensors of this step, this tensor and phase, that is bit for bit the wrong one. `moved`:
 * its microbatch is another (the layer may be too), else its layer alone. */
static const struct ab_observation *find_same(const struct ab_search *s, bool moved) {
  const struct ab_recording *truth = s->q->truth;
  const struct ab_identity *id = &s->finding->id;
  const struct ab_observation *found = NULL;
  for (size_t i = 0; i < truth->observations; i++) {
    const struct ab_observation *o = &truth->observation[i].observation;
    bool related = o->id.step == id->step && o->id.accumulation == id->accumulation && o->id.phase == id->phase &&
                   !strcmp(o->id.tensor, id->tensor);
    if (!related || !same(o, &s->got->observation) || (o->id.microbatch != id->microbatch) != moved) continue;
    if (!found || o->id.layer == id->layer) found = o;
  }
  return found;
}

static int repeat_of(const struct ab_explain *q, int layer) { return layer / (q->stages * q->layers_per_stage); }

ab_status ab_match_other_microbatch(struct ab_search *s) {
  const struct ab_observation *o = find_same(s, true);
  const struct ab_where *at = &s->got->observation.at;
  char layer[48] = "";
  if (!o) return AB_OK;
  if (o->id.layer != s->finding->id.layer) snprintf(layer, sizeof layer, " of layer %d", o->id.layer);
  if (at->stage < 0)
    ab_search_say(s, "is microbatch %d%s, expected %d (bitwise)", o->id.microbatch, layer, s->finding->id.microbatch);
  else
    ab_search_say(s, "is microbatch %d%s, expected %d (bitwise; stage %d, iteration %d)", o->id.microbatch, layer,
                  s->finding->id.microbatch, at->stage, at->iteration);
  return AB_OK;
}

ab_status ab_match_other_layer(struct ab_search *s) {
  const struct ab_observation *o = find_same(s, false);
  int expected = s->finding->id.layer;
  if (!o || o->id.layer == expected) return AB_OK;
  ab_search_say(s, "is that of layer %d, expected %d (bitwise)", o->id.layer, expected);
  if (s->q->stages < 2 || o->id.layer < 0 || expected < 0) return AB_OK;
  int repeat = repeat_of(s->q, o->id.layer), period = s->q->stages * s->q->layers_per_stage;
  if (o->id.layer % period == expected % period)
    ab_search_say_as(s, "other-repeat", "is that of repeat %d, expected %d (bitwise)", repeat,
                     repeat_of(s->q, expected));
  return AB_OK;
}

ab_status ab_match_stale(struct ab_search *s) {
  struct ab_identity before = s->finding->id;
  before.step--;
  const struct ab_recorded *o = ab_recording_find(s->q->truth, &before);
  if (o && same(&o->observation, &s->got->observation))
    ab_search_say(s, "is the value of step %d, expected that of step %d (bitwise)", before.step, before.step + 1);
  if (before.step >= 0 || before.phase != AB_UPDATE) return AB_OK;
  snprintf(before.tensor, sizeof before.tensor, "input/params/%.80s", s->finding->id.tensor);
  before.phase = AB_FORWARD;
  o = ab_recording_find(s->q->truth, &before);
  if (o && same(&o->observation, &s->got->observation))
    ab_search_say(s, "is the initial value, expected that after the update of step 0 (bitwise)");
  return AB_OK;
}

static bool metric_of(double *out, const struct ab_recording *r, int step, const char *name) {
  const struct ab_recorded_metric *m = ab_recording_metric(r, step, name);
  if (m) *out = m->metric.value;
  return m != NULL;
}

/* The rate is a function of the step alone, so any step's may be asked for: the nearest is told. */
enum { FURTHEST_RATE = 4096 };
ab_status ab_match_metric_rate(struct ab_search *s) {
  int step = s->finding->id.step;
  double got, truth, other;
  const struct ab_explain_update *u = &s->q->update;
  if (strcmp(s->finding->id.tensor, "lr") != 0 || !u->known) return AB_OK;
  if (!metric_of(&got, s->q->got, step, "lr") || !metric_of(&truth, s->q->truth, step, "lr")) return AB_OK;
  for (int i = 0; i < 2 * FURTHEST_RATE; i++) {
    int of = step + (i % 2 ? -1 - i / 2 : 1 + i / 2);
    if (of < 0) continue;
    other = u->rate(u->ctx, of);
    if (other != got || other == truth) continue;
    ab_search_say(s, "is the learning rate of step %d, %.9g; expected that of step %d, %.9g (exactly)", of, got, step,
                  truth);
    return AB_OK;
  }
  return AB_OK;
}

ab_status ab_match_metric_clip(struct ab_search *s) {
  int step = s->finding->id.step;
  double got, truth, raw;
  double most = s->q->update.clip;
  if (strcmp(s->finding->id.tensor, "grad_norm") != 0 || most <= 0) return AB_OK;
  bool all = metric_of(&got, s->q->got, step, "grad_norm") && metric_of(&truth, s->q->truth, step, "grad_norm") &&
             metric_of(&raw, s->q->got, step, "raw_grad_norm");
  if (all && fabs(got - raw) <= AB_EXPLAIN_NOISE * raw && got > 1.001 * most && truth <= 1.001 * most)
    ab_search_say(s, "is the norm before clipping, %.9g; expected %.9g: gradients are not clipped", got, truth);
  return AB_OK;
}

ab_status ab_match_metric_factor(struct ab_search *s) {
  int step = s->finding->id.step;
  const char *name = s->finding->id.tensor;
  double got, truth;
  char text[96];
  if (!metric_of(&got, s->q->got, step, name) || !metric_of(&truth, s->q->truth, step, name)) return AB_OK;
  if (truth == 0 || !isfinite(got) || got == 0) return AB_OK;
  if (ab_search_name(text, s->q, got / truth))
    ab_search_say(s, "is %.9g, the truth %.9g times %.9g%s", got, truth, got / truth, text);
  return AB_OK;
}

/* Of the tensors of this step that are wrong, how many the pass reproduces bit for bit. */
static void count_reproduced(size_t *wrong, size_t *same_bits, const struct ab_search *s, int pass) {
  const struct ab_recording *got = s->q->got;
  *wrong = *same_bits = 0;
  for (size_t i = 0; i < got->observations; i++) {
    const struct ab_observation *o = &got->observation[i].observation;
    if (o->id.step != s->finding->id.step || o->id.phase == AB_UPDATE || o->id.phase == AB_RECOMPUTE) continue;
    const struct ab_recorded *truth = ab_recording_find(s->q->truth, &o->id);
    struct ab_identity id = o->id;
    id.step = pass;
    const struct ab_recorded *other = ab_recording_find(s->q->passes, &id);
    if (!truth || !other || ab_summary_same(&truth->observation.summary, &o->summary)) continue;
    ++*wrong;
    *same_bits += ab_summary_same(&other->observation.summary, &o->summary);
  }
}

static bool reproduces(const struct ab_search *s, int pass) {
  struct ab_identity id = s->finding->id;
  id.step = pass;
  const struct ab_recorded *other = ab_recording_find(s->q->passes, &id);
  return other && same(&other->observation, &s->got->observation);
}

/* Where the order of additions is free, bits may differ: the passes whose values are the wrong ones but for noise.
 * Noise alone is no mistake: a pass that changes nothing would explain it. */
static ab_status match_nearly(struct ab_search *s) {
  if (!s->x || !s->y || !(ab_search_residual(s->x, s->y, 1, s->count) > 10 * ab_search_noise(s))) return AB_OK;
  for (size_t p = 0; p < s->q->what_ifs; p++) {
    struct ab_identity id = s->finding->id;
    size_t count = 0;
    double *values;
    id.step = (int)p;
    if (!s->q->what_if[p].id) continue;
    AB_TRY(ab_search_values(&values, &count, s->q, 2, &id));
    double rest = values && count == s->count ? ab_search_residual(s->x, values, 1, count) : NAN;
    ab_mem_free(values);
    if (rest <= ab_search_noise(s))
      ab_search_say_as(s, s->q->what_if[p].id, "%s (the oracle with this reproduces it; residual %.2g)",
                       s->q->what_if[p].sentence, rest);
  }
  return AB_OK;
}

/* The passes that reproduce this tensor and the most of the others. */
ab_status ab_match_what_if(struct ab_search *s) {
  size_t best = 0, wrong = 0, bits;
  for (size_t p = 0; p < s->q->what_ifs; p++) {
    if (!s->q->what_if[p].id || !reproduces(s, (int)p)) continue;
    count_reproduced(&wrong, &bits, s, (int)p);
    if (bits > best) best = bits;
  }
  if (!best) return match_nearly(s);
  size_t before = s->out->lines;
  for (size_t p = 0; p < s->q->what_ifs && best; p++) {
    if (!s->q->what_if[p].id || !reproduces(s, (int)p)) continue;
    count_reproduced(&wrong, &bits, s, (int)p);
    if (bits == best)
      ab_search_say_as(s, s->q->what_if[p].id, "%s (the oracle with this reproduces it and %zu of the %zu wrong "
                       "tensors of its step, bitwise)", s->q->what_if[p].sentence, bits, wrong);
  }
  for (size_t i = before; i < s->out->lines; i++) s->out->line[i].complete = best == wrong;
  return AB_OK;
}
