/* What an artifact is made of: the values of three re-runs, parameters and batch of the step. */
#pragma once

#include "artifact.h"
#include "judgement.h"

/* artifact: everything but the trees is set. side: the re-runs of a, b, reference; a NULL `values` leaves one out.
 * AB_ENOTFOUND when the reference lacks the cell's input or cotangent. */
ab_status ab_collect(struct ab_artifact *artifact, struct ab_judgement *j,
                     const struct ab_side_result *const side[AB_ARTIFACT_SIDES]);
