/* What lies before a tensor outside the layers. */
#pragma once

#include "divergence.h"

/* Says which part of the model writes the first differing tensor or metric, and whether what it reads agrees. */
void ab_replay_outside(struct ab_replayed *out, const struct ab_divergence *d, const struct ab_recording *got,
                       const struct ab_recording *reference);
