/* The one table that says which comparison is bitwise and which is bounded, and by what. */
#pragma once

#include "identity.h"

/* Which two sides meet. */
enum ab_pair {
  AB_PAIR_SAME,     /* one arithmetic, f32 or portable or exact: linen = nnx = sequential */
  AB_PAIR_F64,      /* float64 routes among each other */
  AB_PAIR_MIXED,    /* float32 against float64 */
  AB_PAIR_RECORDED, /* a run against recorded numbers: MaxText's, or a golden whose bits need not be reproduced */
  AB_PAIRS
};

#define AB_BOUND_MOST 1e-3 /* no bound is above it */

enum ab_tier { AB_TIER_BITWISE, AB_TIER_BOUNDED };

/* What set the bound. */
enum ab_rule {
  AB_RULE_BITWISE,
  AB_RULE_FIXED,        /* 1e-13, float64 against float64 */
  AB_RULE_GIVEN,        /* the reference carries its own bound */
  AB_RULE_UNCALIBRATED, /* 4 x the f32 oracle's own distance to f64 on this run */
  AB_RULE_CALIBRATED,   /* measured for this config, or the analytic ceiling where that is smaller (calibration.h) */
  AB_RULE_FLOOR         /* 1e-6: that distance is smaller, or unknown */
};

/* Relative L2 for tensors, relative difference for metrics. */
struct ab_bound {
  enum ab_tier tier;
  enum ab_rule rule;
  double limit; /* 0 for bitwise; a distance passes when distance <= limit */
};

/* given: the reference's own bound, negative if it has none. own: the f32 oracle's own distance to f64, negative if
 * it is not known. A bound that is not finite is taken as absent, and none is above 1e-3: a fault in what both
 * oracles share would otherwise widen its own bound. */
struct ab_bound ab_tier_bound(enum ab_pair pair, enum ab_quantity quantity, double given, double own);
/* distance <= limit; false for NaN. */
bool ab_bound_holds(const struct ab_bound *bound, double distance);
/* "bitwise", "given by the reference", "calibrated for this config", ... */
const char *ab_rule_name(enum ab_rule rule);
/* Rules that a later calibration replaces: UNCALIBRATED and FLOOR. */
bool ab_rule_uncalibrated(enum ab_rule rule);
const char *ab_pair_name(enum ab_pair pair);
