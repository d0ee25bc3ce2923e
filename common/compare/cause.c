#include "cause.h"

#include <stdio.h>

enum condition { AT_WILL, HOLDS, BROKEN, NOT_BROKEN };

enum { CONDITIONS = 3 };
struct row {
  enum ab_cause cause;
  struct {
    enum ab_fact fact;
    enum condition condition;
  } when[CONDITIONS];
};

/* What comes first explains what comes later: a side that began with something else, or has other tensors, is judged
 * no further; who is wrong goes before what both share, and that before the record. Ties between A and B are broken by
 * the oracle of their own arithmetic, then by the distance to float64, then by the slope of the loss, then by the
 * golden. */
static const struct row rows[] = {
    {AB_CAUSE_INPUT, {{AB_FACT_INPUTS, BROKEN}}},
    {AB_CAUSE_STRUCTURE, {{AB_FACT_STRUCTURE, BROKEN}}},
    {AB_CAUSE_A_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_A_ORACLE, BROKEN}, {AB_FACT_B_ORACLE, HOLDS}}},
    {AB_CAUSE_B_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_B_ORACLE, BROKEN}, {AB_FACT_A_ORACLE, HOLDS}}},
    {AB_CAUSE_A_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_A_TRUTH, BROKEN}, {AB_FACT_B_TRUTH, HOLDS}}},
    {AB_CAUSE_B_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_B_TRUTH, BROKEN}, {AB_FACT_A_TRUTH, HOLDS}}},
    {AB_CAUSE_A_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_A_SLOPE, BROKEN}, {AB_FACT_B_SLOPE, HOLDS}}},
    {AB_CAUSE_B_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_B_SLOPE, BROKEN}, {AB_FACT_A_SLOPE, HOLDS}}},
    {AB_CAUSE_A_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_A_GOLDEN, BROKEN}, {AB_FACT_B_GOLDEN, HOLDS}}},
    {AB_CAUSE_B_WRONG, {{AB_FACT_AB, BROKEN}, {AB_FACT_B_GOLDEN, BROKEN}, {AB_FACT_A_GOLDEN, HOLDS}}},
    {AB_CAUSE_UNDECIDED, {{AB_FACT_AB, BROKEN}}},
    {AB_CAUSE_BOTH_MOVED, {{AB_FACT_A_ORACLE, BROKEN}}},
    {AB_CAUSE_BOTH_MOVED, {{AB_FACT_B_ORACLE, BROKEN}}},
    {AB_CAUSE_NOT_FINITE, {{AB_FACT_FINITE, BROKEN}}},
    {AB_CAUSE_BOTH_MOVED, {{AB_FACT_SHARED, BROKEN}}},
    {AB_CAUSE_A_WRONG, {{AB_FACT_A_RECOMPUTE, BROKEN}, {AB_FACT_B_RECOMPUTE, NOT_BROKEN}}},
    {AB_CAUSE_B_WRONG, {{AB_FACT_B_RECOMPUTE, BROKEN}, {AB_FACT_A_RECOMPUTE, NOT_BROKEN}}},
    {AB_CAUSE_BOTH_MOVED, {{AB_FACT_A_RECOMPUTE, BROKEN}}},
    {AB_CAUSE_STRUCTURE, {{AB_FACT_COUNTERS, BROKEN}}},
    {AB_CAUSE_GOLDEN_STALE, {{AB_FACT_A_GOLDEN, BROKEN}}},
    {AB_CAUSE_GOLDEN_STALE, {{AB_FACT_B_GOLDEN, BROKEN}}},
    {AB_CAUSE_UNCALIBRATED, {{AB_FACT_CALIBRATED, BROKEN}}},
};

