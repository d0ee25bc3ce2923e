/* CircularPipeline beside Pipeline: what is the same bit for bit, what is added in another order and in which, which
 * weights come through the gather door when, what is saved and recomputed, and upstream's defect B1. Equality with the
 * oracle and with MaxText's numbers is tested where Pipeline's is.
 */
#include <math.h>
#include <string.h>

#include "capture.h"
#include "linen.h"
#include "mem.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"
#include "upstream.h"

static const struct rig_shape shapes[] = {
    {.stages = 2, .microbatches = 2, .repeats = 2, .layers_per_stage = 1, .circular = true},
    {.stages = 2, .microbatches = 8, .repeats = 4, .layers_per_stage = 1, .circular = true, .block = "simple_mlp"},
    {.stages = 3, .microbatches = 6, .repeats = 3, .layers_per_stage = 1, .circular = true},
    {.stages = 4, .microbatches = 4, .repeats = 2, .layers_per_stage = 1, .circular = true},
    {.stages = 4, .microbatches = 8, .repeats = 2, .layers_per_stage = 1, .circular = true},
    {.stages = 5, .microbatches = 5, .repeats = 3, .layers_per_stage = 1, .circular = true, .block = "simple"},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct ab_config config_of(const struct rig_shape *shape, bool faithful) {
  struct ab_config config = rig_config(shape);
  if (faithful) config.upstream_faithful = 1u << AB_DEFECT_B1;
  return config;
}

static struct ab_config per_iteration(struct ab_config config) {
  config.pipeline_fsdp_ag_per_repeat = false;
  return config;
}

static struct rig_run run(const struct ab_config *config) {
  return rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, config, NULL);
}

static void same_floats(const struct ab_config *config, const char *what, const void *a, const void *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double x = (double)((const float *)a)[i], y = (double)((const float *)b)[i];
    ck_assert_msg(isfinite(x) && x == y, "%s: %s[%zu] is %a, expected %a", rig_name(config), what, i, x, y);
  }
}

/* Gradients stand layer by layer, layer r S + s. */
static int stage_of(const struct rig_run *r, const struct ab_config *config, size_t i) {
  size_t layer = r->gradients / (size_t)config->pipeline_parallel_layers;
  return (int)(i / layer % (size_t)config->num_stages);
}

/* |a - b| and |b|, of one stage. */
static double stage_distance(const struct rig_run *a, const struct rig_run *b, const struct ab_config *config,
                             int stage, int *differing) {
  double apart = 0, all = 0;
  for (size_t i = 0; i < a->gradients; i++) {
    double x = (double)((float *)a->grads)[i], y = (double)((float *)b->grads)[i];
    if (stage_of(a, config, i) != stage) continue;
    *differing += x != y;
    apart += (x - y) * (x - y);
    all += y * y;
  }
  return sqrt(apart / all);
}

/* The table of tiers. */
START_TEST(activations_are_those_of_pipeline_and_gradients_but_for_late_terms) {
  struct ab_config circular = config_of(&shapes[_i], false), plain = per_iteration(circular);
  struct rig_run a = run(&circular), b = run(&plain);
  int late = 0;
  same_floats(&circular, "outputs", a.outputs, b.outputs, a.elements);
  same_floats(&circular, "d_inputs", a.d_inputs, b.d_inputs, a.elements);
  for (int s = 0; s < circular.num_stages; s++) {
    int differing = 0;
    double distance = stage_distance(&a, &b, &circular, s, &differing);
    ck_assert_msg(s > 0 || differing == 0, "%s: %d gradients of stage 0 differ", rig_name(&circular), differing);
    ck_assert_msg(distance <= 3e-7, "%s: stage %d is %.3g away", rig_name(&circular), s, distance);
    late += differing;
  }
  ck_assert_msg(late > 0 || circular.num_pipeline_microbatches == 2, "%s: the order does not show",
                rig_name(&circular));
  rig_run_free(&a);
  rig_run_free(&b);
}
END_TEST

enum { MAX_M = 8 };

/* Gradient i from microbatches last .. first, added in this order onto zero. */
static float chain(const struct rig_run *one, int last, int first, size_t i) {
  float sum = 0;
  for (int m = last; m >= first; m--) sum += ((const float *)one[m].grads)[i];
  return sum;
}

/* Of (repeat, stage) the last `stage` microbatches run in the next window: their sum is carried to this one and added
 * to that of the others. Single terms come from Pipeline, the cotangent being zero but for one microbatch. */
