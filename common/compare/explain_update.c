#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_search.h"
#include "mem.h"

enum { VECTORS = 4 };

/* Which gradient norm clips. */
enum clip { CLIP_ALL, CLIP_NONE, CLIP_STAGE, CLIP_STAGE_AND_ENDS };

/* What weight decay is multiplied by. */
enum decay { DECAY_RATE, DECAY_NONE, DECAY_RATE_TWICE, DECAY_ALONE };

/* Where a beta is used. */
enum { MU, NU, MU_CORRECTION, NU_CORRECTION, BETAS };

/* One way to do the update wrongly: the last one, but for betas and clip, which are of every step. */
struct variant {
  const char *id, *sentence;
  int rate_off, count_off; /* steps */
  bool uncorrected1, uncorrected2;
  enum decay decay;
  enum clip clip;
  int beta[BETAS]; /* 1 or 2; 0: the right one */
};

static const struct variant variants[] = {
    {"lr-of-step", "is updated with the learning rate of the next step", .rate_off = 1},
    {"lr-of-step", "is updated with the learning rate of the step before", .rate_off = -1},
    {"bias-correction", "is updated without the bias correction of both moments", .uncorrected1 = true,
     .uncorrected2 = true},
    {"bias-correction", "is updated without the bias correction of the first moment", .uncorrected1 = true},
    {"bias-correction", "is updated without the bias correction of the second moment", .uncorrected2 = true},
    {"bias-correction", "is updated with the bias correction of the next step's count", .count_off = 1},
    {"bias-correction", "is updated with the bias correction of the count before", .count_off = -1},
    {"betas", "is updated with beta1 in place of beta2", .beta = {1, 1, 1, 1}},
    {"betas", "is updated with beta2 in place of beta1", .beta = {2, 2, 2, 2}},
    {"betas", "is updated with beta1 and beta2 in each other's place", .beta = {2, 1, 2, 1}},
    {"betas", "is updated with beta1 in place of beta2 in the second moment, but not in its correction",
     .beta = {[NU] = 1}},
    {"betas", "is updated with beta2 in place of beta1 in the first moment, but not in its correction",
     .beta = {[MU] = 2}},
    {"betas", "is updated with beta1 in place of beta2 in the bias correction alone", .beta = {[NU_CORRECTION] = 1}},
    {"betas", "is updated with beta2 in place of beta1 in the bias correction alone", .beta = {[MU_CORRECTION] = 2}},
    {"weight-decay", "is updated without weight decay", .decay = DECAY_NONE},
    {"weight-decay", "is updated with weight decay multiplied by the learning rate twice", .decay = DECAY_RATE_TWICE},
    {"weight-decay", "is updated with weight decay that is not multiplied by the learning rate", .decay = DECAY_ALONE},
    {"not-clipped", "is updated with gradients that are not clipped", .clip = CLIP_NONE},
    {"per-stage-clip", "is updated with gradients clipped by the norm of their own stage", .clip = CLIP_STAGE},
    {"per-stage-clip", "is updated with gradients clipped by the norm of their own stage", .clip = CLIP_STAGE_AND_ENDS},
};
static const struct variant as_meant = {.clip = CLIP_ALL};

