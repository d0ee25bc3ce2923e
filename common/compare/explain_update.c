#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_search.h"
#include "mem.h"

/* Which gradient norm clips. */
enum clip { CLIP_ALL, CLIP_NONE, CLIP_STAGE, CLIP_STAGE_AND_ENDS };

/* One way to do the last update wrongly. */
struct variant {
  const char *id, *sentence;
  int rate_off, count_off;      /* steps */
  bool uncorrected1, uncorrected2;
  bool toggle_decay;            /* left out where there is one; else: never tried */
  enum clip clip;               /* in every step */
};

static const struct variant variants[] = {
    {"lr-of-step", "is updated with the learning rate of the next step", 1, 0, false, false, false, CLIP_ALL},
    {"lr-of-step", "is updated with the learning rate of the step before", -1, 0, false, false, false, CLIP_ALL},
    {"bias-correction", "is updated without the bias correction of both moments", 0, 0, true, true, false, CLIP_ALL},
    {"bias-correction", "is updated without the bias correction of the first moment", 0, 0, true, false, false,
     CLIP_ALL},
    {"bias-correction", "is updated without the bias correction of the second moment", 0, 0, false, true, false,
     CLIP_ALL},
    {"bias-correction", "is updated with the bias correction of the next step's count", 0, 1, false, false, false,
     CLIP_ALL},
    {"bias-correction", "is updated with the bias correction of the count before", 0, -1, false, false, false,
     CLIP_ALL},
    {"weight-decay", "is updated without weight decay", 0, 0, false, false, true, CLIP_ALL},
    {"not-clipped", "is updated with gradients that are not clipped", 0, 0, false, false, false, CLIP_NONE},
    {"per-stage-clip", "is updated with gradients clipped by the norm of their own stage", 0, 0, false, false, false,
     CLIP_STAGE},
    {"per-stage-clip", "is updated with gradients clipped by the norm of their own stage", 0, 0, false, false, false,
     CLIP_STAGE_AND_ENDS},
};
static const struct variant as_meant = {.clip = CLIP_ALL};

/* A leaf's history up to the update that is asked about. */
struct history {
  const struct ab_search *s;
  char leaf[AB_NAME_MAX];
  int step;
  size_t count;
  double *before, *mu, *nu, *direction; /* [count] */
};

/* -1: outside the layers. With `ends` the embedding belongs to the first stage, the rest outside to the last. */
static int stage_of(const struct ab_explain *q, int layer, const char *tensor, bool ends) {
  if (layer >= 0) return layer / q->layers_per_stage % q->stages;
  if (!ends) return -1;
  return strstr(tensor, "embed") ? 0 : q->stages - 1;
}

static bool clips_together(const struct history *h, enum clip clip, const struct ab_identity *leaf) {
  const struct ab_explain *q = h->s->q;
  bool ends = clip == CLIP_STAGE_AND_ENDS;
  return clip == CLIP_ALL || stage_of(q, h->s->finding->id.layer, h->leaf, ends) ==
                                 stage_of(q, leaf->layer, leaf->tensor, ends);
}

/* By what the step's gradient is multiplied. */
static double clip_factor(const struct history *h, int step, enum clip clip) {
  const struct ab_explain *q = h->s->q;
  double squares = 0;
  if (clip == CLIP_NONE || q->update.clip <= 0) return 1;
  for (size_t i = 0; i < q->truth->observations; i++) {
    const struct ab_observation *o = &q->truth->observation[i].observation;
    if (o->id.step != step || ab_quantity_of(&o->id) != AB_Q_WEIGHT_GRADIENT) continue;
    if (clips_together(h, clip, &o->id)) squares += o->summary.l2 * o->summary.l2;
  }
  double norm = sqrt(squares);
  return norm < q->update.clip ? 1 : q->update.clip / norm;
}

static ab_status gradient(double **out, const struct history *h, int step) {
  struct ab_identity id = h->s->finding->id;
  size_t count = 0;
  id.step = step;
  id.phase = AB_BACKWARD;
  snprintf(id.tensor, sizeof id.tensor, "%s", h->leaf);
  AB_TRY(ab_search_values(out, &count, h->s->q, 1, &id));
  if (*out && count == h->count) return AB_OK;
  ab_mem_free(*out);
  *out = NULL;
  return AB_OK;
}

