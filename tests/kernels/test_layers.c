/* Norm, RoPE, attention, SwiGLU and cross-entropy, forward and backward, against plain double references. */
#include "kernel_test.h"
#include "reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tap.h"

static const int64_t norm_shapes[][2] = {{1, 1}, {3, 7}, {5, 64}, {2, 131}};

static void check_norm(const struct ab_kernels *k, const struct ab_norm_dims *d) {
  size_t n = (size_t)(d->tokens * d->emb), e = (size_t)d->emb, tokens = (size_t)d->tokens;
  void *x = kt_random(k, n, 1, 2), *scale = kt_random(k, e, 2, 1), *dy = kt_random(k, n, 3, 1);
  void *y = kt_new(k, n), *rstd = kt_new(k, tokens), *dx = kt_new(k, n), *dscale = kt_random(k, e, 4, 1);
  double *ry = kt_doubles(n), *rrstd = kt_doubles(tokens), *rdx = kt_doubles(n), *rdscale = kt_doubles(e);
  double *wx = kt_widen(k, x, n), *wscale = kt_widen(k, scale, e), *before = kt_widen(k, dscale, e);
  k->norm(y, rstd, x, scale, d);
  k->norm_input(dx, dy, rstd, x, scale, d);
  k->norm_weight(dscale, dy, rstd, x, d);
  ref_norm(ry, rrstd, wx, wscale, d);
  ref_norm_back(rdx, rdscale, kt_widen(k, dy, n), wx, wscale, d);
  for (size_t i = 0; i < e; i++) rdscale[i] += before[i];
  kt_close(k, y, ry, n, "norm");
  kt_close(k, rstd, rrstd, tokens, "rstd");
  if (d->emb > 1) kt_close(k, dx, rdx, n, "norm_input"); /* for emb 1 it is a cancellation to epsilon */
  kt_close(k, dscale, rdscale, e, "norm_weight adds");
  kt_done("norm");
}

START_TEST(test_norm) {
  for (size_t i = 0; i < sizeof norm_shapes / sizeof norm_shapes[0]; i++)
    check_norm(tables[_i],
               &(struct ab_norm_dims){.tokens = norm_shapes[i][0], .emb = norm_shapes[i][1], .epsilon = 1e-5});
}
END_TEST

static const struct ab_rope_dims rope_shapes[] = {
    {.tokens = 1, .heads = 1, .head_dim = 2, .min_timescale = 1, .max_timescale = 10000, .linear_scaling = 1},
    {.tokens = 5, .heads = 3, .head_dim = 6, .min_timescale = 1, .max_timescale = 10000, .linear_scaling = 1},
    {.tokens = 4, .heads = 2, .head_dim = 34, .min_timescale = 2, .max_timescale = 500, .linear_scaling = 4},
};

static void check_rope(const struct ab_kernels *k, const struct ab_rope_dims *d) {
  size_t n = (size_t)(d->tokens * d->heads * d->head_dim), table_size = (size_t)(d->tokens * d->head_dim);
  int32_t *positions = kt_random_ints((size_t)d->tokens, 9, 0, 40);
  void *table = kt_new(k, table_size), *x = kt_random(k, n, 1, 1), *y = kt_new(k, n), *dx = kt_new(k, n);
  double *wx = kt_widen(k, x, n), *expected = kt_doubles(n);
  k->rope_table(table, positions, d);
  k->rope(y, table, x, d);
  ref_rope(expected, positions, wx, 1, d);
  kt_close(k, y, expected, n, "rope");
  k->rope_input(dx, table, x, d);
  ref_rope(expected, positions, wx, -1, d);
  kt_close(k, dx, expected, n, "rope_input");
  k->rope(x, table, x, d);
  kt_same_bits(k, x, y, n, "rope in place");
  kt_done("rope");
}

START_TEST(test_rope) {
  for (size_t i = 0; i < sizeof rope_shapes / sizeof rope_shapes[0]; i++) check_rope(tables[_i], &rope_shapes[i]);
}
END_TEST

/* Runs of segments 1 and 2, padding 0, and -1 which attends to nothing. */
static int32_t *segments(size_t rows, size_t length) {
  static const int32_t pattern[] = {1, 1, 1, 2, 2, -1, 2, 0, 0, 1, -1, 0};
  int32_t *segment = kt_ints(rows * length);
  for (size_t i = 0; i < rows * length; i++) segment[i] = pattern[(i / length * 5 + i % length) % 12];
  return segment;
}

