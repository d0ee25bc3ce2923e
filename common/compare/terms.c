#include "terms.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "m61.h"
#include "mem.h"

enum { SPARE = 2 };          /* equations beyond the unknowns: what a false fit would have to satisfy by chance */
enum { LARGEST_MULTIPLE = 64 };

/* Terms of one gradient. */
struct gradient {
  int layer;
  char name[AB_NAME_MAX];
  size_t count;     /* elements of a term */
  uint64_t *sketch; /* [parts][points] */
  bool *given;      /* [parts] */
};

struct ab_terms {
  int layers, microbatches, rows, parts;
  size_t points;
  uint64_t *point; /* [points] where polynomials are taken */
  struct gradient *gradient;
  size_t gradients;
};

/* Multiplication by a constant of many bits, high half folded in: enough for points that nobody chooses against us. */
static uint64_t next_word(uint64_t *state) {
  ab_u128 product = (ab_u128)(*state += UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd1342543de82ef95);
  return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

ab_status ab_terms_new(struct ab_terms **out, int layers, int microbatches, int rows) {
  struct ab_terms *terms;
  AB_TRY(ab_mem_new(&terms, 1, sizeof *terms));
  *terms = (struct ab_terms){layers, microbatches, rows, microbatches * rows, 0, NULL, NULL, 0};
  terms->points = 2 * (size_t)terms->parts + SPARE;
  ab_status status = ab_mem_new(&terms->point, terms->points, sizeof *terms->point);
  if (status != AB_OK) {
    ab_terms_free(terms);
    AB_TRY(status);
  }
  uint64_t state = 1;
  for (size_t j = 0; j < terms->points; j++) terms->point[j] = ab_m61_reduce(next_word(&state));
  *out = terms;
  return AB_OK;
}

void ab_terms_free(struct ab_terms *terms) {
  if (!terms) return;
  for (size_t i = 0; i < terms->gradients; i++) {
    ab_mem_free(terms->gradient[i].sketch);
    ab_mem_free(terms->gradient[i].given);
  }
  ab_mem_free(terms->gradient);
  ab_mem_free(terms->point);
  ab_mem_free(terms);
}

/* Horner's rule at every point. out [points]. */
static ab_status take_sketch(uint64_t *out, const struct ab_terms *terms, const char *name,
                             const struct ab_view *view) {
  struct ab_cursor cursor;
  bool residues = view->dtype == AB_M61;
  memset(out, 0, terms->points * sizeof *out);
  ab_cursor_start(&cursor, view);
  for (size_t n; (n = ab_cursor_next(&cursor));)
    for (size_t i = 0; i < n; i++) {
      uint64_t x = cursor.bits[i];
      if (!residues && !ab_m61_of_double(&x, cursor.value[i]))
        return AB_FAIL(AB_EFORMAT, "gradient '%s' has the value %g; expected an integer", name, cursor.value[i]);
      for (size_t j = 0; j < terms->points; j++) out[j] = ab_m61_add(ab_m61_multiply(out[j], terms->point[j]), x);
    }
  return AB_OK;
}

static struct gradient *find(const struct ab_terms *terms, int layer, const char *name) {
  for (size_t i = 0; i < terms->gradients; i++)
    if (terms->gradient[i].layer == layer && strcmp(terms->gradient[i].name, name) == 0) return &terms->gradient[i];
  return NULL;
}

static ab_status add_gradient(struct gradient **out, struct ab_terms *terms, int layer, const char *name,
                              size_t count) {
  struct gradient g = {.layer = layer, .count = count};
  snprintf(g.name, sizeof g.name, "%s", name);
  AB_TRY(ab_mem_resize(&terms->gradient, terms->gradients + 1, sizeof *terms->gradient));
  AB_TRY(ab_mem_new(&g.given, (size_t)terms->parts, sizeof *g.given));
  ab_status status = ab_mem_new(&g.sketch, (size_t)terms->parts * terms->points, sizeof *g.sketch);
  if (status != AB_OK) {
    ab_mem_free(g.given);
    AB_TRY(status);
  }
  *out = &terms->gradient[terms->gradients++];
  **out = g;
  return AB_OK;
}

ab_status ab_terms_add(struct ab_terms *terms, int layer, const char *name, int part, const struct ab_view *term) {
  size_t count = ab_view_count(term);
  struct gradient *g = find(terms, layer, name);
  if (part < 0 || part >= terms->parts || layer < 0 || layer >= terms->layers)
    return AB_FAIL(AB_EMISMATCH, "term %d of '%s' in layer %d; expected one of %d terms in %d layers", part, name,
                   layer, terms->parts, terms->layers);
  if (!g) AB_TRY(add_gradient(&g, terms, layer, name, count));
  if (g->count != count || g->given[part])
    return AB_FAIL(AB_EMISMATCH, "term %d of '%s' in layer %d has %zu elements%s; expected %zu, once", part, name,
                   layer, count, g->given[part] ? " and was given before" : "", g->count);
  AB_TRY(take_sketch(g->sketch + (size_t)part * terms->points, terms, name, term));
  g->given[part] = true;
  return AB_OK;
}

/* One linear system: `points` equations, each a row of `unknowns` coefficients and the right side. */
struct solver {
  const struct ab_terms *terms;
  size_t unknowns, width; /* width = unknowns + 1 */
  uint64_t *row;          /* [points][width] */
  int64_t *solution;      /* [unknowns] how often more than expected */
  bool unique;
};

static void put_column(struct solver *s, size_t column, const uint64_t *sketch) {
  for (size_t j = 0; j < s->terms->points; j++) s->row[j * s->width + column] = sketch[j];
}

static void swap_rows(struct solver *s, size_t a, size_t b) {
  for (size_t i = 0; i < s->width && a != b; i++) {
    uint64_t keep = s->row[a * s->width + i];
    s->row[a * s->width + i] = s->row[b * s->width + i];
    s->row[b * s->width + i] = keep;
  }
}

/* Makes row `pivot` one in `column`, and every other row zero there. */
static void eliminate(struct solver *s, size_t pivot, size_t column) {
  uint64_t *own = s->row + pivot * s->width, inverse = ab_m61_inverse(own[column]);
  for (size_t i = column; i < s->width; i++) own[i] = ab_m61_multiply(own[i], inverse);
  for (size_t j = 0; j < s->terms->points; j++) {
    uint64_t *row = s->row + j * s->width, factor = row[column];
    for (size_t i = column; i < s->width && j != pivot && factor; i++)
      row[i] = ab_m61_subtract(row[i], ab_m61_multiply(factor, own[i]));
  }
}

/* Gauss and Jordan; unknowns without a pivot stay 0. True for a solution in small integers. */
static bool solve(struct solver *s) {
  size_t rank = 0, points = s->terms->points;
  s->unique = true;
  for (size_t column = 0; column < s->unknowns; column++) {
    size_t pivot = rank;
    while (pivot < points && !s->row[pivot * s->width + column]) pivot++;
    s->solution[column] = pivot < points ? (int64_t)rank : -1;
    s->unique &= pivot < points;
    if (pivot == points) continue;
    swap_rows(s, rank, pivot);
    eliminate(s, rank++, column);
  }
  for (size_t j = rank; j < points; j++)
    if (s->row[j * s->width + s->unknowns]) return false;
  bool small = true;
  for (size_t column = 0; column < s->unknowns; column++) {
    int64_t at = s->solution[column];
    s->solution[column] = at < 0 ? 0 : ab_m61_integer(s->row[(size_t)at * s->width + s->unknowns]);
    small &= llabs(s->solution[column]) <= LARGEST_MULTIPLE;
  }
  return small;
}

/* The question being answered. */
struct question {
  const struct ab_terms *terms;
  const struct gradient *own;
  uint64_t *got, *rest; /* [points]; rest: what is there more than every own term once */
  struct solver solver;
};

static void say(struct ab_explanation *e, const char *format, ...) {
  size_t used = strlen(e->text);
  va_list args;
  va_start(args, format);
  vsnprintf(e->text + used, sizeof e->text - used, format, args);
  va_end(args);
}

static void say_times(struct ab_explanation *e, int64_t times, bool stranger) {
  if (stranger && times == 1) say(e, " is added");
  else if (times == 0) say(e, " is missing");
  else if (times == -1) say(e, " is subtracted");
  else if (times == 2) say(e, " is there twice");
  else say(e, " is there %lld times", (long long)times);
}

static void add_odd(struct ab_explanation *e, const struct ab_terms *terms, const struct ab_odd_term *odd, int own) {
  if (e->odds < AB_ODD_MOST) e->odd[e->odds] = *odd;
  say(e, "%smicrobatch %d", e->odds ? ", " : "", odd->part / terms->rows);
  if (terms->rows > 1) say(e, " row %d", odd->part % terms->rows);
  if (odd->layer != own) say(e, " of layer %d", odd->layer);
  say_times(e, odd->times, odd->layer != own);
  e->odds++;
}

static void tell_terms(struct ab_explanation *e, const struct question *q, const struct gradient *other) {
  size_t parts = (size_t)q->terms->parts;
  const int64_t *more = q->solver.solution;
  e->unique = q->solver.unique;
  bool same = true;
  for (size_t t = 0; t < parts; t++) same &= more[t] == more[0];
  if (same && !other) {
    e->kind = AB_EXPLAINED_SCALED;
    e->times = 1 + more[0];
    say(e, "is %lld times the true gradient", (long long)e->times);
    return;
  }
  e->kind = AB_EXPLAINED_TERMS;
  for (size_t t = 0; t < q->solver.unknowns; t++) {
    bool stranger = t >= parts;
    struct ab_odd_term odd = {stranger ? other->layer : q->own->layer, (int)(t % parts), more[t] + !stranger};
    if (more[t]) add_odd(e, q->terms, &odd, q->own->layer);
  }
}

/* Own terms, and those of another layer unless that is NULL. */
static bool fit(struct question *q, const struct gradient *other) {
  struct solver *s = &q->solver;
  size_t parts = (size_t)q->terms->parts, points = q->terms->points;
  s->unknowns = other ? 2 * parts : parts;
  s->width = s->unknowns + 1;
  for (size_t t = 0; t < parts; t++) put_column(s, t, q->own->sketch + t * points);
  for (size_t t = 0; other && t < parts; t++) put_column(s, parts + t, other->sketch + t * points);
  put_column(s, s->unknowns, q->rest);
  return solve(s);
}

static void sum_terms(uint64_t *out, const struct ab_terms *terms, const struct gradient *g) {
  memset(out, 0, terms->points * sizeof *out);
  for (size_t t = 0; t < (size_t)terms->parts; t++)
    for (size_t j = 0; j < terms->points; j++) out[j] = ab_m61_add(out[j], g->sketch[t * terms->points + j]);
}

static bool is_zero(const uint64_t *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (x[i]) return false;
  return true;
}

static bool comparable(const struct question *q, const struct gradient *g) {
  return g != q->own && g->count == q->own->count && strcmp(g->name, q->own->name) == 0;
}

/* The whole gradient of another layer; the solver's rows lend their memory. */
static bool is_layer(struct ab_explanation *e, const struct question *q, const struct gradient *g) {
  sum_terms(q->solver.row, q->terms, g);
  if (memcmp(q->solver.row, q->got, q->terms->points * sizeof *q->got) != 0) return false;
  e->kind = AB_EXPLAINED_LAYER;
  e->layer = g->layer;
  say(e, "is the gradient of layer %d", g->layer);
  return true;
}

static bool explained_by_own(struct ab_explanation *e, struct question *q) {
  size_t points = q->terms->points;
  if (is_zero(q->rest, points)) {
    say(e, "is right: every term is there once");
    return true;
  }
  if (is_zero(q->got, points)) {
    e->kind = AB_EXPLAINED_ZERO;
    say(e, "is zero: no microbatch adds to it");
    return true;
  }
  if (!fit(q, NULL)) return false;
  tell_terms(e, q, NULL);
  return true;
}

static void explain(struct ab_explanation *e, struct question *q) {
  const struct ab_terms *terms = q->terms;
  *e = (struct ab_explanation){.kind = AB_EXPLAINED_EQUAL, .layer = q->own->layer, .times = 1, .unique = true};
  if (explained_by_own(e, q)) return;
  for (size_t i = 0; i < terms->gradients; i++)
    if (comparable(q, &terms->gradient[i]) && is_layer(e, q, &terms->gradient[i])) return;
  for (size_t i = 0; i < terms->gradients; i++) {
    if (!comparable(q, &terms->gradient[i]) || !fit(q, &terms->gradient[i])) continue;
    tell_terms(e, q, &terms->gradient[i]);
    return;
  }
  e->kind = AB_EXPLAINED_NOT;
  say(e, "is no sum of the true terms: a value in it is wrong");
}

static ab_status answer(struct ab_explanation *out, struct question *q, const struct ab_view *got) {
  const struct ab_terms *terms = q->terms;
  size_t most = 2 * (size_t)terms->parts + 1;
  AB_TRY(ab_mem_new(&q->got, terms->points, sizeof *q->got));
  AB_TRY(ab_mem_new(&q->rest, terms->points, sizeof *q->rest));
  AB_TRY(ab_mem_new(&q->solver.row, terms->points * most, sizeof *q->solver.row));
  AB_TRY(ab_mem_new(&q->solver.solution, most, sizeof *q->solver.solution));
  AB_TRY(take_sketch(q->got, terms, q->own->name, got));
  sum_terms(q->rest, terms, q->own);
  for (size_t j = 0; j < terms->points; j++) q->rest[j] = ab_m61_subtract(q->got[j], q->rest[j]);
  explain(out, q);
  return AB_OK;
}

ab_status ab_terms_explain(struct ab_explanation *out, const struct ab_terms *terms, int layer, const char *name,
                           const struct ab_view *got) {
  struct question q = {.terms = terms, .own = find(terms, layer, name), .solver = {.terms = terms}};
  int given = 0;
  for (int t = 0; q.own && t < terms->parts; t++) given += q.own->given[t];
  if (given < terms->parts || q.own->count != ab_view_count(got))
    return AB_FAIL(AB_EMISMATCH, "gradient '%s' of layer %d has %zu elements and %d known terms; expected %zu and %d",
                   name, layer, ab_view_count(got), given, q.own ? q.own->count : 0, terms->parts);
  ab_status status = answer(out, &q, got);
  void *blocks[] = {q.got, q.rest, q.solver.row, q.solver.solution};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ab_mem_free(blocks[i]);
  AB_TRY(status);
  return AB_OK;
}
