#include <stdio.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "report_parts.h"

static void put_count(struct ab_json_writer *w, const char *key, size_t count) {
  if (count == AB_UNCOUNTED)
    ab_json_put_null(w, key);
  else
    ab_json_put_int64(w, key, (int64_t)count);
}

static void put_string(struct ab_json_writer *w, const char *key, const char *text) {
  if (text)
    ab_json_put_string(w, key, text);
  else
    ab_json_put_null(w, key);
}

static void put_exit(struct ab_json_writer *w, enum ab_exit exit) {
  ab_json_put_int64(w, "exit_code", exit);
  ab_json_put_string(w, "exit_reason", ab_exit_reason(exit));
}

static void put_tally(struct ab_json_writer *w, const char *key, const struct ab_tally *t) {
  ab_json_put_object(w, key, true);
  put_count(w, "expected", t->expected);
  put_count(w, "compared", t->compared);
  ab_json_put_end(w);
}

static void put_counts(struct ab_json_writer *w, const struct ab_verdict *v) {
  ab_json_put_object(w, "counts", false);
  put_tally(w, "steps", &v->steps);
  put_tally(w, "tensors", &v->tensors);
  put_tally(w, "elements", &v->elements);
  put_tally(w, "metrics", &v->metrics);
  ab_json_put_object(w, "quantities", false);
  for (int q = 0; q < AB_QUANTITIES; q++) put_tally(w, ab_quantity_name((enum ab_quantity)q), &v->by_quantity[q]);
  ab_json_put_end(w);
  ab_json_put_bool(w, "right", v->counts_right);
  put_count(w, "unpinned", v->unpinned);
  put_count(w, "ignored", v->ignored);
  put_count(w, "unjudged", v->unjudged);
  ab_json_put_end(w);
}

static void put_shape(struct ab_json_writer *w, const char *key, const struct ab_shape *shape) {
  if (shape->rank < 0) {
    ab_json_put_null(w, key);
    return;
  }
  ab_json_put_array(w, key, true);
  for (int i = 0; i < shape->rank; i++) ab_json_put_int64(w, NULL, shape->dim[i]);
  ab_json_put_end(w);
}

static void put_group(struct ab_json_writer *w, const struct ab_group *g) {
  char example[AB_IDENTITY_TEXT];
  ab_identity_print(example, &g->example);
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "change", ab_change_name(g->change));
  ab_json_put_string(w, "pattern", g->pattern);
  put_count(w, "count", g->count);
  ab_json_put_string(w, "example", example);
  put_shape(w, "shape_a", &g->shape_a);
  put_shape(w, "shape_b", &g->shape_b);
  ab_json_put_string(w, "dtype_a", ab_dtype_name(g->dtype_a));
  ab_json_put_string(w, "dtype_b", ab_dtype_name(g->dtype_b));
  ab_json_put_end(w);
}

static void put_structure(struct ab_json_writer *w, const struct ab_verdict *v) {
  ab_json_put_object(w, "structure", false);
  put_count(w, "changed", v->changed);
  ab_json_put_array(w, "groups", false);
  for (size_t i = 0; i < v->groups; i++) put_group(w, &v->group[i]);
  ab_json_put_end(w);
  put_count(w, "groups_left_out", v->groups_left_out);
  ab_json_put_end(w);
}

static void put_where(struct ab_json_writer *w, const char *key, const struct ab_where *at) {
  ab_json_put_object(w, key, true);
  ab_json_put_int64(w, "iteration", at->iteration);
  ab_json_put_int64(w, "stage", at->stage);
  ab_json_put_int64(w, "repeat", at->repeat);
  ab_json_put_end(w);
}

static void put_pair(struct ab_json_writer *w, const char *key, const struct ab_difference *d,
                     const struct ab_value_pair *p) {
  ab_json_put_object(w, key, false);
  put_count(w, "index", p->index);
  ab_report_put_value(w, "a", p->a, p->bits_a, d->dtype_a);
  ab_report_put_value(w, "b", p->b, p->bits_b, d->dtype_b);
  ab_json_put_end(w);
}