static const struct ab_attention_dims attention_shapes[] = {
    {.rows = 1, .length = 1, .heads = 1, .kv_heads = 1, .head_dim = 1},
    {.rows = 2, .length = 7, .heads = 4, .kv_heads = 2, .head_dim = 3},
    {.rows = 1, .length = 13, .heads = 3, .kv_heads = 1, .head_dim = 5},
    {.rows = 2, .length = 16, .heads = 2, .kv_heads = 2, .head_dim = 8},
    {.rows = 1, .length = 35, .heads = 6, .kv_heads = 2, .head_dim = 4},
};

struct attention {
  size_t qn, kn, sn, pn, wn;
  void *q, *k, *v, *out, *row_max, *row_sum, *dout, *dq, *dk, *dv, *work;
  int32_t *segment;
};

static struct attention attention_run(const struct ab_kernels *k, const struct ab_attention_dims *d, int32_t *segment) {
  struct attention a = {.segment = segment};
  size_t tokens = (size_t)(d->rows * d->length);
  a.qn = tokens * (size_t)(d->heads * d->head_dim);
  a.kn = tokens * (size_t)(d->kv_heads * d->head_dim);
  a.sn = tokens * (size_t)d->heads;
  a.pn = a.sn * (size_t)d->length;
  a.wn = k->attention_work(d);
  a.q = kt_random(k, a.qn, 1, 1), a.k = kt_random(k, a.kn, 2, 1), a.v = kt_random(k, a.kn, 3, 1);
  a.dout = kt_random(k, a.qn, 4, 1);
  a.out = kt_new(k, a.qn), a.row_max = kt_new(k, a.sn), a.row_sum = kt_new(k, a.sn), a.work = kt_new(k, a.wn);
  a.dq = kt_new(k, a.qn), a.dk = kt_new(k, a.kn), a.dv = kt_new(k, a.kn);
  k->attention(a.out, a.row_max, a.row_sum, a.q, a.k, a.v, segment, a.work, d);
  k->attention_input(a.dq, a.dk, a.dv, a.dout, a.row_max, a.row_sum, a.out, a.q, a.k, a.v, segment, a.work, d);
  return a;
}

static void check_attention(const struct ab_kernels *k, const struct ab_attention_dims *d, int32_t *segment) {
  struct attention a = attention_run(k, d, segment);
  double *q = kt_widen(k, a.q, a.qn), *key = kt_widen(k, a.k, a.kn), *v = kt_widen(k, a.v, a.kn);
  double *out = kt_doubles(a.qn), *max = kt_doubles(a.sn), *sum = kt_doubles(a.sn), *prob = kt_doubles(a.pn);
  double *dq = kt_doubles(a.qn), *dk = kt_doubles(a.kn), *dv = kt_doubles(a.kn);
  ref_attention(out, max, sum, prob, q, key, v, segment, d);
  ref_attention_back(dq, dk, dv, kt_widen(k, a.dout, a.qn), prob, q, key, v, segment, d);
  kt_close(k, a.out, out, a.qn, "attention");
  kt_close(k, a.row_max, max, a.sn, "row_max");
  kt_close(k, a.row_sum, sum, a.sn, "row_sum");
  kt_close(k, a.dq, dq, a.qn, "dq");
  kt_close(k, a.dk, dk, a.kn, "dk");
  kt_close(k, a.dv, dv, a.kn, "dv");
  kt_done("attention");
}

START_TEST(test_attention) {
  for (size_t i = 0; i < sizeof attention_shapes / sizeof attention_shapes[0]; i++) {
    const struct ab_attention_dims *d = &attention_shapes[i];
    check_attention(tables[_i], d, segments((size_t)d->rows, (size_t)d->length));
    check_attention(tables[_i], d, kt_random_ints((size_t)(d->rows * d->length), 1, 1, 1));
  }
}
END_TEST

/* More than one output block of gemm per tile. */
START_TEST(test_attention_long) {
  struct ab_attention_dims d = {.rows = 1, .length = AB_GEMM_BLOCK_ROWS + 3, .heads = 2, .kv_heads = 1, .head_dim = 2};
  struct attention a = attention_run(tables[_i], &d, segments(1, (size_t)d.length));
  double *out = kt_doubles(a.qn), *max = kt_doubles(a.sn), *sum = kt_doubles(a.sn), *prob = kt_doubles(a.pn);
  ref_attention(out, max, sum, prob, kt_widen(tables[_i], a.q, a.qn), kt_widen(tables[_i], a.k, a.kn),
                kt_widen(tables[_i], a.v, a.kn), a.segment, &d);
  kt_close(tables[_i], a.out, out, a.qn, "long attention");
  kt_done("long attention");
}
END_TEST