const char *ab_fact_name(enum ab_fact fact) {
  static const char *const names[] = {[AB_FACT_INPUTS] = "inputs",
                                      [AB_FACT_STRUCTURE] = "structure",
                                      [AB_FACT_AB] = "engines",
                                      [AB_FACT_A_ORACLE] = "A and oracle",
                                      [AB_FACT_B_ORACLE] = "B and oracle",
                                      [AB_FACT_A_RECOMPUTE] = "recomputation of A",
                                      [AB_FACT_B_RECOMPUTE] = "recomputation of B",
                                      [AB_FACT_A_TRUTH] = "A near float64",
                                      [AB_FACT_B_TRUTH] = "B near float64",
                                      [AB_FACT_A_SLOPE] = "slope of A",
                                      [AB_FACT_B_SLOPE] = "slope of B",
                                      [AB_FACT_SHARED] = "what both share",
                                      [AB_FACT_COUNTERS] = "counters",
                                      [AB_FACT_A_GOLDEN] = "A and golden",
                                      [AB_FACT_B_GOLDEN] = "B and golden",
                                      [AB_FACT_CALIBRATED] = "calibration",
                                      [AB_FACT_FINITE] = "finite values"};
  return names[fact];
}

bool ab_fact_telling(const struct ab_facts *facts, enum ab_fact fact) {
  bool witness = fact >= AB_FACT_A_ORACLE && fact <= AB_FACT_B_SLOPE && fact != AB_FACT_A_RECOMPUTE &&
                 fact != AB_FACT_B_RECOMPUTE && facts->known[AB_FACT_AB] == AB_BROKEN;
  return facts->known[fact] == AB_BROKEN || (witness && facts->known[fact] == AB_HOLDS);
}

static bool met(enum condition condition, enum ab_known known) {
  if (condition == AT_WILL) return true;
  if (condition == HOLDS) return known == AB_HOLDS;
  return (known == AB_BROKEN) == (condition == BROKEN);
}

static bool fits(const struct row *row, const struct ab_facts *facts) {
  for (int i = 0; i < CONDITIONS; i++)
    if (!met(row->when[i].condition, facts->known[row->when[i].fact])) return false;
  return true;
}

enum ab_cause ab_cause_of(const struct ab_facts *facts) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (fits(&rows[i], facts)) return rows[i].cause;
  return AB_CAUSE_EQUAL;
}

const char *ab_cause_name(enum ab_cause cause) {
  static const char *const names[] = {[AB_CAUSE_EQUAL] = "equal",
                                      [AB_CAUSE_A_WRONG] = "A wrong",
                                      [AB_CAUSE_B_WRONG] = "B wrong",
                                      [AB_CAUSE_BOTH_MOVED] = "both moved",
                                      [AB_CAUSE_UNDECIDED] = "undecided",
                                      [AB_CAUSE_GOLDEN_STALE] = "golden stale",
                                      [AB_CAUSE_INPUT] = "input differs",
                                      [AB_CAUSE_STRUCTURE] = "structure differs",
                                      [AB_CAUSE_NOT_FINITE] = "not finite",
                                      [AB_CAUSE_UNCALIBRATED] = "uncalibrated"};
  return names[cause];
}

void ab_fact_set(struct ab_facts *facts, enum ab_fact fact, bool holds, const char *reason) {
  if (facts->known[fact] == AB_BROKEN || (holds && facts->known[fact] == AB_HOLDS)) return;
  facts->known[fact] = holds ? AB_HOLDS : AB_BROKEN;
  snprintf(facts->reason[fact], sizeof facts->reason[fact], "%s", reason);
}

static void state(struct ab_facts *facts, enum ab_fact fact, bool holds, const struct ab_verdict *v, const char *what) {
  char reason[AB_REASON];
  snprintf(reason, sizeof reason, "%.80s against %.80s: %.320s", v->name_a, v->name_b, what);
  ab_fact_set(facts, fact, holds, reason);
}

