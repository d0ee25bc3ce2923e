/* Optimizer updates and gradient clipping. optax: adamw, sgd, clip_by_global_norm. */
#include "instance.h"

#include "spread.h"

HOT static void adamw_piece(real *restrict p, real *restrict mu, real *restrict nu, const real *restrict g,
                            const struct ab_adamw *rule, size_t n) {
  const real b1 = (real)rule->b1, b2 = (real)rule->b2, c1 = (real)(1.0 - rule->b1), c2 = (real)(1.0 - rule->b2);
  const real epsilon = (real)rule->epsilon, root = (real)rule->epsilon_root, decay = (real)rule->weight_decay;
  const real rate = -(real)rule->learning_rate, k1 = (real)rule->correction1, k2 = (real)rule->correction2;
  for (size_t i = 0; i < n; i++) {
    mu[i] = c1 * g[i] + b1 * mu[i];
    nu[i] = c2 * (g[i] * g[i]) + b2 * nu[i];
    real update = (mu[i] / k1) / (REAL_SQRT(nu[i] / k2 + root) + epsilon);
    p[i] = p[i] + rate * (update + decay * p[i]);
  }
}

void KERNEL(adamw)(void *p_, void *mu_, void *nu_, const void *g_, const struct ab_adamw *rule, size_t n) {
  real *p = p_, *mu = mu_, *nu = nu_;
  const real *g = g_;
  FOR_PIECES(n, SPREAD_ELEMENTS, adamw_piece(p + at, mu + at, nu + at, g + at, rule, count));
}

HOT void KERNEL(sgd)(void *p_, const void *g_, double learning_rate, size_t n) {
  real *restrict p = p_;
  const real *restrict g = g_;
  const real rate = -(real)learning_rate;
  for (size_t i = 0; i < n; i++) p[i] = p[i] + rate * g[i];
}

HOT static void clip_piece(real *g, real divisor, real factor, size_t n) {
  for (size_t i = 0; i < n; i++) g[i] = g[i] / divisor * factor;
}

void KERNEL(clip)(void *g_, double norm, double threshold, size_t n) {
  real *g = g_;
  FOR_PIECES(n, SPREAD_ELEMENTS, clip_piece(g + at, (real)norm, (real)threshold, count));
}
