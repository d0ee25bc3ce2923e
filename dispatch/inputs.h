/* What a side begins with, as observations of step -1: where two sides differ here, all that follows does. */
#pragma once

#include "run.h"

/* Reports the side's initial parameters as it holds them, and the batch (a bundle's with all its steps) as it came from
 * the loader. Not in a dry run: reads tensor memory, and allocates. */
ab_status ab_observe_inputs(const struct ab_run *run, const struct ab_side *side, const struct ab_exec *exec,
                            const struct ab_synthetic *data);
