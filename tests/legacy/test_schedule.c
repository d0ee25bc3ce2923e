/* The schedule, from what the engine reports while it runs: which cell ran when, which were bubbles, where inputs came
 * from and where outputs went. pipelines.md 1.
 */
#include <string.h>

#include "capture.h"
#include "linen.h"
#include "mem.h"
#include "rig.h"
#include "tap.h"

enum { MAX_R = 4, MAX_S = 5, MAX_M = 10 };

static int counter_is(const struct capture_counter *c, const char *name) { return !strcmp(c->name, name); }

/* Each real cell once, in iteration r M + m + d s; all other cells of the T x S grid are bubbles. */
static void check_cells(const struct capture *capture, const struct ab_config *config) {
  int seen[MAX_R][MAX_S][MAX_M] = {{{0}}};
  int S = (int)config->num_stages, M = (int)config->num_pipeline_microbatches, R = (int)config->num_pipeline_repeats;
  int d = (int)ab_forwarding_delay(config), T = M * R + d * (S - 1);
  for (size_t i = 0; i < capture->counters; i++) {
    const struct capture_counter *c = &capture->counter[i];
    if (!counter_is(c, "execute")) continue;
    int r = c->at.repeat, s = c->at.stage, m = c->id.microbatch;
    ck_assert_msg(!c->at.bubble && c->amount == 1, "%s", rig_name(config));
    ck_assert_msg(c->at.iteration == r * M + m + d * s, "%s: r%d s%d m%d in iteration %d", rig_name(config), r, s, m,
                  c->at.iteration);
    ck_assert_int_eq(c->id.layer, r * S + s);
    ck_assert_msg(seen[r][s][m]++ == 0, "%s: r%d s%d m%d twice", rig_name(config), r, s, m);
  }
  for (int r = 0; r < R; r++)
    for (int s = 0; s < S; s++)
      for (int m = 0; m < M; m++) ck_assert_msg(seen[r][s][m] == 1, "%s: r%d s%d m%d", rig_name(config), r, s, m);
  ck_assert_int_eq(capture_total(capture, "bubble"), S * T - S * M * R);
}

/* Fetches of all stages in one pass: for every cell that runs, forward and, when the iteration is rematerialised, again
 * in backward; circular: at the start of every window, drain included, and always again in backward. */
static int64_t expected_gathers(const struct ab_config *config) {
  int64_t S = config->num_stages, R = config->num_pipeline_repeats, M = config->num_pipeline_microbatches;
  if (config->pipeline_fsdp_ag_per_repeat) return 2 * S * (R + 1);
  int64_t cells = S * (config->compute_bubbles ? ab_total_iterations(config) : M * R);
  return (config->set_remat_policy_on_pipeline_iterations ? 2 : 1) * cells;
}

/* Rings of one pass: forward and backward each send shift, state_io and, with circular storage, its mover. */
static void check_ledger(const struct rig_side *side, const struct ab_config *config) {
  int64_t S = config->num_stages, T = ab_total_iterations(config), rings = ab_use_circ_storage(config) ? 3 : 2;
  struct ab_ledger ledger = ab_mesh_ledger(&side->mesh);
  ck_assert_int_eq(ledger.ring_messages, 2 * T * S * rings);
  ck_assert_int_eq(ledger.gathers, expected_gathers(config));
}

static void run_and_check(const struct rig_shape *shape, bool bubbles, bool remat) {
  struct ab_config config = rig_config(shape);
  struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
  struct rig_side side;
  struct capture capture;
  config.compute_bubbles = bubbles;
  config.set_remat_policy_on_pipeline_iterations = remat;
  capture_new(&capture, AB_LEVEL_OFF, shape->stages, NULL);
  rig_new(&side, &ops, &ab_kernels_f32, &config, capture.probe);
  ab_mesh_reset(&side.mesh);
  struct rig_run run = rig_pass(&side, &config);
  check_cells(&capture, &config);
  check_ledger(&side, &config);
  rig_run_free(&run);
  rig_free(&side);
  capture_free(&capture);
}

