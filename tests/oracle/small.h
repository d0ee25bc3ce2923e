/* Small models for tests of a whole side: configs built in place, parameters and batches from a counter. */
#pragma once

#include "reference.h"

/* A config of odd sizes with every string borrowed; change fields freely, then small_derive. */
struct ab_config small_config(void);
/* Fills what follows from S, R, K and the number of layers. */
void small_derive(struct ab_config *config);

/* Parameters of a side: uniform values of the size that keeps activations near one; norm scales around one. */
void small_params(const struct reference_side *side);

/* Tokens, packed segments with padding, positions that differ per row; targets with segment id 0 here and there. */
struct small_batch {
  struct ab_batch batch;
  int32_t *ids; /* six arrays, one block */
};
struct small_batch small_batch_new(const struct ab_config *config);
void small_batch_free(struct small_batch *batch);

/* A side on a small config: created, given parameters, stepped once. */
struct small_run {
  struct reference_side s;
  struct ab_loss_terms terms;
};
void small_run_new(struct small_run *out, const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                   const struct ab_config *config, const struct ab_batch *batch, struct ab_probe *probe);
void small_run_free(struct small_run *run);
/* Gradients of all canonical leaves, one after another, in the kernels' dtype; the caller frees *out. */
size_t small_side_gradients(void **out, const struct reference_side *side, const struct ab_config *config);
size_t small_gradients(void **out, const struct small_run *run, const struct ab_config *config);
