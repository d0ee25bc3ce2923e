/* Bytes that stay from forward to backward, by name: the counters of observed.h. They say what a distributed run of the
 * real code keeps, bubbles included; here weights are pointers while all stages are local, and a bubble that is skipped
 * keeps nothing.
 */
#pragma once

#include "pipeline.h"

/* Of one cell, within a stage's worker. */
void nnx_count_residuals(const struct nnx_pipeline *pipeline, struct ab_recorder *recorder,
                         const struct ab_identity *id, const struct ab_where *at);
/* Weights of one repeat, or of window `repeat`, of every own stage, outside a worker. */
ab_status nnx_count_weights(const struct nnx_pipeline *pipeline, const char *name, int repeat);