static void put_difference(struct ab_json_writer *w, const struct ab_difference *d) {
  ab_json_put_object(w, "elements", false);
  put_count(w, "count", d->count);
  put_count(w, "differing", d->differing);
  put_count(w, "sign_only", d->sign_only);
  put_count(w, "nonfinite_a", d->nonfinite_a);
  put_count(w, "nonfinite_b", d->nonfinite_b);
  ab_json_put_double(w, "max_abs", d->max_abs);
  ab_json_put_double(w, "l2", d->l2);
  ab_json_put_double(w, "l2_b", d->l2_b);
  ab_json_put_double(w, "rel_l2", d->rel_l2);
  ab_json_put_double(w, "max_abs_over_max", d->max_abs_over_max);
  if (d->has_ulp)
    put_count(w, "max_ulp", d->max_ulp > INT64_MAX ? INT64_MAX : (size_t)d->max_ulp);
  else
    ab_json_put_null(w, "max_ulp");
  put_pair(w, "worst", d, &d->worst);
  put_pair(w, "first", d, &d->first);
  ab_json_put_end(w);
}

static void put_bound(struct ab_json_writer *w, const struct ab_bound *bound) {
  ab_json_put_object(w, "bound", false);
  ab_json_put_string(w, "tier", bound->tier == AB_TIER_BITWISE ? "bitwise" : "bounded");
  ab_json_put_string(w, "rule", ab_rule_name(bound->rule));
  ab_json_put_double(w, "limit", bound->limit);
  ab_json_put_bool(w, "uncalibrated", ab_rule_uncalibrated(bound->rule));
  ab_json_put_end(w);
}

static void put_finding(struct ab_json_writer *w, const char *key, const struct ab_finding *f, bool valid) {
  if (!valid) {
    ab_json_put_null(w, key);
    return;
  }
  ab_json_put_object(w, key, false);
  ab_json_put_bool(w, "metric", f->metric);
  ab_json_put_int64(w, "step", f->id.step);
  ab_json_put_int64(w, "accumulation", f->id.accumulation);
  ab_json_put_int64(w, "microbatch", f->id.microbatch);
  ab_json_put_int64(w, "layer", f->id.layer);
  ab_json_put_string(w, "tensor", f->id.tensor);
  ab_json_put_string(w, "phase", ab_phase_name(f->id.phase));
  ab_json_put_string(w, "quantity", ab_quantity_name(f->quantity));
  put_where(w, "at_a", &f->at_a);
  put_where(w, "at_b", &f->at_b);
  put_count(w, "order", f->order);
  put_shape(w, "shape", &f->shape);
  put_bound(w, &f->bound);
  ab_json_put_string(w, "evidence", ab_evidence_name(f->evidence));
  ab_json_put_double(w, "distance", f->distance);
  ab_json_put_bool(w, "differs", f->differs);
  ab_json_put_bool(w, "fails", f->fails);
  if (f->difference.count)
    put_difference(w, &f->difference);
  else
    ab_json_put_null(w, "elements");
  ab_json_put_end(w);
}

/* All that differs, for a verbose report. */
static void put_findings(struct ab_json_writer *w, const struct ab_verdict *v) {
  ab_json_put_array(w, "findings", false);
  for (size_t i = 0; i < v->findings; i++) put_finding(w, NULL, &v->finding[i], true);
  ab_json_put_end(w);
  put_count(w, "findings_left_out", v->differing - v->findings);
}

static void put_verdict(struct ab_json_writer *w, const struct ab_verdict *v, bool verbose) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "a", v->name_a);
  ab_json_put_string(w, "b", v->name_b);
  ab_json_put_string(w, "pair", ab_pair_name(v->pair));
  put_exit(w, v->exit);
  put_counts(w, v);
  put_structure(w, v);
  put_count(w, "differing", v->differing);
  put_count(w, "failing", v->failing);
  put_count(w, "differing_elements", v->differing_elements);
  put_count(w, "sign_only", v->sign_only);
  put_count(w, "nonfinite", v->nonfinite);
  put_count(w, "first_bad_step", v->first_bad_step);
  put_count(w, "exact_steps", v->exact_steps);
  ab_json_put_bool(w, "uncalibrated", v->uncalibrated);
  put_finding(w, "worst", &v->worst, v->any);
  put_finding(w, "first_divergence", &v->first, v->failing > 0);
  put_finding(w, "first_difference", &v->first_difference, v->any_difference);
  if (verbose) put_findings(w, v);
  ab_json_put_end(w);
}

