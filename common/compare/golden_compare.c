#include <string.h>

#include "golden.h"

static ab_status add_leaf(struct ab_recording *r, const struct ab_fingerprint *f) {
  struct ab_observation o = {
      .id = f->id, .at = {-1, -1, -1, false}, .dtype = f->dtype, .shape = f->shape, .summary = f->summary};
  AB_TRY(ab_recording_observe(r, &o));
  AB_TRY(ab_recording_add_fingerprint(r, f));
  return AB_OK;
}

ab_status ab_golden_recording(struct ab_recording **out, const struct ab_golden *g) {
  struct ab_recording *r;
  AB_TRY(ab_recording_new(&r, "golden"));
  ab_status status = AB_OK;
  for (size_t m = 0, l = 0; status == AB_OK && (m < g->metrics || l < g->leaves);) {
    bool metric = l == g->leaves || (m < g->metrics && g->metric_order[m] < g->leaf_order[l]);
    status = metric ? ab_recording_add_metric(r, &g->metric[m]) : add_leaf(r, &g->leaf[l]);
    m += metric;
    l += !metric;
  }
  if (status != AB_OK) ab_recording_free(r);
  AB_TRY(status);
  ab_recording_complete(r);
  *out = r;
  return AB_OK;
}

struct ab_comparison ab_golden_comparison(const struct ab_golden *golden, const struct ab_recording *run,
                                          const struct ab_recording *side, bool portable,
                                          const struct ab_expected *expected) {
  bool exact = portable && strcmp(golden->numerics, "portable") == 0;
  return (struct ab_comparison){.a = run,
                                .b = side,
                                .pair = exact ? AB_PAIR_SAME : AB_PAIR_RECORDED,
                                .quantities = AB_Q_ALL,
                                .partial = true,
                                .expected = *expected};
}
