#include "explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "explain_search.h"
#include "mem.h"

/* What a row is about, and what must be there to try it. */
enum need {
  TENSOR = 1,  /* a tensor on both sides */
  METRIC = 2,  /* a metric */
  VALUES = 4,  /* both tensors' values */
  PASSES = 8,  /* what-if passes */
  UPDATED = 16 /* a parameter after the update */
};

struct row {
  const char *id;
  unsigned needs;
  ab_status (*match)(struct ab_search *s);
};

static const struct row rows[] = {
    {"not-finite", TENSOR, ab_match_not_finite},
    {"zero", TENSOR, ab_match_zero},
    {"norms", TENSOR, ab_match_norms},
    {"other-microbatch", TENSOR, ab_match_other_microbatch},
    {"other-layer", TENSOR, ab_match_other_layer},
    {"stale", TENSOR, ab_match_stale},
    {"not-cleared", TENSOR | VALUES, ab_match_not_cleared},
    {"constant-factor", TENSOR | VALUES, ab_match_factor},
    {"transposed", TENSOR | VALUES, ab_match_transposed},
    {"permuted", TENSOR | VALUES, ab_match_permuted},
    {"16-bit-accumulator", TENSOR | VALUES, ab_match_16_bit},
    {"missing-microbatch", TENSOR | VALUES | PASSES, ab_match_parts},
    {"what-if", TENSOR | PASSES, ab_match_what_if},
    {"update", TENSOR | UPDATED, ab_match_update},
    {"lr-of-step", METRIC, ab_match_metric_rate},
    {"not-clipped", METRIC, ab_match_metric_clip},
    {"constant-factor", METRIC, ab_match_metric_factor},
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *const ab_explain_vocabulary[] = {
    "zero", "constant-factor", "missing-microbatch", "doubled-microbatch", "only-microbatch", "other-layer",
    "other-microbatch", "other-repeat", "transposed", "permuted", "positions-of-microbatch", "segments-of-microbatch",
    "no-segments", "shifted-labels", "labels-of-microbatch", "wrong-denominator", "per-stage-clip", "not-clipped",
    "clipped-per-microbatch", "lr-of-step", "bias-correction", "betas", "weight-decay", "stale", "16-bit-accumulator",
    "not-finite", "swapped-stages", "missing-term", "count", "none", NULL};

static void add(struct ab_search *s, const char *id, const char *text) {
  struct ab_explained_list *list = s->out;
  if (list->lines == AB_EXPLAIN_LINES) return;
  struct ab_explained_line *line = &list->line[list->lines++];
  *line = (struct ab_explained_line){.of = s->finding->id, .metric = s->finding->metric};
  snprintf(line->id, sizeof line->id, "%s", id);
  snprintf(line->side, sizeof line->side, "%s", s->q->got->name);
  snprintf(line->text, sizeof line->text, "%s", text);
}

void ab_search_say(struct ab_search *s, const char *format, ...) {
  char text[AB_EXPLAIN_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  add(s, s->id, text);
}

void ab_search_say_as(struct ab_search *s, const char *id, const char *format, ...) {
  char text[AB_EXPLAIN_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  add(s, id, text);
}

static ab_status widen(double **out, const struct ab_view *view) {
  struct ab_cursor cursor;
  double *values;
  size_t filled = 0;
  AB_TRY(ab_mem_new(&values, ab_view_count(view) + 1, sizeof *values));
  ab_cursor_start(&cursor, view);
  for (size_t n; (n = ab_cursor_next(&cursor)); filled += n) memcpy(values + filled, cursor.value, n * sizeof *values);
  *out = values;
  return AB_OK;
}

ab_status ab_search_values(double **out, size_t *count, const struct ab_explain *q, int side,
                           const struct ab_identity *id) {
  const struct ab_recording *of[AB_EXPLAIN_SIDES] = {q->got, q->truth, q->passes};
  const struct ab_recorded *recorded = of[side] ? ab_recording_find(of[side], id) : NULL;
  struct ab_view view;
  *out = NULL;
  if (!recorded || !q->values) return AB_OK;
  ab_status status = q->values(q->ctx, side, &recorded->observation, &view);
  if (status == AB_ENOTFOUND) {
    ab_status_clear();
    return AB_OK;
  }
  AB_TRY(status);
  if (view.dtype != AB_F32 && view.dtype != AB_F64) return AB_OK;
  *count = ab_view_count(&view);
  AB_TRY(widen(out, &view));
  return AB_OK;
}

bool ab_search_name(char text[96], const struct ab_explain *q, double factor) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < q->numbers && used < 80; i++)
    if (fabs(factor - q->number[i].value) <= 1e-5 * fabs(q->number[i].value))
      used += (size_t)snprintf(text + used, 96 - used, "%s%.12s", used ? " = " : " (= ", q->number[i].name);
  if (used) snprintf(text + used, 96 - used, ")");
  return used > 0;
}

double ab_search_noise(const struct ab_search *s) {
  const struct ab_bound *bound = &s->finding->bound;
  return bound->tier == AB_TIER_BOUNDED ? fmax(AB_EXPLAIN_NOISE, bound->limit) : AB_EXPLAIN_NOISE;
}

double ab_search_residual(const double *x, const double *y, double k, size_t n) {
  double rest = 0, whole = 0;
  for (size_t i = 0; i < n; i++) {
    double d = x[i] - k * y[i];
    rest += d * d;
    whole += y[i] * y[i];
  }
  return sqrt(rest) / sqrt(whole);
}

static unsigned available(const struct ab_search *s) {
  if (s->finding->metric) return METRIC;
  bool both = s->got && s->truth, finite = both && !s->got->observation.summary.nonfinite;
  return (both ? TENSOR : 0u) | (s->x && s->y && finite ? VALUES : 0u) | (both && s->q->passes ? PASSES : 0u) |
         (s->finding->id.phase == AB_UPDATE ? UPDATED : 0u);
}

static void say_none(struct ab_search *s, unsigned have) {
  char tried[AB_EXPLAIN_TEXT - 64];
  size_t used = 0;
  tried[0] = '\0';
  for (int i = 0; i < ROWS && used < sizeof tried - 48; i++)
    if ((rows[i].needs & ~have) == 0)
      used += (size_t)snprintf(tried + used, sizeof tried - used, "%s%s", used ? ", " : "", rows[i].id);
  s->id = "none";
  if (have & VALUES)
    ab_search_say(s, "no explanation found, at a relative L2 of %.2g; tried: %s",
                  ab_search_residual(s->x, s->y, 1, s->count), tried);
  else
    ab_search_say(s, "no explanation found; tried: %s%s", used ? tried : "nothing",
                  s->finding->metric ? "" : " (its values were not kept)");
}

static ab_status search(struct ab_search *s) {
  size_t before = s->out->lines, x = 0, y = 0;
  const struct ab_identity *id = &s->finding->id;
  if (!s->finding->metric) {
    s->got = ab_recording_find(s->q->got, id);
    s->truth = ab_recording_find(s->q->truth, id);
    AB_TRY(ab_search_values(&s->x, &x, s->q, 0, id));
    AB_TRY(ab_search_values(&s->y, &y, s->q, 1, id));
  }
  s->count = x;
  unsigned have = available(s);
  if (x != y) have &= ~(unsigned)VALUES;
  for (int i = 0; i < ROWS; i++) {
    s->id = rows[i].id;
    if ((rows[i].needs & ~have) == 0) AB_TRY(rows[i].match(s));
  }
  if (s->out->lines == before) say_none(s, have);
  return AB_OK;
}

static bool told(const struct ab_explained_list *list, const struct ab_explain *q, const struct ab_finding *finding) {
  for (size_t i = 0; i < list->lines; i++) {
    const struct ab_explained_line *line = &list->line[i];
    if (line->metric == finding->metric && !strcmp(line->side, q->got->name) &&
        ab_identity_equal(&line->of, &finding->id))
      return true;
  }
  return false;
}

ab_status ab_explain(struct ab_explained_list *out, const struct ab_explain *question,
                     const struct ab_finding *finding) {
  struct ab_search s = {.q = question, .finding = finding, .out = out};
  if (told(out, question, finding)) return AB_OK;
  ab_status status = search(&s);
  ab_mem_free(s.x);
  ab_mem_free(s.y);
  AB_TRY(status);
  return AB_OK;
}
