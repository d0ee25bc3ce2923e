/* What holds for whole tables: agreement of the arithmetics, portable digests, the dry table, the processor's mode. */
#include "kernel_test.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "tap.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Every kernel once, on fixed inputs; each hands its outputs to `emit` under the kernel's name. */
typedef void (*emit_fn)(void *ctx, const struct ab_kernels *k, const char *name, const void *y, size_t n);

enum { ROWS = 2, LENGTH = 21, TOKENS = ROWS * LENGTH, EMB = 70, HEADS = 4, KV = 2, DIM = 18, VOCAB = 131 };

static void run_gemm(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  enum { M = 261, N = 77, K = 530 };
  void *a = kt_random(k, M * K, 1, 1), *b = kt_random(k, K * N, 2, 1), *c = kt_random(k, M * N, 3, 1);
  for (int variant = 0; variant < 4; variant++) {
    bool trans_a = variant & 1, trans_b = variant & 2;
    k->gemm(c, a, b, &(struct ab_gemm){.m = M, .n = N, .k = K, .lda = trans_a ? M : K, .ldb = trans_b ? K : N, .ldc = N,
                                       .trans_a = trans_a, .trans_b = trans_b, .accumulate = variant > 1});
    emit(ctx, k, "gemm", c, M * N);
  }
}

static void run_norm(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  struct ab_norm_dims d = {.tokens = TOKENS, .emb = EMB, .epsilon = 1e-5};
  enum { N = TOKENS * EMB };
  void *x = kt_random(k, N, 1, 1), *scale = kt_random(k, EMB, 2, 1), *dy = kt_random(k, N, 3, 1);
  void *y = kt_new(k, N), *rstd = kt_new(k, TOKENS), *dscale = kt_random(k, EMB, 4, 1);
  k->norm(y, rstd, x, scale, &d);
  emit(ctx, k, "norm", y, N);
  k->norm_input(y, dy, rstd, x, scale, &d);
  emit(ctx, k, "norm_input", y, N);
  k->norm_weight(dscale, dy, rstd, x, &d);
  emit(ctx, k, "norm_weight", dscale, EMB);
}

static void run_rope(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  struct ab_rope_dims d = {.tokens = TOKENS,
                           .heads = HEADS,
                           .head_dim = DIM,
                           .min_timescale = 1,
                           .max_timescale = 10000,
                           .linear_scaling = 1};
  enum { N = TOKENS * HEADS * DIM };
  void *table = kt_new(k, TOKENS * DIM), *x = kt_random(k, N, 1, 1), *y = kt_new(k, N);
  k->rope_table(table, kt_random_ints(TOKENS, 2, 0, 300), &d);
  emit(ctx, k, "rope_table", table, TOKENS * DIM);
  k->rope(y, table, x, &d);
  emit(ctx, k, "rope", y, N);
  k->rope_input(y, table, x, &d);
  emit(ctx, k, "rope_input", y, N);
}

static void run_attention(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  struct ab_attention_dims d = {.rows = ROWS, .length = LENGTH, .heads = HEADS, .kv_heads = KV, .head_dim = DIM};
  enum { Q = TOKENS * HEADS * DIM, N = TOKENS * KV * DIM, S = TOKENS * HEADS };
  void *q = kt_random(k, Q, 1, 1), *key = kt_random(k, N, 2, 1), *v = kt_random(k, N, 3, 1),
       *dout = kt_random(k, Q, 4, 1);
  void *out = kt_new(k, Q), *row_max = kt_new(k, S), *row_sum = kt_new(k, S), *work = kt_new(k, k->attention_work(&d));
  void *dq = kt_new(k, Q), *dk = kt_new(k, N), *dv = kt_new(k, N);
  int32_t *segment = kt_random_ints(TOKENS, 5, 1, 2);
  k->attention(out, row_max, row_sum, q, key, v, segment, work, &d);
  emit(ctx, k, "attention", out, Q);
  emit(ctx, k, "attention", row_sum, S);
  k->attention_input(dq, dk, dv, dout, row_max, row_sum, out, q, key, v, segment, work, &d);
  emit(ctx, k, "attention_input", dq, Q);
  emit(ctx, k, "attention_input", dk, N);
  emit(ctx, k, "attention_input", dv, N);
}

