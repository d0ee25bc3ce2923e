/* Optimizers and the training step around a model that only holds leaves: against plain double arithmetic, for several
 * steps, with contiguous and with strided leaves.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "init.h"
#include "mem.h"
#include "schedule.h"
#include "tap.h"
#include "trainer.h"

enum {
  LAYERS = 3,
  EMB = 4,
  MLP = 6,
  VOCAB = 5,
  LEAVES = 3 + 2 * LAYERS,
  ELEMENTS = 2 * VOCAB * EMB + EMB + LAYERS * 2 * EMB * MLP
};

/* A model whose "gradients" are what the test puts there. Strided: the layers are the innermost axis of every leaf. */
struct ab_model {
  bool strided;
  size_t element;
  enum ab_dtype dtype;
  void *outer[2][3], *layers[2][2];    /* [kind] */
  const char *skip, *twice, *misshape; /* faults: leaf names */
  int steps;
};

static const struct ab_param *layer_param(int i) { return &ab_block_find("simple_mlp")->param[i]; }

static const struct ab_layer_dims dims = {.emb = EMB, .mlp = MLP, .vocab = VOCAB};

static ab_status report(const struct ab_model *m, ab_leaf_fn fn, void *ctx, int layer, const struct ab_param *param,
                        struct ab_view *view) {
  if (m->skip && layer <= 0 && strcmp(m->skip, param->name) == 0) return AB_OK;
  if (m->misshape && strcmp(m->misshape, param->name) == 0) view->shape.dim[0]++;
  AB_TRY(fn(ctx, layer, param->name, view));
  if (m->twice && strcmp(m->twice, param->name) == 0) AB_TRY(fn(ctx, layer, param->name, view));
  return AB_OK;
}

static struct ab_view layer_view(const struct ab_model *m, enum ab_leaf_kind kind, int layer, int i) {
  struct ab_view view = {.dtype = m->dtype, .shape = ab_param_shape(layer_param(i), &dims)};
  ab_view_contiguous(&view);
  size_t offset = m->strided ? (size_t)layer : (size_t)layer * ab_view_count(&view);
  for (int a = 0; a < view.shape.rank && m->strided; a++) view.stride[a] *= LAYERS;
  view.data = (char *)m->layers[kind][i] + offset * m->element;
  return view;
}

static ab_status fake_leaves(struct ab_model *m, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  for (int layer = LAYERS; layer-- > 0;) {
    for (int i = 0; i < 2; i++) {
      struct ab_view view = layer_view(m, kind, layer, i);
      AB_TRY(report(m, fn, ctx, layer, layer_param(i), &view));
    }
  }
  for (int i = 0; i < 3; i++) {
    struct ab_view view = {.dtype = m->dtype, .shape = ab_param_shape(&ab_outer_params[i], &dims)};
    ab_view_contiguous(&view);
    view.data = m->outer[kind][i];
    AB_TRY(report(m, fn, ctx, -1, &ab_outer_params[i], &view));
  }
  return AB_OK;
}

static ab_status fake_step(struct ab_model *m, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  (void)batch;
  *terms = (struct ab_loss_terms){.loss = 1.5 + m->steps++, .z_loss = 0.25, .total_weights = 10};
  return AB_OK;
}

static const struct ab_model_ops fake_ops = {.step = fake_step, .leaves = fake_leaves};

struct rig {
  struct ab_config config;
  struct ab_arena slab, arena, book;
  struct ab_exec exec;
  struct ab_model model;
  struct ab_trainer trainer;
};

static struct ab_config base_config(void) {
  return (struct ab_config){.decoder_block = "simple_mlp",
                            .emb_dim = EMB,
                            .mlp_dim = MLP,
                            .vocab_size = VOCAB,
                            .num_decoder_layers = LAYERS,
                            .opt_type = "adamw",
                            .adam_b1 = 0.9,
                            .adam_b2 = 0.95,
                            .adam_eps = 1e-8,
                            .adam_weight_decay = 0.1,
                            .learning_rate = 0.01,
                            .learning_rate_final_fraction = 0.1,
                            .lr_schedule_type = "cosine",
                            .wsd_decay_style = "linear",
                            .learning_rate_schedule_steps = 6,
                            .steps = 6,
                            .gradient_clipping_threshold = 1.0};
}