/* A leaf's history up to the update that is asked about. */
struct history {
  const struct ab_search *s;
  char leaf[AB_NAME_MAX];
  int step;
  size_t count;
  bool moment;                          /* asked about a moment of the leaf, not the leaf */
  double *before, *mu, *nu, *direction; /* [count]; one block */
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

static double beta(const struct history *h, const struct variant *v, int place) {
  const struct ab_explain_update *u = &h->s->q->update;
  int which = v->beta[place] ? v->beta[place] : place == MU || place == MU_CORRECTION ? 1 : 2;
  return which == 1 ? u->b1 : u->b2;
}

static void accumulate(struct history *h, const struct variant *v, const double *g, double factor) {
  double b1 = beta(h, v, MU), b2 = beta(h, v, NU);
  for (size_t i = 0; i < h->count; i++) {
    double x = g[i] * factor;
    h->mu[i] = b1 * h->mu[i] + (1 - b1) * x;
    h->nu[i] = b2 * h->nu[i] + (1 - b2) * x * x;
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
    if (g) accumulate(h, v, g, clip_factor(h, step, v->clip));
    ab_mem_free(g);
  }
  return AB_OK;
}

static void take_direction(struct history *h, const struct variant *v) {
  const struct ab_explain_update *u = &h->s->q->update;
  int k = h->step + 1 + v->count_off;
  double c1 = v->uncorrected1 ? 1 : 1 - pow(beta(h, v, MU_CORRECTION), k);
  double c2 = v->uncorrected2 ? 1 : 1 - pow(beta(h, v, NU_CORRECTION), k);
  for (size_t i = 0; i < h->count && u->adam; i++)
    h->direction[i] = h->mu[i] / c1 / (sqrt(h->nu[i] / c2) + u->epsilon);
}

static double rate_of(const struct history *h, const struct variant *v) {
  const struct ab_explain_update *u = &h->s->q->update;
  int step = h->step + v->rate_off;
  return step < 0 ? NAN : u->rate(u->ctx, step);
}

/* What it comes to beside the direction, all of which is multiplied by the rate. */
static double decay_of(const struct history *h, const struct variant *v, double rate) {
  double decay = h->s->q->update.adam ? h->s->q->update.decay : 0;
  const double of[] = {[DECAY_RATE] = decay, [DECAY_NONE] = 0, [DECAY_RATE_TWICE] = decay * rate,
                       [DECAY_ALONE] = decay / rate};
  return of[v->decay];
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
  double rate = rate_of(h, &as_meant), keep = 1 - rate * decay_of(h, &as_meant, rate);
  for (size_t i = 0; i < h->count; i++) h->before[i] = (h->s->y[i] + rate * h->direction[i]) / keep;
  return AB_OK;
}

/* |update by the variant - x|_2; infinite when it cannot be computed. */
static ab_status distance(double *out, struct history *h, const struct variant *v, const double *x) {
  bool known;
  double rate = rate_of(h, v), decay = decay_of(h, v, rate), squares = 0;
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

static double size_of(const double *x, const double *y, size_t n) {
  double squares = 0;
  for (size_t i = 0; i < n; i++) squares += (x[i] - (y ? y[i] : 0)) * (x[i] - (y ? y[i] : 0));
  return sqrt(squares);
}

/* How far the right update, repeated here, is from the truth. */
static ab_status noise_of(double *noise, struct history *h) {
  AB_TRY(distance(noise, h, &as_meant, h->s->y));
  *noise = fmax(*noise, 0x1p-24 * size_of(h->s->y, NULL, h->count));
  return AB_OK;
}

static ab_status try_variants(struct ab_search *s, struct history *h, double noise, double wrong) {
  bool clipped = false;
  double off;
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    const struct variant *v = &variants[i];
    if (v->clip >= CLIP_STAGE && (clipped || s->q->stages < 2)) continue;
    AB_TRY(distance(&off, h, v, s->x));
    if (!(off <= 4 * noise && off <= 0.05 * wrong)) continue;
    clipped |= v->clip >= CLIP_STAGE;
    ab_search_say_as(s, v->id, "%s; repeating the update of step %d so leaves %.2g of the difference", v->sentence,
                     h->step, off / wrong);
  }
  return AB_OK;
}

/* |x - before - k (y - before)|: what is left of an update that is the right one times k. */
static double rest_of(const struct history *h, double k) {
  double squares = 0;
  for (size_t i = 0; i < h->count; i++) {
    double d = h->s->x[i] - h->before[i] - k * (h->s->y[i] - h->before[i]);
    squares += d * d;
  }
  return sqrt(squares);
}

static double fit_factor(const struct history *h) {
  double both = 0, squares = 0;
  for (size_t i = 0; i < h->count; i++) {
    double right = h->s->y[i] - h->before[i];
    both += (h->s->x[i] - h->before[i]) * right;
    squares += right * right;
  }
  return both / squares;
}

static ab_status history_new(struct history *h, const struct ab_search *s) {
  const char *tensor = s->finding->id.tensor;
  bool moment = ab_is_moment(tensor);
  *h = (struct history){.s = s, .step = s->finding->id.step, .count = (size_t)s->got->observation.summary.count,
                        .moment = moment};
  snprintf(h->leaf, sizeof h->leaf, "%s", moment ? tensor + 3 : tensor);
  AB_TRY(ab_mem_new(&h->before, VECTORS * h->count + 1, sizeof *h->before));
  h->mu = h->before + h->count;
  h->nu = h->before + 2 * h->count;
  h->direction = h->before + 3 * h->count;
  return AB_OK;
}

/* Whether another parameter's update is the right one times k, too. */
static ab_status is_scaled(bool *scaled, const struct ab_search *other, double k) {
  struct history h;
  bool known;
  AB_TRY(history_new(&h, other));
  ab_status status = take_before(&known, &h);
  double noise = 0x1p-24 * size_of(other->y, NULL, h.count);
  *scaled = status == AB_OK && known && rest_of(&h, k) <= 4 * (1 + fabs(k)) * noise;
  ab_mem_free(h.before);
  return status;
}

static ab_status ask_other(bool *scaled, const struct ab_search *s, const struct ab_identity *id, double k) {
  struct ab_finding finding = {.id = *id, .quantity = AB_Q_PARAMETER};
  struct ab_search other = {.q = s->q, .finding = &finding, .got = ab_recording_find(s->q->got, id)};
  size_t x = 0, y = 0;
  *scaled = false;
  if (!other.got) return AB_OK;
  ab_status status = ab_search_values(&other.x, &x, s->q, 0, id);
  if (status == AB_OK) status = ab_search_values(&other.y, &y, s->q, 1, id);
  bool kept = other.x && other.y && x == y && x == other.got->observation.summary.count;
  if (status == AB_OK && kept) status = is_scaled(scaled, &other, k);
  ab_mem_free(other.x);
  ab_mem_free(other.y);
  return status;
}

/* Where nothing else is it, e.g. the rate of another step. */
static ab_status try_factor(struct ab_search *s, struct history *h, double noise, double wrong) {
  size_t all = 0, like = 0;
  char name[96];
  double k = fit_factor(h), rest = rest_of(h, k);
  if (h->count < 8 || !isfinite(k) || !(rest <= 4 * (1 + fabs(k)) * noise && rest <= 0.05 * wrong)) return AB_OK;
  for (size_t i = 0; i < s->q->truth->observations; i++) {
    const struct ab_identity *id = &s->q->truth->observation[i].observation.id;
    bool scaled;
    if (id->step != h->step || ab_is_moment(id->tensor) || ab_quantity_of(id) != AB_Q_PARAMETER) continue;
    AB_TRY(ask_other(&scaled, s, id, k));
    all++;
    like += scaled;
  }
  ab_search_name(name, s->q, k);
  ab_search_say_as(s, "constant-factor", "is updated by the right update times %.4g%s, as %zu of the %zu parameters of "
                   "step %d are; that leaves %.2g of the difference", k, name, like, all, h->step, rest / wrong);
  return AB_OK;
}

static ab_status try_parameter(struct ab_search *s, struct history *h) {
  size_t before = s->out->lines;
  double noise, wrong = size_of(s->x, s->y, s->count);
  bool known;
  AB_TRY(take_before(&known, h));
  if (!known) return AB_OK;
  AB_TRY(noise_of(&noise, h));
  if (!(wrong > AB_EXPLAIN_FACTOR * noise)) return AB_OK;
  AB_TRY(try_variants(s, h, noise, wrong));
  return s->out->lines == before ? try_factor(s, h, noise, wrong) : AB_OK;
}

static bool near(double x, double y, double scale) { return fabs(x - y) <= 1e-5 * scale; }

/* Whether a simulated moment has these norms: three numbers of a tensor whose values are not kept. */
static bool has_norms(const double *moment, size_t count, const struct ab_summary *summary) {
  double sum = 0, squares = 0, most = 0, all = 0;
  for (size_t i = 0; i < count; i++) {
    sum += moment[i];
    all += fabs(moment[i]);
    squares += moment[i] * moment[i];
    most = fmax(most, fabs(moment[i]));
  }
  return near(sqrt(squares), summary->l2, summary->l2) && near(sum, summary->sum, all) &&
         near(most, summary->max_abs, summary->max_abs);
}

static const struct variant of_moments[] = {
    {"not-clipped", "that of gradients that are not clipped", .clip = CLIP_NONE},
    {"per-stage-clip", "that of gradients clipped by the norm of their own stage", .clip = CLIP_STAGE},
    {"per-stage-clip", "that of gradients clipped by the norm of their own stage", .clip = CLIP_STAGE_AND_ENDS},
    {"betas", "kept with beta2 in place of beta1", .beta = {[MU] = 2}},
    {"betas", "kept with beta1 in place of beta2", .beta = {[NU] = 1}}};

/* Adam hides the scale of a gradient in the parameter, but not in its moments. */
static ab_status try_moment(bool *found, struct ab_search *s, struct history *h, bool second) {
  struct ab_identity id = s->finding->id;
  const double *moment = second ? h->nu : h->mu;
  bool known;
  snprintf(id.tensor, sizeof id.tensor, "%s/%.90s", second ? "nu" : "mu", h->leaf);
  const struct ab_recorded *got = ab_recording_find(s->q->got, &id), *truth = ab_recording_find(s->q->truth, &id);
  if (!got || !truth || ab_summary_same(&got->observation.summary, &truth->observation.summary)) return AB_OK;
  AB_TRY(run_moments(&known, h, &as_meant));
  if (!known || !has_norms(moment, h->count, &truth->observation.summary)) return AB_OK;
  for (size_t i = 0; i < sizeof of_moments / sizeof *of_moments && !*found; i++) {
    const struct variant *v = &of_moments[i];
    if (v->clip >= CLIP_STAGE && s->q->stages < 2) continue;
    AB_TRY(run_moments(&known, h, v));
    *found = known && has_norms(moment, h->count, &got->observation.summary);
    if (*found)
      ab_search_say_as(s, v->id, "its %s moment is %s (norm, sum and largest value agree)",
                       second ? "second" : "first", v->sentence);
  }
  return AB_OK;
}

enum { LONGEST_HISTORY = 256 };

static ab_status match(struct ab_search *s, struct history *h) {
  size_t before = s->out->lines;
  bool found = false;
  if (s->x && s->y && !h->moment) AB_TRY(try_parameter(s, h));
  for (int second = 0; s->q->update.adam && second < 2 && !found && s->out->lines == before; second++)
    AB_TRY(try_moment(&found, s, h, second));
  return AB_OK;
}

ab_status ab_match_update(struct ab_search *s) {
  int step = s->finding->id.step;
  struct history h;
  if (!s->q->update.known || step < 0 || step > LONGEST_HISTORY || s->finding->quantity != AB_Q_PARAMETER) return AB_OK;
  AB_TRY(history_new(&h, s));
  ab_status status = match(s, &h);
  ab_mem_free(h.before);
  AB_TRY(status);
  return AB_OK;
}
