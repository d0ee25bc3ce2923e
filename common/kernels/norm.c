/* RMSNorm. MaxText layers/normalizations.py: RMSNorm. */
#include "instance.h"

#include "lanes.h"
#include "spread.h"

enum { COLUMNS = 64 }; /* columns whose sums over tokens are held at once */

HOT static void norm_tokens(real *restrict y, real *restrict rstd, const real *restrict x, const real *restrict scale,
                            size_t tokens, int64_t emb, double epsilon) {
  for (size_t t = 0; t < tokens; t++, y += emb, x += emb) {
    double mean = lanes_dot(x, x, (size_t)emb) / (double)emb;
    real r = (real)(1.0 / sqrt(mean + epsilon));
    rstd[t] = r;
    for (int64_t i = 0; i < emb; i++) y[i] = (x[i] * r) * scale[i];
  }
}

void KERNEL(norm)(void *y_, void *rstd_, const void *x_, const void *scale, const struct ab_norm_dims *dims) {
  real *y = y_, *rstd = rstd_;
  const real *x = x_;
  size_t tokens = (size_t)dims->tokens, emb = (size_t)dims->emb;
  FOR_PIECES(tokens, SPREAD_TOKENS,
             norm_tokens(y + at * emb, rstd + at, x + at * emb, scale, count, dims->emb, dims->epsilon));
}

/* dx = rstd (g - x mean(g x) rstd^2) with g = dy scale. */
HOT static void norm_input_tokens(real *restrict dx, const real *restrict dy, const real *restrict rstd,
                                  const real *restrict x, const real *restrict scale, size_t tokens, int64_t emb) {
  for (size_t t = 0; t < tokens; t++, dx += emb, dy += emb, x += emb) {
    real r = rstd[t];
    double mean = lanes_dot3(x, dy, scale, (size_t)emb) / (double)emb;
    real pull = (real)(mean * ((double)r * (double)r));
    for (int64_t i = 0; i < emb; i++) dx[i] = r * (dy[i] * scale[i] - x[i] * pull);
  }
}

void KERNEL(norm_input)(void *dx_, const void *dy_, const void *rstd_, const void *x_, const void *scale,
                        const struct ab_norm_dims *dims) {
  real *dx = dx_;
  const real *dy = dy_, *rstd = rstd_, *x = x_;
  size_t tokens = (size_t)dims->tokens, emb = (size_t)dims->emb;
  FOR_PIECES(tokens, SPREAD_TOKENS,
             norm_input_tokens(dx + at * emb, dy + at * emb, rstd + at, x + at * emb, scale, count, dims->emb));
}

HOT static void norm_weight_columns(real *dscale, const real *dy, const real *rstd, const real *x, int64_t columns,
                                const struct ab_norm_dims *dims) {
  double sum[COLUMNS] = {0};
  for (int64_t t = 0; t < dims->tokens; t++, dy += dims->emb, x += dims->emb)
    for (int64_t i = 0; i < columns; i++) sum[i] += (double)dy[i] * (double)(x[i] * rstd[t]);
  for (int64_t i = 0; i < columns; i++) dscale[i] += (real)sum[i];
}

void KERNEL(norm_weight)(void *dscale_, const void *dy_, const void *rstd, const void *x_,
                         const struct ab_norm_dims *dims) {
  real *dscale = dscale_;
  const real *dy = dy_, *x = x_;
  size_t emb = (size_t)dims->emb;
  FOR_PIECES(emb, COLUMNS, norm_weight_columns(dscale + at, dy + at, rstd, x + at, (int64_t)count, dims));
}