static void take(struct rig *r, void **out, size_t count) {
  ck_ok(ab_arena_take(&r->slab, out, count, r->exec.kernels->element));
}

static void take_model(struct rig *r, int kind) {
  for (int i = 0; i < 3; i++) take(r, &r->model.outer[kind][i], ab_param_count(&ab_outer_params[i], &dims));
  for (int i = 0; i < 2; i++) take(r, &r->model.layers[kind][i], LAYERS * ab_param_count(layer_param(i), &dims));
}

static void rig_new(struct rig *r, const struct ab_kernels *k, bool strided) {
  *r = (struct rig){.config = base_config(), .model = {.strided = strided, .element = k->element, .dtype = k->dtype}};
  ck_ok(ab_arena_init(&r->slab, "slab", 1 << 17));
  ck_ok(ab_arena_init(&r->arena, "arena", 1 << 14));
  ck_ok(ab_arena_init(&r->book, "book", 1 << 14));
  r->exec = (struct ab_exec){.kernels = k, .slab = &r->slab, .arena = &r->arena, .book = &r->book};
  for (int kind = 0; kind < 2; kind++) take_model(r, kind);
}

static void rig_start(struct rig *r) {
  ck_ok(ab_trainer_init(&r->trainer, &r->config, &r->exec, &fake_ops, &r->model));
  ck_ok(ab_init_weights(&r->trainer.side, &r->config, r->exec.kernels));
}

static void rig_free(struct rig *r) {
  ab_trainer_free(&r->trainer);
  ab_arena_free(&r->slab);
  ab_arena_free(&r->arena);
  ab_arena_free(&r->book);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, 0);
}

/* All leaves of a kind, in canonical order, as doubles. */
static void read_all(struct rig *r, enum ab_leaf_kind kind, double *out) {
  struct ab_leaf_table *table = kind == AB_PARAMS ? &r->trainer.params : &r->trainer.grads;
  float packed[64];
  double packed64[64];
  ck_ok(ab_leaf_table_fill(table, &r->trainer.side, kind));
  for (size_t i = 0; i < table->leaves; i++) {
    bool wide = table->dtype == AB_F64;
    ab_view_pack(wide ? (void *)packed64 : packed, &table->leaf[i].view);
    for (size_t j = 0; j < table->leaf[i].count; j++) *out++ = wide ? packed64[j] : (double)packed[j];
  }
}

/* Gradients of one step: the same canonical values for both layouts, float32 values. */
static void set_grads(struct rig *r, int step, double scale) {
  struct ab_leaf_table *table = &r->trainer.grads;
  struct ab_leaf_values buffer;
  uint64_t state = 77 + (uint64_t)step;
  ck_ok(ab_leaf_table_fill(table, &r->trainer.side, AB_GRADS));
  ck_ok(ab_leaf_values_new(&buffer, table));
  for (size_t i = 0; i < table->leaves; i++) {
    for (size_t j = 0; j < table->leaf[i].count; j++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      buffer.values[j] = (float)(scale * ((double)(state >> 11) / 9007199254740992.0 - 0.5));
    }
    ab_leaf_set(&table->leaf[i], &buffer, r->exec.kernels);
  }
  ab_leaf_values_free(&buffer);
}

