/* ab_compare with a verdict that was broken on purpose, as AB_BLINDED says: what its controls are there for. Calls
 * between the objects of the comparer go through these wrappers (-Wl,--wrap). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

/* Names that the linker makes. */
ab_status __real_ab_verdict(struct ab_verdict *out, const struct ab_comparison *comparison);
ab_status __wrap_ab_verdict(struct ab_verdict *out, const struct ab_comparison *comparison);
bool __real_ab_bound_holds(const struct ab_bound *bound, double distance);
bool __wrap_ab_bound_holds(const struct ab_bound *bound, double distance);
bool __real_ab_summary_same(const struct ab_summary *a, const struct ab_summary *b);
bool __wrap_ab_summary_same(const struct ab_summary *a, const struct ab_summary *b);

static bool blinded(const char *how) {
  const char *value = getenv("AB_BLINDED");
  return value && strcmp(value, how) == 0;
}

ab_status __wrap_ab_verdict(struct ab_verdict *out, const struct ab_comparison *comparison) {
  struct ab_comparison c = *comparison;
  if (blinded("unpinned")) c.expected = ab_expected_none();
  if (blinded("metrics")) c.quantities &= ~(1u << AB_Q_METRIC);
  AB_TRY(__real_ab_verdict(out, &c));
  bool golden = c.partial && !c.retyped;
  bool equal = blinded("equal") || (blinded("structure") && out->changed) || (blinded("record") && golden);
  if (equal) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

bool __wrap_ab_bound_holds(const struct ab_bound *bound, double distance) {
  if (blinded("wide")) return distance <= bound->limit * 2;
  if (blinded("nan")) return !(distance > bound->limit) || isinf(distance);
  if (blinded("strict")) return distance < bound->limit;
  return __real_ab_bound_holds(bound, distance);
}

bool __wrap_ab_summary_same(const struct ab_summary *a, const struct ab_summary *b) {
  if (blinded("norms")) return fabs(a->l2 - b->l2) <= 1e-4 * b->l2;
  return __real_ab_summary_same(a, b);
}
