/* What must not change a bit - bubbles, remat, the form of the loop, threads, layouts - and what must fail by name. */
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "nnx_model.h"
#include "nnx.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"
#include "threads.h"

static char none[] = "none", full[] = "full", minimal[] = "minimal";

/* Stages, microbatches, repeats, layers per stage, delay; scanned stage; scan axis. */
static const struct shape {
  int s, m, r, k, d;
  bool scanned;
  int axis;
} shapes[] = {
    {2, 4, 1, 1, 1, false, 1}, {3, 6, 2, 1, 1, false, 1}, {4, 4, 2, 1, 1, false, 1}, {3, 9, 2, 1, 2, false, 1},
    {3, 6, 3, 1, 2, false, 1}, {2, 4, 2, 2, 1, false, 1}, {2, 4, 2, 3, 1, true, 1},  {3, 3, 1, 2, 1, true, 1},
    {2, 4, 2, 2, 1, true, 0},  {2, 6, 2, 2, 2, true, 2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct ab_config config_of(int i) {
  const struct shape *shape = &shapes[i];
  struct ab_config config = rig_config(shape->s, shape->m, shape->r, shape->k, shape->d);
  config.scan_layers_per_stage = shape->scanned;
  config.param_scan_axis = shape->axis;
  return config;
}

static const char *name_of(int i) {
  static char name[64];
  const struct shape *shape = &shapes[i];
  snprintf(name, sizeof name, "S%d M%d R%d K%d d%d %s axis %d", shape->s, shape->m, shape->r, shape->k, shape->d,
           shape->scanned ? "scanned" : "sequential", shape->axis);
  return name;
}

static struct rig_result run32(const struct ab_config *config) {
  return rig_run(&nnx_pipeline_ops, &ab_kernels_f32, config, NULL);
}

START_TEST(test_is_oracle) {
  struct ab_config config = config_of(_i);
  rig_check_same(name_of(_i), run32(&config), rig_run(&ab_oracle_pipeline_ops, &ab_kernels_f32, &config, NULL));
  double distance = rig_distance(rig_run(&nnx_pipeline_ops, &ab_kernels_f64, &config, NULL),
                                 rig_run(&ab_oracle_pipeline_ops, &ab_kernels_f64, &config, NULL));
  ck_assert_msg(distance <= 1e-13, "%s: %.3g", name_of(_i), distance);
}
END_TEST

/* How many bubble cells produced a layer output, and how many of these were not zero. */
struct bubbles {
  int seen, nonzero;
};

static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct bubbles *bubbles = ctx;
  (void)values;
  if (!o->at.bubble || o->id.phase != AB_FORWARD || strcmp(o->id.tensor, "layer_output") != 0) return AB_OK;
  bubbles->seen++;
  bubbles->nonzero += o->summary.l2 > 0;
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  (void)ctx, (void)name, (void)id, (void)at, (void)amount;
  return AB_OK;
}

static const struct ab_probe_ops looking = {on_observe, on_count};

/* Zeros pass through a norm as zeros, but what a drain cell gets is finished data: not zero when there are repeats. */
START_TEST(test_bubbles_change_nothing) {
  struct ab_config config = config_of(_i), computing = config;
  struct bubbles bubbles = {0};
  struct ab_probe *probe;
  computing.compute_bubbles = true;
  ck_ok(ab_probe_new(&probe, &looking, &bubbles, AB_LEVEL_DIGEST, (int)config.num_stages));
  rig_check_same(name_of(_i), run32(&config), rig_run(&nnx_pipeline_ops, &ab_kernels_f32, &computing, probe));
  int64_t cells = config.num_stages * ab_pipeline_depth(&config);
  ck_assert_int_eq(bubbles.seen, cells * config.num_layers_per_pipeline_stage);
  ck_assert_msg(config.num_pipeline_repeats == 1 || bubbles.nonzero > 0, "%s: every bubble is zero", name_of(_i));
  ab_probe_free(probe);
}
END_TEST

START_TEST(test_remat_keeps_bits) {
  static const struct {
    char *policy;
    bool iterations;
  } variants[] = {{none, true}, {minimal, true}, {full, false}};
  struct ab_config config = config_of(_i); /* full, with remat of the iterations */
  for (int i = 0; i < 3; i++) {
    struct ab_config other = config;
    other.remat_policy = variants[i].policy;
    other.set_remat_policy_on_pipeline_iterations = variants[i].iterations;
    rig_check_same(name_of(_i), run32(&config), run32(&other));
  }
}
END_TEST

START_TEST(test_unrolled_keeps_bits) {
  struct ab_config config = config_of(_i), other = config;
  other.scan_pipeline_iterations = false;
  rig_check_same(name_of(_i), run32(&config), run32(&other));
}
END_TEST

START_TEST(test_threads_keep_bits) {
  struct ab_config config = config_of(_i);
  use_threads(1);
  struct rig_result one = run32(&config);
  for (int threads = 2; threads <= 4; threads += 2) {
    struct rig_result again = one;
    use_threads(threads);
    ck_ok(ab_mem_new(&again.values, one.count, sizeof(float)));
    memcpy(again.values, one.values, one.count * sizeof(float));
    rig_check_same(name_of(_i), again, run32(&config));
  }
  ab_mem_free(one.values);
}
END_TEST

static void note_thread(void *ctx, int stage) {
  int *team = ctx;
  team[stage] = team_size();
}

START_TEST(test_stages_really_run_in_parallel) {
  int team[4] = {0};
  int asked = use_threads(4);
  nnx_vmap_stages(0, 4, false, note_thread, team);
  for (int s = 0; s < 4; s++) ck_assert_int_eq(team[s] > 1, asked > 1);
  nnx_vmap_stages(0, 4, true, note_thread, team);
  for (int s = 0; s < 4; s++) ck_assert_int_eq(team[s], 1);
}
END_TEST

START_TEST(test_step_repeats) {
  struct ab_config config = config_of(_i);
  rig_check_repeats(name_of(_i), &nnx_pipeline_ops, &config);
}
END_TEST

static struct ab_config deleting_config(int i) {
  struct ab_config config = rig_config(2, 4, 2, 2, 1);
  config.scan_layers_per_stage = i == 1;
  if (i == 2) config.pipeline_parallel_layers = config.num_decoder_layers = 4, config.num_layers_per_pipeline_stage = 1;
  return config;
}

static void delete_leaf(struct nnx_state *state, const char *path) {
  struct nnx_leaf *leaf = nnx_state_find(state, path);
  ck_assert_msg(leaf != NULL, "no variable '%s'", path);
  size_t after = (size_t)(state->leaf + state->count - leaf - 1);
  memmove(leaf, leaf + 1, after * sizeof *leaf);
  state->count--;
}

START_TEST(test_deleted_variable_fails_by_path) {
  static const char *const paths[] = {"layers/layers_1/mlp/wo/kernel", "layers/scanned_layers/mlp/wo/kernel",
                                      "layers/self_attention/query/kernel"};
  struct ab_config config = deleting_config(_i);
  struct rig rig;
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
  struct nnx_train_state *state = &rig.s.side.pipeline->state;
  delete_leaf(&state->params, paths[_i]);
  ck_fails(rig_forward(&rig), AB_ENOTFOUND, paths[_i]);
  ab_status_clear();
  rig_free(&rig);
}
END_TEST

START_TEST(test_deleted_cotangent_fails_by_path) {
  struct ab_config config = deleting_config(2);
  struct rig rig;
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
  ck_ok(rig_forward(&rig));
  delete_leaf(&rig.s.side.pipeline->state.grads, "layers/mlp/wi_0/kernel");
  ck_fails(rig_backward(&rig), AB_ENOTFOUND, "layers/mlp/wi_0/kernel");
  ab_status_clear();
  rig_free(&rig);
}
END_TEST

/* Logical axis names, stacked axes first. */
START_TEST(test_sharding_names) {
  struct ab_config config = deleting_config(2);
  struct rig rig;
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
  const struct nnx_leaf *query =
      nnx_state_find(&rig.s.side.pipeline->state.params, "layers/self_attention/query/kernel");
  static const char *const names[] = {"circular_repeats", "layers", "embed", "q_heads", "kv"};
  ck_assert_int_eq(query->variable.value.shape.rank, 5);
  for (int i = 0; i < 5; i++) ck_assert_str_eq(query->variable.sharding[i], names[i]);
  rig_free(&rig);
}
END_TEST

/* Keys are folded with every iteration, cumulatively, and written back: the next pass starts from advanced keys. */
START_TEST(test_rng_state_advances) {
  struct ab_config config = config_of(1);
  struct rig rig;
  int32_t before[64];
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
  const struct nnx_leaf *key = nnx_state_find(&rig.s.side.pipeline->state.rest, "layers/rngs/dropout/key");
  size_t words = ab_view_count(&key->variable.value);
  ck_assert_uint_eq(words, (size_t)(config.num_stages * config.num_pipeline_repeats * 2));
  memcpy(before, key->variable.value.data, words * sizeof *before);
  ck_ok(rig_forward(&rig));
  const int32_t *after = key->variable.value.data;
  for (size_t i = 0; i < words; i += 2) {
    ck_assert(before[i] != after[i] || before[i + 1] != after[i + 1]);
    for (size_t j = 0; j < i; j += 2) ck_assert(after[i] != after[j] || after[i + 1] != after[j + 1]);
  }
  rig_free(&rig);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_invariants");
  TCase *tc = tcase_create("invariants");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_is_oracle, 0, SHAPES);
  tcase_add_loop_test(tc, test_bubbles_change_nothing, 0, SHAPES);
  tcase_add_loop_test(tc, test_remat_keeps_bits, 0, SHAPES);
  tcase_add_loop_test(tc, test_unrolled_keeps_bits, 0, SHAPES);
  tcase_add_loop_test(tc, test_threads_keep_bits, 0, SHAPES);
  tcase_add_test(tc, test_stages_really_run_in_parallel);
  tcase_add_loop_test(tc, test_step_repeats, 0, SHAPES);
  tcase_add_loop_test(tc, test_deleted_variable_fails_by_path, 0, 3);
  tcase_add_test(tc, test_deleted_cotangent_fails_by_path);
  tcase_add_test(tc, test_sharding_names);
  tcase_add_test(tc, test_rng_state_advances);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
