/* A kernel called outside a parallel region on much data gives the bits of the same kernel called on one small part
 * after the other, for any number of workers.
 */
#include "kernel_test.h"

#include <stdio.h>

#include "tap.h"
#include "threads.h"

enum { VECTOR = 100003, SLICE = 1001, TOKENS = 201, EMB = 200, VOCAB = 67, HEADS = 6, KV_HEADS = 3, HEAD_DIM = 8,
       LENGTH = 67, ROWS = 3 };
static const int workers[] = {1, 2, 3, 5};
enum { WORKERS = sizeof workers / sizeof workers[0] };

/* Tensors of one check: whole calls write out[i], slices expected[i], both from in[i]. */
struct rig {
  const struct ab_kernels *k;
  void *in[8], *out[4], *expected[4];
};

static void *at(const struct rig *r, void *x, size_t element) { return (char *)x + element * r->k->element; }

static struct rig rig_new(const struct ab_kernels *k, size_t n) {
  struct rig r = {.k = k};
  for (int i = 0; i < 8; i++) r.in[i] = kt_random(k, n, 11 + (uint32_t)i, 1);
  for (int i = 0; i < 4; i++) {
    r.out[i] = kt_random(k, n, 31 + (uint32_t)i, 0.1);
    r.expected[i] = kt_random(k, n, 31 + (uint32_t)i, 0.1);
  }
  return r;
}

/* One kernel on the elements or tokens [first, first + n). */
typedef void (*part_fn)(const struct rig *r, void *const *out, size_t first, size_t n);

static void check(const char *name, part_fn part, size_t n, size_t slice, size_t size) {
  for (size_t row = 0; row < TABLES * WORKERS; row++) {
    struct rig r = rig_new(tables[row / WORKERS], size);
    char what[96];
    snprintf(what, sizeof what, "%s of %s by %d workers", name, r.k->name, workers[row % WORKERS]);
    use_threads(workers[row % WORKERS]);
    part(&r, r.out, 0, n);
    use_threads(1);
    for (size_t first = 0; first < n; first += slice)
      part(&r, r.expected, first, n - first < slice ? n - first : slice);
    for (int i = 0; i < 4; i++) kt_same_bits(r.k, r.out[i], r.expected[i], size, what);
    kt_done(what);
  }
}

static void zero_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  r->k->zero(at(r, out[0], first), n);
}

static void copy_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  r->k->copy(at(r, out[0], first), at(r, r->in[0], first), n);
}

static void add_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  r->k->add(at(r, out[0], first), at(r, r->in[0], first), at(r, r->in[1], first), n);
}

static void swiglu_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  void *dy = at(r, r->in[2], first), *gate = at(r, r->in[0], first), *up = at(r, r->in[1], first);
  r->k->swiglu(at(r, out[0], first), gate, up, n);
  r->k->swiglu_input(at(r, out[1], first), at(r, out[2], first), dy, gate, up, n);
}

static void update_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  struct ab_adamw rule = {.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .epsilon_root = 1, .weight_decay = 0.1,
                          .learning_rate = 1e-2, .correction1 = 0.1, .correction2 = 0.05};
  r->k->clip(at(r, out[3], first), 3, 1, n);
  r->k->adamw(at(r, out[0], first), at(r, out[1], first), at(r, out[2], first), at(r, out[3], first), &rule, n);
}

START_TEST(vectors) {
  check("zero", zero_part, VECTOR, SLICE, VECTOR);
  check("copy", copy_part, VECTOR, SLICE, VECTOR);
  check("add", add_part, VECTOR, SLICE, VECTOR);
  check("swiglu", swiglu_part, VECTOR, SLICE, VECTOR);
  check("update", update_part, VECTOR, SLICE, VECTOR);
}
END_TEST

static void norm_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  struct ab_norm_dims d = {.tokens = (int64_t)n, .emb = EMB, .epsilon = 1e-5};
  void *x = at(r, r->in[0], first * EMB), *rstd = at(r, out[1], first);
  r->k->norm(at(r, out[0], first * EMB), rstd, x, r->in[1], &d);
  r->k->norm_input(at(r, out[2], first * EMB), at(r, r->in[2], first * EMB), rstd, x, r->in[1], &d);
}

static void rope_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  struct ab_rope_dims d = {.tokens = (int64_t)n, .heads = HEADS, .head_dim = HEAD_DIM};
  size_t width = HEADS * HEAD_DIM;
  void *table = at(r, r->in[1], first * HEAD_DIM);
  r->k->rope(at(r, out[0], first * width), table, at(r, r->in[0], first * width), &d);
  r->k->rope_input(at(r, out[1], first * width), table, at(r, r->in[0], first * width), &d);
}

