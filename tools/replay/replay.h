/* From a red comparison to the place: where a side leaves its oracle, the values there by a deterministic re-run, and
 * the cell run again with the oracle's inputs.
 */
#pragma once

#include "divergence.h"

struct ab_replay {
  struct ab_divergence divergence;
  struct ab_replayed replayed;
};
