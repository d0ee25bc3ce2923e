#include "loss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double ab_metric_round(const struct ab_kernels *kernels, double x) {
  return kernels->dtype == AB_F32 ? (double)(float)x : x;
}

static int64_t mark_weights(int32_t *weight, const struct ab_batch *batch, size_t tokens) {
  int64_t total = 0;
  for (size_t t = 0; t < tokens; t++) {
    weight[t] = batch->targets_segmentation[t] != 0;
    total += weight[t];
  }
  return total;
}

static ab_status take_rows(struct ab_loss *loss, struct ab_arena *arena) {
  void **row[] = {&loss->xent, &loss->z, &loss->row_max, &loss->row_sum, &loss->g};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    AB_TRY(ab_arena_take(arena, row[i], (size_t)loss->dims.tokens, loss->kernels->element));
  return AB_OK;
}

/* utils/globals.py: EPS; the sum is taken in the loss dtype, where it vanishes in float32. */
static double divisor(const struct ab_kernels *k, double total) { return ab_metric_round(k, total + 1e-8); }

/* One fill per run of equal weights, because only kernels may write tensor memory. */
static void fill_cotangent(const struct ab_loss *loss, double total) {
  const struct ab_kernels *k = loss->kernels;
  double value = 1.0 / divisor(k, total);
  for (int64_t begin = 0, end; begin < loss->dims.tokens; begin = end) {
    for (end = begin + 1; end < loss->dims.tokens && loss->weight[end] == loss->weight[begin]; end++) continue;
    k->fill((char *)loss->g + (size_t)begin * k->element, loss->weight[begin] ? value : 0.0, (size_t)(end - begin));
  }
}

static void sum_terms(struct ab_loss_terms *terms, const struct ab_loss *loss, double total) {
  const struct ab_kernels *k = loss->kernels;
  size_t n = (size_t)loss->dims.tokens;
  double z_sum = ab_metric_round(k, k->weighted_sum(loss->z, loss->weight, n));
  terms->xent_sum = ab_metric_round(k, k->weighted_sum(loss->xent, loss->weight, n));
  terms->total_weights = total;
  terms->loss = ab_metric_round(k, terms->xent_sum / divisor(k, total));
  terms->z_loss = ab_metric_round(k, z_sum / divisor(k, total));
}

ab_status ab_loss_forward(struct ab_loss *loss, struct ab_loss_terms *terms, const struct ab_config *config,
                          const struct ab_exec *exec, const struct ab_batch *batch, const void *logits) {
  const struct ab_kernels *k = exec->kernels;
  *loss = (struct ab_loss){.kernels = k, .targets = batch->targets};
  loss->dims = (struct ab_loss_dims){.tokens = batch->rows * batch->length,
                                     .vocab = config->vocab_size,
                                     .z_loss_multiplier = config->z_loss_multiplier};
  int32_t *weight;
  AB_TRY(ab_arena_take(exec->book, &weight, (size_t)loss->dims.tokens, sizeof *weight));
  AB_TRY(take_rows(loss, exec->arena));
  double total = (double)mark_weights(weight, batch, (size_t)loss->dims.tokens);
  loss->weight = weight;
  k->cross_entropy(loss->xent, loss->z, loss->row_max, loss->row_sum, logits, loss->targets, &loss->dims);
  fill_cotangent(loss, total);
  sum_terms(terms, loss, total);
  return AB_OK;
}

void ab_loss_backward(const struct ab_loss *loss, void *logits) {
  loss->kernels->cross_entropy_input(logits, loss->g, loss->row_max, loss->row_sum, logits, loss->targets, &loss->dims);
}

static double norm_loss(void *dy, const void *y, const void *targets, size_t n, const struct ab_kernels *k) {
  k->subtract(dy, y, targets, n);
  double loss = ab_metric_round(k, sqrt(ab_metric_round(k, k->sum_squares(dy, n))));
  k->scale(dy, dy, 1.0 / loss, n);
  return loss;
}

static double dot_loss(void *dy, const void *y, const void *targets, size_t n, const struct ab_kernels *k) {
  double loss = ab_metric_round(k, k->dot(y, targets, n));
  k->copy(dy, targets, n);
  return loss;
}

static double given_cotangent(void *dy, const void *y, const void *cotangent, size_t n, const struct ab_kernels *k) {
  (void)y;
  k->copy(dy, cotangent, n);
  return 0.0;
}

static const struct {
  const char *name;
  bool polynomial;
  double (*loss)(void *dy, const void *y, const void *other, size_t n, const struct ab_kernels *k);
} kinds[] = {
    [AB_LOSS_NORM] = {"norm", false, norm_loss},
    [AB_LOSS_DOT] = {"dot", true, dot_loss},
    [AB_LOSS_GIVEN] = {"given cotangent", true, given_cotangent},
    [AB_LOSS_TRAIN] = {"train", false, NULL},
};

const char *ab_loss_kind_name(enum ab_loss_kind kind) { return kinds[kind].name; }

bool ab_loss_kind_polynomial(enum ab_loss_kind kind) { return kinds[kind].polynomial; }

ab_status ab_loss_kind_find(enum ab_loss_kind *out, const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, name) != 0) continue;
    *out = (enum ab_loss_kind)i;
    return AB_OK;
  }
  return AB_FAIL(AB_EFORMAT, "loss_kind '%.64s' is unknown; expected norm, dot, given cotangent or train", name);
}

double ab_output_loss(void *d_outputs, enum ab_loss_kind kind, const void *outputs, const void *other, size_t n,
                      const struct ab_kernels *kernels) {
  assert(kinds[kind].loss);
  return kinds[kind].loss(d_outputs, outputs, other, n, kernels);
}
