/* Rotary position embedding, half-split layout. MaxText layers/embeddings.py: RotaryEmbedding. */
#include "instance.h"

#include "spread.h"

static real timescale(int64_t j, const struct ab_rope_dims *dims) {
  real fraction = (real)(2 * j) / (real)dims->head_dim;
  real ratio = (real)dims->max_timescale / (real)dims->min_timescale;
  real scale = (real)dims->min_timescale * REAL_POW(ratio, fraction);
  return dims->linear_scaling == 1.0 ? scale : scale * (real)dims->linear_scaling;
}

void KERNEL(rope_table)(void *table_, const int32_t *positions, const struct ab_rope_dims *dims) {
  real *table = table_;
  int64_t half = dims->head_dim / 2;
  for (int64_t j = 0; j < half; j++) {
    real scale = timescale(j, dims);
    for (int64_t t = 0; t < dims->tokens; t++) {
      real angle = (real)positions[t] / scale;
      table[t * dims->head_dim + j] = REAL_SIN(angle);
      table[t * dims->head_dim + half + j] = REAL_COS(angle);
    }
  }
}

/* Rotates every pair by the table's angle times `direction`, 1 or -1. y may be x. */
HOT static void rotate_tokens(real *y, const real *table, const real *x, real direction, size_t tokens,
                              const struct ab_rope_dims *dims) {
  int64_t half = dims->head_dim / 2, rows = (int64_t)tokens * dims->heads;
  for (int64_t row = 0; row < rows; row++, x += dims->head_dim, y += dims->head_dim) {
    const real *sine = table + row / dims->heads * dims->head_dim, *cosine = sine + half;
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
      real x1 = x[j], x2 = x[j + half], s = direction * sine[j];
      y[j] = x1 * cosine[j] - x2 * s;
      y[j + half] = x2 * cosine[j] + x1 * s;
    }
  }
}

static void rotate(real *y, const real *table, const real *x, real direction, const struct ab_rope_dims *dims) {
  size_t width = (size_t)(dims->heads * dims->head_dim), head_dim = (size_t)dims->head_dim;
  size_t tokens = (size_t)dims->tokens;
  FOR_PIECES(tokens, SPREAD_TOKENS,
             rotate_tokens(y + at * width, table + at * head_dim, x + at * width, direction, count, dims));
}

void KERNEL(rope)(void *y, const void *table, const void *x, const struct ab_rope_dims *dims) {
  rotate(y, table, x, 1, dims);
}

void KERNEL(rope_input)(void *dx, const void *table, const void *dy, const struct ab_rope_dims *dims) {
  rotate(dx, table, dy, -1, dims);
}
