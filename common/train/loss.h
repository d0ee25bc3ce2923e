/* Losses: MaxText's cross-entropy on logits, and the three scalar losses of bundles of kind engine.
 *
 * Per-token values come from kernels; their sums run in double in token order and are rounded once to float32 where the
 * table is float32 (MaxText's values are float32 there). MaxText train.py: loss_fn.
 */
#pragma once

#include "model.h"

/* Per-token values that backward needs; lives in exec->arena and exec->book until the caller releases its marks. */
struct ab_loss {
  const struct ab_kernels *kernels;
  struct ab_loss_dims dims;
  const int32_t *targets;             /* [T], borrowed from the batch */
  const int32_t *weight;              /* [T] 1 where targets_segmentation != 0, else 0; exec->book */
  void *xent, *z, *row_max, *row_sum; /* [T] */
  void *g;                            /* [T] cotangent of xent: weight / (total_weights + 1e-8) */
};

/* Forward of logits [T, V] (T = batch->rows x batch->length, V = config->vocab_size), whole batch. Takes 5 T elements
 * from exec->arena and T int32 from exec->book; fills terms. logits must stay until ab_loss_backward. */
ab_status ab_loss_forward(struct ab_loss *loss, struct ab_loss_terms *terms, const struct ab_config *config,
                          const struct ab_exec *exec, const struct ab_batch *batch, const void *logits);
/* logits [T, V] of the forward call are replaced by their cotangents. */
void ab_loss_backward(const struct ab_loss *loss, void *logits);

/* Loss kinds of a bundle's meta.json. */
enum ab_loss_kind {
  AB_LOSS_NORM,  /* "norm": sqrt(sum (y - other)^2), other = targets */
  AB_LOSS_DOT,   /* "dot": sum y other, other = targets */
  AB_LOSS_GIVEN, /* "given cotangent": no loss (0), other = output_cotangent */
  AB_LOSS_TRAIN  /* "train": MaxText's loss, above */
};
const char *ab_loss_kind_name(enum ab_loss_kind kind);
/* Sums and products only: exists on tables that have nothing else. */
bool ab_loss_kind_polynomial(enum ab_loss_kind kind);
/* AB_EFORMAT names the unknown kind. */
ab_status ab_loss_kind_find(enum ab_loss_kind *out, const char *name);

/* Loss of a pipeline's outputs y[n] and its cotangent d_outputs[n]; d_outputs may be outputs. kind is not TRAIN.
 * Returns the loss, rounded as MaxText's. */
double ab_output_loss(void *d_outputs, enum ab_loss_kind kind, const void *outputs, const void *other, size_t n,
                      const struct ab_kernels *kernels);

/* x as MaxText reports it: rounded to float32 when the table is float32. */
double ab_metric_round(const struct ab_kernels *kernels, double x);
