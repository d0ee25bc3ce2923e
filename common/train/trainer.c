#include "trainer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "loss.h"
#include "observed.h"
#include "schedule.h"

const struct ab_metric_field ab_metric_fields[] = {
    {"loss", offsetof(struct ab_metrics, loss)},
    {"lm_loss", offsetof(struct ab_metrics, lm_loss)},
    {"perplexity", offsetof(struct ab_metrics, perplexity)},
    {"z_loss", offsetof(struct ab_metrics, z_loss)},
    {"total_weights", offsetof(struct ab_metrics, total_weights)},
    {"raw_grad_norm", offsetof(struct ab_metrics, raw_grad_norm)},
    {"grad_norm", offsetof(struct ab_metrics, grad_norm)},
    {"lr", offsetof(struct ab_metrics, learning_rate)},
    {"param_norm", offsetof(struct ab_metrics, param_norm)},
    {NULL, 0},
};

static ab_status build(struct ab_trainer *t) {
  const struct ab_kernels *k = t->exec->kernels;
  AB_TRY(ab_leaf_table_new(&t->params, t->config, k, false));
  AB_TRY(ab_leaf_table_new(&t->grads, t->config, k, false));
  AB_TRY(ab_optimizer_new(&t->optimizer, t->config, t->exec, &t->params));
  return AB_OK;
}

ab_status ab_trainer_init(struct ab_trainer *out, const struct ab_config *config, const struct ab_exec *exec,
                          const struct ab_model_ops *ops, struct ab_model *model) {
  struct ab_trainer t = {.config = config, .exec = exec, .side = {.model_ops = ops, .model = model}};
  ab_status status = build(&t);
  if (status != AB_OK) {
    ab_trainer_free(&t);
    AB_TRY(status);
  }
  *out = t;
  return AB_OK;
}

void ab_trainer_free(struct ab_trainer *trainer) {
  ab_leaf_table_free(&trainer->params);
  ab_leaf_table_free(&trainer->grads);
}

/* Work memory of one pass over the leaves, for those that are strided or clipped. */
struct scratch {
  void *grad, *param;
};

static ab_status take_scratch(struct scratch *out, const struct ab_trainer *t) {
  AB_TRY(ab_arena_take(t->exec->arena, &out->grad, t->params.largest, t->exec->kernels->element));
  AB_TRY(ab_arena_take(t->exec->arena, &out->param, t->params.largest, t->exec->kernels->element));
  return AB_OK;
}

static ab_status observe(const struct ab_trainer *t, const struct ab_leaf *leaf, enum ab_phase phase,
                         const char *prefix, const struct ab_view *view) {
  const struct ab_where nowhere = {-1, -1, -1, false};
  if (!t->exec->probe || t->exec->kernels->dry) return AB_OK;
  struct ab_identity id = {.step = t->step, .microbatch = -1, .layer = leaf->layer, .phase = phase};
  snprintf(id.tensor, sizeof id.tensor, "%s%s", prefix, leaf->param->name);
  AB_TRY(ab_probe_observe(t->exec->probe, &id, &nowhere, view));
  return AB_OK;
}

/* jnp.sqrt of the sum of squares, both in the table's precision. */
static double norm(const struct ab_kernels *k, double squares) {
  return ab_metric_round(k, sqrt(ab_metric_round(k, squares)));
}

static void fill_loss(struct ab_metrics *m, const struct ab_loss_terms *terms, const struct ab_kernels *k) {
  m->loss = m->lm_loss = terms->loss;
  m->perplexity = ab_metric_round(k, exp(m->lm_loss));
  m->z_loss = terms->z_loss;
  m->total_weights = terms->total_weights;
}

static ab_status gradient_norm(double *out, const struct ab_trainer *t) {
  const struct ab_kernels *k = t->exec->kernels;
  struct scratch scratch;
  double squares = 0.0;
  AB_TRY(take_scratch(&scratch, t));
  for (size_t i = 0; i < t->grads.leaves; i++) {
    const struct ab_leaf *leaf = &t->grads.leaf[i];
    squares += k->sum_squares(ab_leaf_pack(leaf, scratch.grad, k), leaf->count);
    AB_TRY(observe(t, leaf, AB_BACKWARD, "", &leaf->view));
  }
  *out = norm(k, squares);
  return AB_OK;
}

static ab_status measure(struct ab_trainer *t, const struct ab_batch *batch, struct ab_metrics *metrics) {
  struct ab_loss_terms terms = {0};
  AB_TRY(t->side.model_ops->step(t->side.model, batch, &terms));
  AB_TRY(ab_leaf_table_fill(&t->grads, &t->side, AB_GRADS));
  fill_loss(metrics, &terms, t->exec->kernels);
  AB_TRY(gradient_norm(&metrics->raw_grad_norm, t));
  return AB_OK;
}

