/* The losses against a plain double reference, and their cotangents against central differences. */
#include <math.h>
#include <string.h>

#include "loss.h"
#include "mem.h"
#include "tap.h"

enum { ROWS = 3, LENGTH = 5, T = ROWS * LENGTH, V = 13, N = T * V };

static const struct ab_kernels *const tables[] = {&ab_kernels_f64, &ab_kernels_f32, &ab_kernels_f32_portable};

struct rig {
  struct ab_arena arena, book;
  struct ab_exec exec;
  struct ab_config config;
  struct ab_batch batch;
  int32_t targets[T], segments[T];
  double logits[N];
  union {
    float f32[N];
    double f64[N];
  } tensor;
};

static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0 - 0.5;
}

/* Logits are float32 values, so that every table starts from the same numbers. Token 3 has no weight, token 4 no class.
 */
static void rig_new(struct rig *r, const struct ab_kernels *kernels, double z_loss_multiplier) {
  uint64_t state = 5;
  *r = (struct rig){.config = {.vocab_size = V, .z_loss_multiplier = z_loss_multiplier}};
  ck_ok(ab_arena_init(&r->arena, "arena", 1 << 14));
  ck_ok(ab_arena_init(&r->book, "book", 1 << 12));
  r->exec = (struct ab_exec){.kernels = kernels, .arena = &r->arena, .book = &r->book};
  for (int i = 0; i < N; i++) r->logits[i] = (double)(float)(8.0 * uniform(&state));
  for (int t = 0; t < T; t++) {
    r->targets[t] = (int32_t)((uniform(&state) + 0.5) * V);
    r->segments[t] = t % 4 == 3 ? 0 : 1 + t % 3;
  }
  r->targets[4] = V + 2;
  r->batch =
      (struct ab_batch){.rows = ROWS, .length = LENGTH, .targets = r->targets, .targets_segmentation = r->segments};
}

static void rig_free(struct rig *r) {
  ab_arena_free(&r->arena);
  ab_arena_free(&r->book);
}

static void set_logits(struct rig *r) {
  for (int i = 0; i < N; i++) {
    if (r->exec.kernels->dtype == AB_F64)
      r->tensor.f64[i] = r->logits[i];
    else
      r->tensor.f32[i] = (float)r->logits[i];
  }
}

static double get(const struct rig *r, int i) {
  return r->exec.kernels->dtype == AB_F64 ? r->tensor.f64[i] : (double)r->tensor.f32[i];
}

static struct ab_loss_terms forward(struct rig *r, struct ab_loss *loss) {
  struct ab_loss_terms terms;
  set_logits(r);
  ck_ok(ab_loss_forward(loss, &terms, &r->config, &r->exec, &r->batch, &r->tensor));
  return terms;
}

struct reference {
  double xent, z, weights, cotangent[N];
};

/* model.md 3: cross_entropy_with_logits, written down once more. */
static struct reference reference_of(const struct rig *r) {
  struct reference ref = {0};
  for (int t = 0; t < T; t++) {
    double max = -INFINITY, sum = 0, weight = r->segments[t] != 0;
    const double *row = r->logits + t * V;
    for (int v = 0; v < V; v++) max = fmax(max, row[v]);
    for (int v = 0; v < V; v++) sum += exp(row[v] - max);
    double log_z = log(sum) + max, z = r->config.z_loss_multiplier * log_z * log_z;
    bool known = r->targets[t] >= 0 && r->targets[t] < V;
    ref.xent += weight * ((known ? log_z - row[r->targets[t]] : 0.0) + z);
    ref.z += weight * z;
    ref.weights += weight;
    for (int v = 0; v < V; v++)
      ref.cotangent[t * V + v] = weight * ((1 + 2 * r->config.z_loss_multiplier * log_z) * exp(row[v] - log_z) -
                                           (known && v == r->targets[t]));
  }
  for (int i = 0; i < N; i++) ref.cotangent[i] /= ref.weights + 1e-8;
  return ref;
}

START_TEST(terms_and_cotangents_follow_the_definition) {
  const struct ab_kernels *k = tables[_i / 2];
  double tolerance = k->dtype == AB_F64 ? 1e-14 : 5e-7;
  struct rig r;
  struct ab_loss loss;
  rig_new(&r, k, _i % 2 ? 0.01 : 0.0);
  struct reference ref = reference_of(&r);
  struct ab_loss_terms terms = forward(&r, &loss);
  ck_assert_double_eq(terms.total_weights, ref.weights);
  ck_assert_double_eq_tol(terms.xent_sum, ref.xent, tolerance * ref.xent);
  ck_assert_double_eq_tol(terms.loss, ref.xent / (ref.weights + 1e-8), tolerance * ref.xent);
  ck_assert_double_eq_tol(terms.z_loss, ref.z / (ref.weights + 1e-8), tolerance * (1 + ref.z));
  ab_loss_backward(&loss, &r.tensor);
  for (int i = 0; i < N; i++) ck_assert_double_eq_tol(get(&r, i), ref.cotangent[i], tolerance);
  rig_free(&r);
}
END_TEST

START_TEST(float32_metrics_are_float32_values) {
  struct rig r;
  struct ab_loss loss;
  rig_new(&r, &ab_kernels_f32, 0.01);
  struct ab_loss_terms terms = forward(&r, &loss);
  ck_assert(terms.loss == (double)(float)terms.loss && terms.z_loss == (double)(float)terms.z_loss);
  ck_assert(terms.loss == (double)((float)terms.xent_sum / (float)terms.total_weights));
  rig_free(&r);
}
END_TEST