START_TEST(gradients_are_two_chains_added_last) {
  struct ab_config circular = config_of(&shapes[_i], false), plain = per_iteration(circular);
  struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
  struct rig_side side;
  struct rig_run one[MAX_M], all = run(&circular);
  int M = (int)circular.num_pipeline_microbatches;
  rig_new(&side, &ops, &ab_kernels_f32, &plain, NULL);
  for (int m = 0; m < M; m++) one[m] = rig_pass_one(&side, &plain, m);
  for (size_t i = 0; i < all.gradients; i++) {
    int s = stage_of(&all, &circular, i);
    float want = chain(one, M - 1 - s, 0, i) + chain(one, M - 1, M - s, i), got = ((const float *)all.grads)[i];
    ck_assert_msg(got == want, "%s: stage %d, element %zu is %a, the chains give %a", rig_name(&circular), s, i,
                  (double)got, (double)want);
  }
  for (int m = 0; m < M; m++) rig_run_free(&one[m]);
  rig_run_free(&all);
  rig_free(&side);
}
END_TEST

/* Every loop buffer after every iteration, computed bubbles included. */
START_TEST(the_loop_state_is_that_of_pipeline) {
  struct ab_config circular = config_of(&shapes[_i], false), plain;
  struct capture a, b;
  circular.compute_bubbles = true;
  plain = per_iteration(circular);
  capture_new(&a, AB_LEVEL_FULL, shapes[_i].stages, "loop/");
  capture_new(&b, AB_LEVEL_FULL, shapes[_i].stages, "loop/");
  struct rig_run x = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &circular, a.probe);
  struct rig_run y = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &plain, b.probe);
  int compared = 0;
  for (size_t i = 0; i < a.tensors; i++) {
    const struct capture_tensor *got = &a.tensor[i];
    if (!got->values) continue;
    const struct capture_tensor *want = capture_find(&b, got->id.tensor, got->at.iteration);
    ck_assert_uint_eq(got->count, want->count);
    same_floats(&circular, got->id.tensor, got->values, want->values, got->count);
    compared++;
  }
  ck_assert_int_ge(compared, 4 * (int)ab_total_iterations(&circular));
  rig_run_free(&x);
  rig_run_free(&y);
  capture_free(&a);
  capture_free(&b);
}
END_TEST

/* The gather door, noting who fetched what. */
enum { MAX_S = 5, MAX_FETCHES = 256 };
static struct {
  const struct ab_mesh_ops *behind;
  int count[MAX_S], repeat[MAX_S][MAX_FETCHES];
} door;

static const void *noting_gather(struct ab_mesh *mesh, const void *src, size_t count, int repeat, int stage) {
  ck_assert_int_lt(door.count[stage], MAX_FETCHES);
  door.repeat[stage][door.count[stage]++] = repeat;
  return door.behind->gather(mesh, src, count, repeat, stage);
}

static void ring_behind(struct ab_mesh *mesh, void *dst, const void *src, size_t count, int shift) {
  door.behind->ring(mesh, dst, src, count, shift);
}

static const struct ab_mesh_ops noting_ops = {.ring = ring_behind, .gather = noting_gather};

static void note_fetches(struct rig_side *side) {
  memset(door.count, 0, sizeof door.count);
  door.behind = side->mesh.ops;
  side->mesh.ops = &noting_ops;
}

/* What is fetched at the start of window k. pipelines.md 3.3. */
static int expected_repeat(const struct ab_config *config, int k, int s) {
  int M = (int)config->num_pipeline_microbatches, last = (int)config->num_pipeline_repeats - 1;
  int first = k * M + 1 - s, repeat = ab_faithful(config, AB_DEFECT_B1) ? (first > 0 ? first / M : 0) : k;
  return repeat < last ? repeat : last;
}

static void check_fetches(const struct ab_config *config, int leaves) {
  int windows = (int)config->num_pipeline_repeats + 1;
  for (int s = 0; s < config->num_stages; s++) {
    ck_assert_msg(door.count[s] == 2 * windows * leaves, "%s: %d fetches of stage %d", rig_name(config), door.count[s],
                  s);
    for (int i = 0; i < door.count[s]; i++) {
      int window = i / leaves < windows ? i / leaves : 2 * windows - 1 - i / leaves;
      ck_assert_msg(door.repeat[s][i] == expected_repeat(config, window, s), "%s: stage %d, window %d fetches %d",
                    rig_name(config), s, window, door.repeat[s][i]);
    }
  }
}

static int leaf_count(const struct ab_config *config) {
  return ab_block_find(config->decoder_block)->param_count;
}

/* Forward windows 0 .. R, backward R .. 0, whatever is switched. */
START_TEST(every_window_fetches_one_repeat_forward_and_again_backward) {
  for (int mode = 0; mode < 8; mode++) {
    struct ab_config config = config_of(&shapes[_i], mode & 1);
    struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
    struct rig_side side;
    config.compute_bubbles = mode & 2;
    config.set_remat_policy_on_pipeline_iterations = !(mode & 4);
    rig_new(&side, &ops, &ab_kernels_f32, &config, NULL);
    note_fetches(&side);
    struct rig_run pass = rig_pass(&side, &config);
    check_fetches(&config, leaf_count(&config));
    rig_run_free(&pass);
    rig_free(&side);
  }
}
END_TEST