static void accumulate(struct history *h, const double *g, double factor) {
  const struct ab_explain_update *u = &h->s->q->update;
  for (size_t i = 0; i < h->count; i++) {
    double x = g[i] * factor;
    h->mu[i] = u->b1 * h->mu[i] + (1 - u->b1) * x;
    h->nu[i] = u->b2 * h->nu[i] + (1 - u->b2) * x * x;
    h->direction[i] = x;
  }
}

/* Moments and the direction of the last update; false when a gradient was not kept. */
static ab_status run_moments(bool *known, struct history *h, const struct variant *v) {
  *known = true;
  memset(h->mu, 0, h->count * sizeof *h->mu);
  memset(h->nu, 0, h->count * sizeof *h->nu);
  for (int step = 0; step <= h->step && *known; step++) {
    double *g;
    AB_TRY(gradient(&g, h, step));
    *known = g != NULL;
    if (g) accumulate(h, g, clip_factor(h, step, v->clip));
    ab_mem_free(g);
  }
  return AB_OK;
}

static void take_direction(struct history *h, const struct variant *v) {
  const struct ab_explain_update *u = &h->s->q->update;
  int k = h->step + 1 + v->count_off;
  double c1 = v->uncorrected1 ? 1 : 1 - pow(u->b1, k), c2 = v->uncorrected2 ? 1 : 1 - pow(u->b2, k);
  for (size_t i = 0; i < h->count && u->adam; i++)
    h->direction[i] = h->mu[i] / c1 / (sqrt(h->nu[i] / c2) + u->epsilon);
}

static double decay_of(const struct history *h, const struct variant *v) {
  const struct ab_explain_update *u = &h->s->q->update;
  return u->adam && !v->toggle_decay ? u->decay : 0;
}

static double rate_of(const struct history *h, const struct variant *v) {
  const struct ab_explain_update *u = &h->s->q->update;
  int step = h->step + v->rate_off;
  return step < 0 ? NAN : u->rate(u->ctx, step);
}

/* The parameter before the update: kept, or before step 0 the one from which the right update leads to the truth. */
static ab_status take_before(bool *known, struct history *h) {
  struct ab_identity id = h->s->finding->id;
  size_t count = 0;
  double *before;
  id.step = h->step - 1;
  snprintf(id.tensor, sizeof id.tensor, "%s", h->leaf);
  AB_TRY(ab_search_values(&before, &count, h->s->q, 1, &id));
  *known = before && count == h->count;
  if (*known) memcpy(h->before, before, count * sizeof *before);
  ab_mem_free(before);
  if (h->step > 0) return AB_OK;
  AB_TRY(run_moments(known, h, &as_meant));
  take_direction(h, &as_meant);
  double rate = rate_of(h, &as_meant), keep = 1 - rate * decay_of(h, &as_meant);
  for (size_t i = 0; i < h->count; i++) h->before[i] = (h->s->y[i] + rate * h->direction[i]) / keep;
  return AB_OK;
}

/* |update by the variant - x|_2; infinite when it cannot be computed. */
static ab_status distance(double *out, struct history *h, const struct variant *v, const double *x) {
  bool known;
  double rate = rate_of(h, v), decay = decay_of(h, v), squares = 0;
  *out = INFINITY;
  if (isnan(rate) || h->step + 1 + v->count_off < 1) return AB_OK;
  AB_TRY(run_moments(&known, h, v));
  if (!known) return AB_OK;
  take_direction(h, v);
  for (size_t i = 0; i < h->count; i++) {
    double d = h->before[i] - rate * (h->direction[i] + decay * h->before[i]) - x[i];
    squares += d * d;
  }
  *out = sqrt(squares);
  return AB_OK;
}

