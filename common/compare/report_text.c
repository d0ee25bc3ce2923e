#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "number.h"
#include "page.h"
#include "report_parts.h"

enum { SHOWN_GROUPS = 5, SHOWN_NOTES = 8 };

static void put(struct ab_page *l, const char *text) { ab_page_put(l, text); }

/* printf whose result is escaped: everything from outside passes here. */
__attribute__((format(printf, 2, 3))) static void say(struct ab_page *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ab_page_vsay(l, AB_ESCAPE_TERMINAL, format, args);
  va_end(args);
}

static const char *text_or(const char *text, const char *otherwise) { return text ? text : otherwise; }

const char *ab_headline(enum ab_exit exit) {
  static const char *const words[] = {[AB_EXIT_EQUAL] = "EQUAL",
                                      [AB_EXIT_DIFFERENT] = "DIFFERENT",
                                      [AB_EXIT_USAGE] = "ERROR",
                                      [AB_EXIT_SIDE] = "SIDE FAILED",
                                      [AB_EXIT_GOLDEN] = "GOLDEN UNUSABLE",
                                      [AB_EXIT_INCOMPARABLE] = "NOT COMPARABLE",
                                      [AB_EXIT_SELFTEST] = "SELF-TEST FAILED"};
  return words[exit];
}

static void line_verdict(struct ab_page *l, const struct ab_report *r) {
  enum ab_exit exit = ab_report_exit(r);
  const struct ab_verdict *v = r->verdicts ? r->verdict[0] : NULL;
  say(l, "%s: ", ab_headline(exit));
  if (v) say(l, "%s against %s, ", v->name_a, v->name_b);
  say(l, "%s", text_or(r->case_name, "no case"));
  if (v && v->failing)
    say(l, "; %zu of %zu tensors and metrics differ", v->failing,
        v->tensors.compared + v->metrics.compared + v->unpinned);
  if (r->verdicts) say(l, "; cause: %s", ab_cause_name(r->cause));
  put(l, "\n");
}

static void lines_failures(struct ab_page *l, const struct ab_report *r) {
  for (size_t i = 0; i < r->failures; i++) {
    say(l, "failed: side %s: %s; last observation: %s", r->failure[i].side, r->failure[i].reason,
        text_or(r->failure[i].last, "nothing"));
    put(l, "\n");
  }
  if (!r->extra_sentence) return;
  say(l, "because: %s", r->extra_sentence);
  put(l, "\n");
}

/* Why the cause is what it is, one line for each relation. */
static void lines_reasons(struct ab_page *l, const struct ab_report *r) {
  for (int f = 0; r->facts && f < AB_FACTS; f++) {
    if (!ab_fact_telling(r->facts, (enum ab_fact)f)) continue;
    say(l, "reason: %s", r->facts->reason[f]);
    put(l, "\n");
  }
}

static void put_shapes(struct ab_page *l, const struct ab_group *g) {
  char a[160], b[160];
  ab_shape_print(a, sizeof a, &g->shape_a);
  ab_shape_print(b, sizeof b, &g->shape_b);
  if (g->change == AB_CHANGE_RESHAPED) say(l, ", %s instead of %s", a, b);
  if (g->change == AB_CHANGE_RETYPED)
    say(l, ", %s instead of %s", ab_dtype_name(g->dtype_a), ab_dtype_name(g->dtype_b));
}

static void lines_structure(struct ab_page *l, const struct ab_verdict *v) {
  size_t shown = v->groups < SHOWN_GROUPS ? v->groups : SHOWN_GROUPS;
  for (size_t i = 0; i < shown; i++) {
    say(l, "structure: %s in %s: %s (%zu)", ab_change_name(v->group[i].change), v->name_a, v->group[i].pattern,
        v->group[i].count);
    put_shapes(l, &v->group[i]);
    put(l, "\n");
  }
  char lack[AB_LACK_TEXT];
  ab_verdict_lack(lack, v);
  if (!v->changed && lack[0]) say(l, "structure: %s against %s: %s", v->name_a, v->name_b, lack);
  if (!v->changed && lack[0]) put(l, "\n");
  size_t left = v->groups - shown + v->groups_left_out;
  if (left) say(l, "structure: and %zu more patterns, %zu identities in all", left, v->changed);
  if (left) put(l, "\n");
}

