/* Measuring what rounding amounts to in one case: runs that change only what must not matter. */
#pragma once

#include "calibration.h"
#include "judgement.h"

struct ab_calibrate_order {
  const char *folder;
  long runs, timeout;
  int64_t seed;
  bool verbose; /* a line per run on stderr */
};

/* Base: linen with portable numerics, and the float64 oracle at its parameters. Then `runs` runs that differentiate
 * every step at the base's parameters, each moved by -1, 0 or +1 ulp, with the microbatches in another order, other
 * gemm blocks, and in turns portable numerics or OpenBLAS with each core that this CPU runs; a core that fails is
 * dropped and named. Only metrics and weight gradients are bounded, which are sums over the batch: there is nothing to
 * put back into the order of the microbatches. AB_EMISMATCH when a measured bound is above its analytic ceiling. */
ab_status ab_calibrate(struct ab_calibration **out, const struct ab_calibrate_order *order);