/* A key that no query sees gets exactly zero, and so does a query that sees nothing, which averages all values. */
START_TEST(test_attention_masked) {
  const struct ab_kernels *k = tables[_i];
  struct ab_attention_dims d = {.rows = 1, .length = 9, .heads = 2, .kv_heads = 1, .head_dim = 3};
  int32_t *segment = kt_random_ints(9, 1, 1, 1);
  segment[4] = -1;
  struct attention a = attention_run(k, &d, segment);
  for (size_t e = 0; e < 3; e++) {
    double mean = 0;
    for (size_t s = 0; s < 9; s++) mean += kt_get(k, a.v, s * 3 + e) / 9;
    ck_assert(fabs(kt_get(k, a.out, 4 * 6 + e) - mean) < 1e-6);
    ck_assert(kt_get(k, a.dk, 4 * 3 + e) == 0);
    ck_assert(kt_get(k, a.dq, 4 * 6 + e) == 0 && kt_get(k, a.dq, 4 * 6 + 3 + e) == 0);
    ck_assert(kt_get(k, a.dq, 5 * 6 + e) != 0);
  }
  ck_assert_double_eq(kt_get(k, a.row_sum, 4), 9);
  ck_assert_double_eq(kt_get(k, a.row_max, 4),
                      k->dtype == AB_F64 ? -0.7 * (double)FLT_MAX : (double)(float)(-0.7 * (double)FLT_MAX));
  kt_done("masked attention");
}
END_TEST

/* A NaN in one value reaches the queries that see it and no others. */
START_TEST(test_attention_nan) {
  const struct ab_kernels *k = tables[_i];
  struct ab_attention_dims d = {.rows = 2, .length = 6, .heads = 1, .kv_heads = 1, .head_dim = 2};
  int32_t *segment = kt_random_ints(12, 1, 1, 1);
  struct attention a = attention_run(k, &d, segment);
  kt_set(k, a.q, 3 * 2, (double)NAN);
  k->attention(a.out, a.row_max, a.row_sum, a.q, a.k, a.v, segment, a.work, &d);
  for (size_t t = 0; t < 12; t++) ck_assert_int_eq(isnan(kt_get(k, a.out, t * 2)) != 0, t == 3);
  kt_done("NaN in attention");
}
END_TEST

START_TEST(test_swiglu) {
  const struct ab_kernels *k = tables[_i];
  enum { N = 203 };
  void *gate = kt_random(k, N, 1, 8), *up = kt_random(k, N, 2, 1), *dy = kt_random(k, N, 3, 1);
  void *y = kt_new(k, N), *dgate = kt_new(k, N), *dup = kt_new(k, N);
  double ry[N], rdgate[N], rdup[N];
  for (size_t i = 0; i < N; i++) {
    double g = kt_get(k, gate, i), u = kt_get(k, up, i), d = kt_get(k, dy, i);
    ry[i] = ref_silu(g) * u;
    rdgate[i] = d * u * ref_silu_slope(g);
    rdup[i] = d * ref_silu(g);
  }
  k->swiglu(y, gate, up, N);
  k->swiglu_input(dgate, dup, dy, gate, up, N);
  kt_close(k, y, ry, N, "swiglu");
  kt_close(k, dgate, rdgate, N, "dgate");
  kt_close(k, dup, rdup, N, "dup");
  kt_done("swiglu");
}
END_TEST

/* Far out silu is 0 or the identity, never NaN. */
START_TEST(test_swiglu_extremes) {
  const struct ab_kernels *k = tables[_i];
  const double gates[] = {-1e30, -1000, -100, 0, 100, 1000, 1e30}, silu[] = {0, 0, 0, 0, 100, 1000, 1e30};
  const double slope[] = {0, 0, 0, 0.5, 1, 1, 1};
  void *gate = kt_new(k, 7), *one = kt_new(k, 7), *y = kt_new(k, 7), *dgate = kt_new(k, 7), *dup = kt_new(k, 7);
  k->fill(one, 1, 7);
  for (size_t i = 0; i < 7; i++) kt_set(k, gate, i, gates[i]);
  k->swiglu(y, gate, one, 7);
  k->swiglu_input(dgate, dup, one, gate, one, 7);
  for (size_t i = 0; i < 7; i++) {
    ck_assert_msg(fabs(kt_get(k, y, i) - silu[i]) <= 1e-6 * fabs(silu[i]) + 1e-37, "silu(%g) = %g", gates[i],
                  kt_get(k, y, i));
    ck_assert_msg(fabs(kt_get(k, dgate, i) - slope[i]) <= 1e-37, "slope(%g) = %g", gates[i], kt_get(k, dgate, i));
  }
  kt_done("swiglu extremes");
}
END_TEST

