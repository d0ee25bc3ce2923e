/* One training step around a model: gradients, norms, clipping, update, metrics. MaxText trainers/pre_train/train.py:
 * train_step.
 *
 * Norms are sums per (layer, parameter) in canonical order, in double, rounded once: the same for every stacked layout.
 * Observed, at level STATE, outside any parallel region: gradients before clipping (phase BACKWARD, tensor = parameter
 * name, layer), then parameters and moments ("mu/<name>", "nu/<name>") after the update (phase UPDATE), and the counts
 * of updates ("state/step", "state/count").
 */
#pragma once

#include "optimizer.h"

/* MaxText's values of one step; float32 values, widened, where the table is float32. */
struct ab_metrics {
  double loss, lm_loss, perplexity, z_loss, total_weights;
  double raw_grad_norm, grad_norm; /* before and after clipping */
  double learning_rate;            /* used by this step's update */
  double param_norm;               /* after the update */
};
/* Their names in expected.json: "loss" ... "lr", "param_norm". A NULL name ends the table. */
struct ab_metric_field {
  const char *name;
  size_t offset; /* of the double in struct ab_metrics */
};
extern const struct ab_metric_field ab_metric_fields[];

struct ab_trainer {
  const struct ab_config *config;
  const struct ab_exec *exec;
  struct ab_side side;
  struct ab_leaf_table params, grads;
  struct ab_optimizer optimizer;
  int step; /* the next one, 0-based; it is also the optimizer's count */
};

/* Moments come from exec->slab. config, exec and model are borrowed for the trainer's life. */
ab_status ab_trainer_init(struct ab_trainer *out, const struct ab_config *config, const struct ab_exec *exec,
                          const struct ab_model_ops *ops, struct ab_model *model);
void ab_trainer_free(struct ab_trainer *trainer);

/* Forward, backward, update, step + 1. Marks and releases exec->arena and exec->book; allocates nothing else. */
ab_status ab_trainer_step(struct ab_trainer *trainer, const struct ab_batch *batch, struct ab_metrics *metrics);
/* Forward and backward only, observed; fills loss, lm_loss, perplexity, z_loss, total_weights, raw_grad_norm. */
ab_status ab_trainer_measure(struct ab_trainer *trainer, const struct ab_batch *batch, struct ab_metrics *metrics);