static void run_swiglu(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  enum { N = 1001 };
  void *gate = kt_random(k, N, 1, 6), *up = kt_random(k, N, 2, 1), *dy = kt_random(k, N, 3, 1);
  void *y = kt_new(k, N), *dup = kt_new(k, N);
  k->swiglu(y, gate, up, N);
  emit(ctx, k, "swiglu", y, N);
  k->swiglu_input(y, dup, dy, gate, up, N);
  emit(ctx, k, "swiglu_input", y, N);
  emit(ctx, k, "swiglu_input", dup, N);
}

static void run_loss(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  struct ab_loss_dims d = {.tokens = TOKENS, .vocab = VOCAB, .z_loss_multiplier = 1e-3};
  enum { N = TOKENS * VOCAB };
  int32_t *targets = kt_random_ints(TOKENS, 5, -1, VOCAB);
  void *logits = kt_random(k, N, 1, 4), *g = kt_random(k, TOKENS, 2, 1), *dlogits = kt_new(k, N);
  void *xent = kt_new(k, TOKENS), *z = kt_new(k, TOKENS), *row_max = kt_new(k, TOKENS), *row_sum = kt_new(k, TOKENS);
  k->cross_entropy(xent, z, row_max, row_sum, logits, targets, &d);
  emit(ctx, k, "cross_entropy", xent, TOKENS);
  emit(ctx, k, "cross_entropy", z, TOKENS);
  k->cross_entropy_input(dlogits, g, row_max, row_sum, logits, targets, &d);
  emit(ctx, k, "cross_entropy_input", dlogits, N);
}

static void run_embed(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  struct ab_embed_dims d = {.tokens = TOKENS, .emb = EMB, .vocab = 11};
  int32_t *ids = kt_random_ints(TOKENS, 5, -1, 11);
  void *table = kt_random(k, 11 * EMB, 1, 1), *y = kt_random(k, TOKENS * EMB, 2, 1);
  k->embed_weight(table, y, ids, &d);
  emit(ctx, k, "embed_weight", table, 11 * EMB);
  k->embed(y, table, ids, &d);
  emit(ctx, k, "embed", y, TOKENS * EMB);
}

static void run_optimizer(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  enum { N = 1001 };
  struct ab_adamw rule = {.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .learning_rate = 3e-3,
                          .correction1 = 0.19, .correction2 = 0.0975};
  void *p = kt_random(k, N, 1, 1), *mu = kt_random(k, N, 2, 0.1), *nu = kt_new(k, N), *g = kt_random(k, N, 4, 1);
  k->fill(nu, 0.25, N);
  k->clip(g, 3.3, 1, N);
  emit(ctx, k, "clip", g, N);
  k->adamw(p, mu, nu, g, &rule, N);
  emit(ctx, k, "adamw", p, N);
  emit(ctx, k, "adamw", nu, N);
  k->sgd(p, g, 0.1, N);
  emit(ctx, k, "sgd", p, N);
}

static void run_elementwise(const struct ab_kernels *k, emit_fn emit, void *ctx) {
  enum { N = 1001 };
  void *x = kt_random(k, N, 1, 1), *w = kt_random(k, N, 2, 1), *y = kt_new(k, N);
  k->add(y, x, w, N);
  emit(ctx, k, "add", y, N);
  k->subtract(y, x, w, N);
  emit(ctx, k, "subtract", y, N);
  k->scale(y, x, 0.1, N);
  emit(ctx, k, "scale", y, N);
  double sums[] = {k->sum(x, N), k->sum_squares(x, N), k->dot(x, w, N),
                   k->weighted_sum(x, kt_random_ints(N, 1, 0, 1), N)};
  for (size_t i = 0; i < 4; i++) kt_set(k, y, i, sums[i]);
  emit(ctx, k, "sums", y, 4);
  void *statistics[] = {kt_new(k, 1), kt_new(k, 1), kt_new(k, 1)};
  k->statistics(statistics[0], statistics[1], statistics[2], x, N);
  for (size_t i = 0; i < 3; i++) emit(ctx, k, "statistics", statistics[i], 1);
}