START_TEST(every_real_cell_runs_once_in_its_iteration) {
  for (int m = _i; m <= MAX_M; m += _i)
    for (int r = 1; r <= MAX_R; r++)
      for (int kind = 0; kind < 3; kind++) {
        struct rig_shape shape = {_i, m, r, 1, .delay = kind == 1, .circular = kind == 2, .block = "simple"};
        if (m < (shape.delay ? 2 : 1) * _i || (shape.circular && r == 1)) continue;
        run_and_check(&shape, false, true);
        run_and_check(&shape, true, false);
      }
}
END_TEST

/* A row of a table of pipelines.md 1.5: microbatch and repeat of both stages; -1: bubble; the column written. */
struct row {
  int microbatch[2], repeat[2], column;
};

static void check_rows(const struct rig_shape *shape, const struct row *rows, int count) {
  struct ab_config config = rig_config(shape);
  struct capture capture;
  int found = 0;
  config.compute_bubbles = true;
  capture_new(&capture, AB_LEVEL_OFF, 2, NULL);
  struct rig_run run = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &config, capture.probe);
  for (size_t i = 0; i < capture.counters; i++) {
    const struct capture_counter *c = &capture.counter[i];
    if (!counter_is(c, "execute") && !counter_is(c, "bubble")) continue;
    const struct row *row = &rows[c->at.iteration];
    found++;
    ck_assert_int_eq(c->id.microbatch, row->microbatch[c->at.stage]);
    ck_assert_int_eq(c->at.repeat, row->repeat[c->at.stage]);
    ck_assert_int_eq(c->at.bubble, row->microbatch[c->at.stage] < 0);
  }
  ck_assert_int_eq(found, 2 * count);
  rig_run_free(&run);
  capture_free(&capture);
}

static const struct row one_repeat[] = {{{0, -1}, {0, 0}, 0}, {{1, 0}, {0, 0}, 1}, {{2, 1}, {0, 0}, 0},
                                        {{3, 2}, {0, 0}, 1},  {{-1, 3}, {0, 0}, 0}};
static const struct row two_repeats[] = {
    {{0, -1}, {0, 0}, 2}, {{1, 0}, {0, 0}, 3}, {{2, 1}, {0, 0}, 0}, {{3, 2}, {0, 0}, 1}, {{0, 3}, {1, 0}, 2},
    {{1, 0}, {1, 1}, 3},  {{2, 1}, {1, 1}, 0}, {{3, 2}, {1, 1}, 1}, {{-1, 3}, {1, 1}, 2}};

START_TEST(the_tables_of_the_specification) {
  check_rows(&RIG(2, 4, 1, 1, .delay = false), one_repeat, 5);
  check_rows(&RIG(2, 4, 2, 1, .delay = false), two_repeats, 9);
}
END_TEST

struct loop {
  struct capture capture;
  struct ab_config config;
  struct rig_run run;
  size_t activation; /* elements */
  float *inputs;
};

static void loop_run(struct loop *loop, const struct rig_shape *shape) {
  loop->config = rig_config(shape);
  loop->config.compute_bubbles = true;
  capture_new(&loop->capture, AB_LEVEL_FULL, shape->stages, "loop/");
  loop->run = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &loop->config, loop->capture.probe);
  loop->activation = loop->run.elements / (size_t)shape->microbatches;
  loop->inputs = rig_numbers(loop->run.elements, 11, &ab_kernels_f32);
}

static void loop_free(struct loop *loop) {
  rig_run_free(&loop->run);
  capture_free(&loop->capture);
  ab_mem_free(loop->inputs);
}

static const float *loop_at(const struct loop *loop, const char *name, int t, int slot) {
  return (const float *)capture_find(&loop->capture, name, t)->values + (size_t)slot * loop->activation;
}

