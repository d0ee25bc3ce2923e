#include "judge.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "norm.h"

static bool same_digest(const struct ab_observation *a, const struct ab_observation *b) {
  return a->dtype == b->dtype && ab_summary_same(&a->summary, &b->summary);
}

/* |a-b| is at least the difference of the norms. */
static double norm_distance(const struct ab_summary *a, const struct ab_summary *b, double norm) {
  return ab_relative(fabs(a->l2 - b->l2), norm);
}

/* The projections' estimate, raised to what a single sample or the norms already prove. */
static double estimate(const struct ab_fingerprint *a, const struct ab_fingerprint *b, double norm) {
  double distance = ab_relative(ab_fingerprint_distance(a, b), norm);
  for (int k = 0; k < AB_SAMPLES; k++) {
    double proven = ab_relative(fabs(a->sample[k] - b->sample[k]), norm);
    if (!(proven <= distance)) distance = proven;
  }
  double norms = norm_distance(&a->summary, &b->summary, norm);
  return norms <= distance ? distance : norms;
}

static ab_status measure(struct ab_difference *out, const struct ab_comparison *c, const struct ab_observation *a,
                         const struct ab_observation *b) {
  struct ab_view view_a, view_b;
  if (c->apart) return c->apart(c->values_ctx, a, b, out);
  if (!c->values) return AB_ENOTFOUND;
  ab_status status = c->values(c->values_ctx, 0, a, &view_a);
  if (status == AB_OK) status = c->values(c->values_ctx, 1, b, &view_b);
  if (status == AB_ENOTFOUND) return status;
  AB_TRY(status);
  return ab_difference(out, &view_a, &view_b);
}

static ab_status from_values(struct ab_finding *finding, bool *found, const struct ab_comparison *c,
                             const struct ab_observation *a, const struct ab_observation *b) {
  ab_status status = measure(&finding->difference, c, a, b);
  *found = status == AB_OK;
  if (status == AB_ENOTFOUND) return AB_OK;
  AB_TRY(status);
  finding->evidence = AB_EVIDENCE_VALUES;
  bool integers = finding->difference.integers && finding->difference.differing;
  finding->distance = integers ? INFINITY : ab_distance_of(&finding->difference, c->b, &b->id);
  return AB_OK;
}

static bool from_fingerprints(struct ab_finding *finding, const struct ab_comparison *c) {
  const struct ab_fingerprint *a = ab_recording_fingerprint(c->a, &finding->id);
  const struct ab_fingerprint *b = ab_recording_fingerprint(c->b, &finding->id);
  if (!a || !b || a->seed != b->seed || !ab_shape_equal(&a->shape, &b->shape)) return false;
  finding->evidence = AB_EVIDENCE_ESTIMATE;
  finding->distance = estimate(a, b, ab_norm_of(c->b, &finding->id, b->summary.l2));
  return true;
}

/* As equal digests leave it; what signs of zeros were seen stays. */
static void walked_equal(struct ab_finding *finding) {
  finding->difference = (struct ab_difference){.sign_only = finding->difference.sign_only};
  finding->evidence = AB_EVIDENCE_DIGEST;
  finding->distance = 0;
}

ab_status ab_judge_tensor(struct ab_finding *finding, bool *judged, const struct ab_comparison *c,
                          const struct ab_observation *a, const struct ab_observation *b) {
  bool nonfinite = a->summary.nonfinite || b->summary.nonfinite, found;
  finding->evidence = AB_EVIDENCE_DIGEST;
  finding->distance = 0;
  *judged = true;
  if (!c->apart && same_digest(a, b) && !nonfinite) return AB_OK;
  AB_TRY(from_values(finding, &found, c, a, b));
  if (c->apart && found && !finding->difference.differing) {
    walked_equal(finding);
    return AB_OK;
  }
  if (!found) found = from_fingerprints(finding, c);
  if (!found) finding->distance = norm_distance(&a->summary, &b->summary, ab_norm_of(c->b, &b->id, b->summary.l2));
  if (nonfinite) finding->distance = INFINITY;
  bool equal_values = finding->evidence == AB_EVIDENCE_VALUES && !finding->difference.differing;
  finding->differs = a->dtype == b->dtype || !equal_values;
  bool bitwise = finding->bound.tier == AB_TIER_BITWISE;
  finding->fails = bitwise ? finding->differs : !ab_bound_holds(&finding->bound, finding->distance);
  const struct ab_difference *d = &finding->difference;
  finding->alike = c->apart ? d->nonfinite_alike && d->nonfinite_alike == d->differing
                            : nonfinite && same_digest(a, b);
  *judged = bitwise || found || finding->fails;
  return AB_OK;
}

struct ab_identity ab_metric_identity(const struct ab_metric *metric) {
  struct ab_identity id = {.step = metric->step, .accumulation = -1, .microbatch = -1, .layer = -1, .phase = AB_UPDATE};
  memcpy(id.tensor, metric->name, sizeof id.tensor);
  return id;
}

void ab_judge_metric(struct ab_finding *finding, const struct ab_metric *a, const struct ab_metric *b) {
  finding->difference = ab_difference_scalar(a->value, b->value, a->f32 && b->f32);
  finding->evidence = AB_EVIDENCE_SCALAR;
  finding->distance = finding->difference.rel_l2;
  finding->differs = finding->difference.differing > 0;
  finding->alike = a->f32 == b->f32 && ab_same_nonfinite(a->value, b->value);
  bool bitwise = finding->bound.tier == AB_TIER_BITWISE;
  finding->fails = bitwise ? finding->differs : !ab_bound_holds(&finding->bound, finding->distance);
}