static bool zero_layer(const struct rig_run *r, const struct ab_config *config, int layer) {
  size_t n = r->gradients / (size_t)config->pipeline_parallel_layers;
  for (size_t i = (size_t)layer * n; i < (size_t)(layer + 1) * n; i++)
    if (((const float *)r->grads)[i] != 0) return false;
  return true;
}

static bool same_outputs(const struct rig_run *a, const struct rig_run *b) {
  return !memcmp(a->outputs, b->outputs, a->elements * a->element);
}

/* B1: from the third stage on, repeat r runs with the weights of repeat r - 1. Engine and oracle agree on it; two
 * stages do not see it. */
START_TEST(the_real_prefetch_index_is_wrong_from_the_third_stage_on) {
  struct ab_config meant = config_of(&shapes[_i], false), faithful = config_of(&shapes[_i], true);
  struct rig_run a = run(&meant), b = run(&faithful);
  struct rig_run oracle = rig_run_pipeline(&ab_oracle_pipeline_ops, &ab_kernels_f32, &faithful, NULL);
  int S = (int)meant.num_stages, last = (int)meant.num_pipeline_repeats - 1;
  rig_same_bits(&b, &oracle, &faithful, "faithful");
  ck_assert_int_eq(same_outputs(&a, &b), S == 2);
  if (S == 2) rig_same_bits(&a, &b, &meant, "two stages");
  for (int layer = 0; layer < meant.pipeline_parallel_layers; layer++) {
    bool unread = layer / S == last && layer % S >= 2;
    ck_assert_msg(zero_layer(&b, &faithful, layer) == unread, "%s: layer %d", rig_name(&faithful), layer);
    ck_assert(!zero_layer(&a, &meant, layer));
  }
  rig_run_free(&a);
  rig_run_free(&b);
  rig_run_free(&oracle);
}
END_TEST

/* One element of the last repeat's weights at stage 2, which with the defect no real cell reads. */
enum { UNREAD_LAYER = 4 + 2 };
static ab_status change_unread(void *ctx, int layer, const char *name, const struct ab_view *view) {
  (void)ctx, (void)name;
  if (layer == UNREAD_LAYER) *(float *)view->data += 1;
  return AB_OK;
}

static struct rig_run run_changed(const struct ab_config *config, struct capture *capture, bool change) {
  struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
  struct rig_side side;
  capture_new(capture, AB_LEVEL_FULL, (int)config->num_stages, "loop/stages_out");
  rig_new(&side, &ops, &ab_kernels_f32, config, capture->probe);
  if (change) ck_ok(ops.pipeline_ops->leaves(side.side.pipeline, AB_PARAMS, change_unread, NULL));
  struct rig_run pass = rig_pass(&side, config);
  rig_free(&side);
  return pass;
}

/* What the drain gathers is read by bubbles that work on repeat R, as stage 2 does in the last iteration. */
START_TEST(bubbles_of_the_drain_read_what_it_gathered) {
  struct ab_config config = config_of(&RIG(4, 8, 2, 1, .circular = true), true);
  struct capture before, after;
  config.compute_bubbles = true;
  struct rig_run a = run_changed(&config, &before, false), b = run_changed(&config, &after, true);
  rig_same_bits(&b, &a, &config, "unread weights changed");
  size_t part = a.elements / (size_t)config.num_pipeline_microbatches * sizeof(float);
  for (int t = 0; t < (int)ab_total_iterations(&config); t++)
    for (size_t s = 0; s < 4; s++) {
      const struct capture_tensor *x = capture_find(&before, "loop/stages_out", t);
      const struct capture_tensor *y = capture_find(&after, "loop/stages_out", t);
      bool same = !memcmp((char *)x->values + s * part, (char *)y->values + s * part, part);
      ck_assert_msg(same == !(t == 18 && s == 2), "iteration %d, stage %zu", t, s);
    }
  rig_run_free(&a);
  rig_run_free(&b);
  capture_free(&before);
  capture_free(&after);
}
END_TEST

static size_t aligned(size_t bytes) { return (bytes + AB_ALIGN - 1) / AB_ALIGN * AB_ALIGN; }