ab_status ab_trainer_measure(struct ab_trainer *trainer, const struct ab_batch *batch, struct ab_metrics *metrics) {
  const struct ab_exec *exec = trainer->exec;
  size_t arena = ab_arena_mark(exec->arena), book = ab_arena_mark(exec->book);
  *metrics = (struct ab_metrics){0};
  if (exec->probe) ab_probe_step(exec->probe, trainer->step, 0);
  ab_status status = measure(trainer, batch, metrics);
  ab_arena_release(exec->arena, arena);
  ab_arena_release(exec->book, book);
  AB_TRY(status);
  return AB_OK;
}

/* optax.clip_by_global_norm: strictly below the threshold nothing changes (and NaN is not below it). The side's
 * gradients stay as they are: clipped ones are copies. */
static void *clipped(const struct ab_trainer *t, const struct ab_leaf *leaf, double raw_norm, void *scratch) {
  const struct ab_kernels *k = t->exec->kernels;
  double threshold = t->config->gradient_clipping_threshold;
  void *g = ab_leaf_pack(leaf, scratch, k);
  if (threshold <= 0.0 || (raw_norm < threshold && !k->dry)) return g;
  if (g != scratch) k->copy(scratch, g, leaf->count);
  k->clip(scratch, raw_norm, threshold, leaf->count);
  return scratch;
}

static ab_status observe_moments(const struct ab_trainer *t, size_t i) {
  const struct ab_leaf *leaf = &t->params.leaf[i];
  const struct ab_optimizer *optimizer = &t->optimizer;
  struct ab_view view = {.dtype = leaf->view.dtype, .shape = leaf->view.shape};
  ab_view_contiguous(&view);
  for (int m = 0; m < optimizer->rule->moments; m++) {
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%s/", optimizer->rule->moment[m]);
    view.data = optimizer->moment[m][i];
    AB_TRY(observe(t, leaf, AB_UPDATE, prefix, &view));
  }
  return AB_OK;
}

/* How many updates there have been. MaxText's TrainState.step; the count of optax's scale_by_adam and schedule. */
static ab_status observe_counts(const struct ab_trainer *t) {
  static const char *const names[] = {AB_OBS_STATE "step", AB_OBS_STATE "count"};
  const struct ab_where nowhere = {-1, -1, -1, false};
  int32_t updates = (int32_t)t->step + 1;
  struct ab_view view = {.dtype = AB_I32, .shape = {1, {1}}, .stride = {1}, .data = &updates};
  for (size_t i = 0; i < 2 && t->exec->probe && !t->exec->kernels->dry; i++) {
    struct ab_identity id = {.step = t->step, .microbatch = -1, .layer = -1, .phase = AB_UPDATE};
    snprintf(id.tensor, sizeof id.tensor, "%s", names[i]);
    AB_TRY(ab_probe_observe(t->exec->probe, &id, &nowhere, &view));
  }
  return AB_OK;
}

struct squares {
  double grads, params;
};

static void update_leaf(const struct ab_trainer *t, size_t i, const struct ab_metrics *m, const struct scratch *scratch,
                        struct squares *sums) {
  const struct ab_kernels *k = t->exec->kernels;
  const struct ab_leaf *leaf = &t->params.leaf[i];
  void *moment[AB_MOMENTS_MAX] = {NULL};
  for (int j = 0; j < t->optimizer.rule->moments; j++) moment[j] = t->optimizer.moment[j][i];
  void *g = clipped(t, &t->grads.leaf[i], m->raw_grad_norm, scratch->grad);
  void *p = ab_leaf_pack(leaf, scratch->param, k);
  t->optimizer.rule->update(p, moment, g, t->config, t->step, m->learning_rate, leaf->count, k);
  ab_leaf_unpack(leaf, p, k);
  sums->grads += k->sum_squares(g, leaf->count);
  sums->params += k->sum_squares(p, leaf->count);
}

static ab_status update(struct ab_trainer *t, struct ab_metrics *metrics) {
  struct scratch scratch;
  struct squares sums = {0.0, 0.0};
  AB_TRY(take_scratch(&scratch, t));
  AB_TRY(ab_leaf_table_fill(&t->params, &t->side, AB_PARAMS));
  metrics->learning_rate = ab_learning_rate(t->config, t->step);
  for (size_t i = 0; i < t->params.leaves; i++) {
    update_leaf(t, i, metrics, &scratch, &sums);
    AB_TRY(observe(t, &t->params.leaf[i], AB_UPDATE, "", &t->params.leaf[i].view));
    AB_TRY(observe_moments(t, i));
  }
  AB_TRY(observe_counts(t));
  metrics->grad_norm = norm(t->exec->kernels, sums.grads);
  metrics->param_norm = norm(t->exec->kernels, sums.params);
  return AB_OK;
}

ab_status ab_trainer_step(struct ab_trainer *trainer, const struct ab_batch *batch, struct ab_metrics *metrics) {
  const struct ab_exec *exec = trainer->exec;
  AB_TRY(ab_trainer_measure(trainer, batch, metrics));
  size_t arena = ab_arena_mark(exec->arena);
  ab_status status = update(trainer, metrics);
  ab_arena_release(exec->arena, arena);
  AB_TRY(status);
  trainer->step++;
  return AB_OK;
}
