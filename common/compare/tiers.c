#include "tiers.h"

#include <math.h>

static const double FLOAT64_LIMIT = 1e-13, CALIBRATION_FACTOR = 4, FLOOR = 1e-6;

/* Rows: which sides meet; columns: quantities. */
enum source { BITWISE, FIXED, MEASURED };

#define ROW(m, o, ig, wg, p, a, r, c, in, s)                                                               \
  {[AB_Q_METRIC] = m, [AB_Q_OUTPUT] = o, [AB_Q_INPUT_GRADIENT] = ig, [AB_Q_WEIGHT_GRADIENT] = wg,          \
   [AB_Q_PARAMETER] = p, [AB_Q_ACTIVATION] = a, [AB_Q_RECOMPUTE] = r, [AB_Q_COTANGENT] = c,         \
   [AB_Q_INPUT] = in, [AB_Q_STATE] = s}

/* clang-format off */
static const unsigned char table[AB_PAIRS][AB_QUANTITIES] = {
    /*                        metric    output    d_input   d_weight  parameter activation recompute cotangent */
    /*                        input     state */
    [AB_PAIR_SAME]     = ROW(BITWISE,  BITWISE,  BITWISE,  BITWISE,  BITWISE,  BITWISE,  BITWISE,  BITWISE,
                             BITWISE,  BITWISE),
    [AB_PAIR_F64]      = ROW(FIXED,    FIXED,    FIXED,    FIXED,    FIXED,    FIXED,    FIXED,    FIXED,
                             BITWISE,  BITWISE),
    [AB_PAIR_MIXED]    = ROW(MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED,
                             BITWISE,  BITWISE),
    [AB_PAIR_RECORDED] = ROW(MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED,
                             BITWISE,  BITWISE),
};
/* clang-format on */

static bool known(double bound) { return isfinite(bound) && bound >= 0; }

static struct ab_bound measured(double given, double own) {
  double scaled = CALIBRATION_FACTOR * own;
  if (known(given)) return (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_GIVEN, fmin(given, AB_BOUND_MOST)};
  if (known(scaled) && scaled > FLOOR)
    return (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_UNCALIBRATED, fmin(scaled, AB_BOUND_MOST)};
  return (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_FLOOR, FLOOR};
}

struct ab_bound ab_tier_bound(enum ab_pair pair, enum ab_quantity quantity, double given, double own) {
  switch ((enum source)table[pair][quantity]) {
    case BITWISE: return (struct ab_bound){AB_TIER_BITWISE, AB_RULE_BITWISE, 0};
    case FIXED: return (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_FIXED, FLOAT64_LIMIT};
    case MEASURED: break;
  }
  return measured(given, own);
}

bool ab_bound_holds(const struct ab_bound *bound, double distance) { return distance <= bound->limit; }

const char *ab_rule_name(enum ab_rule rule) {
  static const char *const names[] = {
      [AB_RULE_BITWISE] = "bitwise",
      [AB_RULE_FIXED] = "float64 against float64",
      [AB_RULE_GIVEN] = "given by the reference",
      [AB_RULE_UNCALIBRATED] = "4 x the f32 oracle's own distance to f64 on this run (uncalibrated)",
      [AB_RULE_CALIBRATED] = "calibrated for this config",
      [AB_RULE_FLOOR] = "floor 1e-6 (uncalibrated)"};
  return names[rule];
}

bool ab_rule_uncalibrated(enum ab_rule rule) { return rule == AB_RULE_UNCALIBRATED || rule == AB_RULE_FLOOR; }

const char *ab_pair_name(enum ab_pair pair) {
  static const char *const names[] = {[AB_PAIR_SAME] = "same arithmetic",
                                      [AB_PAIR_F64] = "float64",
                                      [AB_PAIR_MIXED] = "float32 against float64",
                                      [AB_PAIR_RECORDED] = "against recorded numbers"};
  return names[pair];
}
