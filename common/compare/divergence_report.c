#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "divergence.h"
#include "number.h"
#include "page.h"
#include "report_parts.h"

__attribute__((format(printf, 2, 3))) static void say(struct ab_page *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ab_page_vsay(l, AB_ESCAPE_TERMINAL, format, args);
  va_end(args);
}

static void end_line(struct ab_page *l) { ab_page_put(l, "\n"); }

static void put_name(struct ab_page *l, const struct ab_divergent *p) {
  char text[AB_IDENTITY_TEXT];
  ab_identity_print(text, &p->id);
  if (p->metric) say(l, "step %d metric %s", p->id.step, p->id.tensor);
  else say(l, "%s", text);
  if (p->at.iteration >= 0) say(l, " (iteration %d, stage %d, repeat %d)", p->at.iteration, p->at.stage, p->at.repeat);
  if (p->writer[0]) say(l, ", written by %s", p->writer);
}

/* "[1, 0, 7]" of a row-major index. */
static void put_index(struct ab_page *l, const struct ab_shape *shape, size_t flat) {
  int64_t at[AB_MAX_RANK] = {0};
  for (int i = shape->rank; i-- > 0;) {
    size_t extent = shape->dim[i] > 0 ? (size_t)shape->dim[i] : 1;
    at[i] = (int64_t)(flat % extent);
    flat /= extent;
  }
  for (int i = 0; i < shape->rank; i++) say(l, "%s%lld", i ? ", " : " at [", (long long)at[i]);
  if (shape->rank) say(l, "]");
}

static void put_values(struct ab_page *l, const struct ab_divergence *d, const struct ab_divergent *p) {
  const struct ab_difference *x = &p->difference;
  char a[64], b[64];
  if (!x->count || !x->differing) return;
  ab_value_print(a, sizeof a, x->first.a, x->first.bits_a, x->dtype_a);
  ab_value_print(b, sizeof b, x->first.b, x->first.bits_b, x->dtype_b);
  if (!p->metric) say(l, "; %zu of %zu elements, the first", x->differing, x->count);
  put_index(l, &p->shape, x->first.index);
  say(l, ": %s %s, %s %s", d->side, a, d->reference, b);
}

static void line_above(struct ab_page *l, const struct ab_divergence *d) {
  const struct ab_divergent *p = &d->above;
  char limit[AB_NUMBER_MAX];
  ab_number_print(limit, d->limit);
  say(l, "first above bound: ");
  if (!p->known) {
    say(l, "none is proved to be off by more than %s, which rounding can do", limit);
  } else {
    bool same = ab_identity_equal(&p->id, &d->bit.id) && p->metric == d->bit.metric;
    if (same) say(l, "the same");
    else put_name(l, p);
    say(l, ", relative L2 %.3g%s (rounding: %s)", p->distance,
        p->difference.count || !isfinite(p->distance) ? "" : " or more", limit);
  }
  end_line(l);
}

static void put_lines(struct ab_page *l, const struct ab_divergence *d, const struct ab_replayed *r) {
  if (d && d->bit.known) {
    say(l, "first differing bit: %s: ", d->side);
    put_name(l, &d->bit);
    put_values(l, d, &d->bit);
    end_line(l);
    line_above(l, d);
    say(l, "last good tensor: ");
    if (d->good.known) put_name(l, &d->good);
    else say(l, "none");
    end_line(l);
  }
  for (size_t i = 0; r && r->known && i < r->lines; i++) {
    say(l, "%s", r->line[i]);
    end_line(l);
  }
}

ab_status ab_divergence_text(char **out, const struct ab_divergence *divergence, const struct ab_replayed *replayed) {
  struct ab_page l = {0};
  put_lines(&l, divergence, replayed);
  return ab_page_take(out, &l);
}

void ab_report_put_value(struct ab_json_writer *w, const char *key, double value, uint64_t bits, enum ab_dtype dtype) {
  char hex[24];
  snprintf(hex, sizeof hex, "%0*llx", 2 * (int)ab_dtype_size(dtype), (unsigned long long)bits);
  ab_json_put_object(w, key, true);
  if (dtype == AB_F32)
    ab_json_put_float(w, "value", (float)value);
  else if (dtype == AB_F64)
    ab_json_put_double(w, "value", value);
  else
    ab_json_put_int64(w, "value", ab_integer_of(bits, dtype));
  ab_json_put_string(w, "bits", hex);
  ab_json_put_string(w, "dtype", ab_dtype_name(dtype));
  ab_json_put_end(w);
}

static void put_first(struct ab_json_writer *w, const struct ab_difference *x) {
  if (!x->count || !x->differing) {
    ab_json_put_null(w, "values");
    return;
  }
  ab_json_put_object(w, "values", false);
  ab_json_put_int64(w, "differing", (int64_t)x->differing);
  ab_json_put_int64(w, "count", (int64_t)x->count);
  ab_json_put_int64(w, "index", (int64_t)x->first.index);
  ab_report_put_value(w, "side", x->first.a, x->first.bits_a, x->dtype_a);
  ab_report_put_value(w, "reference", x->first.b, x->first.bits_b, x->dtype_b);
  ab_json_put_end(w);
}

static void put_point(struct ab_json_writer *w, const char *key, const struct ab_divergent *p) {
  if (!p->known) {
    ab_json_put_null(w, key);
    return;
  }
  ab_json_put_object(w, key, false);
  ab_json_put_bool(w, "metric", p->metric);
  ab_json_put_int64(w, "step", p->id.step);
  ab_json_put_int64(w, "microbatch", p->id.microbatch);
  ab_json_put_int64(w, "layer", p->id.layer);
  ab_json_put_string(w, "tensor", p->id.tensor);
  ab_json_put_string(w, "phase", ab_phase_name(p->id.phase));
  ab_json_put_int64(w, "iteration", p->at.iteration);
  ab_json_put_int64(w, "stage", p->at.stage);
  ab_json_put_int64(w, "repeat", p->at.repeat);
  ab_json_put_string(w, "operator", p->writer);
  ab_json_put_double(w, "distance", p->distance);
  put_first(w, &p->difference);
  ab_json_put_end(w);
}

static void put_divergence(struct ab_json_writer *w, const struct ab_divergence *d) {
  ab_json_put_object(w, "divergence", false);
  ab_json_put_string(w, "side", d->side);
  ab_json_put_string(w, "reference", d->reference);
  put_point(w, "first_bit", &d->bit);
  put_point(w, "first_above", &d->above);
  put_point(w, "last_good", &d->good);
  ab_json_put_double(w, "limit", d->limit);
  ab_json_put_end(w);
}

static void put_replayed(struct ab_json_writer *w, const struct ab_replayed *r) {
  ab_json_put_object(w, "replay", false);
  ab_json_put_string(w, "kind", r->kind);
  ab_json_put_string(w, "side", r->side);
  ab_json_put_string(w, "operator", r->operator);
  ab_json_put_string(w, "fed", r->fed);
  ab_json_put_string(w, "explains", r->explains);
  ab_json_put_array(w, "lines", false);
  for (size_t i = 0; i < r->lines; i++) ab_json_put_string(w, NULL, r->line[i]);
  ab_json_put_end(w);
  ab_json_put_end(w);
}

void ab_divergence_put(struct ab_json_writer *w, const struct ab_divergence *divergence,
                       const struct ab_replayed *replayed) {
  if (divergence && divergence->bit.known) put_divergence(w, divergence);
  else ab_json_put_null(w, "divergence");
  if (replayed && replayed->known) put_replayed(w, replayed);
  else ab_json_put_null(w, "replay");
}
