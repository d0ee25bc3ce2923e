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

static bool agrees(const struct ab_verdict *verdict) { return verdict && verdict->exit == AB_EXIT_EQUAL; }

static bool incomparable(const struct ab_verdict *verdict) {
  return verdict && verdict->exit == AB_EXIT_INCOMPARABLE;
}

static enum ab_cause incomparable_cause(const struct ab_verdict *verdict) {
  bool structure = verdict->changed || verdict->unjudged || !verdict->counts_right || !verdict->any;
  return structure ? AB_CAUSE_STRUCTURE : AB_CAUSE_UNCALIBRATED;
}

enum ab_cause ab_cause_of(const struct ab_verdict *ab, const struct ab_verdict *at, const struct ab_verdict *bt) {
  const struct ab_verdict *const all[] = {ab, at, bt};
  for (int i = 0; i < 3; i++)
    if (incomparable(all[i])) return incomparable_cause(all[i]);
  if (agrees(ab)) return (at && !agrees(at)) || (bt && !agrees(bt)) ? AB_CAUSE_BOTH_MOVED : AB_CAUSE_EQUAL;
  if (!at || !bt || agrees(at) == agrees(bt)) return AB_CAUSE_UNDECIDED;
  return agrees(at) ? AB_CAUSE_B_WRONG : AB_CAUSE_A_WRONG;
}

const char *ab_cause_name(enum ab_cause cause) {
  static const char *const names[] = {[AB_CAUSE_EQUAL] = "equal",
                                      [AB_CAUSE_A_WRONG] = "A wrong",
                                      [AB_CAUSE_B_WRONG] = "B wrong",
                                      [AB_CAUSE_BOTH_MOVED] = "both moved",
                                      [AB_CAUSE_UNDECIDED] = "undecided",
                                      [AB_CAUSE_GOLDEN_STALE] = "golden stale",
                                      [AB_CAUSE_STRUCTURE] = "structure differs",
                                      [AB_CAUSE_UNCALIBRATED] = "uncalibrated"};
  return names[cause];
}