START_TEST(cotangents_are_slopes_of_the_loss) {
  struct rig r;
  struct ab_loss loss;
  const double step = 1e-5;
  rig_new(&r, &ab_kernels_f64, 0.02);
  r.targets[4] = 1; /* a token without a class has a cotangent but no slope, as in MaxText */
  forward(&r, &loss);
  ab_loss_backward(&loss, &r.tensor);
  double analytic[N];
  memcpy(analytic, r.tensor.f64, sizeof analytic);
  for (int i = 0; i < N; i += 7) {
    double side[2], keep = r.logits[i];
    for (int s = 0; s < 2; s++) {
      size_t mark = ab_arena_mark(&r.arena), book = ab_arena_mark(&r.book);
      r.logits[i] = keep + (s ? step : -step);
      side[s] = forward(&r, &loss).loss;
      ab_arena_release(&r.arena, mark);
      ab_arena_release(&r.book, book);
    }
    r.logits[i] = keep;
    ck_assert_double_eq_tol((side[1] - side[0]) / (2 * step), analytic[i], 1e-9);
  }
  rig_free(&r);
}
END_TEST

START_TEST(a_batch_without_weight_has_no_loss_and_no_gradient) {
  struct rig r;
  struct ab_loss loss;
  rig_new(&r, tables[_i], 0.01);
  memset(r.segments, 0, sizeof r.segments);
  struct ab_loss_terms terms = forward(&r, &loss);
  ck_assert(terms.loss == 0.0 && terms.z_loss == 0.0 && terms.total_weights == 0.0);
  ab_loss_backward(&loss, &r.tensor);
  for (int i = 0; i < N; i++) ck_assert(get(&r, i) == 0.0);
  rig_free(&r);
}
END_TEST

START_TEST(a_dry_run_touches_nothing_and_takes_the_same) {
  struct rig r;
  struct ab_loss loss;
  struct ab_arena plan;
  rig_new(&r, &ab_kernels_f32, 0.0);
  forward(&r, &loss);
  size_t used = r.arena.high;
  ab_arena_init_measuring(&plan, "plan");
  r.exec.arena = &plan;
  r.exec.kernels = ab_kernels_dry(AB_F32);
  struct ab_loss_terms terms;
  void *nowhere;
  ck_ok(ab_arena_take(&plan, &nowhere, 0, 1));
  ck_ok(ab_loss_forward(&loss, &terms, &r.config, &r.exec, &r.batch, nowhere));
  ab_loss_backward(&loss, nowhere);
  ck_assert_uint_eq(plan.high, used);
  ab_arena_free(&plan);
  rig_free(&r);
}
END_TEST

/* Losses of kind engine on the first 6 logits, targets the next 6. */
enum { SMALL = 6 };

static double small_loss(enum ab_loss_kind kind, const double *y, const double *other, double *dy) {
  return ab_output_loss(dy, kind, y, other, SMALL, &ab_kernels_f64);
}

START_TEST(engine_losses_and_their_slopes) {
  const enum ab_loss_kind kind = _i ? AB_LOSS_DOT : AB_LOSS_NORM;
  double y[SMALL], other[SMALL], dy[SMALL], unused[SMALL], expected = 0;
  uint64_t state = 9;
  for (int i = 0; i < SMALL; i++) y[i] = uniform(&state), other[i] = uniform(&state);
  for (int i = 0; i < SMALL; i++) expected += _i ? y[i] * other[i] : (y[i] - other[i]) * (y[i] - other[i]);
  ck_assert_double_eq_tol(small_loss(kind, y, other, dy), _i ? expected : sqrt(expected), 1e-15);
  for (int i = 0; i < SMALL; i++) {
    double keep = y[i], side[2];
    for (int s = 0; s < 2; s++) {
      y[i] = keep + (s ? 1e-6 : -1e-6);
      side[s] = small_loss(kind, y, other, unused);
    }
    y[i] = keep;
    ck_assert_double_eq_tol((side[1] - side[0]) / 2e-6, dy[i], 1e-9);
  }
}
END_TEST

START_TEST(a_given_cotangent_is_passed_on) {
  const double y[SMALL] = {1, 2, 3, 4, 5, 6}, other[SMALL] = {6, 5, -4, 3, 2, 1};
  double dy[SMALL];
  ck_assert(small_loss(AB_LOSS_GIVEN, y, other, dy) == 0.0);
  ck_assert_mem_eq(dy, other, sizeof other);
}
END_TEST

START_TEST(loss_kinds_have_names) {
  enum ab_loss_kind kind;
  for (int i = AB_LOSS_NORM; i <= AB_LOSS_TRAIN; i++) {
    ck_ok(ab_loss_kind_find(&kind, ab_loss_kind_name((enum ab_loss_kind)i)));
    ck_assert_int_eq((int)kind, i);
  }
  ck_fails(ab_loss_kind_find(&kind, "hinge"), AB_EFORMAT, "hinge");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("loss");
  TCase *c = tcase_create("loss");
  tcase_add_loop_test(c, terms_and_cotangents_follow_the_definition, 0, 6);
  tcase_add_test(c, float32_metrics_are_float32_values);
  tcase_add_test(c, cotangents_are_slopes_of_the_loss);
  tcase_add_loop_test(c, a_batch_without_weight_has_no_loss_and_no_gradient, 0, 3);
  tcase_add_test(c, a_dry_run_touches_nothing_and_takes_the_same);
  tcase_add_loop_test(c, engine_losses_and_their_slopes, 0, 2);
  tcase_add_test(c, a_given_cotangent_is_passed_on);
  tcase_add_test(c, loss_kinds_have_names);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