static void loss_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  struct ab_loss_dims d = {.tokens = (int64_t)n, .vocab = VOCAB, .z_loss_multiplier = 0.1};
  int32_t targets[TOKENS];
  void *logits = at(r, r->in[0], first * VOCAB), *max = at(r, out[1], TOKENS + first), *sum = at(r, out[2], first);
  for (size_t t = 0; t < n; t++) targets[t] = (int32_t)((first + t) * 7 % (VOCAB + 3)) - 1;
  r->k->cross_entropy(at(r, out[0], first), at(r, out[1], first), max, sum, logits, targets, &d);
  r->k->cross_entropy_input(at(r, out[3], first * VOCAB), at(r, r->in[1], first), max, sum, logits, targets, &d);
}

START_TEST(tokens) {
  check("norm", norm_part, TOKENS, 1, TOKENS * EMB);
  check("rope", rope_part, TOKENS, 1, TOKENS * EMB);
  check("cross entropy", loss_part, TOKENS, 1, TOKENS * EMB);
}
END_TEST

/* Parts are columns here: sums over tokens stay whole. One column is one token row of stride EMB, so the part's own
 * tensors are gathered first. */
START_TEST(columns) {
  for (size_t row = 0; row < TABLES * WORKERS; row++) {
    struct rig r = rig_new(tables[row / WORKERS], TOKENS * EMB);
    struct ab_norm_dims whole = {.tokens = TOKENS, .emb = EMB}, one = {.tokens = TOKENS, .emb = 1};
    use_threads(workers[row % WORKERS]);
    r.k->norm_weight(r.out[0], r.in[0], r.in[1], r.in[2], &whole);
    use_threads(1);
    for (size_t c = 0; c < EMB; c++) {
      for (size_t t = 0; t < TOKENS; t++) {
        r.k->copy(at(&r, r.out[1], t), at(&r, r.in[0], t * EMB + c), 1);
        r.k->copy(at(&r, r.out[2], t), at(&r, r.in[2], t * EMB + c), 1);
      }
      r.k->norm_weight(at(&r, r.expected[0], c), r.out[1], r.in[1], r.out[2], &one);
    }
    kt_same_bits(r.k, r.out[0], r.expected[0], EMB, "norm weight");
    kt_done("norm weight");
  }
}
END_TEST

static void attention_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  struct ab_attention_dims d = {.rows = (int64_t)n, .length = LENGTH, .heads = HEADS, .kv_heads = KV_HEADS,
                                .head_dim = HEAD_DIM};
  size_t q = first * LENGTH * HEADS * HEAD_DIM, k = first * LENGTH * KV_HEADS * HEAD_DIM;
  size_t statistics = first * HEADS * LENGTH;
  int32_t segments[ROWS * LENGTH];
  for (size_t i = 0; i < n * LENGTH; i++) segments[i] = (int32_t)((first * LENGTH + i) / 50) - 1;
  void *sum = at(r, out[1], statistics), *max = at(r, out[1], ROWS * HEADS * LENGTH + statistics), *work = r->in[7];
  void *queries = at(r, r->in[0], q), *keys = at(r, r->in[1], k), *values = at(r, r->in[2], k);
  r->k->attention(at(r, out[0], q), max, sum, queries, keys, values, segments, work, &d);
  void *dk = at(r, out[3], k), *dv = at(r, out[3], (size_t)ROWS * LENGTH * KV_HEADS * HEAD_DIM + k);
  r->k->attention_input(at(r, out[2], q), dk, dv, at(r, r->in[3], q), max, sum, at(r, out[0], q), queries, keys, values,
                        segments, work, &d);
}

START_TEST(heads) {
  struct ab_attention_dims d = {.length = LENGTH};
  size_t size = ROWS * LENGTH * HEADS * HEAD_DIM, work = ab_kernels_f64.attention_work(&d);
  check("attention", attention_part, ROWS, 1, size > work ? size : work);
}
END_TEST

/* Stacked layouts: axes [0, 2] of the whole against one slice of axis 0 after the other. */
static struct ab_view stacked(const struct rig *r, void *x, size_t first, size_t n) {
  struct ab_view view = {.dtype = r->k->dtype, .shape = {3, {(int64_t)n, 5, 37}}, .stride = {37, 37 * TOKENS, 1}};
  view.data = at(r, x, first * 37);
  return view;
}

static void view_part(const struct rig *r, void *const *out, size_t first, size_t n) {
  struct ab_view from = stacked(r, r->in[0], first, n), to = from, sum = stacked(r, out[1], first, n);
  ab_view_contiguous(&to);
  to.data = at(r, out[0], first * 5 * 37);
  r->k->copy_view(&to, &from);
  r->k->add_view(&sum, &from);
}

START_TEST(views) { check("view", view_part, TOKENS, 7, TOKENS * EMB); }
END_TEST

int main(void) {
  Suite *suite = suite_create("spread");
  TCase *group = tcase_create("bits");
  tcase_set_timeout(group, 60);
  tcase_add_test(group, vectors);
  tcase_add_test(group, tokens);
  tcase_add_test(group, columns);
  tcase_add_test(group, heads);
  tcase_add_test(group, views);
  suite_add_tcase(suite, group);
  return ab_run_suite(suite);
}
