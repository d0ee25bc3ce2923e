/* One search for an explanation: what its matchers share. */
#pragma once

#include "explain.h"

struct ab_search {
  const struct ab_explain *q;
  const struct ab_finding *finding;
  const struct ab_recorded *got, *truth; /* of the finding; NULL for a metric */
  double *x, *y; /* [count] values of got and truth; NULL: not kept or not floating point */
  size_t count;
  struct ab_explained_list *out;
  const char *id; /* of the row that is being tried */
};

/* An explanation by the row being tried. */
__attribute__((format(printf, 2, 3))) void ab_search_say(struct ab_search *s, const char *format, ...);
/* The same under another id, for matchers that decide among several. */
__attribute__((format(printf, 3, 4))) void ab_search_say_as(struct ab_search *s, const char *id, const char *format,
                                                            ...);
/* Values widened to double, owned by the caller; NULL when they are not kept or no floating point. */
ab_status ab_search_values(double **out, size_t *count, const struct ab_explain *q, int side,
                           const struct ab_identity *id);
/* " (= 1/M = 1/S)", or "" for a number that the config does not have. true: it has. */
bool ab_search_name(char text[96], const struct ab_explain *q, double factor);
/* What is noise for this finding: AB_EXPLAIN_NOISE, or its bound where order of additions is free. */
double ab_search_noise(const struct ab_search *s);
/* |x - k y|_2 / |y|_2. */
double ab_search_residual(const double *x, const double *y, double k, size_t n);

/* Matchers, by file. explain_same.c: by digest, summary and scalar. */
ab_status ab_match_not_finite(struct ab_search *s);
ab_status ab_match_zero(struct ab_search *s);
ab_status ab_match_norms(struct ab_search *s);
ab_status ab_match_other_microbatch(struct ab_search *s);
ab_status ab_match_other_layer(struct ab_search *s);
ab_status ab_match_stale(struct ab_search *s);
ab_status ab_match_metric_rate(struct ab_search *s);
ab_status ab_match_metric_clip(struct ab_search *s);
ab_status ab_match_metric_factor(struct ab_search *s);
ab_status ab_match_what_if(struct ab_search *s);
/* explain_shape.c: by all values of both. */
ab_status ab_match_factor(struct ab_search *s);
ab_status ab_match_transposed(struct ab_search *s);
ab_status ab_match_permuted(struct ab_search *s);
ab_status ab_match_16_bit(struct ab_search *s);
ab_status ab_match_not_cleared(struct ab_search *s);
/* explain_parts.c: by the truth's parts per microbatch. */
ab_status ab_match_parts(struct ab_search *s);
/* explain_update.c: by repeating the optimizer with one thing changed. */
ab_status ab_match_update(struct ab_search *s);
