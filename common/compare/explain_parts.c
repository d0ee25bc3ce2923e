#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_search.h"
#include "mem.h"

/* The truth is the sum of tau_m part_m and the wrong tensor, as far as it is one, that of gamma_m part_m; both by least
 * squares. Each microbatch is then in the wrong tensor gamma_m / tau_m times. */
struct parts {
  size_t n, count;
  int microbatch[AB_EXPLAIN_PARTS];
  double *value[AB_EXPLAIN_PARTS];
  double gram[AB_EXPLAIN_PARTS][AB_EXPLAIN_PARTS + 2]; /* right sides: truth, got */
  double tau[AB_EXPLAIN_PARTS], gamma[AB_EXPLAIN_PARTS], times[AB_EXPLAIN_PARTS];
  double noise;                                        /* relative to the truth */
};

static double dot(const double *x, const double *y, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* A part that is zero adds nothing to anything and has no coefficient. */
static ab_status take_part(struct parts *p, struct ab_search *s, size_t pass) {
  struct ab_identity id = s->finding->id;
  size_t count = 0;
  double *values;
  id.step = (int)pass;
  AB_TRY(ab_search_values(&values, &count, s->q, 2, &id));
  if (values && count == s->count && dot(values, values, count) > 0) {
    p->microbatch[p->n] = s->q->what_if[pass].part;
    p->value[p->n++] = values;
    return AB_OK;
  }
  ab_mem_free(values);
  return AB_OK;
}

static ab_status take_parts(struct parts *p, struct ab_search *s) {
  for (size_t i = 0; i < s->q->what_ifs && p->n < AB_EXPLAIN_PARTS; i++)
    if (s->q->what_if[i].part >= 0) AB_TRY(take_part(p, s, i));
  p->count = s->count;
  return AB_OK;
}

static void eliminate(struct parts *p, size_t column) {
  double *own = p->gram[column], lead = own[column];
  for (size_t i = 0; i < p->n + 2; i++) own[i] /= lead;
  for (size_t r = 0; r < p->n; r++) {
    double factor = p->gram[r][column];
    for (size_t i = 0; i < p->n + 2 && r != column; i++) p->gram[r][i] -= factor * own[i];
  }
}

/* Normal equations, scaled to a unit diagonal; false when parts depend on each other. */
static bool solve(struct parts *p, const struct ab_search *s) {
  double scale[AB_EXPLAIN_PARTS];
  for (size_t i = 0; i < p->n; i++) scale[i] = 1 / sqrt(dot(p->value[i], p->value[i], p->count));
  for (size_t i = 0; i < p->n; i++) {
    for (size_t k = 0; k < p->n; k++)
      p->gram[i][k] = dot(p->value[i], p->value[k], p->count) * scale[i] * scale[k];
    p->gram[i][p->n] = dot(p->value[i], s->y, p->count) * scale[i];
    p->gram[i][p->n + 1] = dot(p->value[i], s->x, p->count) * scale[i];
  }
  for (size_t i = 0; i < p->n; i++) {
    if (!(p->gram[i][i] > 1e-7)) return false;
    eliminate(p, i);
  }
  for (size_t i = 0; i < p->n; i++) {
    p->tau[i] = p->gram[i][p->n] * scale[i];
    p->gamma[i] = p->gram[i][p->n + 1] * scale[i];
    p->times[i] = p->gamma[i] / p->tau[i];
  }
  return true;
}

/* |x - sum of coefficient times part| over |truth|. */
static double residual(const struct parts *p, const struct ab_search *s, const double *x, const double *coefficient) {
  double rest = 0;
  for (size_t i = 0; i < p->count; i++) {
    double sum = 0;
    for (size_t k = 0; k < p->n; k++) sum += coefficient[k] * p->value[k][i];
    rest += (x[i] - sum) * (x[i] - sum);
  }
  return sqrt(rest / dot(s->y, s->y, p->count));
}

/* What all parts that are there have in common: the median of their multiples that are not near 0. */
static double common_factor(const struct parts *p) {
  double best = 1;
  int most = 0;
  for (size_t i = 0; i < p->n; i++) {
    int like = 0;
    for (size_t k = 0; k < p->n; k++) like += fabs(p->times[k] - p->times[i]) <= 1e-3 * fabs(p->times[i]);
    if (fabs(p->times[i]) < 1e-3 || like < most) continue;
    if (like == most && fabs(p->times[i] - 1) >= fabs(best - 1)) continue;
    most = like;
    best = p->times[i];
  }
  return best;
}

static double divisor_of(double a, double b) {
  while (b > 0) {
    double rest = fmod(a, b);
    a = b;
    b = rest;
  }
  return a;
}

/* The largest number that divides all multiples; they become those of it. */
static double take_divisor(double *whole, size_t n) {
  double divisor = 0;
  for (size_t i = 0; i < n; i++) divisor = divisor_of(divisor, fabs(whole[i]));
  for (size_t i = 0; i < n && divisor > 1; i++) whole[i] /= divisor;
  return fmax(divisor, 1);
}

/* Whether got is, to noise, the sum of whole multiples of `factor` times each true part. */
static bool whole_multiples(double *whole, double *rest, const struct parts *p, const struct ab_search *s,
                            double factor) {
  double exact[AB_EXPLAIN_PARTS];
  for (size_t i = 0; i < p->n; i++) {
    whole[i] = nearbyint(p->times[i] / factor);
    exact[i] = whole[i] * factor * p->tau[i];
  }
  *rest = residual(p, s, s->x, exact);
  return *rest <= AB_EXPLAIN_FACTOR * p->noise;
}

struct telling {
  char list[160];
  size_t used, named;
};

static void name_those(struct telling *t, const struct parts *p, const double *whole, double times) {
  *t = (struct telling){0};
  for (size_t i = 0; i < p->n; i++) {
    if (whole[i] != times || t->used > sizeof t->list - 16) continue;
    t->used += (size_t)snprintf(t->list + t->used, sizeof t->list - t->used, "%s%d", t->named ? ", " : "",
                                p->microbatch[i]);
    t->named++;
  }
}

static void tell(struct ab_search *s, const struct parts *p, const double *whole, double factor, double rest) {
  struct telling there, missing, twice;
  char scaled[128] = "", name[96];
  name_those(&there, p, whole, 1);
  name_those(&missing, p, whole, 0);
  name_those(&twice, p, whole, 2);
  ab_search_name(name, s->q, factor);
  if (fabs(factor - 1) > 1e-3) snprintf(scaled, sizeof scaled, ", times %.6g%s", factor, name);
  const char *plural = there.named > 1 ? "es" : "";
  if (there.named == 1 && missing.named == p->n - 1 && p->n > 1)
    ab_search_say_as(s, "only-microbatch", "is microbatch %s alone, of %zu%s; residual %.2g", there.list, p->n, scaled,
                     rest);
  else if (missing.named && there.named + missing.named == p->n)
    ab_search_say_as(s, "missing-microbatch", "is the truth without microbatch%s %s%s; residual %.2g",
                     missing.named > 1 ? "es" : "", missing.list, scaled, rest);
  else if (twice.named && there.named + twice.named == p->n)
    ab_search_say_as(s, "doubled-microbatch", "is the truth with microbatch%s %s counted twice%s; residual %.2g",
                     twice.named > 1 ? "es" : "", twice.list, scaled, rest);
  else if (missing.named && twice.named)
    ab_search_say_as(s, "doubled-microbatch", "is the truth with microbatch %s counted twice and without %s%s; "
                     "residual %.2g", twice.list, missing.list, scaled, rest);
  else if (there.named != p->n)
    ab_search_say_as(s, "doubled-microbatch", "counts microbatch%s %s once and others several times%s; residual %.2g",
                     plural, there.named ? there.list : "(none)", scaled, rest);
}

/* A part is normalised by its own valid positions: their plain mean is the mean of means. */
static bool mean_of_means(struct ab_search *s, const struct parts *p) {
  double equal[AB_EXPLAIN_PARTS], uneven = 0;
  for (size_t i = 0; i < p->n; i++) {
    equal[i] = 1 / (double)p->n;
    uneven = fmax(uneven, fabs(p->tau[i] - equal[i]));
  }
  double rest = residual(p, s, s->x, equal);
  if (uneven < 1e-4 || rest > AB_EXPLAIN_FACTOR * p->noise) return false;
  ab_search_say_as(s, "wrong-denominator", "is the mean of the %zu microbatches' own means, expected one mean over all "
                   "valid positions; residual %.2g", p->n, rest);
  return true;
}

/* |gradient of one pass|, over all leaves. */
static double norm_of_pass(const struct ab_search *s, int microbatch) {
  double squares = 0;
  for (size_t i = 0; i < s->q->passes->observations; i++) {
    const struct ab_observation *o = &s->q->passes->observation[i].observation;
    size_t pass = (size_t)o->id.step;
    bool own = pass < s->q->what_ifs && s->q->what_if[pass].part == microbatch;
    if (own && ab_quantity_of(&o->id) == AB_Q_WEIGHT_GRADIENT) squares += o->summary.l2 * o->summary.l2;
  }
  return sqrt(squares);
}

/* Each microbatch's gradient clipped by itself, then summed. */
static bool clipped_alone(struct ab_search *s, const struct parts *p) {
  double clipped[AB_EXPLAIN_PARTS], most = s->q->update.clip;
  bool any = false;
  for (size_t i = 0; i < p->n && most > 0; i++) {
    double norm = norm_of_pass(s, p->microbatch[i]);
    any |= norm > most;
    clipped[i] = p->tau[i] * (norm > most ? most / norm : 1);
  }
  double rest = any ? residual(p, s, s->x, clipped) : 1;
  if (rest > AB_EXPLAIN_FACTOR * p->noise) return false;
  ab_search_say_as(s, "clipped-per-microbatch", "is the sum of the %zu microbatches' gradients, each clipped to %.6g "
                   "by itself; residual %.2g", p->n, most, rest);
  return true;
}

static void explain_by(struct ab_search *s, struct parts *p) {
  double whole[AB_EXPLAIN_PARTS], rest, factor;
  if (p->n < 2 || p->count < 2 * p->n || !solve(p, s)) return;
  p->noise = fmax(residual(p, s, s->y, p->tau), ab_search_noise(s) / AB_EXPLAIN_FACTOR);
  if (p->noise > 1e-4 || mean_of_means(s, p) || clipped_alone(s, p)) return;
  if (whole_multiples(whole, &rest, p, s, 1)) {
    factor = take_divisor(whole, p->n);
    tell(s, p, whole, factor, rest);
    return;
  }
  factor = common_factor(p);
  if (whole_multiples(whole, &rest, p, s, factor)) tell(s, p, whole, factor, rest);
}

ab_status ab_match_parts(struct ab_search *s) {
  struct parts *p;
  if (s->finding->quantity != AB_Q_WEIGHT_GRADIENT || s->got->observation.summary.max_abs == 0) return AB_OK;
  AB_TRY(ab_mem_new(&p, 1, sizeof *p));
  ab_status status = take_parts(p, s);
  if (status == AB_OK) explain_by(s, p);
  for (size_t i = 0; i < p->n; i++) ab_mem_free(p->value[i]);
  ab_mem_free(p);
  AB_TRY(status);
  return AB_OK;
}