static const struct ab_loss_dims loss_shapes[] = {
    {.tokens = 1, .vocab = 7, .z_loss_multiplier = 0},
    {.tokens = 9, .vocab = 7, .z_loss_multiplier = 0.01},
    {.tokens = 3, .vocab = 1, .z_loss_multiplier = 0.1},
    {.tokens = 5, .vocab = 131, .z_loss_multiplier = 1e-4},
};

static void check_loss(const struct ab_kernels *k, const struct ab_loss_dims *d) {
  size_t tokens = (size_t)d->tokens, n = (size_t)(d->tokens * d->vocab);
  int32_t *targets = kt_random_ints(tokens, 5, -1, (int32_t)d->vocab);
  void *logits = kt_random(k, n, 1, 5), *g = kt_random(k, tokens, 2, 1), *dlogits = kt_new(k, n);
  void *xent = kt_new(k, tokens), *z = kt_new(k, tokens), *row_max = kt_new(k, tokens), *row_sum = kt_new(k, tokens);
  double *wide = kt_widen(k, logits, n), *rxent = kt_doubles(tokens), *rz = kt_doubles(tokens), *rd = kt_doubles(n);
  k->cross_entropy(xent, z, row_max, row_sum, logits, targets, d);
  k->cross_entropy_input(dlogits, g, row_max, row_sum, logits, targets, d);
  ref_cross_entropy(rxent, rz, wide, targets, d);
  ref_cross_entropy_back(rd, kt_widen(k, g, tokens), wide, targets, d);
  kt_close(k, xent, rxent, tokens, "xent");
  kt_close(k, z, rz, tokens, "z");
  kt_close(k, dlogits, rd, n, "dlogits");
  k->cross_entropy_input(logits, g, row_max, row_sum, logits, targets, d);
  kt_same_bits(k, logits, dlogits, n, "dlogits in place");
  kt_done("cross entropy");
}

START_TEST(test_loss) {
  for (size_t i = 0; i < sizeof loss_shapes / sizeof loss_shapes[0]; i++) check_loss(tables[_i], &loss_shapes[i]);
}
END_TEST

/* A target outside the vocabulary: only the z term, and the gradient of the softmax alone. */
START_TEST(test_loss_unknown_target) {
  const struct ab_kernels *k = tables[_i];
  struct ab_loss_dims d = {.tokens = 3, .vocab = 7};
  const int32_t targets[] = {-1, 7, INT32_MAX};
  void *logits = kt_random(k, 21, 1, 1), *xent = kt_new(k, 3), *z = kt_new(k, 3), *m = kt_new(k, 3), *s = kt_new(k, 3);
  void *dlogits = kt_new(k, 21), *g = kt_new(k, 3);
  k->fill(g, 1, 3);
  k->cross_entropy(xent, z, m, s, logits, targets, &d);
  k->cross_entropy_input(dlogits, g, m, s, logits, targets, &d);
  for (size_t t = 0; t < 3; t++) {
    double sum = 0;
    for (size_t i = 0; i < 7; i++) sum += kt_get(k, dlogits, t * 7 + i);
    ck_assert(kt_get(k, xent, t) == 0 && kt_get(k, z, t) == 0 && fabs(sum - 1) < 1e-6);
  }
  kt_done("unknown target");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("layers");
  TCase *tcase = tcase_create("tables");
  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, test_norm, 0, TABLES);
  tcase_add_loop_test(tcase, test_rope, 0, TABLES);
  tcase_add_loop_test(tcase, test_attention, 0, TABLES);
  tcase_add_loop_test(tcase, test_attention_long, 0, TABLES);
  tcase_add_loop_test(tcase, test_attention_masked, 0, TABLES);
  tcase_add_loop_test(tcase, test_attention_nan, 0, TABLES);
  tcase_add_loop_test(tcase, test_swiglu, 0, TABLES);
  tcase_add_loop_test(tcase, test_swiglu_extremes, 0, TABLES);
  tcase_add_loop_test(tcase, test_loss, 0, TABLES);
  tcase_add_loop_test(tcase, test_loss_unknown_target, 0, TABLES);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
