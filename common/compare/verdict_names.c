#include "verdict.h"

const char *ab_change_name(enum ab_change change) {
  static const char *const names[] = {[AB_CHANGE_MISSING] = "missing", [AB_CHANGE_ADDED] = "added",
                                      [AB_CHANGE_RESHAPED] = "reshaped", [AB_CHANGE_RETYPED] = "retyped"};
  return names[change];
}

const char *ab_evidence_name(enum ab_evidence evidence) {
  static const char *const names[] = {[AB_EVIDENCE_DIGEST] = "digest", [AB_EVIDENCE_VALUES] = "values",
                                      [AB_EVIDENCE_ESTIMATE] = "estimate", [AB_EVIDENCE_SCALAR] = "scalar"};
  return names[evidence];
}

struct ab_expected ab_expected_none(void) {
  struct ab_expected expected = {.steps = AB_UNCOUNTED};
  for (int q = 0; q < AB_QUANTITIES; q++) expected.tensors[q] = expected.elements[q] = AB_UNCOUNTED;
  return expected;
}
