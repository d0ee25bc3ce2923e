/* One batch: what a side gets per step. */
#pragma once

#include <stdint.h>

#include "config.h"
#include "status.h"

/* Token batch of kind train; all [rows, length] int32, borrowed from the loader for the length of a step. */
struct ab_batch {
  int64_t rows, length;
  const int32_t *inputs, *inputs_position, *inputs_segmentation;
  const int32_t *targets, *targets_position, *targets_segmentation;
};

/* MaxText's synthetic data: one batch, the same every step.
 * input_pipeline/synthetic_data_processing.py: SyntheticDataIterator, threefry keys. */
struct ab_synthetic;
ab_status ab_synthetic_new(struct ab_synthetic **out, const struct ab_config *config);
void ab_synthetic_free(struct ab_synthetic *data);
/* Borrowed arrays of the loader: the rows to train on. */
struct ab_batch ab_synthetic_batch(const struct ab_synthetic *data);