static ab_status try_variants(struct ab_search *s, struct history *h) {
  double noise, off, wrong = 0, size = 0;
  bool known, clipped = false;
  AB_TRY(take_before(&known, h));
  if (!known) return AB_OK;
  for (size_t i = 0; i < s->count; i++) {
    wrong += (s->x[i] - s->y[i]) * (s->x[i] - s->y[i]);
    size += s->y[i] * s->y[i];
  }
  AB_TRY(distance(&noise, h, &as_meant, s->y));
  noise = fmax(noise, 0x1p-24 * sqrt(size));
  if (!(sqrt(wrong) > AB_EXPLAIN_FACTOR * noise)) return AB_OK;
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    const struct variant *v = &variants[i];
    if (v->clip >= CLIP_STAGE && (clipped || s->q->stages < 2)) continue;
    AB_TRY(distance(&off, h, v, s->x));
    if (!(off <= 4 * noise && off <= 0.05 * sqrt(wrong))) continue;
    clipped |= v->clip >= CLIP_STAGE;
    ab_search_say_as(s, v->id, "%s; repeating the update of step %d so leaves %.2g of the difference", v->sentence,
                     h->step, off / sqrt(wrong));
  }
  return AB_OK;
}

static bool near(double x, double y, double scale) { return fabs(x - y) <= 1e-5 * scale; }

/* Whether the simulated first moment has these norms: three numbers of a tensor whose values are not kept. */
static bool has_norms(const struct history *h, const struct ab_summary *summary) {
  double sum = 0, squares = 0, most = 0, all = 0;
  for (size_t i = 0; i < h->count; i++) {
    sum += h->mu[i];
    all += fabs(h->mu[i]);
    squares += h->mu[i] * h->mu[i];
    most = fmax(most, fabs(h->mu[i]));
  }
  return near(sqrt(squares), summary->l2, summary->l2) && near(sum, summary->sum, all) &&
         near(most, summary->max_abs, summary->max_abs);
}

/* Adam hides the scale of a gradient in the parameter, but not in its first moment. */
static ab_status try_moments(struct ab_search *s, struct history *h) {
  static const struct variant clips[] = {
      {.id = "not-clipped", .sentence = "that are not clipped", .clip = CLIP_NONE},
      {.id = "per-stage-clip", .sentence = "clipped by the norm of their own stage", .clip = CLIP_STAGE},
      {.id = "per-stage-clip", .sentence = "clipped by the norm of their own stage", .clip = CLIP_STAGE_AND_ENDS}};
  struct ab_identity id = s->finding->id;
  bool known, found = false;
  snprintf(id.tensor, sizeof id.tensor, "mu/%.90s", h->leaf);
  const struct ab_recorded *got = ab_recording_find(s->q->got, &id), *truth = ab_recording_find(s->q->truth, &id);
  if (!got || !truth || ab_summary_same(&got->observation.summary, &truth->observation.summary)) return AB_OK;
  AB_TRY(run_moments(&known, h, &as_meant));
  if (!known || !has_norms(h, &truth->observation.summary)) return AB_OK;
  for (size_t i = 0; i < sizeof clips / sizeof *clips && !found; i++) {
    if (clips[i].clip >= CLIP_STAGE && s->q->stages < 2) continue;
    AB_TRY(run_moments(&known, h, &clips[i]));
    found = known && has_norms(h, &got->observation.summary);
    if (found)
      ab_search_say_as(s, clips[i].id, "its first moment is that of gradients %s (norm, sum and largest value agree)",
                       clips[i].sentence);
  }
  return AB_OK;
}

enum { LONGEST_HISTORY = 256, VECTORS = 4 };

ab_status ab_match_update(struct ab_search *s) {
  const struct ab_explain_update *u = &s->q->update;
  const char *tensor = s->finding->id.tensor;
  struct history h = {.s = s, .step = s->finding->id.step, .count = (size_t)s->got->observation.summary.count};
  double *memory;
  bool moment = strncmp(tensor, "mu/", 3) == 0;
  if (!u->known || h.step < 0 || h.step > LONGEST_HISTORY || s->finding->quantity != AB_Q_PARAMETER) return AB_OK;
  snprintf(h.leaf, sizeof h.leaf, "%s", moment ? tensor + 3 : tensor);
  AB_TRY(ab_mem_new(&memory, VECTORS * h.count + 1, sizeof *memory));
  h.before = memory;
  h.mu = memory + h.count;
  h.nu = memory + 2 * h.count;
  h.direction = memory + 3 * h.count;
  ab_status status = s->x && s->y && !moment ? try_variants(s, &h) : AB_OK;
  if (status == AB_OK && u->adam) status = try_moments(s, &h);
  ab_mem_free(memory);
  AB_TRY(status);
  return AB_OK;
}
