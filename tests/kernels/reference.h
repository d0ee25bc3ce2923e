/* Plain double implementations of the kernels, as the formulas are written; argument order as in kernels.h. */
#pragma once

#include "kernels.h"

void ref_gemm(double *c, const double *a, const double *b, const struct ab_gemm *d);
void ref_norm(double *y, double *rstd, const double *x, const double *scale, const struct ab_norm_dims *d);
/* dx and dscale (overwritten), through the whole Jacobian. */
void ref_norm_back(double *dx, double *dscale, const double *dy, const double *x, const double *scale,
                   const struct ab_norm_dims *d);
/* direction 1: rope, -1: its transpose. */
void ref_rope(double *y, const int32_t *positions, const double *x, double direction, const struct ab_rope_dims *d);
/* prob [b,H,L,L] is the normalised softmax. */
void ref_attention(double *out, double *row_max, double *row_sum, double *prob, const double *q, const double *k,
                   const double *v, const int32_t *segment, const struct ab_attention_dims *d);
void ref_attention_back(double *dq, double *dk, double *dv, const double *dout, const double *prob, const double *q,
                        const double *k, const double *v, const int32_t *segment, const struct ab_attention_dims *d);
bool ref_allowed(const int32_t *segment, int64_t t, int64_t s);
double ref_silu(double x);
double ref_silu_slope(double x);
void ref_cross_entropy(double *xent, double *z, const double *logits, const int32_t *targets,
                       const struct ab_loss_dims *d);
void ref_cross_entropy_back(double *dlogits, const double *g, const double *logits, const int32_t *targets,
                            const struct ab_loss_dims *d);
