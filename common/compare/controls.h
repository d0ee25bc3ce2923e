/* Controls: proof on this run's own data that a green could have been red.
 *
 * A control takes a copy of what a comparison joined - the observations and metrics of the first two steps, or one
 * tensor with its values - damages it the way a broken engine would, and puts it through the verdict. One table lists
 * them: name, tier, damage, and the exit code that must come out. A control that comes out otherwise was not caught and
 * the run is exit 6; one whose damage cannot be done here (one stage, one step, no values) is not applicable, with its
 * reason.
 *
 * A bitwise control runs on a comparison of pair SAME, a bounded one on any other, one against a record on MaxText's
 * numbers or a golden, the rest on the first that fits. The copy keeps of activations the first and the last
 * microbatch, so that memory and time do not grow with a run.
 */
#pragma once

#include "verdict.h"

/* What the config says of the run; numbers are 1 where there is no pipeline. */
struct ab_control_facts {
  int stages, layers_per_stage, pipeline_layers, microbatches;
};

enum ab_control_outcome { AB_CONTROL_NOT_RUN, AB_CONTROL_CAUGHT, AB_CONTROL_MISSED, AB_CONTROL_NA };
const char *ab_control_outcome_name(enum ab_control_outcome outcome);

enum { AB_CONTROLS = 27, AB_CONTROL_DETAIL = AB_IDENTITY_TEXT };
struct ab_control_result {
  enum ab_control_outcome outcome;
  enum ab_exit expected, got;     /* got is meaningful where a verdict was reached: CAUGHT, and MISSED without `why` */
  char on[AB_CONTROL_DETAIL];     /* what was damaged: "step 0 layers/0/mlp/wo/kernel backward" */
  char why[AB_CONTROL_DETAIL];    /* NA: the reason; MISSED: why no verdict was reached, else "" */
};
/* Zeroed before the first comparison. */
struct ab_controls {
  struct ab_control_result row[AB_CONTROLS];
};

/* "one ulp", and what a verdict that misses it would let through. */
const char *ab_control_name(size_t row);
const char *ab_control_meaning(size_t row);

typedef ab_status (*ab_verdict_fn)(struct ab_verdict *out, const struct ab_comparison *comparison);

/* Runs the controls that this comparison, which came out equal, can serve and that have not run yet. `verdict` is
 * ab_verdict but in tests. Fails only on memory and on a failing callback. */
ab_status ab_controls_run(struct ab_controls *controls, const struct ab_comparison *comparison,
                          const struct ab_control_facts *facts, ab_verdict_fn verdict);
/* After the last comparison: what has not run cannot apply. */
void ab_controls_close(struct ab_controls *controls);

size_t ab_controls_count(const struct ab_controls *controls, enum ab_control_outcome outcome);
/* "control 'one ulp' was not caught: ..." of the first that was missed; false when none was. */
bool ab_controls_missed(char *text, size_t size, const struct ab_controls *controls);
