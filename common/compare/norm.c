#include "norm.h"

#include <math.h>
#include <string.h>

/* Rows: a tensor that cancels, and the one beside it that is as large as its terms. */
static const char *const cancels[][2] = {{"intermediates/activation_mean", "intermediates/activation_stdev"}};

static const struct ab_recorded *beside(const struct ab_recording *reference, const struct ab_identity *id) {
  struct ab_identity other = *id;
  for (size_t i = 0; i < sizeof cancels / sizeof *cancels; i++) {
    if (strcmp(id->tensor, cancels[i][0]) != 0) continue;
    strncpy(other.tensor, cancels[i][1], sizeof other.tensor - 1);
    return ab_recording_find(reference, &other);
  }
  return NULL;
}

double ab_norm_of(const struct ab_recording *reference, const struct ab_identity *id, double norm) {
  const struct ab_recorded *terms = beside(reference, id);
  return terms && !terms->observation.summary.nonfinite ? hypot(norm, terms->observation.summary.l2) : norm;
}

double ab_distance_of(const struct ab_difference *difference, const struct ab_recording *reference,
                      const struct ab_identity *id) {
  double norm = ab_norm_of(reference, id, difference->l2_b);
  bool finite = !difference->nonfinite_a && !difference->nonfinite_b;
  return finite && norm > difference->l2_b ? ab_relative(difference->l2, norm) : difference->rel_l2;
}