static void (*const runs[])(const struct ab_kernels *k, emit_fn emit, void *ctx) = {
    run_gemm, run_attention, run_norm, run_rope, run_swiglu, run_loss, run_embed, run_optimizer, run_elementwise};
enum { RUNS = sizeof runs / sizeof runs[0], FIRST_WITHOUT_GEMM = 2 };

/* Outputs of one run, as doubles, end to end. */
struct record {
  double value[100000];
  size_t used;
};

static void record(void *ctx, const struct ab_kernels *k, const char *name, const void *y, size_t n) {
  struct record *r = ctx;
  (void)name;
  ck_assert(r->used + n <= sizeof r->value / sizeof r->value[0]);
  for (size_t i = 0; i < n; i++) r->value[r->used++] = kt_get(k, y, i);
}

/* The three tables agree on inputs that are the same up to rounding. */
START_TEST(test_agreement) {
  static struct record r[TABLES];
  for (int t = 0; t < TABLES; t++) {
    r[t].used = 0;
    runs[_i](tables[t], record, &r[t]);
    kt_done("agreement");
  }
  double size = 0, error = 0;
  for (size_t i = 0; i < r[2].used; i++) {
    size = fmax(size, fabs(r[2].value[i]));
    error = fmax(error, fmax(fabs(r[0].value[i] - r[2].value[i]), fabs(r[1].value[i] - r[2].value[i])));
  }
  ck_assert_msg(r[2].used > 0 && error <= 5e-6 * size && error > 0, "run %d: floats are %g off, largest value %g", _i,
                error, size);
}
END_TEST

/* Without gemm, f32 and portable are one source: equal bits whatever vectors f32 was compiled for. */
START_TEST(test_clones) {
  static struct record r[2];
  for (int t = 0; t < 2; t++) {
    r[t].used = 0;
    runs[_i](tables[t], record, &r[t]);
    kt_done("clones");
  }
  ck_assert(r[0].used > 0 && memcmp(r[0].value, r[1].value, r[0].used * sizeof(double)) == 0);
}
END_TEST

/* One line per kernel: "name digest", the digest over all outputs that were emitted under the name in turn. */
struct digests {
  char text[4096], name[32];
  XXH64_hash_t digest;
};

static void digests_flush(struct digests *d) {
  size_t used = strlen(d->text);
  if (d->name[0])
    snprintf(d->text + used, sizeof d->text - used, "%s %016llx\n", d->name, (unsigned long long)d->digest);
}

static void digest(void *ctx, const struct ab_kernels *k, const char *name, const void *y, size_t n) {
  struct digests *d = ctx;
  if (strcmp(d->name, name) != 0) {
    digests_flush(d);
    snprintf(d->name, sizeof d->name, "%s", name);
    d->digest = 0;
  }
  d->digest = XXH3_64bits_withSeed(y, n * k->element, d->digest);
}

static const char *portable_digests(void) {
  static struct digests d;
  d = (struct digests){0};
  for (int i = 0; i < RUNS; i++) {
    runs[i](&ab_kernels_f32_portable, digest, &d);
    kt_done("digests");
  }
  digests_flush(&d);
  return d.text;
}

/* tests/kernels/portable_digests.txt pins the bits of the portable table on every machine and compiler; it is what
 * `test_tables --digests` prints. */
