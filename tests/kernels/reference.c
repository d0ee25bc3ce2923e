#include "reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

void ref_gemm(double *c, const double *a, const double *b, const struct ab_gemm *d) {
  for (int64_t i = 0; i < d->m; i++)
    for (int64_t j = 0; j < d->n; j++) {
      double sum = d->accumulate ? c[i * d->ldc + j] : 0;
      for (int64_t p = 0; p < d->k; p++)
        sum += a[d->trans_a ? p * d->lda + i : i * d->lda + p] * b[d->trans_b ? j * d->ldb + p : p * d->ldb + j];
      c[i * d->ldc + j] = sum;
    }
}

static double row_rstd(const double *x, const struct ab_norm_dims *d) {
  double sum = 0;
  for (int64_t i = 0; i < d->emb; i++) sum += x[i] * x[i];
  return 1 / sqrt(sum / (double)d->emb + d->epsilon);
}

void ref_norm(double *y, double *rstd, const double *x, const double *scale, const struct ab_norm_dims *d) {
  for (int64_t t = 0; t < d->tokens; t++) {
    rstd[t] = row_rstd(x + t * d->emb, d);
    for (int64_t i = 0; i < d->emb; i++) y[t * d->emb + i] = x[t * d->emb + i] * rstd[t] * scale[i];
  }
}

/* d y_i / d x_j = scale_i (delta_ij r - x_i x_j r^3 / E) */
void ref_norm_back(double *dx, double *dscale, const double *dy, const double *x, const double *scale,
                   const struct ab_norm_dims *d) {
  int64_t e = d->emb;
  memset(dscale, 0, (size_t)e * sizeof *dscale);
  for (int64_t t = 0; t < d->tokens; t++) {
    double r = row_rstd(x + t * e, d);
    for (int64_t j = 0; j < e; j++) {
      double sum = 0;
      for (int64_t i = 0; i < e; i++)
        sum += dy[t * e + i] * scale[i] * ((i == j ? r : 0) - x[t * e + i] * x[t * e + j] * r * r * r / (double)e);
      dx[t * e + j] = sum;
      dscale[j] += dy[t * e + j] * x[t * e + j] * r;
    }
  }
}

void ref_rope(double *y, const int32_t *positions, const double *x, double direction, const struct ab_rope_dims *d) {
  int64_t half = d->head_dim / 2;
  for (int64_t row = 0; row < d->tokens * d->heads; row++)
    for (int64_t j = 0; j < half; j++) {
      double fraction = 2.0 * (double)j / (double)d->head_dim;
      double scale = d->min_timescale * pow(d->max_timescale / d->min_timescale, fraction) * d->linear_scaling;
      double angle = positions[row / d->heads] / scale, s = direction * sin(angle), c = cos(angle);
      const double *a = x + row * d->head_dim + j;
      y[row * d->head_dim + j] = a[0] * c - a[half] * s;
      y[row * d->head_dim + half + j] = a[half] * c + a[0] * s;
    }
}

bool ref_allowed(const int32_t *segment, int64_t t, int64_t s) {
  return segment[t] == segment[s] && segment[s] >= 0 && s <= t;
}

static const double *at(const double *x, int64_t row, int64_t t, int64_t head, int64_t heads,
                        const struct ab_attention_dims *d) {
  return x + ((row * d->length + t) * heads + head) * d->head_dim;
}

