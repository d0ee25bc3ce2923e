/* The table of a dry run: touches no memory, computes nothing. */
#include "kernels.h"

#include "work.h"

static void gemm(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  (void)c, (void)a, (void)b, (void)dims;
}

static size_t from_f32(void *y, const float *x, size_t n) {
  (void)y, (void)x;
  return n;
}

static void zero(void *y, size_t n) { (void)y, (void)n; }
static void copy(void *y, const void *x, size_t n) { (void)y, (void)x, (void)n; }
static void fill(void *y, double value, size_t n) { (void)y, (void)value, (void)n; }
static void binary(void *y, const void *a, const void *b, size_t n) { (void)y, (void)a, (void)b, (void)n; }
static void scale(void *y, const void *x, double alpha, size_t n) { (void)y, (void)x, (void)alpha, (void)n; }
static void view(const struct ab_view *to, const struct ab_view *from) { (void)to, (void)from; }

static double sum(const void *x, size_t n) {
  (void)x, (void)n;
  return 0;
}

static double dot(const void *x, const void *y, size_t n) {
  (void)x, (void)y, (void)n;
  return 0;
}

static double weighted_sum(const void *x, const int32_t *w, size_t n) {
  (void)x, (void)w, (void)n;
  return 0;
}

static void statistics(void *mean, void *stdev, void *fraction_zero, const void *x, size_t n) {
  (void)mean, (void)stdev, (void)fraction_zero, (void)x, (void)n;
}

static void embed(void *y, const void *x, const int32_t *ids, const struct ab_embed_dims *dims) {
  (void)y, (void)x, (void)ids, (void)dims;
}

static void norm(void *y, void *rstd, const void *x, const void *w, const struct ab_norm_dims *dims) {
  (void)y, (void)rstd, (void)x, (void)w, (void)dims;
}

static void norm_input(void *dx, const void *dy, const void *rstd, const void *x, const void *w,
                       const struct ab_norm_dims *dims) {
  (void)dx, (void)dy, (void)rstd, (void)x, (void)w, (void)dims;
}

static void norm_weight(void *dw, const void *dy, const void *rstd, const void *x, const struct ab_norm_dims *dims) {
  (void)dw, (void)dy, (void)rstd, (void)x, (void)dims;
}

static void rope_table(void *table, const int32_t *positions, const struct ab_rope_dims *dims) {
  (void)table, (void)positions, (void)dims;
}

static void rope(void *y, const void *table, const void *x, const struct ab_rope_dims *dims) {
  (void)y, (void)table, (void)x, (void)dims;
}

static void attention(void *out, void *row_max, void *row_sum, const void *q, const void *k, const void *v,
                      const int32_t *segment_ids, void *work, const struct ab_attention_dims *dims) {
  (void)out, (void)row_max, (void)row_sum, (void)q, (void)k, (void)v, (void)segment_ids, (void)work, (void)dims;
}

static void attention_input(void *dq, void *dk, void *dv, const void *dout, const void *row_max, const void *row_sum,
                            const void *out, const void *q, const void *k, const void *v, const int32_t *segment_ids,
                            void *work, const struct ab_attention_dims *dims) {
  (void)dq, (void)dk, (void)dv, (void)dout, (void)row_max, (void)row_sum, (void)out, (void)q, (void)k, (void)v;
  (void)segment_ids, (void)work, (void)dims;
}

static void swiglu_input(void *dgate, void *dup, const void *dy, const void *gate, const void *up, size_t n) {
  (void)dgate, (void)dup, (void)dy, (void)gate, (void)up, (void)n;
}

static void cross_entropy(void *xent, void *z, void *row_max, void *row_sum, const void *logits,
                          const int32_t *targets, const struct ab_loss_dims *dims) {
  (void)xent, (void)z, (void)row_max, (void)row_sum, (void)logits, (void)targets, (void)dims;
}

static void cross_entropy_input(void *dlogits, const void *g, const void *row_max, const void *row_sum,
                                const void *logits, const int32_t *targets, const struct ab_loss_dims *dims) {
  (void)dlogits, (void)g, (void)row_max, (void)row_sum, (void)logits, (void)targets, (void)dims;
}

static void adamw(void *p, void *mu, void *nu, const void *g, const struct ab_adamw *rule, size_t n) {
  (void)p, (void)mu, (void)nu, (void)g, (void)rule, (void)n;
}

static void sgd(void *p, const void *g, double learning_rate, size_t n) {
  (void)p, (void)g, (void)learning_rate, (void)n;
}
static void clip(void *g, double norm_, double threshold, size_t n) { (void)g, (void)norm_, (void)threshold, (void)n; }

#define DRY_TABLE(type, bytes, ring)                                                                                  \
  {.name = "dry", .dtype = (type), .element = (bytes), .dry = true, .polynomial = (ring), .gemm = gemm,               \
   .from_f32 = from_f32, .zero = zero, .copy = copy, .fill = fill, .add = binary,                                     \
   .subtract = binary, .scale = scale, .copy_view = view, .add_view = view, .sum = sum,                               \
   .sum_squares = sum, .dot = dot, .weighted_sum = weighted_sum, .statistics = statistics, .embed = embed,            \
   .embed_weight = embed, .norm = norm,                                                                               \
   .norm_input = norm_input, .norm_weight = norm_weight, .rope_table = rope_table, .rope = rope, .rope_input = rope,  \
   .attention = attention, .attention_input = attention_input, .attention_work = ab_attention_work, .swiglu = binary, \
   .swiglu_input = swiglu_input, .cross_entropy = cross_entropy, .cross_entropy_input = cross_entropy_input,          \
   .adamw = adamw, .sgd = sgd, .clip = clip}

static const struct ab_kernels tables[] = {
    [AB_F32] = DRY_TABLE(AB_F32, 4, false),
    [AB_F64] = DRY_TABLE(AB_F64, 8, false),
    [AB_M61] = DRY_TABLE(AB_M61, 8, true),
};

const struct ab_kernels *ab_kernels_dry(enum ab_dtype dtype) { return &tables[dtype]; }