START_TEST(test_digests) {
  char path[4096], pinned[4096] = {0};
  snprintf(path, sizeof path, "%s/tests/kernels/portable_digests.txt", getenv("AB_SOURCE_ROOT"));
  FILE *file = fopen(path, "r");
  ck_assert_msg(file != NULL, "cannot open %s", path);
  size_t bytes = fread(pinned, 1, sizeof pinned - 1, file);
  fclose(file);
  ck_assert(bytes > 0);
  ck_assert_str_eq(portable_digests(), pinned);
}
END_TEST

/* The dry table has every kernel and the sizes of the real ones, and touches nothing. */
START_TEST(test_dry) {
  const struct ab_kernels *dry = ab_kernels_dry(_i ? AB_F64 : AB_F32), *real = _i ? &ab_kernels_f64 : &ab_kernels_f32;
  ck_assert(dry->dry && !real->dry && dry->dtype == real->dtype && dry->element == real->element);
  struct ab_attention_dims d = {.rows = 2, .length = 9, .heads = 4, .kv_heads = 2, .head_dim = 3};
  ck_assert_uint_eq(dry->attention_work(&d), real->attention_work(&d));
  void *made_up = (void *)(uintptr_t)64;
  ck_assert_double_eq(dry->sum(made_up, 5) + dry->sum_squares(made_up, 5) + dry->dot(made_up, made_up, 5), 0);
  ck_assert_double_eq(dry->weighted_sum(made_up, made_up, 5), 0);
  dry->attention(made_up, made_up, made_up, made_up, made_up, made_up, made_up, made_up, &d);
  dry->gemm(made_up, made_up, made_up, &(struct ab_gemm){.m = 3, .n = 3, .k = 3, .lda = 3, .ldb = 3, .ldc = 3});
  dry->zero(made_up, 100);
  ck_ok(ab_kernels_self_test(dry));
}
END_TEST

/* No entry of any table is missing. */
START_TEST(test_complete) {
  const struct ab_kernels *all[] = {tables[0], tables[1], tables[2], ab_kernels_dry(AB_F32), ab_kernels_dry(AB_F64)};
  const size_t first = offsetof(struct ab_kernels, gemm);
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
    for (size_t at = first; at < sizeof(struct ab_kernels); at += sizeof(void (*)(void))) {
      void (*entry)(void);
      memcpy(&entry, (const char *)all[t] + at, sizeof entry);
      ck_assert_msg(entry != NULL, "table %s lacks its entry %zu", all[t]->name, (at - first) / sizeof entry);
    }
}
END_TEST

/* Flush-to-zero, denormals-are-zero and another rounding are set first; a subnormal product and two quotients show the
 * mode. */
START_TEST(test_float_environment) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  fesetround(FE_UPWARD);
  ck_ok(ab_float_environment());
  volatile float smallest = FLT_MIN, half = 0.5f, one = 1, five = 5;
  ck_assert(smallest * half > 0 && smallest * half * 2 == smallest);
  ck_assert(one / five == 0x1.99999ap-3f && -one / five == -0x1.99999ap-3f);
#if defined(__x86_64__)
  ck_assert((_mm_getcsr() & 0x8040) == 0);
#endif
}
END_TEST

START_TEST(test_core) {
  const char *wanted = ab_blas_core_wanted();
  ck_assert(wanted == NULL || strcmp(wanted, "SKYLAKEX") == 0 || strcmp(wanted, "HASWELL") == 0);
  ck_assert(strstr(ab_blas_core_running(), "OpenBLAS") != NULL && ab_blas_core_running()[0] != '\0');
}
END_TEST

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--digests") == 0) return fputs(portable_digests(), stdout) < 0;
  Suite *suite = suite_create("tables");
  TCase *tcase = tcase_create("tables");
  tcase_add_loop_test(tcase, test_agreement, 0, RUNS);
  tcase_add_loop_test(tcase, test_clones, FIRST_WITHOUT_GEMM, RUNS);
  tcase_add_test(tcase, test_digests);
  tcase_add_loop_test(tcase, test_dry, 0, 2);
  tcase_add_test(tcase, test_complete);
  tcase_add_test(tcase, test_float_environment);
  tcase_add_test(tcase, test_core);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