static void enter_structure(struct ab_facts *facts, const struct ab_verdict *v) {
  char what[AB_LACK_TEXT + 128], lack[AB_LACK_TEXT];
  size_t changed = v->changed - v->changed_of[AB_Q_INPUT] + v->lacking_of[AB_Q_INPUT];
  bool same = ab_verdict_compared(v) && !changed && !v->unjudged && (v->counts_right || v->changed);
  ab_verdict_lack(lack, v);
  if (changed)
    snprintf(what, sizeof what, "%zu tensors and metrics are missing, added, reshaped or retyped: %s", changed, lack);
  else if (ab_verdict_compared(v) && !v->unjudged)
    snprintf(what, sizeof what, "not as many tensors, elements or steps as the config asks for: %s", lack);
  else snprintf(what, sizeof what, "%s", lack);
  state(facts, AB_FACT_STRUCTURE, same, v, same ? "the same names, shapes and dtypes" : what);
}

/* An input that one side does not report is missing; one that both report otherwise is another input. */
static void enter_inputs(struct ab_facts *facts, const struct ab_verdict *v) {
  char what[160];
  size_t differ = v->failing_of[AB_Q_INPUT] + v->changed_of[AB_Q_INPUT] - v->lacking_of[AB_Q_INPUT];
  snprintf(what, sizeof what, "%zu of %zu initial parameters and arrays of the batch differ; the rest follows from it",
           differ, v->by_quantity[AB_Q_INPUT].compared + v->changed_of[AB_Q_INPUT]);
  if (differ) state(facts, AB_FACT_INPUTS, false, v, what);
  else if (v->by_quantity[AB_Q_INPUT].compared) state(facts, AB_FACT_INPUTS, true, v, "the same parameters and batch");
}

/* A golden that lacks tensors is a wrong golden, not two sides that cannot be compared. */
static bool of_golden(enum ab_fact fact) { return fact == AB_FACT_A_GOLDEN || fact == AB_FACT_B_GOLDEN; }

static bool comparable(const struct ab_verdict *v) {
  return ab_verdict_compared(v) && !v->changed && !v->unjudged && v->counts_right;
}

static void enter_lack(struct ab_facts *facts, enum ab_fact fact, const struct ab_verdict *v) {
  char what[AB_LACK_TEXT + 128], lack[AB_LACK_TEXT];
  ab_verdict_lack(lack, v);
  snprintf(what, sizeof what, "not the same names, shapes, dtypes or numbers of tensors: %s", lack);
  state(facts, fact, false, v, what);
}

/* NaN and infinity that both hold in the same places are no agreement, and no sign of who is wrong. */
static void enter_values(struct ab_facts *facts, enum ab_fact fact, const struct ab_verdict *v) {
  char what[160], first[AB_IDENTITY_TEXT];
  ab_identity_print(first, &v->first.id);
  if (!v->failing) {
    snprintf(what, sizeof what, "%s (%zu tensors, %zu metrics)", v->differing ? "within bounds" : "equal",
             v->tensors.compared, v->metrics.compared);
    state(facts, fact, true, v, what);
  } else if (ab_verdict_parts(v)) {
    snprintf(what, sizeof what, "%zu tensors and metrics differ, first %.100s", v->failing, first);
    state(facts, fact, false, v, what);
  } else {
    snprintf(what, sizeof what, "%zu tensors and metrics hold the same NaN or infinity, first %.80s", v->failing,
             first);
    state(facts, AB_FACT_FINITE, false, v, what);
  }
}

void ab_fact_verdict(struct ab_facts *facts, enum ab_fact fact, const struct ab_verdict *v) {
  if (!of_golden(fact)) {
    enter_inputs(facts, v);
    enter_structure(facts, v);
  } else if (!comparable(v)) {
    enter_lack(facts, fact, v);
  }
  if (v->exit == AB_EXIT_INCOMPARABLE && v->uncalibrated && comparable(v))
    state(facts, AB_FACT_CALIBRATED, false, v, "judged by a bound that no calibration measured, and one is required");
  if (ab_verdict_compared(v)) enter_values(facts, fact, v);
}