static void put_tally(struct ab_page *l, const char *what, const struct ab_tally *t) {
  if (t->expected == AB_UNCOUNTED)
    say(l, "%zu %s", t->compared, what);
  else
    say(l, "%zu of %zu %s", t->compared, t->expected, what);
}

static void put_value_tallies(struct ab_page *l, const struct ab_verdict *v) {
  put(l, ", ");
  put_tally(l, "elements", &v->elements);
  put(l, ", ");
  put_tally(l, "metrics", &v->metrics);
  put(l, ", ");
  put_tally(l, "steps", &v->steps);
}

void ab_report_put_compared(struct ab_page *l, const struct ab_verdict *v) {
  put(l, v->headers ? "compared: name, shape and dtype of " : "compared: ");
  put_tally(l, "tensors", &v->tensors);
  if (!v->headers) put_value_tallies(l, v);
  if (v->unpinned) say(l, ", and %zu without an expected count", v->unpinned);
  if (v->ignored) say(l, ", %zu ignored", v->ignored);
  if (v->unjudged) say(l, ", %zu NOT JUDGED", v->unjudged);
  if (!v->counts_right) put(l, " (expected and compared differ)");
  put(l, "\n");
}

static void line_numerics(struct ab_page *l, const struct ab_report *r) {
  say(l, "numerics: %s; dtype: %s", text_or(r->numerics, "unknown"), text_or(r->dtype, "unknown"));
  put(l, "\n");
}

static void put_other(struct ab_page *l, const struct ab_verdict *v) {
  say(l, "%s against %s: ", v->name_a, v->name_b);
  bool within = v->exit == AB_EXIT_EQUAL && v->differing;
  say(l, "%s (%zu tensors, %zu metrics", within ? "within bounds" : ab_exit_reason(v->exit), v->tensors.compared,
      v->metrics.compared);
  if (v->failing) say(l, ", %zu fail", v->failing);
  put(l, ")");
}

static void line_against(struct ab_page *l, const struct ab_report *r) {
  put(l, "also: ");
  for (size_t i = 1; i < r->verdicts; i++) {
    if (i > 1) put(l, "; ");
    put_other(l, r->verdict[i]);
  }
  put(l, r->verdicts > 1 ? "\n" : "nothing else was asked for\n");
}

static void put_finding(struct ab_page *l, const struct ab_finding *f) {
  char text[AB_IDENTITY_TEXT];
  ab_identity_print(text, &f->id);
  if (f->metric)
    say(l, "step %d metric %s", f->id.step, f->id.tensor);
  else
    say(l, "%s", text);
}

static void lines_explained(struct ab_page *l, const struct ab_report *r) {
  for (size_t i = 0; r->explained && i < r->explained->lines; i++) {
    const struct ab_explained_line *e = &r->explained->line[i];
    struct ab_finding of = {.metric = e->metric, .id = e->of};
    say(l, "explanation: %s: ", e->side);
    put_finding(l, &of);
    say(l, ": %s [%s]", e->text, e->id);
    put(l, "\n");
  }
}

/* "[1, 0, 7]" of a row-major index. */
static void put_index(struct ab_page *l, const struct ab_shape *shape, size_t flat) {
  int64_t at[AB_MAX_RANK];
  for (int i = shape->rank; i-- > 0;) {
    at[i] = shape->dim[i] ? (int64_t)(flat % (size_t)shape->dim[i]) : 0;
    flat /= shape->dim[i] ? (size_t)shape->dim[i] : 1;
  }
  put(l, "[");
  for (int i = 0; i < shape->rank; i++) say(l, "%s%lld", i ? ", " : "", (long long)at[i]);
  put(l, "]");
}

static void put_agreement(struct ab_page *l, const struct ab_verdict *v) {
  if (v->headers)
    put(l, "no value was read");
  else if (v->sign_only)
    say(l, "nothing differs but the sign of zero, in %zu elements and metrics", v->sign_only);
  else
    put(l, "no tensor differs in any bit");
  put(l, "\n");
}