/* Bytes that forward leaves for backward in exec->arena. */
static size_t saved_bytes(const struct ab_config *config) {
  struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
  struct rig_side side;
  struct ab_batch batch = rig_batch(config);
  rig_new(&side, &ops, &ab_kernels_f32, config, NULL);
  size_t n = (size_t)(config->micro_batch_size_to_train_on * config->max_target_length * config->emb_dim);
  float *inputs = rig_numbers(n, 11, &ab_kernels_f32), *outputs = rig_numbers(n, 1, &ab_kernels_f32);
  ck_ok(ops.pipeline_ops->forward(side.side.pipeline, outputs, inputs, batch.inputs_position,
                                  batch.inputs_segmentation));
  size_t bytes = side.arena.used;
  ab_mem_free(inputs);
  ab_mem_free(outputs);
  rig_free(&side);
  return bytes;
}

/* T A per stage as in Pipeline, since every step is rematerialised, and beside it w_curr of windows 1 .. R. */
START_TEST(saved_are_the_stage_inputs_and_the_carried_weights) {
  struct ab_config config = config_of(&shapes[_i], false), plain = per_iteration(config);
  struct rig_run pass = run(&config);
  size_t S = (size_t)config.num_stages, R = (size_t)config.num_pipeline_repeats;
  size_t A = pass.elements / (size_t)config.num_pipeline_microbatches * sizeof(float);
  size_t inputs = aligned((size_t)ab_total_iterations(&config) * S * aligned(A));
  size_t carried = pass.gradients / R * sizeof(float);
  ck_assert_uint_eq(saved_bytes(&plain), inputs);
  ck_assert_uint_eq(saved_bytes(&config), inputs + R * aligned(carried));
  config.scan_pipeline_repeats = true;
  ck_assert_uint_eq(saved_bytes(&config), inputs + aligned(R * carried));
  rig_run_free(&pass);
}
END_TEST

/* The wrapper that set_remat_policy_on_pipeline_iterations controls is built and not used. */
START_TEST(the_iteration_flag_changes_nothing) {
  struct ab_config config = config_of(&shapes[_i], false), off = config;
  off.set_remat_policy_on_pipeline_iterations = false;
  ck_assert_uint_eq(saved_bytes(&off), saved_bytes(&config));
  struct rig_run a = run(&config), b = run(&off);
  rig_same_bits(&a, &b, &config, "flag off");
  rig_run_free(&a);
  rig_run_free(&b);
}
END_TEST

/* Each cell's forward again once in backward, with the same values, under either flag. */
START_TEST(recomputed_activations_equal_the_forward_ones) {
  struct ab_config config = config_of(&RIG(3, 6, 2, 1, .circular = true), _i & 1);
  struct capture capture;
  config.set_remat_policy_on_pipeline_iterations = !(_i & 2);
  capture_new(&capture, AB_LEVEL_DIGEST, 3, NULL);
  struct rig_run pass = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &config, capture.probe);
  ck_assert_int_ge(capture_check_recomputed(&capture), 6 * 6 * 8);
  ck_assert_int_eq(capture_total(&capture, "recompute/attention"), 6 * 6);
  rig_run_free(&pass);
  capture_free(&capture);
}
END_TEST

START_TEST(other_schedules_are_refused) {
  struct rig_shape wrong[] = {RIG(2, 4, 1, 1, .circular = true), RIG(2, 4, 2, 2, .circular = true),
                              RIG(2, 4, 2, 1, .circular = true, .delay = true)};
  struct ab_config config = rig_config(&wrong[_i]);
  struct ab_arena arena;
  struct ab_exec exec = {.kernels = &ab_kernels_f32, .slab = &arena, .arena = &arena, .book = &arena};
  struct ab_pipeline *pipeline;
  ck_ok(ab_arena_init(&arena, "all", 1 << 16));
  ck_fails(linen_pipeline_ops.create(&pipeline, &config, &exec), AB_ECONFIG, "pipeline_fsdp_ag_per_repeat");
  ab_arena_free(&arena);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_circular");
  TCase *tc = tcase_create("circular");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, activations_are_those_of_pipeline_and_gradients_but_for_late_terms, 0, SHAPES);
  tcase_add_loop_test(tc, gradients_are_two_chains_added_last, 0, SHAPES);
  tcase_add_loop_test(tc, the_loop_state_is_that_of_pipeline, 0, SHAPES);
  tcase_add_loop_test(tc, every_window_fetches_one_repeat_forward_and_again_backward, 0, SHAPES);
  tcase_add_loop_test(tc, the_real_prefetch_index_is_wrong_from_the_third_stage_on, 0, SHAPES);
  tcase_add_test(tc, bubbles_of_the_drain_read_what_it_gathered);
  tcase_add_loop_test(tc, saved_are_the_stage_inputs_and_the_carried_weights, 0, SHAPES);
  tcase_add_loop_test(tc, the_iteration_flag_changes_nothing, 0, SHAPES);
  tcase_add_loop_test(tc, recomputed_activations_equal_the_forward_ones, 0, 4);
  tcase_add_loop_test(tc, other_schedules_are_refused, 0, 3);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
