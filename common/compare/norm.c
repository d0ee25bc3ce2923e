#include "norm.h"

#include <math.h>
#include <string.h>

static double root_mean_square(double mean, double deviation) { return hypot(mean, deviation); }
static double at_least_a_tenth(double own, double beside) { return fmax(own, 0.1 * beside); }

#define ATTENTION "self_attention/"

/* Tensors that cancel, what beside each is as large as its terms, and what the norm of both makes. */
static const struct row {
  const char *tensor;
  enum ab_phase phase;
  const char *beside;
  double (*norm)(double own, double beside);
} cancels[] = {
    {"intermediates/activation_mean", AB_FORWARD, "intermediates/activation_stdev", root_mean_square},
    {ATTENTION "query/kernel", AB_BACKWARD, ATTENTION "value/kernel", at_least_a_tenth},
    {ATTENTION "key/kernel", AB_BACKWARD, ATTENTION "value/kernel", at_least_a_tenth}};

static const struct row *row_of(const struct ab_identity *id) {
  for (size_t i = 0; i < sizeof cancels / sizeof *cancels; i++)
    if (id->phase == cancels[i].phase && strcmp(id->tensor, cancels[i].tensor) == 0) return &cancels[i];
  return NULL;
}

double ab_norm_of(const struct ab_recording *reference, const struct ab_identity *id, double norm) {
  const struct row *row = row_of(id);
  struct ab_identity beside = *id;
  if (!row) return norm;
  strncpy(beside.tensor, row->beside, sizeof beside.tensor - 1);
  const struct ab_recorded *terms = ab_recording_find(reference, &beside);
  return terms && !terms->observation.summary.nonfinite ? row->norm(norm, terms->observation.summary.l2) : norm;
}

double ab_distance_of(const struct ab_difference *difference, const struct ab_recording *reference,
                      const struct ab_identity *id) {
  double norm = ab_norm_of(reference, id, difference->l2_b);
  bool finite = !difference->nonfinite_a && !difference->nonfinite_b;
  return finite && norm > difference->l2_b ? ab_relative(difference->l2, norm) : difference->rel_l2;
}