static void line_worst(struct ab_page *l, const char *word, const struct ab_verdict *v, const struct ab_finding *f) {
  say(l, "%s: ", word);
  if (!f->differs) {
    put_agreement(l, v);
    return;
  }
  put_finding(l, f);
  say(l, " (%s against %s, %s", v->name_a, v->name_b, ab_quantity_name(f->quantity));
  if (f->difference.differing && !f->metric)
    say(l, ", %zu of %zu elements differ", f->difference.differing, f->difference.count);
  if (f->difference.has_ulp) say(l, ", at most %llu ulp", (unsigned long long)f->difference.max_ulp);
  put(l, ")\n");
}

static void line_values(struct ab_page *l, const struct ab_verdict *v, const struct ab_finding *f) {
  const struct ab_value_pair *p = &f->difference.worst;
  char a[64], b[64];
  if (!f->differs || !f->difference.differing) {
    put(l, f->differs ? "values: not kept on both sides\n" : "values: none to show\n");
    return;
  }
  ab_value_print(a, sizeof a, p->a, p->bits_a, f->difference.dtype_a);
  ab_value_print(b, sizeof b, p->b, p->bits_b, f->difference.dtype_b);
  say(l, "values: %s %s, %s %s", v->name_a, a, v->name_b, b);
  if (!f->metric) put(l, " at ");
  if (!f->metric) put_index(l, &f->shape, p->index);
  put(l, "\n");
}

/* A distance from norms is a lower bound only. */
static const char *certainty(const struct ab_finding *f) {
  if (f->evidence == AB_EVIDENCE_ESTIMATE) return " (estimate)";
  return f->evidence == AB_EVIDENCE_DIGEST && f->differs ? " or more" : "";
}

static void line_bound(struct ab_page *l, const struct ab_verdict *v, const struct ab_finding *f) {
  char limit[AB_NUMBER_MAX], distance[AB_NUMBER_MAX];
  ab_number_print(limit, f->bound.limit);
  ab_number_print(distance, f->distance);
  if (!v->any || v->headers) {
    put(l, v->any ? "bound: no value was read\n" : "bound: nothing was compared\n");
    return;
  }
  if (f->bound.tier == AB_TIER_BITWISE)
    put(l, "bound: bitwise; ");
  else
    say(l, "bound: relative L2 <= %s, %s; ", limit, ab_rule_name(f->bound.rule));
  if (!isfinite(f->distance))
    put(l, "no tolerance would let it pass");
  else
    say(l, "%s %s%s", f->fails ? "would pass at" : "needs", distance, certainty(f));
  put(l, "\n");
}

/* Which of both is nearer to float64. */
static void line_distance(struct ab_page *l, const struct ab_report *r) {
  const struct ab_distance *d = r->distance;
  char a[24], b[24], where[AB_IDENTITY_TEXT];
  if (!d || !d->known || !r->verdicts) return;
  ab_distance_print(a, d->a);
  ab_distance_print(b, d->b);
  ab_identity_print(where, &d->worst);
  say(l, "distance to truth: %s %s, %s %s (x the float32 oracle's own; ", r->verdict[0]->name_a, a,
      r->verdict[0]->name_b, b);
  if (d->metric) say(l, "step %d metric %s", d->worst.step, d->worst.tensor);
  else say(l, "%s", where);
  put(l, ")\n");
}

static void line_slope(struct ab_page *l, const struct ab_report *r) {
  const struct ab_slope *s = r->slope;
  if (!s || !s->known || !r->verdicts) return;
  say(l, "slope of the float64 loss: %.9g; %s %.9g (off by %.1e), %s %.9g (off by %.1e); step %d, tolerance %g",
      s->truth, r->verdict[0]->name_a, s->by[0], ab_slope_error(s, 0), r->verdict[0]->name_b, s->by[1],
      ab_slope_error(s, 1), s->step, AB_SLOPE_TOLERANCE);
  put(l, "\n");
}

