/* The NNX decoder around the pipeline: against the oracle bit for bit, and in memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "nnx_model.h"
#include "nnx.h"
#include "observed.h"
#include "oracle.h"
#include "small.h"
#include "tap.h"

static char none[] = "none", simple_mlp[] = "simple_mlp", minimal[] = "minimal";

/* Where the layers are: in the pipeline, after it, or all outside. */
enum { SHAPES = 9 };
static struct ab_config shape(int i) {
  struct ab_config c = small_config();
  c.num_pipeline_microbatches = 6;
  c.scan_pipeline_iterations = true;
  if (i == 1) c.scan_layers = false;
  if (i == 2) c.pipelined = false;
  if (i == 3) c.pipelined = c.scan_layers = false;
  if (i == 4) c.num_pipeline_repeats = 1, c.num_decoder_layers = 7;
  if (i == 5) c.num_pipeline_repeats = 1, c.scan_layers_per_stage = true;
  if (i == 6) c.decoder_block = simple_mlp, c.num_decoder_layers = 4;
  if (i == 7) c.num_pipeline_repeats = 1, c.scan_layers = false, c.remat_policy = none;
  if (i == 8) c.num_decoder_layers = 7, c.param_scan_axis = 0, c.remat_policy = minimal;
  small_derive(&c);
  return c;
}

struct outcome {
  struct ab_loss_terms terms;
  void *grads;
  size_t count;
};

static struct outcome outcome_of(const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                                 const struct ab_config *config, struct ab_probe *probe) {
  struct outcome out;
  struct small_batch batch = small_batch_new(config);
  struct small_run run;
  small_run_new(&run, ops, kernels, config, &batch.batch, probe);
  out.terms = run.terms;
  out.count = small_gradients(&out.grads, &run, config);
  small_run_free(&run);
  small_batch_free(&batch);
  return out;
}

/* -0 as +0. */
static void check_same(struct outcome a, struct outcome b, int i) {
  ck_assert_msg(isfinite(a.terms.loss) && a.terms.loss == b.terms.loss, "shape %d: loss %.9g and %.9g", i,
                a.terms.loss, b.terms.loss);
  ck_assert(a.terms.z_loss == b.terms.z_loss && a.terms.total_weights == b.terms.total_weights);
  ck_assert_uint_eq(a.count, b.count);
  for (size_t j = 0; j < a.count; j++)
    ck_assert_msg(((float *)a.grads)[j] == ((float *)b.grads)[j], "shape %d: gradient element %zu of %zu", i, j,
                  a.count);
  ab_mem_free(a.grads);
  ab_mem_free(b.grads);
}

START_TEST(test_is_oracle) {
  struct ab_config config = shape(_i);
  check_same(outcome_of(&nnx_model_ops, &ab_kernels_f32, &config, NULL),
             outcome_of(&ab_oracle_model_ops, &ab_kernels_f32, &config, NULL), _i);
  check_same(outcome_of(&nnx_model_ops, &ab_kernels_f32_portable, &config, NULL),
             outcome_of(&ab_oracle_model_ops, &ab_kernels_f32_portable, &config, NULL), _i);
}
END_TEST

START_TEST(test_f64_near_oracle) {
  struct ab_config config = shape(_i);
  struct outcome nnx = outcome_of(&nnx_model_ops, &ab_kernels_f64, &config, NULL);
  struct outcome oracle = outcome_of(&ab_oracle_model_ops, &ab_kernels_f64, &config, NULL);
  double wrong = 0, all = 0;
  for (size_t j = 0; j < nnx.count; j++) {
    double x = ((double *)nnx.grads)[j], y = ((double *)oracle.grads)[j];
    wrong += (x - y) * (x - y);
    all += y * y;
  }
  ck_assert_msg(wrong <= 1e-26 * all, "shape %d: %.3g", _i, sqrt(wrong / all));
  ab_mem_free(nnx.grads);
  ab_mem_free(oracle.grads);
}
END_TEST

struct memory {
  struct ab_arena slab, arena, book;
  struct ab_mesh mesh;
  struct ab_exec exec;
};

static void run_step(struct memory *memory, const struct ab_kernels *kernels, const struct ab_config *config,
                     const struct ab_batch *batch) {
  struct ab_model *model;
  struct ab_loss_terms terms;
  ck_ok(ab_mesh_init_local(&memory->mesh, kernels, config->pipelined ? (int)config->num_stages : 1));
  memory->exec = (struct ab_exec){.kernels = kernels,
                                  .slab = &memory->slab,
                                  .arena = &memory->arena,
                                  .book = &memory->book,
                                  .mesh = &memory->mesh};
  ck_ok(nnx_model_ops.create(&model, config, &memory->exec));
  ck_ok(nnx_model_ops.step(model, batch, &terms));
  ab_mesh_free(&memory->mesh);
}

