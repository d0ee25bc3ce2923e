/* All verdicts of a run in one word, by one table over facts, with the reasons that led there.
 *
 * A fact is a relation that holds, is broken, or was not looked at. Rows are tried in order; a row fits when each of
 * its conditions is met, and "not broken" is met by a fact that was not looked at.
 */
#pragma once

#include "verdict.h"

enum ab_fact {
  AB_FACT_INPUTS,       /* both sides began with the same parameters and batch */
  AB_FACT_STRUCTURE,    /* the same names, shapes, dtypes and numbers of tensors, everywhere */
  AB_FACT_AB,           /* A = B */
  AB_FACT_A_ORACLE,     /* each against the oracle of its own arithmetic */
  AB_FACT_B_ORACLE,
  AB_FACT_A_RECOMPUTE,  /* what was computed twice has the same bits */
  AB_FACT_B_RECOMPUTE,
  AB_FACT_A_TRUTH,      /* A and B differ: as near to float64 as the float32 oracle is (distance.h) */
  AB_FACT_B_TRUTH,
  AB_FACT_A_SLOPE,      /* A and B differ: the gradient is the slope of the float64 loss (distance.h) */
  AB_FACT_B_SLOPE,
  AB_FACT_SHARED,       /* A against float64, and both against MaxText's numbers */
  AB_FACT_COUNTERS,     /* executions, fetches, messages: as the config asks, and the same in both */
  AB_FACT_A_GOLDEN,
  AB_FACT_B_GOLDEN,
  AB_FACT_CALIBRATED,   /* broken: an uncalibrated bound decided where a calibrated one is required */
  AB_FACT_FINITE,       /* broken: sides that agree but for NaN and infinity, which both hold in the same places */
  AB_FACTS
};
enum ab_known { AB_UNKNOWN, AB_HOLDS, AB_BROKEN };

enum { AB_REASON = 512 };
struct ab_facts {
  enum ab_known known[AB_FACTS];
  char reason[AB_FACTS][AB_REASON]; /* "linen against sequential: equal (12315 tensors, 135 metrics)"; "" if none */
};

enum ab_cause {
  AB_CAUSE_EQUAL,
  AB_CAUSE_A_WRONG,      /* a != b, b agrees with the truth, a does not */
  AB_CAUSE_B_WRONG,
  AB_CAUSE_BOTH_MOVED,   /* a = b, and both left the truth or MaxText's numbers */
  AB_CAUSE_UNDECIDED,    /* a != b, and nothing tells which */
  AB_CAUSE_GOLDEN_STALE, /* a = b = oracle, and the golden has other numbers */
  AB_CAUSE_INPUT,        /* the sides did not begin with the same: what differs later follows from it */
  AB_CAUSE_STRUCTURE,    /* not comparable */
  AB_CAUSE_NOT_FINITE,   /* a = b = oracle wherever there are numbers: NaN and infinity are equal to nothing */
  AB_CAUSE_UNCALIBRATED
};
/* "engines", "A and oracle", ... */
const char *ab_fact_name(enum ab_fact fact);
/* Whether a fact is worth a line to people: what is broken, and who was asked when A and B differ. */
bool ab_fact_telling(const struct ab_facts *facts, enum ab_fact fact);

enum ab_cause ab_cause_of(const struct ab_facts *facts);
const char *ab_cause_name(enum ab_cause cause);

/* Sets a fact and why. A fact that is broken stays broken, with its first reason. */
void ab_fact_set(struct ab_facts *facts, enum ab_fact fact, bool holds, const char *reason);
/* Enters a verdict under `fact`, and what it says of inputs, structure and calibration under those facts. */
void ab_fact_verdict(struct ab_facts *facts, enum ab_fact fact, const struct ab_verdict *verdict);
