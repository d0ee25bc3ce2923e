/* Kernel tables: the only arithmetic, and the only callers of BLAS.
 *
 * Every kernel takes raw pointers and a small dims struct: outputs, saved values, inputs, dims, in this order. Values
 * are elements of the table's dtype, contiguous row-major unless a leading dimension is given. Gradients of inputs are
 * overwritten, gradients of weights are accumulated (+=) onto what is there. Kernels never allocate, never fail, hold
 * no policy. Outputs do not overlap inputs unless said.
 *
 * Same bits for any number of threads: inside a parallel region a kernel is serial; outside one it may spread fixed
 * pieces of its outputs over threads (spread.h). Vector reductions use a fixed number of lanes and a fixed tree; sums
 * over tokens and leaves run in double, in fixed order, and are rounded once.
 *
 * T = tokens = rows x length (rows b of a microbatch, sequence length L), E = emb, H query heads, K kv heads, D
 * head_dim, M = mlp, V = vocab.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor.h"

/* Output block of one BLAS call (rows x columns of C); recorded in provenance because splitting a gemm changes bits. */
enum { AB_GEMM_BLOCK_ROWS = 256, AB_GEMM_BLOCK_COLS = 1024 };
/* Products per sum of the portable gemm. */
enum { AB_GEMM_BLOCK_DEPTH = 256 };
/* The sizes in use. A run that measures rounding makes them smaller, before its first kernel; 0 or more than the
 * constant: the constant. Everything else leaves them alone. */
struct ab_gemm_blocks {
  int64_t rows, cols, depth;
};
extern struct ab_gemm_blocks ab_gemm_blocks;
void ab_gemm_set_blocks(int64_t rows, int64_t cols, int64_t depth);

/* C[m,n] (+)= op(A)[m,k] op(B)[k,n]; leading dimensions in elements. */
struct ab_gemm {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  bool trans_a, trans_b;
  bool accumulate; /* C += instead of C = ; then sum over k first, one addition onto C per block of k */
};

struct ab_embed_dims {
  int64_t tokens, emb, vocab;
};

/* epsilon is added to the mean square inside the square root. */
struct ab_norm_dims {
  int64_t tokens, emb;
  double epsilon;
};

struct ab_rope_dims {
  int64_t tokens, heads, head_dim;
  double min_timescale, max_timescale, linear_scaling;
};

struct ab_attention_dims {
  int64_t rows, length, heads, kv_heads, head_dim;
};

struct ab_loss_dims {
  int64_t tokens, vocab;
  double z_loss_multiplier;
};

/* One optimizer update with bias corrections 1 - b^k given. optax.adamw. */
struct ab_adamw {
  double b1, b2, epsilon, epsilon_root, weight_decay, learning_rate;
  double correction1, correction2;
};

struct ab_kernels {
  const char *name;    /* "f32", "f32-portable", "f64", "exact", "dry" */
  enum ab_dtype dtype; /* of every void * below */
  size_t element;      /* bytes */
  bool dry;            /* touches no memory: run serially, with measuring arenas */
  bool polynomial;     /* sums and products only: what else there is below is NULL */

  void (*gemm)(void *c, const void *a, const void *b, const struct ab_gemm *dims);

  /* y = x; the number of values before the first that an element cannot hold exactly, n if there is none. */
  size_t (*from_f32)(void *y, const float *x, size_t n);

  void (*zero)(void *y, size_t n);
  void (*copy)(void *y, const void *x, size_t n);
  void (*fill)(void *y, double value, size_t n);
  /* y = a + b; y may be a or b. */
  void (*add)(void *y, const void *a, const void *b, size_t n);
  /* y = a - b; y may be a or b. */
  void (*subtract)(void *y, const void *a, const void *b, size_t n);
  /* y = alpha x; alpha is rounded to the dtype first; y may be x. */
  void (*scale)(void *y, const void *x, double alpha, size_t n);
  /* to = from, and to += from, element by element of two views of one shape (gather and scatter of stacked layouts). */
  void (*copy_view)(const struct ab_view *to, const struct ab_view *from);
  void (*add_view)(const struct ab_view *to, const struct ab_view *from);

  /* Sums in double: sum x, sum x^2, sum x y, sum x w with integer weights. */
  double (*sum)(const void *x, size_t n);
  double (*sum_squares)(const void *x, size_t n);
  double (*dot)(const void *x, const void *y, size_t n);
  double (*weighted_sum)(const void *x, const int32_t *w, size_t n);
  /* One element each of x[n], n > 0: the mean, the population standard deviation, and the part that is +0 or -0; sums
   * in double, deviations from the mean before it is rounded. models/llama2.py: LlamaDecoderLayer. */
  void (*statistics)(void *mean, void *stdev, void *fraction_zero, const void *x, size_t n);

  /* y[T,E] = table[ids]; an id outside [0,V) gives zeros and no gradient. layers/embeddings.py: Embed. */
  void (*embed)(void *y, const void *table, const int32_t *ids, const struct ab_embed_dims *dims);
  /* dtable[V,E] += dy[T,E] at ids, in token order. */
  void (*embed_weight)(void *dtable, const void *dy, const int32_t *ids, const struct ab_embed_dims *dims);