static void put_failures(struct ab_json_writer *w, const struct ab_report *r) {
  ab_json_put_array(w, "failures", false);
  for (size_t i = 0; i < r->failures; i++) {
    ab_json_put_object(w, NULL, false);
    put_string(w, "side", r->failure[i].side);
    put_string(w, "reason", r->failure[i].reason);
    put_string(w, "last", r->failure[i].last);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

static void put_distance(struct ab_json_writer *w, const struct ab_distance *d) {
  if (!d || !d->known) {
    ab_json_put_null(w, "distance_to_truth");
    return;
  }
  ab_json_put_object(w, "distance_to_truth", false);
  ab_json_put_double(w, "a", d->a);
  ab_json_put_double(w, "b", d->b);
  ab_json_put_double(w, "near", AB_DISTANCE_NEAR);
  ab_json_put_int64(w, "step", d->worst.step);
  ab_json_put_int64(w, "layer", d->worst.layer);
  ab_json_put_string(w, "tensor", d->worst.tensor);
  ab_json_put_end(w);
}

static void put_slope(struct ab_json_writer *w, const struct ab_slope *s) {
  if (!s || !s->known) {
    ab_json_put_null(w, "slope");
    return;
  }
  ab_json_put_object(w, "slope", false);
  ab_json_put_int64(w, "step", s->step);
  ab_json_put_double(w, "truth", s->truth);
  ab_json_put_double(w, "a", s->by[0]);
  ab_json_put_double(w, "b", s->by[1]);
  ab_json_put_double(w, "error_a", ab_slope_error(s, 0));
  ab_json_put_double(w, "error_b", ab_slope_error(s, 1));
  ab_json_put_double(w, "tolerance", AB_SLOPE_TOLERANCE);
  ab_json_put_end(w);
}

static void put_reasons(struct ab_json_writer *w, const struct ab_report *r) {
  ab_json_put_array(w, "reasons", false);
  for (int f = 0; r->facts && f < AB_FACTS; f++) {
    if (r->facts->known[f] == AB_UNKNOWN) continue;
    ab_json_put_object(w, NULL, false);
    ab_json_put_string(w, "relation", ab_fact_name((enum ab_fact)f));
    ab_json_put_bool(w, "holds", r->facts->known[f] == AB_HOLDS);
    ab_json_put_string(w, "reason", r->facts->reason[f]);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

static void put_explained(struct ab_json_writer *w, const struct ab_explained_list *list) {
  ab_json_put_array(w, "explanations", false);
  for (size_t i = 0; list && i < list->lines; i++) {
    const struct ab_explained_line *e = &list->line[i];
    ab_json_put_object(w, NULL, false);
    ab_json_put_string(w, "id", e->id);
    ab_json_put_string(w, "side", e->side);
    ab_json_put_bool(w, "metric", e->metric);
    ab_json_put_int64(w, "step", e->of.step);
    ab_json_put_int64(w, "microbatch", e->of.microbatch);
    ab_json_put_int64(w, "layer", e->of.layer);
    ab_json_put_string(w, "tensor", e->of.tensor);
    ab_json_put_string(w, "phase", ab_phase_name(e->of.phase));
    ab_json_put_string(w, "text", e->text);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

void ab_report_put(struct ab_json_writer *w, const char *key, const struct ab_report *r) {
  ab_json_put_object(w, key, false);
  ab_json_put_string(w, "schema", AB_REPORT_SCHEMA);
  put_string(w, "tool", r->tool);
  put_string(w, "version", r->version);
  put_string(w, "case", r->case_name);
  put_string(w, "command", r->command);
  put_string(w, "numerics", r->numerics);
  put_string(w, "dtype", r->dtype);
  put_exit(w, ab_report_exit(r));
  ab_json_put_string(w, "cause", r->verdicts ? ab_cause_name(r->cause) : "not judged");
  put_reasons(w, r);
  put_distance(w, r->distance);
  put_slope(w, r->slope);
  put_string(w, "because", r->extra_sentence);
  put_failures(w, r);
  ab_json_put_array(w, "comparisons", false);
  for (size_t i = 0; i < r->verdicts; i++) put_verdict(w, r->verdict[i], r->verbose);
  ab_json_put_end(w);
  ab_divergence_put(w, r->divergence, r->replayed);
  put_explained(w, r->explained);
  ab_teeth_put(w, r->teeth);
  ab_json_put_array(w, "notes", false);
  for (size_t i = 0; i < r->notes; i++) ab_json_put_string(w, NULL, r->note[i]);
  ab_json_put_end(w);
  ab_json_put_end(w);
}
