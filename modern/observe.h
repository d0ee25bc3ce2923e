/* Whole-batch values under observed.h's names. */
#pragma once

#include "block.h"
#include "graph.h"
#include "model.h"

/* [rows, length, width]; nothing in a dry run, which has no values. */
ab_status nnx_observe_batch(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *values,
                            const struct ab_layer_dims *batch, int64_t width);
/* Where the streams of every own stage stand: key [slots, 2] and count [slots] of slots r stages + s, as counters. */
ab_status nnx_count_rng_state(const struct ab_exec *exec, const struct nnx_state *rng, int stages);