static int same(const struct loop *loop, const float *a, const float *b) {
  for (size_t i = 0; i < loop->activation; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

static int zeros(const struct loop *loop, const float *a) {
  for (size_t i = 0; i < loop->activation; i++)
    if (a[i] != 0) return 0;
  return 1;
}

/* S=2, M=4, R=1: stage 0 reads state_io, then zeros; the final state_io is [[mb1, mb0], [mb3, mb2]]. */
START_TEST(without_repeats_inputs_and_outputs_share_state_io) {
  struct loop loop;
  loop_run(&loop, &RIG(2, 4, 1, 1, .delay = false));
  for (int t = 0; t < 4; t++)
    ck_assert(same(&loop, loop_at(&loop, "loop/stages_in", t, 0), loop.inputs + (size_t)t * loop.activation));
  ck_assert(zeros(&loop, loop_at(&loop, "loop/stages_in", 4, 0)));
  ck_assert(zeros(&loop, loop_at(&loop, "loop/stages_in", 0, 1)));
  static const int lies[] = {1, 0, 3, 2};
  for (int slot = 0; slot < 4; slot++)
    ck_assert(same(&loop, loop_at(&loop, "loop/state_io", 4, slot),
                   (const float *)loop.run.outputs + (size_t)lies[slot] * loop.activation));
  loop_free(&loop);
}
END_TEST

/* S=2, M=4, R=2: the second repeat reads what the first one left in circ_storage, written where the table
 * says; seen in the slab of stage 1, since bubbles of a zero input leave zeros in that of stage 0. */
START_TEST(with_repeats_circ_storage_feeds_the_first_stage) {
  struct loop loop;
  loop_run(&loop, &RIG(2, 4, 2, 1, .delay = false));
  for (int t = 4; t < 9; t++)
    ck_assert(same(&loop, loop_at(&loop, "loop/stages_in", t, 0), loop_at(&loop, "loop/circ_storage", t - 1, t % 4)));
  for (int t = 1; t < 9; t++)
    for (int column = 0; column < 4; column++) {
      int kept = same(&loop, loop_at(&loop, "loop/circ_storage", t, 4 + column),
                      loop_at(&loop, "loop/circ_storage", t - 1, 4 + column));
      ck_assert_msg(kept == (column != two_repeats[t].column), "iteration %d, column %d", t, column);
    }
  loop_free(&loop);
}
END_TEST

/* Bubbles of a llama2 layer are not zero when they are computed: norms see zeros, later ones see what bubbles left. */
START_TEST(computed_bubbles_are_not_zero_and_skipped_ones_are) {
  struct loop loop;
  loop_run(&loop, &RIG(3, 6, 2, 1, .delay = false));
  ck_assert(!zeros(&loop, loop_at(&loop, "loop/stages_out", 13, 0)));
  ck_assert(!zeros(&loop, loop_at(&loop, "loop/stages_out", 13, 1)));
  struct capture capture;
  loop.config.compute_bubbles = false;
  capture_new(&capture, AB_LEVEL_FULL, 3, "loop/");
  struct rig_run run = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &loop.config, capture.probe);
  ck_assert(zeros(&loop, capture_find(&capture, "loop/stages_out", 13)->values));
  rig_same_bits(&run, &loop.run, &loop.config, "bubbles skipped");
  rig_run_free(&run);
  capture_free(&capture);
  loop_free(&loop);
}
END_TEST

/* With the iteration rematerialised, every forward activation that backward computes again is the same again. */
START_TEST(recomputed_activations_equal_the_forward_ones) {
  struct ab_config config = rig_config(&RIG(2, 4, 2, 2, .delay = false));
  struct capture capture;
  capture_new(&capture, AB_LEVEL_DIGEST, 2, NULL);
  struct rig_run run = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, &config, capture.probe);
  ck_assert_int_ge(capture_check_recomputed(&capture), 8 * 4 * 8);
  ck_assert_int_eq(capture_total(&capture, "recompute/attention"), 8 * 4);
  rig_run_free(&run);
  capture_free(&capture);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_schedule");
  TCase *tc = tcase_create("schedule");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, every_real_cell_runs_once_in_its_iteration, 1, MAX_S + 1);
  tcase_add_test(tc, the_tables_of_the_specification);
  tcase_add_test(tc, without_repeats_inputs_and_outputs_share_state_io);
  tcase_add_test(tc, with_repeats_circ_storage_feeds_the_first_stage);
  tcase_add_test(tc, computed_bubbles_are_not_zero_and_skipped_ones_are);
  tcase_add_test(tc, recomputed_activations_equal_the_forward_ones);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
