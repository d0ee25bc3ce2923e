/* Causal attention with segment ids and grouped query heads, one L x L tile of one head and row at a time.
 * MaxText layers/attention_op.py: generate_attention_mask, qk_product, compute_local_attention.
 */
#include "instance.h"

#include <float.h>

#include "lanes.h"
#include "spread.h"
#include "work.h"

/* Replaces, not adds to, the logits that are not allowed: a row with nothing allowed becomes uniform. */
static const real masked_logit = (real)(-0.7 * (double)FLT_MAX);

enum { VECTOR = 16 }; /* elements of the widest vector; without effect on bits */

/* One head of one row of the batch. Strides of q, out are heads * head_dim; of k, v kv_heads * head_dim. */
struct head {
  const real *q, *k, *v;
  const int32_t *segment;
  int64_t length, head_dim, q_stride, k_stride;
};

static struct head head_at(const real *q, const real *k, const real *v, const int32_t *segment_ids, int64_t row,
                           int64_t h, const struct ab_attention_dims *d) {
  int64_t q_stride = d->heads * d->head_dim, k_stride = d->kv_heads * d->head_dim;
  int64_t kv = row * d->length * k_stride + h / (d->heads / d->kv_heads) * d->head_dim;
  return (struct head){.q = q + row * d->length * q_stride + h * d->head_dim,
                       .k = k + kv,
                       .v = v + kv,
                       .segment = segment_ids + row * d->length,
                       .length = d->length,
                       .head_dim = d->head_dim,
                       .q_stride = q_stride,
                       .k_stride = k_stride};
}

static bool worth_spreading(int64_t heads, const struct ab_attention_dims *dims) {
  return heads > 1 && may_spread(pieces_of((size_t)(heads * dims->length * dims->length), SPREAD_ELEMENTS));
}

/* part(ctx, i, the worker's own tiles) for i < parts. Two loops: in LLVM's runtime the num_threads of a region whose
 * `if` is false holds for the next region. */
static void over_parts(void (*part)(const void *ctx, int64_t i, real *tiles), const void *ctx, int64_t parts,
                       void *work, const struct ab_attention_dims *dims) {
  if (worth_spreading(parts, dims)) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(AB_ATTENTION_WORKERS)
    for (int64_t i = 0; i < parts; i++)
      part(ctx, i, (real *)work + (size_t)omp_get_thread_num() * ab_attention_tiles(dims));
#endif
  } else {
    for (int64_t i = 0; i < parts; i++) part(ctx, i, work);
  }
}

/* tile[L,L] = x[L,D] y[L,D]^T */
static void tile_of(real *tile, const real *x, int64_t x_stride, const real *y, int64_t y_stride,
                    const struct head *h) {
  KERNEL(gemm)(tile, x, y, &(struct ab_gemm){.m = h->length, .n = h->length, .k = h->head_dim, .lda = x_stride,
                                             .ldb = y_stride, .ldc = h->length, .trans_b = true});
}

/* y[L,D] (+)= tile[L,L] x[L,D], the tile transposed or not. */
static void tile_times(real *y, int64_t y_stride, const real *tile, bool trans, const real *x, int64_t x_stride,
                       bool accumulate, const struct head *h) {
  KERNEL(gemm)(y, tile, x, &(struct ab_gemm){.m = h->length, .n = h->head_dim, .k = h->length, .lda = h->length,
                                             .ldb = x_stride, .ldc = y_stride, .trans_a = trans,
                                             .accumulate = accumulate});
}

/* Replaces the logits of query t that are not allowed: those after t, of another segment, of a negative segment. */
static inline void mask_row(real *restrict w, const int32_t *restrict segment, int64_t t, int64_t length) {
  int32_t own = segment[t] >= 0 ? segment[t] : INT32_MIN;
  if (own == INT32_MIN) t = -1;
  for (int64_t s = 0; s <= t; s++) w[s] = segment[s] == own ? w[s] : masked_logit;
  for (int64_t s = t + 1; s < length; s++) w[s] = masked_logit;
}

/* e = exp(w - max) in place. After t all are equal, mostly zero; whole vectors first, which needs no scalar tail. */
static inline void exp_row(real *restrict w, real max, int64_t t, int64_t length) {
  real rest = REAL_EXP(masked_logit - max);
  int64_t computed = t / VECTOR * VECTOR + VECTOR;
  if (computed > length) computed = length;
  for (int64_t s = 0; s < computed; s++) w[s] = REAL_EXP(w[s] - max);
  for (int64_t s = computed; s < length; s++) w[s] = rest;
}

/* Logits of query t to unnormalised probabilities. */
HOT static void softmax_row(real *restrict w, real *max, real *sum, const int32_t *restrict segment, int64_t t,
                            int64_t length) {
  mask_row(w, segment, t, length);
  *max = lanes_max(w, (size_t)length);
  exp_row(w, *max, t, length);
  *sum = (real)lanes_sum(w, (size_t)length);
}

