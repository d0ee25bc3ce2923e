/* SwiGLU. MaxText layers/linears.py: MlpBlock with mlp_activations [silu, linear]. */
#include "instance.h"

HOT void KERNEL(swiglu)(void *y_, const void *gate_, const void *up_, size_t n) {
  real *restrict y = y_;
  const real *restrict gate = gate_, *restrict up = up_;
  for (size_t i = 0; i < n; i++) {
    real silu = (real)((double)gate[i] / (1.0 + REAL_EXP_WIDE(-gate[i])));
    y[i] = silu * up[i];
  }
}

/* d silu / d gate = s (1 + gate (1 - s)) with s the sigmoid. */
HOT void KERNEL(swiglu_input)(void *dgate_, void *dup_, const void *dy_, const void *gate_, const void *up_, size_t n) {
  real *restrict dgate = dgate_, *restrict dup = dup_;
  const real *restrict dy = dy_, *restrict gate = gate_, *restrict up = up_;
  for (size_t i = 0; i < n; i++) {
    double s = 1.0 / (1.0 + REAL_EXP_WIDE(-gate[i]));
    real slope = (real)(s * (1.0 + (double)gate[i] * (1.0 - s)));
    dup[i] = dy[i] * (real)((double)gate[i] * s);
    dgate[i] = (dy[i] * up[i]) * slope;
  }
}
