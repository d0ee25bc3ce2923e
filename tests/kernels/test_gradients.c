/* Central differences in f64: for every input and weight of every kernel, with a random cotangent. */
#include "kernel_test.h"

#include <math.h>
#include <string.h>

#include "tap.h"

static const struct ab_kernels *const k = &ab_kernels_f64;

/* What is differentiated: value() of whatever ctx describes, by any of its arrays. */
typedef double (*value_fn)(const void *ctx);

/* Relative L2 error of `gradient` against fourth-order central differences of value by every element of x. Gradients
 * below 1e-4, such as those that are exactly zero, are measured against 1e-4: differences of values near 1 round. */
static double gradient_error(value_fn value, const void *ctx, double *x, const double *gradient, size_t n) {
  double error = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    const double keep = x[i], h = 1e-3;
    double f[4];
    for (int j = 0; j < 4; j++) {
      x[i] = keep + h * (j < 2 ? j - 2 : j - 1);
      f[j] = value(ctx);
    }
    x[i] = keep;
    double slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
    error += (gradient[i] - slope) * (gradient[i] - slope);
    size += slope * slope;
  }
  return sqrt(error / fmax(size, 1e-8 * (double)n));
}

#define CHECK_GRADIENT(value, ctx, x, gradient, n)                                                       \
  do {                                                                                                   \
    double error_ = gradient_error(value, ctx, x, gradient, n);                                          \
    ck_assert_msg(error_ <= 1e-7, "case %d: gradient by %s is off by %.3g", _i, #x, error_);             \
  } while (0)

struct norm {
  struct ab_norm_dims d;
  size_t n;
  double *x, *scale, *dy, *y, *rstd;
};

static double norm_value(const void *ctx) {
  const struct norm *c = ctx;
  k->norm(c->y, c->rstd, c->x, c->scale, &c->d);
  return k->dot(c->y, c->dy, c->n);
}

static const int64_t norm_shapes[][2] = {{1, 1}, {3, 7}, {1, 64}, {5, 131}};

START_TEST(test_norm) {
  struct norm c = {.d = {.tokens = norm_shapes[_i][0], .emb = norm_shapes[_i][1], .epsilon = 0.1}};
  size_t e = (size_t)c.d.emb;
  c.n = (size_t)c.d.tokens * e;
  c.x = kt_random(k, c.n, 1, 1), c.scale = kt_random(k, e, 2, 1), c.dy = kt_random(k, c.n, 3, 1);
  c.y = kt_new(k, c.n), c.rstd = kt_new(k, (size_t)c.d.tokens);
  double *dx = kt_new(k, c.n), *dscale = kt_new(k, e);
  norm_value(&c);
  k->zero(dscale, e);
  k->norm_input(dx, c.dy, c.rstd, c.x, c.scale, &c.d);
  k->norm_weight(dscale, c.dy, c.rstd, c.x, &c.d);
  CHECK_GRADIENT(norm_value, &c, c.x, dx, c.n);
  CHECK_GRADIENT(norm_value, &c, c.scale, dscale, e);
  kt_done("norm");
}
END_TEST

struct rope {
  struct ab_rope_dims d;
  size_t n;
  double *table, *x, *dy, *y;
};

static double rope_value(const void *ctx) {
  const struct rope *c = ctx;
  k->rope(c->y, c->table, c->x, &c->d);
  return k->dot(c->y, c->dy, c->n);
}

static const int64_t rope_shapes[][3] = {{1, 1, 2}, {5, 3, 6}, {3, 2, 34}};

START_TEST(test_rope) {
  struct rope c = {.d = {.tokens = rope_shapes[_i][0], .heads = rope_shapes[_i][1], .head_dim = rope_shapes[_i][2],
                         .min_timescale = 1, .max_timescale = 10000, .linear_scaling = 1}};
  c.n = (size_t)(c.d.tokens * c.d.heads * c.d.head_dim);
  c.table = kt_new(k, (size_t)(c.d.tokens * c.d.head_dim));
  k->rope_table(c.table, kt_random_ints((size_t)c.d.tokens, 1, 0, 100), &c.d);
  c.x = kt_random(k, c.n, 1, 1), c.dy = kt_random(k, c.n, 2, 1), c.y = kt_new(k, c.n);
  double *dx = kt_new(k, c.n);
  k->rope_input(dx, c.table, c.dy, &c.d);
  CHECK_GRADIENT(rope_value, &c, c.x, dx, c.n);
  kt_done("rope");
}
END_TEST

struct attention {
  struct ab_attention_dims d;
  size_t qn, kn, sn;
  double *q, *k, *v, *out, *row_max, *row_sum, *dout, *work;
  int32_t *segment;
};

static double attention_value(const void *ctx) {
  const struct attention *c = ctx;
  k->attention(c->out, c->row_max, c->row_sum, c->q, c->k, c->v, c->segment, c->work, &c->d);
  return k->dot(c->out, c->dout, c->qn);
}

static const struct ab_attention_dims attention_shapes[] = {
    {.rows = 1, .length = 1, .heads = 1, .kv_heads = 1, .head_dim = 1},
    {.rows = 2, .length = 7, .heads = 4, .kv_heads = 2, .head_dim = 3},
    {.rows = 1, .length = 13, .heads = 3, .kv_heads = 1, .head_dim = 5},
    {.rows = 2, .length = 9, .heads = 2, .kv_heads = 2, .head_dim = 8},
    {.rows = 1, .length = 17, .heads = 6, .kv_heads = 2, .head_dim = 4},
};

static struct attention attention_new(const struct ab_attention_dims *d) {
  static const int32_t pattern[] = {1, 1, 1, 2, 2, -1, 2, 0, 0, 1, -1, 0};
  struct attention c = {.d = *d};
  size_t tokens = (size_t)(d->rows * d->length);
  c.qn = tokens * (size_t)(d->heads * d->head_dim), c.kn = tokens * (size_t)(d->kv_heads * d->head_dim);
  c.sn = tokens * (size_t)d->heads;
  c.q = kt_random(k, c.qn, 1, 1), c.k = kt_random(k, c.kn, 2, 1), c.v = kt_random(k, c.kn, 3, 1);
  c.out = kt_new(k, c.qn), c.row_max = kt_new(k, c.sn), c.row_sum = kt_new(k, c.sn);
  c.dout = kt_random(k, c.qn, 4, 1), c.work = kt_new(k, k->attention_work(d)), c.segment = kt_ints(tokens);
  for (size_t i = 0; i < tokens; i++) c.segment[i] = pattern[i % 12];
  return c;
}

START_TEST(test_attention) {
  struct attention c = attention_new(&attention_shapes[_i]);
  double *dq = kt_new(k, c.qn), *dk = kt_new(k, c.kn), *dv = kt_new(k, c.kn);
  attention_value(&c);
  k->attention_input(dq, dk, dv, c.dout, c.row_max, c.row_sum, c.out, c.q, c.k, c.v, c.segment, c.work, &c.d);
  CHECK_GRADIENT(attention_value, &c, c.q, dq, c.qn);
  CHECK_GRADIENT(attention_value, &c, c.k, dk, c.kn);
  CHECK_GRADIENT(attention_value, &c, c.v, dv, c.kn);
  kt_done("attention");
}
END_TEST

struct swiglu {
  size_t n;
  double *gate, *up, *dy, *y;
};

static double swiglu_value(const void *ctx) {
  const struct swiglu *c = ctx;
  k->swiglu(c->y, c->gate, c->up, c->n);
  return k->dot(c->y, c->dy, c->n);
}

static const size_t swiglu_sizes[] = {1, 37, 64};

START_TEST(test_swiglu) {
  size_t n = swiglu_sizes[_i];
  struct swiglu c = {n, kt_random(k, n, 1, 4), kt_random(k, n, 2, 1), kt_random(k, n, 3, 1), kt_new(k, n)};
  double *dgate = kt_new(k, n), *dup = kt_new(k, n);
  k->swiglu_input(dgate, dup, c.dy, c.gate, c.up, n);
  CHECK_GRADIENT(swiglu_value, &c, c.gate, dgate, n);
  CHECK_GRADIENT(swiglu_value, &c, c.up, dup, n);
  kt_done("swiglu");
}
END_TEST

struct loss {
  struct ab_loss_dims d;
  double *logits, *xent, *z, *row_max, *row_sum, *g;
  int32_t *targets;
};

static double loss_value(const void *ctx) {
  const struct loss *c = ctx;
  k->cross_entropy(c->xent, c->z, c->row_max, c->row_sum, c->logits, c->targets, &c->d);
  return k->dot(c->xent, c->g, (size_t)c->d.tokens);
}

static const struct ab_loss_dims loss_shapes[] = {
    {.tokens = 1, .vocab = 7, .z_loss_multiplier = 0},
    {.tokens = 9, .vocab = 7, .z_loss_multiplier = 0.1},
    {.tokens = 3, .vocab = 1, .z_loss_multiplier = 0.1},
    {.tokens = 3, .vocab = 131, .z_loss_multiplier = 0.01},
};

/* Targets inside the vocabulary: outside, MaxText's own backward is not the derivative (xent is 0 there, its gradient
 * the softmax). */
START_TEST(test_loss) {
  struct loss c = {.d = loss_shapes[_i]};
  size_t tokens = (size_t)c.d.tokens, n = tokens * (size_t)c.d.vocab;
  c.logits = kt_random(k, n, 1, 2), c.g = kt_random(k, tokens, 2, 1);
  c.targets = kt_random_ints(tokens, 3, 0, (int32_t)c.d.vocab - 1);
  c.xent = kt_new(k, tokens), c.z = kt_new(k, tokens), c.row_max = kt_new(k, tokens), c.row_sum = kt_new(k, tokens);
  double *dlogits = kt_new(k, n);
  loss_value(&c);
  k->cross_entropy_input(dlogits, c.g, c.row_max, c.row_sum, c.logits, c.targets, &c.d);
  CHECK_GRADIENT(loss_value, &c, c.logits, dlogits, n);
  kt_done("loss");
}
END_TEST

struct embed {
  struct ab_embed_dims d;
  double *table, *dy, *y;
  const int32_t *ids;
};

static double embed_value(const void *ctx) {
  const struct embed *c = ctx;
  k->embed(c->y, c->table, c->ids, &c->d);
  return k->dot(c->y, c->dy, (size_t)(c->d.tokens * c->d.emb));
}

START_TEST(test_embed) {
  static const int32_t ids[] = {3, 0, 7, 3, -1, 6, 3};
  struct embed c = {
      {.tokens = 7, .emb = 5, .vocab = 7}, kt_random(k, 35, 1, 1), kt_random(k, 35, 2, 1), kt_new(k, 35), ids};
  double *dtable = kt_new(k, 35);
  k->zero(dtable, 35);
  k->embed_weight(dtable, c.dy, ids, &c.d);
  CHECK_GRADIENT(embed_value, &c, c.table, dtable, 35);
  kt_done("embed");
}
END_TEST

/* The three gemm calls of a dense layer: y = x w, dx = dy w^T, dw += x^T dy. */
struct dense {
  int64_t m, n, k;
  double *x, *w, *y, *dy;
};

static double dense_value(const void *ctx) {
  const struct dense *c = ctx;
  k->gemm(c->y, c->x, c->w, &(struct ab_gemm){.m = c->m, .n = c->n, .k = c->k, .lda = c->k, .ldb = c->n, .ldc = c->n});
  return k->dot(c->y, c->dy, (size_t)(c->m * c->n));
}

static const int64_t dense_shapes[][3] = {{1, 1, 1}, {5, 7, 3}, {9, 17, 33}};

START_TEST(test_dense) {
  struct dense c = {.m = dense_shapes[_i][0], .n = dense_shapes[_i][1], .k = dense_shapes[_i][2]};
  size_t xn = (size_t)(c.m * c.k), wn = (size_t)(c.k * c.n), yn = (size_t)(c.m * c.n);
  c.x = kt_random(k, xn, 1, 1), c.w = kt_random(k, wn, 2, 1), c.y = kt_new(k, yn), c.dy = kt_random(k, yn, 3, 1);
  double *dx = kt_new(k, xn), *dw = kt_new(k, wn);
  k->zero(dw, wn);
  k->gemm(dx, c.dy, c.w,
          &(struct ab_gemm){.m = c.m, .n = c.k, .k = c.n, .lda = c.n, .ldb = c.n, .ldc = c.k, .trans_b = true});
  k->gemm(dw, c.x, c.dy,
          &(struct ab_gemm){
              .m = c.k, .n = c.n, .k = c.m, .lda = c.k, .ldb = c.n, .ldc = c.n, .trans_a = true, .accumulate = true});
  CHECK_GRADIENT(dense_value, &c, c.x, dx, xn);
  CHECK_GRADIENT(dense_value, &c, c.w, dw, wn);
  kt_done("dense");
}
END_TEST

#define LOOP(test, rows) tcase_add_loop_test(tcase, test, 0, (int)(sizeof rows / sizeof rows[0]))

int main(void) {
  Suite *suite = suite_create("gradients");
  TCase *tcase = tcase_create("central differences");
  tcase_set_timeout(tcase, 60);
  LOOP(test_norm, norm_shapes);
  LOOP(test_rope, rope_shapes);
  LOOP(test_attention, attention_shapes);
  LOOP(test_swiglu, swiglu_sizes);
  LOOP(test_loss, loss_shapes);
  tcase_add_test(tcase, test_embed);
  LOOP(test_dense, dense_shapes);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