static void put_place(struct ab_page *l, const struct ab_where *at) {
  if (at->iteration >= 0) say(l, " iteration %d", at->iteration);
  if (at->stage >= 0) say(l, " stage %d", at->stage);
  if (at->repeat >= 0) say(l, " repeat %d", at->repeat);
}

void ab_report_put_first(struct ab_page *l, const struct ab_verdict *v) {
  put(l, "first divergence: ");
  if (!v->failing) {
    put(l, "none");
  } else {
    put_finding(l, &v->first);
    put_place(l, &v->first.at_b);
    say(l, " (%s against %s)", v->name_a, v->name_b);
  }
  if (v->failing && v->steps.compared) say(l, "; %zu of %zu steps are exact", v->exact_steps, v->steps.compared);
  put(l, "\n");
}

void ab_report_put_finding(struct ab_page *l, const char *word, const struct ab_verdict *v,
                           const struct ab_finding *f) {
  line_worst(l, word, v, f);
  line_values(l, v, f);
  line_bound(l, v, f);
}

static void lines_shown(struct ab_page *l, const struct ab_report *r) {
  const struct ab_verdict *shown = ab_report_shown(r);
  if (!shown) return;
  ab_report_put_finding(l, "worst", shown, &shown->worst);
  ab_report_put_first(l, shown);
}

/* --verbose: all that differs, as it came. */
static void lines_findings(struct ab_page *l, const struct ab_report *r) {
  for (size_t i = 0; r->verbose && i < r->verdicts; i++) {
    const struct ab_verdict *v = r->verdict[i];
    for (size_t f = 0; f < v->findings; f++)
      ab_report_put_finding(l, v->finding[f].fails ? "finding over its bound" : "finding", v, &v->finding[f]);
    if (v->findings < v->differing) say(l, "findings: and %zu more", v->differing - v->findings);
    if (v->findings < v->differing) put(l, "\n");
  }
}

static void lines_divergence(struct ab_page *l, const struct ab_report *r) {
  char *text;
  if (l->failed != AB_OK) return;
  l->failed = ab_divergence_text(&text, r->divergence, r->replayed);
  if (l->failed != AB_OK) return;
  put(l, text);
  ab_mem_free(text);
}

static void lines_teeth(struct ab_page *l, const struct ab_report *r) {
  char *text;
  if (!r->teeth || l->failed != AB_OK) return;
  l->failed = ab_teeth_text(&text, r->teeth, r->verbose);
  if (l->failed != AB_OK) return;
  put(l, text);
  ab_mem_free(text);
}

static void lines_notes(struct ab_page *l, const struct ab_report *r) {
  for (size_t i = 0; i < r->notes && i < SHOWN_NOTES; i++) {
    say(l, "note: %s", r->note[i]);
    put(l, "\n");
  }
  if (r->notes > SHOWN_NOTES) say(l, "note: and %zu more", r->notes - SHOWN_NOTES);
  if (r->notes > SHOWN_NOTES) put(l, "\n");
}

ab_status ab_report_text(char **out, const struct ab_report *report) {
  struct ab_page l = {0};
  enum ab_exit exit = ab_report_exit(report);
  line_verdict(&l, report);
  lines_failures(&l, report);
  lines_divergence(&l, report);
  lines_explained(&l, report);
  lines_reasons(&l, report);
  for (size_t i = 0; i < report->verdicts; i++) lines_structure(&l, report->verdict[i]);
  if (report->verdicts) ab_report_put_compared(&l, report->verdict[0]);
  line_numerics(&l, report);
  if (report->verdicts) line_against(&l, report);
  lines_shown(&l, report);
  line_distance(&l, report);
  line_slope(&l, report);
  lines_findings(&l, report);
  lines_teeth(&l, report);
  lines_notes(&l, report);
  put(&l, "reproduce: ");
  say(&l, "%s", text_or(report->command, "unknown"));
  put(&l, "\n");
  say(&l, "exit: %d (%s)", (int)exit, ab_exit_reason(exit));
  put(&l, "\n");
  AB_TRY(ab_page_take(out, &l));
  return AB_OK;
}
