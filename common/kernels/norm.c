/* RMSNorm. MaxText layers/normalizations.py: RMSNorm. */
#include "instance.h"

#include "lanes.h"

enum { COLUMNS = 64 }; /* columns whose sums over tokens are held at once */

HOT void KERNEL(norm)(void *y_, void *rstd_, const void *x_, const void *scale_, const struct ab_norm_dims *dims) {
  real *restrict y = y_, *restrict rstd = rstd_;
  const real *restrict x = x_, *restrict scale = scale_;
  int64_t emb = dims->emb;
  for (int64_t t = 0; t < dims->tokens; t++, y += emb, x += emb) {
    double mean = lanes_dot(x, x, (size_t)emb) / (double)emb;
    real r = (real)(1.0 / sqrt(mean + dims->epsilon));
    rstd[t] = r;
    for (int64_t i = 0; i < emb; i++) y[i] = (x[i] * r) * scale[i];
  }
}

/* dx = rstd (g - x mean(g x) rstd^2) with g = dy scale. */
HOT void KERNEL(norm_input)(void *dx_, const void *dy_, const void *rstd_, const void *x_, const void *scale_,
                        const struct ab_norm_dims *dims) {
  real *restrict dx = dx_;
  const real *restrict dy = dy_, *restrict rstd = rstd_, *restrict x = x_, *restrict scale = scale_;
  int64_t emb = dims->emb;
  for (int64_t t = 0; t < dims->tokens; t++, dx += emb, dy += emb, x += emb) {
    real r = rstd[t];
    double mean = lanes_dot3(x, dy, scale, (size_t)emb) / (double)emb;
    real pull = (real)(mean * ((double)r * (double)r));
    for (int64_t i = 0; i < emb; i++) dx[i] = r * (dy[i] * scale[i] - x[i] * pull);
  }
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
  for (int64_t i = 0; i < dims->emb; i += COLUMNS) {
    int64_t columns = dims->emb - i < COLUMNS ? dims->emb - i : COLUMNS;
    norm_weight_columns(dscale + i, dy + i, rstd, x + i, columns, dims);
  }
}