static void free_memory(struct memory *memory) {
  ab_arena_free(&memory->slab);
  ab_arena_free(&memory->arena);
  ab_arena_free(&memory->book);
}

/* Slab, arena and book of the dry run are exactly what the real one takes; parameters are zero. */
START_TEST(test_plan_is_exact) {
  struct ab_config config = shape(_i);
  struct small_batch batch = small_batch_new(&config);
  struct memory dry, real;
  ab_arena_init_measuring(&dry.slab, "slab");
  ab_arena_init_measuring(&dry.arena, "arena");
  ck_ok(ab_arena_init(&dry.book, "book", 1 << 21));
  run_step(&dry, ab_kernels_dry(AB_F32), &config, &batch.batch);
  ck_ok(ab_arena_init(&real.slab, "slab", dry.slab.high));
  ck_ok(ab_arena_init(&real.arena, "arena", dry.arena.high));
  ck_ok(ab_arena_init(&real.book, "book", dry.book.high));
  run_step(&real, &ab_kernels_f32, &config, &batch.batch);
  ck_assert_uint_eq(real.slab.high, real.slab.size);
  ck_assert_uint_eq(real.arena.high, real.arena.size);
  ck_assert_uint_eq(real.book.high, real.book.size);
  free_memory(&dry);
  free_memory(&real);
  small_batch_free(&batch);
}
END_TEST

START_TEST(test_step_allocates_nothing) {
  struct ab_config config = shape(_i);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &nnx_model_ops, &ab_kernels_f32, &config, &batch.batch, NULL);
  size_t calls = ab_mem_stats().calls, arena = run.s.arena.used, book = run.s.book.used;
  double loss = run.terms.loss;
  ck_ok(nnx_model_ops.step(run.s.side.model, &batch.batch, &run.terms));
  ck_assert(run.terms.loss == loss);
  ck_assert_uint_eq(ab_mem_stats().calls, calls);
  ck_assert_uint_eq(run.s.arena.used, arena);
  ck_assert_uint_eq(run.s.book.used, book);
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

START_TEST(test_deleted_variable_fails_by_path) {
  static const char *const paths[] = {"decoder/pipeline_module/layers/self_attention/query/kernel",
                                      "decoder/layers_outside_pipeline/mlp/wo/kernel",
                                      "token_embedder/embedding",
                                      "decoder/decoder_norm/scale",
                                      "decoder/logits_dense/kernel"};
  struct ab_config config = shape(0);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &nnx_model_ops, &ab_kernels_f32, &config, &batch.batch, NULL);
  struct nnx_state *params = &run.s.side.model->state.params;
  struct nnx_leaf *leaf = nnx_state_find(params, paths[_i]);
  ck_assert_msg(leaf != NULL, "no variable '%s'", paths[_i]);
  memmove(leaf, leaf + 1, (size_t)(params->leaf + params->count - leaf - 1) * sizeof *leaf);
  params->count--;
  ck_fails(nnx_model_ops.step(run.s.side.model, &batch.batch, &run.terms), AB_ENOTFOUND, paths[_i]);
  ab_status_clear();
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