static double norm_of(const double *x) {
  double sum = 0;
  for (int i = 0; i < ELEMENTS; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

struct reference {
  double p[ELEMENTS], mu[ELEMENTS], nu[ELEMENTS];
};

/* optax.chain(clip_by_global_norm, adamw), model.md 4 and 5, in double. */
static void reference_adamw(struct reference *ref, double *g, const struct ab_config *c, int step) {
  double norm = norm_of(g), b1 = c->adam_b1, b2 = c->adam_b2, threshold = c->gradient_clipping_threshold;
  for (int i = 0; i < ELEMENTS; i++) {
    if (threshold > 0 && norm >= threshold) g[i] = g[i] / norm * threshold;
    ref->mu[i] = (1 - b1) * g[i] + b1 * ref->mu[i];
    ref->nu[i] = (1 - b2) * g[i] * g[i] + b2 * ref->nu[i];
    double mu = ref->mu[i] / (1 - pow(b1, step + 1)), nu = ref->nu[i] / (1 - pow(b2, step + 1));
    ref->p[i] -= ab_learning_rate(c, step) * (mu / (sqrt(nu) + c->adam_eps) + c->adam_weight_decay * ref->p[i]);
  }
}

static void check_close(const double *got, const double *expected, double tolerance, const char *what, int step) {
  for (int i = 0; i < ELEMENTS; i++)
    ck_assert_msg(fabs(got[i] - expected[i]) <= tolerance * (1 + fabs(expected[i])),
                  "%s[%d] of step %d: %.17g, expected %.17g", what, i, step, got[i], expected[i]);
}

static const struct ab_kernels *const tables[] = {&ab_kernels_f64, &ab_kernels_f32, &ab_kernels_f32_portable};

START_TEST(adamw_steps_follow_the_definition) {
  const struct ab_kernels *k = tables[_i / 2];
  static struct reference ref;
  double tolerance = k->dtype == AB_F64 ? 1e-14 : 1e-6, g[ELEMENTS], p[ELEMENTS];
  struct rig r;
  struct ab_metrics m;
  ref = (struct reference){{0}, {0}, {0}};
  rig_new(&r, k, _i % 2);
  rig_start(&r);
  read_all(&r, AB_PARAMS, ref.p);
  for (int step = 0; step < 6; step++) {
    set_grads(&r, step, step % 2 ? 0.05 : 2.0);
    read_all(&r, AB_GRADS, g);
    double raw = norm_of(g);
    reference_adamw(&ref, g, &r.config, step);
    ck_ok(ab_trainer_step(&r.trainer, NULL, &m));
    read_all(&r, AB_PARAMS, p);
    check_close(p, ref.p, tolerance, "parameter", step);
    ck_assert_double_eq_tol(m.raw_grad_norm, raw, tolerance * raw);
    ck_assert_double_eq_tol(m.grad_norm, norm_of(g), tolerance);
    ck_assert_double_eq_tol(m.param_norm, norm_of(ref.p), tolerance * norm_of(ref.p));
    ck_assert(m.learning_rate == ab_learning_rate(&r.config, step));
    ck_assert(m.loss == 1.5 + step && m.lm_loss == m.loss && m.z_loss == 0.25 && m.total_weights == 10);
    ck_assert_double_eq_tol(m.perplexity, exp(m.loss), 1e-6 * exp(m.loss));
  }
  rig_free(&r);
}
END_TEST

START_TEST(strided_leaves_give_the_same_bits) {
  static double p[2][ELEMENTS];
  struct ab_metrics m[2];
  for (int strided = 0; strided < 2; strided++) {
    struct rig r;
    rig_new(&r, tables[_i], strided);
    rig_start(&r);
    for (int step = 0; step < 3; step++) {
      set_grads(&r, step, 2.0);
      ck_ok(ab_trainer_step(&r.trainer, NULL, &m[strided]));
    }
    read_all(&r, AB_PARAMS, p[strided]);
    rig_free(&r);
  }
  ck_assert_mem_eq(p[0], p[1], sizeof p[0]);
  ck_assert_mem_eq(&m[0], &m[1], sizeof m[0]);
}
END_TEST

START_TEST(a_step_leaves_the_gradients_alone) {
  double before[ELEMENTS], after[ELEMENTS];
  struct rig r;
  struct ab_metrics m;
  rig_new(&r, &ab_kernels_f32, _i);
  rig_start(&r);
  set_grads(&r, 0, 3.0);
  read_all(&r, AB_GRADS, before);
  ck_ok(ab_trainer_step(&r.trainer, NULL, &m));
  ck_assert(m.raw_grad_norm > 1.0 && fabs(m.grad_norm - 1.0) < 1e-6);
  read_all(&r, AB_GRADS, after);
  ck_assert_mem_eq(before, after, sizeof before);
  rig_free(&r);
}
END_TEST

START_TEST(sgd_and_no_clipping) {
  double g[ELEMENTS], p[ELEMENTS], expected[ELEMENTS];
  struct rig r;
  struct ab_metrics m;
  rig_new(&r, &ab_kernels_f64, _i);
  r.config.opt_type = "sgd";
  r.config.gradient_clipping_threshold = 0.0;
  rig_start(&r);
  read_all(&r, AB_PARAMS, expected);
  set_grads(&r, 0, 5.0);
  read_all(&r, AB_GRADS, g);
  for (int i = 0; i < ELEMENTS; i++) expected[i] -= ab_learning_rate(&r.config, 0) * g[i];
  ck_ok(ab_trainer_step(&r.trainer, NULL, &m));
  read_all(&r, AB_PARAMS, p);
  check_close(p, expected, 1e-15, "parameter", 0);
  ck_assert(m.grad_norm == m.raw_grad_norm && m.grad_norm > 1.0);
  rig_free(&r);
}
END_TEST

START_TEST(measuring_does_not_train) {
  double before[ELEMENTS], after[ELEMENTS];
  struct rig r;
  struct ab_metrics m;
  rig_new(&r, &ab_kernels_f32, false);
  rig_start(&r);
  set_grads(&r, 0, 1.0);
  read_all(&r, AB_PARAMS, before);
  ck_ok(ab_trainer_measure(&r.trainer, NULL, &m));
  read_all(&r, AB_PARAMS, after);
  ck_assert_mem_eq(before, after, sizeof before);
  ck_assert(m.raw_grad_norm > 0 && m.param_norm == 0 && r.trainer.step == 0);
  rig_free(&r);
}
END_TEST

START_TEST(unknown_optimizers_are_named) {
  struct rig r;
  rig_new(&r, &ab_kernels_f32, false);
  r.config.opt_type = "muon";
  ck_fails(ab_trainer_init(&r.trainer, &r.config, &r.exec, &fake_ops, &r.model), AB_ECONFIG,
           "'muon', expected one of adamw, sgd");
  rig_free(&r);
}
END_TEST

START_TEST(wrong_inventories_are_named) {
  static const struct {
    const char *skip, *twice, *misshape, *sentence;
  } fault[] = {
      {"ff_2", NULL, NULL, "'layers/0/ff_2' is missing"},
      {"decoder/decoder_norm/scale", NULL, NULL, "'decoder/decoder_norm/scale' is missing"},
      {NULL, "ff_1", NULL, "'layers/2/ff_1' was reported twice"},
      {NULL, NULL, "token_embedder/embedding", "'token_embedder/embedding' has shape [6, 4], expected [5, 4]"}};
  struct rig r;
  struct ab_metrics m;
  rig_new(&r, &ab_kernels_f32, false);
  rig_start(&r);
  r.model.skip = fault[_i].skip, r.model.twice = fault[_i].twice, r.model.misshape = fault[_i].misshape;
  ck_fails(ab_trainer_step(&r.trainer, NULL, &m), AB_EMISMATCH, fault[_i].sentence);
  ck_assert_uint_eq(ab_arena_mark(&r.arena), 0);
  rig_free(&r);
}
END_TEST

/* What the probe gets: each leaf's gradient, then its parameter and moments, then the counts. */
struct seen {
  int gradients, parameters, moments, counts, order_faults;
};

static ab_status see(void *ctx, const struct ab_observation *o, const void *values) {
  struct seen *seen = ctx;
  (void)values;
  bool moment = strncmp(o->id.tensor, "mu/", 3) == 0 || strncmp(o->id.tensor, "nu/", 3) == 0;
  seen->gradients += o->id.phase == AB_BACKWARD;
  bool count = strncmp(o->id.tensor, "state/", 6) == 0;
  seen->counts += count && o->id.phase == AB_UPDATE && o->dtype == AB_I32 && o->summary.sum == 1;
  seen->parameters += o->id.phase == AB_UPDATE && !moment && !count;
  seen->moments += o->id.phase == AB_UPDATE && moment;
  seen->order_faults += o->id.phase == AB_BACKWARD && seen->parameters;
  ck_assert_int_eq(o->id.step, 0);
  ck_assert_int_eq(o->id.microbatch, -1);
  return AB_OK;
}

static ab_status no_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t n) {
  (void)ctx, (void)name, (void)id, (void)at, (void)n;
  return AB_OK;
}

START_TEST(every_leaf_is_observed) {
  static const struct ab_probe_ops ops = {see, no_count};
  struct seen seen = {0};
  struct rig r;
  struct ab_metrics m;
  rig_new(&r, &ab_kernels_f32, true);
  ck_ok(ab_probe_new(&r.exec.probe, &ops, &seen, AB_LEVEL_STATE, 1));
  rig_start(&r);
  set_grads(&r, 0, 1.0);
  ck_ok(ab_trainer_step(&r.trainer, NULL, &m));
  ck_assert_int_eq(seen.gradients, LEAVES);
  ck_assert_int_eq(seen.counts, 2);
  ck_assert_int_eq(seen.parameters, LEAVES);
  ck_assert_int_eq(seen.moments, 2 * LEAVES);
  ck_assert_int_eq(seen.order_faults, 0);
  ab_probe_free(r.exec.probe);
  rig_free(&r);
}
END_TEST

START_TEST(initial_weights_do_not_depend_on_the_layout) {
  static double p[3][ELEMENTS];
  for (int i = 0; i < 3; i++) {
    struct rig r;
    rig_new(&r, i == 2 ? &ab_kernels_f64 : &ab_kernels_f32, i == 1);
    rig_start(&r);
    read_all(&r, AB_PARAMS, p[i]);
    rig_free(&r);
  }
  ck_assert_mem_eq(p[0], p[1], sizeof p[0]);
  ck_assert_mem_eq(p[0], p[2], sizeof p[0]);
}
END_TEST

/* The plan of a step: made-up tensor memory, the same allocations. */
START_TEST(a_dry_step_takes_what_a_real_one_takes) {
  struct rig real, dry;
  struct ab_metrics m;
  rig_new(&real, &ab_kernels_f32, _i);
  rig_start(&real);
  set_grads(&real, 0, 5.0);
  ck_ok(ab_trainer_step(&real.trainer, NULL, &m));
  dry = (struct rig){.config = base_config(), .model = real.model};
  ab_arena_init_measuring(&dry.slab, "slab");
  ab_arena_init_measuring(&dry.arena, "arena");
  ck_ok(ab_arena_init(&dry.book, "book", 1 << 14));
  dry.exec =
      (struct ab_exec){.kernels = ab_kernels_dry(AB_F32), .slab = &dry.slab, .arena = &dry.arena, .book = &dry.book};
  for (int kind = 0; kind < 2; kind++) take_model(&dry, kind);
  rig_start(&dry);
  ck_ok(ab_trainer_step(&dry.trainer, NULL, &m));
  ck_assert_uint_eq(dry.slab.high, real.slab.high);
  ck_assert_uint_eq(dry.arena.high, real.arena.high);
  ck_assert_uint_eq(dry.book.high, real.book.high);
  ab_trainer_free(&dry.trainer);
  ab_arena_free(&dry.book);
  ab_arena_free(&dry.slab);
  ab_arena_free(&dry.arena);
  rig_free(&real);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("trainer");
  TCase *c = tcase_create("trainer");
  tcase_add_loop_test(c, adamw_steps_follow_the_definition, 0, 6);
  tcase_add_loop_test(c, strided_leaves_give_the_same_bits, 0, 3);
  tcase_add_loop_test(c, a_step_leaves_the_gradients_alone, 0, 2);
  tcase_add_loop_test(c, sgd_and_no_clipping, 0, 2);
  tcase_add_test(c, measuring_does_not_train);
  tcase_add_test(c, unknown_optimizers_are_named);
  tcase_add_loop_test(c, wrong_inventories_are_named, 0, 4);
  tcase_add_test(c, every_leaf_is_observed);
  tcase_add_loop_test(c, a_dry_step_takes_what_a_real_one_takes, 0, 2);
  tcase_add_test(c, initial_weights_do_not_depend_on_the_layout);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
