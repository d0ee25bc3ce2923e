/* SwiGLU. MaxText layers/linears.py: MlpBlock with mlp_activations [silu, linear]. */
#include "instance.h"

#include "spread.h"

HOT static void swiglu_piece(real *restrict y, const real *restrict gate, const real *restrict up, size_t n) {
  for (size_t i = 0; i < n; i++) {
    real silu = (real)((double)gate[i] / (1.0 + REAL_EXP_WIDE(-gate[i])));
    y[i] = silu * up[i];
  }
}

void KERNEL(swiglu)(void *y_, const void *gate_, const void *up_, size_t n) {
  real *y = y_;
  const real *gate = gate_, *up = up_;
  FOR_PIECES(n, SPREAD_ELEMENTS, swiglu_piece(y + at, gate + at, up + at, count));
}

/* d silu / d gate = s (1 + gate (1 - s)) with s the sigmoid. */
HOT static void swiglu_input_piece(real *restrict dgate, real *restrict dup, const real *restrict dy,
                                   const real *restrict gate, const real *restrict up, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double s = 1.0 / (1.0 + REAL_EXP_WIDE(-gate[i]));
    real slope = (real)(s * (1.0 + (double)gate[i] * (1.0 - s)));
    dup[i] = dy[i] * (real)((double)gate[i] * s);
    dgate[i] = (dy[i] * up[i]) * slope;
  }
}

void KERNEL(swiglu_input)(void *dgate_, void *dup_, const void *dy_, const void *gate_, const void *up_, size_t n) {
  real *dgate = dgate_, *dup = dup_;
  const real *dy = dy_, *gate = gate_, *up = up_;
  FOR_PIECES(n, SPREAD_ELEMENTS, swiglu_input_piece(dgate + at, dup + at, dy + at, gate + at, up + at, count));
}
