/* Whole-batch values under observed.h's names. */
#pragma once

#include "block.h"
#include "model.h"

/* [rows, length, width]; nothing in a dry run, which has no values. */
ab_status nnx_observe_batch(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *values,
                            const struct ab_layer_dims *batch, int64_t width);