static double inner(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* One query: logits, softmax into prob[L]. */
static void softmax_row(double *max, double *sum, double *prob, const double *q, const double *k,
                        const int32_t *segment, int64_t row, int64_t t, int64_t kv, const struct ab_attention_dims *d) {
  *max = -INFINITY;
  *sum = 0;
  for (int64_t s = 0; s < d->length; s++) {
    bool allowed = ref_allowed(segment + row * d->length, t, s);
    prob[s] = allowed ? inner(q, at(k, row, s, kv, d->kv_heads, d), d->head_dim) : -0.7 * (double)FLT_MAX;
    *max = fmax(*max, prob[s]);
  }
  for (int64_t s = 0; s < d->length; s++) *sum += prob[s] = exp(prob[s] - *max);
  for (int64_t s = 0; s < d->length; s++) prob[s] /= *sum;
}

void ref_attention(double *out, double *row_max, double *row_sum, double *prob, const double *q, const double *k,
                   const double *v, const int32_t *segment, const struct ab_attention_dims *d) {
  for (int64_t i = 0; i < d->rows * d->heads * d->length; i++) {
    int64_t row = i / d->length / d->heads, h = i / d->length % d->heads, t = i % d->length;
    int64_t kv = h / (d->heads / d->kv_heads);
    softmax_row(row_max + i, row_sum + i, prob + i * d->length, at(q, row, t, h, d->heads, d), k, segment, row, t, kv,
                d);
    for (int64_t e = 0; e < d->head_dim; e++) {
      double sum = 0;
      for (int64_t s = 0; s < d->length; s++) sum += prob[i * d->length + s] * at(v, row, s, kv, d->kv_heads, d)[e];
      out[((row * d->length + t) * d->heads + h) * d->head_dim + e] = sum;
    }
  }
}

/* Cotangent of one logit: p_s (dp_s - sum_u p_u dp_u). */
static double logit_cotangent(const double *prob, const double *dout, const double *v, int64_t row, int64_t s,
                              int64_t kv, const struct ab_attention_dims *d) {
  double mean = 0;
  for (int64_t u = 0; u < d->length; u++) mean += prob[u] * inner(dout, at(v, row, u, kv, d->kv_heads, d), d->head_dim);
  return prob[s] * (inner(dout, at(v, row, s, kv, d->kv_heads, d), d->head_dim) - mean);
}

void ref_attention_back(double *dq, double *dk, double *dv, const double *dout, const double *prob, const double *q,
                        const double *k, const double *v, const int32_t *segment, const struct ab_attention_dims *d) {
  size_t tokens = (size_t)(d->rows * d->length);
  memset(dq, 0, tokens * (size_t)(d->heads * d->head_dim) * sizeof *dq);
  memset(dk, 0, tokens * (size_t)(d->kv_heads * d->head_dim) * sizeof *dk);
  memset(dv, 0, tokens * (size_t)(d->kv_heads * d->head_dim) * sizeof *dv);
  for (int64_t i = 0; i < d->rows * d->heads * d->length * d->length; i++) {
    int64_t row = i / d->length / d->length / d->heads, h = i / d->length / d->length % d->heads;
    int64_t t = i / d->length % d->length, s = i % d->length, kv = h / (d->heads / d->kv_heads);
    int64_t qi = at(q, row, t, h, d->heads, d) - q, ki = at(k, row, s, kv, d->kv_heads, d) - k;
    bool allowed = ref_allowed(segment + row * d->length, t, s);
    double dw = allowed ? logit_cotangent(prob + (i - s), dout + qi, v, row, s, kv, d) : 0;
    for (int64_t e = 0; e < d->head_dim; e++) {
      dq[qi + e] += dw * k[ki + e];
      dk[ki + e] += dw * q[qi + e];
      dv[ki + e] += prob[i] * dout[qi + e];
    }
  }
}

double ref_silu(double x) { return x / (1 + exp(-x)); }

double ref_silu_slope(double x) {
  double s = 1 / (1 + exp(-x));
  return s + x * s * (1 - s);
}

static double log_sum_exp(const double *x, int64_t n) {
  double max = x[0], sum = 0;
  for (int64_t i = 1; i < n; i++) max = fmax(max, x[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
  return max + log(sum);
}

void ref_cross_entropy(double *xent, double *z, const double *logits, const int32_t *targets,
                       const struct ab_loss_dims *d) {
  for (int64_t t = 0; t < d->tokens; t++) {
    double log_z = log_sum_exp(logits + t * d->vocab, d->vocab);
    bool known = targets[t] >= 0 && targets[t] < d->vocab;
    z[t] = d->z_loss_multiplier * log_z * log_z;
    xent[t] = (known ? log_z - logits[t * d->vocab + targets[t]] : 0) + z[t];
  }
}

void ref_cross_entropy_back(double *dlogits, const double *g, const double *logits, const int32_t *targets,
                            const struct ab_loss_dims *d) {
  for (int64_t i = 0; i < d->tokens * d->vocab; i++) {
    int64_t t = i / d->vocab;
    double log_z = log_sum_exp(logits + t * d->vocab, d->vocab), p = exp(logits[i] - log_z);
    dlogits[i] = g[t] * ((1 + 2 * d->z_loss_multiplier * log_z) * p - (targets[t] == i % d->vocab ? 1 : 0));
  }
}