  /* y[T,E] = x rstd scale, rstd[T] = 1/sqrt(mean(x^2) + eps); the normalised value is rounded before the scale is
   * multiplied. layers/normalizations.py: RMSNorm. */
  void (*norm)(void *y, void *rstd, const void *x, const void *scale, const struct ab_norm_dims *dims);
  void (*norm_input)(void *dx, const void *dy, const void *rstd, const void *x, const void *scale,
                     const struct ab_norm_dims *dims);
  void (*norm_weight)(void *dscale, const void *dy, const void *rstd, const void *x, const struct ab_norm_dims *dims);

  /* table[T,D] = sin (first D/2) and cos (second D/2) of position / timescale, half-split layout; `heads` is not used.
   * layers/embeddings.py: RotaryEmbedding. */
  void (*rope_table)(void *table, const int32_t *positions, const struct ab_rope_dims *dims);
  /* y[T,heads,D]: (x1 cos - x2 sin, x2 cos + x1 sin); y may be x. */
  void (*rope)(void *y, const void *table, const void *x, const struct ab_rope_dims *dims);
  void (*rope_input)(void *dx, const void *table, const void *dy, const struct ab_rope_dims *dims);

  /* out[b,L,H,D] causal, equal segment ids only, unnormalised e.v then divided by the row sum; saves row_max and
   * row_sum [b,H,L]. Query head h reads kv head h / (H/K). work: attention_work(dims) elements.
   * layers/attention_op.py: apply_attention_dot. */
  void (*attention)(void *out, void *row_max, void *row_sum, const void *q, const void *k, const void *v,
                    const int32_t *segment_ids, void *work, const struct ab_attention_dims *dims);
  /* dq, dk, dv overwritten; the row maximum is taken as a constant. Rebuilds each L x L tile. */
  void (*attention_input)(void *dq, void *dk, void *dv, const void *dout, const void *row_max, const void *row_sum,
                          const void *out, const void *q, const void *k, const void *v, const int32_t *segment_ids,
                          void *work, const struct ab_attention_dims *dims);
  size_t (*attention_work)(const struct ab_attention_dims *dims);

  /* y = silu(gate) up. layers/linears.py: MlpBlock. */
  void (*swiglu)(void *y, const void *gate, const void *up, size_t n);
  void (*swiglu_input)(void *dgate, void *dup, const void *dy, const void *gate, const void *up, size_t n);

  /* Per token: xent[T] (with its z term), z[T], row_max[T], row_sum[T] of logits[T,V]. A target outside [0,V) has an
   * all-zero one-hot. utils/max_utils.py: cross_entropy_with_logits. */
  void (*cross_entropy)(void *xent, void *z, void *row_max, void *row_sum, const void *logits, const int32_t *targets,
                        const struct ab_loss_dims *dims);
  /* dlogits = g[t] ((1 + 2 zmul log_z) softmax - onehot); dlogits may be logits. As upstream's, not the derivative of
   * xent where the target is outside [0,V). */
  void (*cross_entropy_input)(void *dlogits, const void *g, const void *row_max, const void *row_sum,
                              const void *logits, const int32_t *targets, const struct ab_loss_dims *dims);

  /* p, mu, nu updated in place from g. */
  void (*adamw)(void *p, void *mu, void *nu, const void *g, const struct ab_adamw *rule, size_t n);
  /* p -= learning_rate g. */
  void (*sgd)(void *p, const void *g, double learning_rate, size_t n);
  /* g / norm * threshold, the division first. optax.clip_by_global_norm. */
  void (*clip)(void *g, double norm, double threshold, size_t n);
};

extern const struct ab_kernels ab_kernels_f32;          /* OpenBLAS, one thread per call */
extern const struct ab_kernels ab_kernels_f32_portable; /* own gemm: the same bits on every IEEE machine */
extern const struct ab_kernels ab_kernels_f64;          /* OpenBLAS */
extern const struct ab_kernels ab_kernels_exact;        /* AB_M61: integers modulo 2^61 - 1; any order is the same */

/* Nothing computed, nothing touched: sums return 0. Elements of AB_F32, AB_F64 or AB_M61; `polynomial` as the table of
 * that dtype. */
const struct ab_kernels *ab_kernels_dry(enum ab_dtype dtype);

/* A small gemm against a double loop (odd sizes, transposes, beta, k = 0, NaN-filled C): AB_EMISMATCH with the worst
 * case if the BLAS in use computes wrongly, or if OpenBLAS does not confirm one thread. Run once at the start of every
 * side. */
ab_status ab_kernels_self_test(const struct ab_kernels *kernels);
/* OPENBLAS_CORETYPE that suits this CPU, by CPUID ("SKYLAKEX", "HASWELL", ...), or NULL to leave the choice to
 * OpenBLAS. Calls no BLAS. */
const char *ab_blas_core_wanted(void);
/* Names for OPENBLAS_CORETYPE that this CPU can run, by CPUID, best first; a request may still kill the process. Their
 * number. Calls no BLAS. */
enum { AB_BLAS_CORES_MAX = 8 };
size_t ab_blas_cores(const char *out[AB_BLAS_CORES_MAX]);
/* What OpenBLAS runs: core name and configuration. Borrowed. */
const char *ab_blas_core_running(void);
/* Sets the default floating point mode on this thread (FTZ and DAZ off, to nearest, nothing trapped), and reads it
 * back: AB_EMISMATCH if that failed. In every main, before a decimal number is read. */
ab_status ab_float_environment(void);
/* The same on every worker; they keep it. Once in every process that computes. */
ab_status ab_float_environment_workers(void);
/* Reads the mode of every worker and changes nothing: AB_EMISMATCH names what something set in mid-run. */
ab_status ab_float_environment_kept(void);