/* Paths and shapes of the parameter tree, as in MaxText's NNX models. */
START_TEST(test_paths) {
  static const struct {
    int shape;
    const char *path;
    int64_t dims[5];
  } rows[] = {
      {0, "decoder/pipeline_module/layers/self_attention/out/kernel", {2, 2, 4, 6, 10}},
      {0, "decoder/layers_outside_pipeline/mlp/wi_0/kernel", {10, 1, 14}},
      {1, "decoder/layers_outside_pipeline_0/mlp/wi_0/kernel", {10, 14}},
      {2, "decoder/layers/pre_self_attention_layer_norm/scale", {10, 5}},
      {3, "decoder/layers_4/mlp/wo/kernel", {14, 10}},
      {4, "decoder/pipeline_module/layers/layers_1/mlp/wi_1/kernel", {2, 10, 14}},
      {5, "decoder/pipeline_module/layers/scanned_layers/mlp/wi_1/kernel", {2, 10, 2, 14}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_config config = shape(rows[i].shape);
    struct reference_side side;
    reference_model_new(&side, &nnx_model_ops, &ab_kernels_f32, &config, NULL);
    const struct nnx_leaf *leaf = nnx_state_find(&side.side.model->state.params, rows[i].path);
    ck_assert_msg(leaf != NULL, "shape %d has no '%s'", rows[i].shape, rows[i].path);
    for (int a = 0; a < leaf->variable.value.shape.rank; a++)
      ck_assert_msg(leaf->variable.value.shape.dim[a] == rows[i].dims[a], "%s: axis %d", rows[i].path, a);
    reference_side_free(&side);
  }
}
END_TEST

START_TEST(test_refuses_other_batch) {
  struct ab_config config = shape(0);
  struct small_batch batch = small_batch_new(&config);
  struct small_run run;
  small_run_new(&run, &nnx_model_ops, &ab_kernels_f32, &config, &batch.batch, NULL);
  struct ab_batch cut = batch.batch;
  cut.rows--;
  ck_fails(nnx_model_ops.step(run.s.side.model, &cut, &run.terms), AB_ESHAPE, "5 rows");
  ab_status_clear();
  small_run_free(&run);
  small_batch_free(&batch);
}
END_TEST

/* Digests of everything that both report, by identity: order of arrival differs, what is reported must not. */
enum { MAX_SEEN = 20000 };
struct seen {
  struct ab_observation *rows;
  size_t count;
};

static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct seen *seen = ctx;
  (void)values;
  ck_assert_uint_lt(seen->count, MAX_SEEN);
  if (!o->at.bubble) seen->rows[seen->count++] = *o;
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  (void)ctx, (void)name, (void)id, (void)at, (void)amount;
  return AB_OK;
}

static const struct ab_probe_ops collecting = {on_observe, on_count};

static int by_identity(const void *a, const void *b) {
  const struct ab_identity *x = &((const struct ab_observation *)a)->id, *y = &((const struct ab_observation *)b)->id;
  if (x->layer != y->layer) return x->layer - y->layer;
  if (x->microbatch != y->microbatch) return x->microbatch - y->microbatch;
  if (x->phase != y->phase) return (int)x->phase - (int)y->phase;
  return strcmp(x->tensor, y->tensor);
}

static struct seen observations_of(const struct ab_model_ops *ops, const struct ab_config *config) {
  struct seen seen = {0};
  struct ab_probe *probe;
  ck_ok(ab_mem_new(&seen.rows, MAX_SEEN, sizeof *seen.rows));
  ck_ok(ab_probe_new(&probe, &collecting, &seen, AB_LEVEL_FULL, config->pipelined ? (int)config->num_stages : 1));
  ab_mem_free(outcome_of(ops, &ab_kernels_f32, config, probe).grads);
  ab_probe_free(probe);
  qsort(seen.rows, seen.count, sizeof *seen.rows, by_identity);
  return seen;
}

START_TEST(test_observes_what_the_oracle_does) {
  struct ab_config config = shape(_i);
  struct seen nnx = observations_of(&nnx_model_ops, &config), oracle = observations_of(&ab_oracle_model_ops, &config);
  ck_assert_msg(nnx.count == oracle.count, "shape %d: %zu observations, the oracle has %zu", _i, nnx.count,
                oracle.count);
  for (size_t i = 0; i < nnx.count; i++) {
    const struct ab_observation *a = &nnx.rows[i], *b = &oracle.rows[i];
    bool same = by_identity(a, b) == 0 && memcmp(a->summary.digest, b->summary.digest, sizeof a->summary.digest) == 0;
    ck_assert_msg(same, "shape %d: %s of layer %d, microbatch %d, %s (the oracle: %s)", _i, a->id.tensor, a->id.layer,
                  a->id.microbatch, ab_phase_name(a->id.phase), b->id.tensor);
    ck_assert_msg(i == 0 || by_identity(a - 1, a) != 0, "shape %d: %s is reported twice", _i, a->id.tensor);
  }
  ab_mem_free(nnx.rows);
  ab_mem_free(oracle.rows);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_model");
  TCase *tc = tcase_create("model");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_is_oracle, 0, SHAPES);
  tcase_add_loop_test(tc, test_f64_near_oracle, 0, SHAPES);
  tcase_add_loop_test(tc, test_plan_is_exact, 0, SHAPES);
  tcase_add_loop_test(tc, test_step_allocates_nothing, 0, SHAPES);
  tcase_add_loop_test(tc, test_deleted_variable_fails_by_path, 0, 5);
  tcase_add_test(tc, test_paths);
  tcase_add_test(tc, test_refuses_other_batch);
  tcase_add_loop_test(tc, test_observes_what_the_oracle_does, 0, SHAPES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