static void attend(real *out, real *row_max, real *row_sum, real *tile, const struct head *h) {
  tile_of(tile, h->q, h->q_stride, h->k, h->k_stride, h);
  for (int64_t t = 0; t < h->length; t++)
    softmax_row(tile + t * h->length, &row_max[t], &row_sum[t], h->segment, t, h->length);
  tile_times(out, h->q_stride, tile, false, h->v, h->k_stride, false, h);
  for (int64_t t = 0; t < h->length; t++, out += h->q_stride)
    for (int64_t i = 0; i < h->head_dim; i++) out[i] /= row_sum[t];
}

struct forward {
  real *out, *row_max, *row_sum;
  const real *q, *k, *v;
  const int32_t *segment_ids;
  const struct ab_attention_dims *dims;
};

static void head_forward(const void *ctx, int64_t i, real *tiles) {
  const struct forward *f = ctx;
  const struct ab_attention_dims *d = f->dims;
  int64_t row = i / d->heads, h = i % d->heads;
  struct head head = head_at(f->q, f->k, f->v, f->segment_ids, row, h, d);
  attend(f->out + (row * d->length * d->heads + h) * d->head_dim, f->row_max + i * d->length,
         f->row_sum + i * d->length, tiles, &head);
}

void KERNEL(attention)(void *out, void *row_max, void *row_sum, const void *q, const void *k, const void *v,
                       const int32_t *segment_ids, void *work, const struct ab_attention_dims *dims) {
  struct forward f = {out, row_max, row_sum, q, k, v, segment_ids, dims};
  over_parts(head_forward, &f, dims->rows * dims->heads, work, dims);
}

/* dw = p (dp - pull) where allowed, exactly zero elsewhere; dp in place. */
HOT static void logit_cotangent_row(real *restrict dp, const real *restrict p, real pull,
                                    const int32_t *restrict segment, int64_t t, int64_t length) {
  int32_t own = segment[t];
  int64_t live = own >= 0 ? t + 1 : 0;
  for (int64_t s = 0; s < live; s++) dp[s] = segment[s] == own ? p[s] * (dp[s] - pull) : 0;
  for (int64_t s = live; s < length; s++) dp[s] = 0;
}

/* Logits of query t to normalised probabilities. */
HOT static void probability_row(real *restrict w, real max, real sum, const int32_t *restrict segment, int64_t t,
                                int64_t length) {
  mask_row(w, segment, t, length);
  exp_row(w, max, t, length);
  for (int64_t s = 0; s < length; s++) w[s] /= sum;
}

/* Rebuilds the probabilities p and turns dp = dout v^T into the cotangent of the logits. */
static void attend_back_tile(real *p, real *dp, const real *dout, const real *out, const real *row_max,
                             const real *row_sum, const struct head *h) {
  tile_of(p, h->q, h->q_stride, h->k, h->k_stride, h);
  tile_of(dp, dout, h->q_stride, h->v, h->k_stride, h);
  for (int64_t t = 0; t < h->length; t++) {
    real *row = p + t * h->length;
    probability_row(row, row_max[t], row_sum[t], h->segment, t, h->length);
    real pull = (real)lanes_dot(dout + t * h->q_stride, out + t * h->q_stride, (size_t)h->head_dim);
    logit_cotangent_row(dp + t * h->length, row, pull, h->segment, t, h->length);
  }
}

/* `accumulate`: not the first query head of its group. */
static void attend_back(real *dq, real *dk, real *dv, const real *dout, const real *p, const real *dw, bool accumulate,
                        const struct head *h) {
  tile_times(dv, h->k_stride, p, true, dout, h->q_stride, accumulate, h);
  tile_times(dq, h->q_stride, dw, false, h->k, h->k_stride, false, h);
  tile_times(dk, h->k_stride, dw, true, h->q, h->q_stride, accumulate, h);
}

/* What backward reads and writes of a whole batch. */
struct backward {
  real *dq, *dk, *dv;
  const real *dout, *row_max, *row_sum, *out, *q, *k, *v;
  const int32_t *segment_ids;
  const struct ab_attention_dims *dims;
};

/* All query heads of kv head g of the batch, in their order: they add up in dk and dv. */
static void group_back(const void *ctx, int64_t g, real *p) {
  const struct backward *b = ctx;
  const struct ab_attention_dims *d = b->dims;
  int64_t group = d->heads / d->kv_heads;
  real *dw = p + d->length * d->length;
  for (int64_t i = g * group; i < (g + 1) * group; i++) {
    struct head head = head_at(b->q, b->k, b->v, b->segment_ids, i / d->heads, i % d->heads, d);
    int64_t at = head.q - b->q, kv_at = head.k - b->k, statistics = i * d->length;
    attend_back_tile(p, dw, b->dout + at, b->out + at, b->row_max + statistics, b->row_sum + statistics, &head);
    attend_back(b->dq + at, b->dk + kv_at, b->dv + kv_at, b->dout + at, p, dw, i % group != 0, &head);
  }
}

void KERNEL(attention_input)(void *dq, void *dk, void *dv, const void *dout, const void *row_max, const void *row_sum,
                             const void *out, const void *q, const void *k, const void *v, const int32_t *segment_ids,
                             void *work, const struct ab_attention_dims *dims) {
  struct backward b = {dq, dk, dv, dout, row_max, row_sum, out, q, k, v, segment_ids, dims};
  over_parts(group_back, &b, dims->rows * dims->kv_heads, work, dims);
}
