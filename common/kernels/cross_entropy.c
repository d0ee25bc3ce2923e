/* Softmax cross-entropy with z-loss. MaxText utils/max_utils.py: cross_entropy_with_logits. */
#include "instance.h"

#include "lanes.h"
#include "spread.h"

enum { PIECE = 64 * LANES }; /* elements whose exponentials are held at once */

/* sum exp(x - max), every exponential rounded to real before it is added. */
HOT static real exp_sum(const real *restrict x, real max, size_t n) {
  double lane[LANES] = {0};
  real e[PIECE];
  for (size_t first = 0; first < n; first += PIECE) {
    size_t count = n - first < PIECE ? n - first : PIECE;
    for (size_t i = 0; i < count; i++) e[i] = REAL_EXP(x[first + i] - max);
    lanes_add(lane, e, count);
  }
  return (real)lanes_total(lane);
}

static bool known(int32_t target, const struct ab_loss_dims *dims) { return target >= 0 && target < dims->vocab; }

HOT static void max_and_sum(real *max, real *sum, const real *x, size_t n) {
  *max = lanes_max(x, n);
  *sum = exp_sum(x, *max, n);
}

void KERNEL(cross_entropy)(void *xent_, void *z_, void *row_max_, void *row_sum_, const void *logits,
                           const int32_t *targets, const struct ab_loss_dims *dims) {
  real *xent = xent_, *z = z_, *row_max = row_max_, *row_sum = row_sum_;
#pragma omp parallel for schedule(static) if (may_spread(dims->tokens / SPREAD_TOKENS))
  for (int64_t t = 0; t < dims->tokens; t++) {
    const real *x = (const real *)logits + t * dims->vocab;
    max_and_sum(&row_max[t], &row_sum[t], x, (size_t)dims->vocab);
    real log_sum = REAL_LOG(row_sum[t]), log_z = log_sum + row_max[t];
    z[t] = (real)dims->z_loss_multiplier * (log_z * log_z);
    xent[t] = (known(targets[t], dims) ? log_sum - (x[targets[t]] - row_max[t]) : 0) + z[t];
  }
}

HOT static void cross_entropy_row(real *dx, real g, real max, real sum, const real *x, int32_t target,
                              const struct ab_loss_dims *dims) {
  real log_z = REAL_LOG(sum) + max;
  real weight = 1 + 2 * (real)dims->z_loss_multiplier * log_z;
  bool hit = known(target, dims);
  real at_target = hit ? g * (weight * REAL_EXP(x[target] - max) / sum - 1) : 0;
#pragma omp simd
  for (int64_t i = 0; i < dims->vocab; i++) dx[i] = g * (weight * REAL_EXP(x[i] - max) / sum);
  if (hit) dx[target] = at_target;
}

void KERNEL(cross_entropy_input)(void *dlogits_, const void *g_, const void *row_max_, const void *row_sum_,
                                 const void *logits_, const int32_t *targets, const struct ab_loss_dims *dims) {
  real *dlogits = dlogits_;
  const real *g = g_, *row_max = row_max_, *row_sum = row_sum_, *logits = logits_;
#pragma omp parallel for schedule(static) if (may_spread(dims->tokens / SPREAD_TOKENS))
  for (int64_t t = 0; t < dims->tokens; t++)
    cross_entropy_row(dlogits + t * dims->vocab, g[t], row_max[t], row_sum[t], logits + t * dims->vocab, targets[t],
                      dims);
}
