/* The loop state after every iteration, bubbles included, against the buffers of the real MaxText code; and the
 * schedule tables of two shapes. */
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "nnx.h"
#include "pipeline_utils.h"
#include "rig.h"
#include "tap.h"

/* Every bundle of kind engine that holds loop_states.safetensors and is judged here. */
static const char *const cases[] = {"p01_llama2", "p03_simple", "p04_simple",
                                    "p05_simple_mlp", "p11_simple", "p12_simple"};
enum { CASES = sizeof cases / sizeof *cases };

struct watcher {
  const struct reference_case *c;
  const struct ab_tree *want;
  int compared;
};

static bool wants_loop(void *ctx, const struct ab_identity *id) {
  (void)ctx;
  return strncmp(id->tensor, "loop/", 5) == 0;
}

/* Row t of the bundle's [T, ...] tensor. */
static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct watcher *watcher = ctx;
  struct ab_tensor *tensor;
  if (!wants_loop(NULL, &o->id)) return AB_OK;
  ck_assert_int_eq(o->id.microbatch, -1);
  ck_assert_int_eq(o->id.layer, -1);
  ck_ok(ab_tree_get(&tensor, watcher->want, o->id.tensor + 5, watcher->c->name));
  size_t count = tensor->count / (size_t)tensor->shape.dim[0];
  ck_assert_int_eq(tensor->shape.rank, o->shape.rank + 1);
  ck_assert_uint_eq(o->summary.count, count);
  const float *row = (const float *)tensor->data + (size_t)o->at.iteration * count;
  double distance = reference_distance(values, AB_F32, row, count);
  ck_assert_msg(distance <= 2e-6, "%s: %s after iteration %d is %.3g away", watcher->c->name, o->id.tensor,
                o->at.iteration, distance);
  watcher->compared++;
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  (void)ctx, (void)name, (void)id, (void)at, (void)amount;
  return AB_OK;
}

static const struct ab_probe_ops watching = {on_observe, on_count};

START_TEST(test_loop_states) {
  struct reference_case c = reference_open_named(cases[_i]);
  struct ab_tree *want = reference_tensors(&c, "loop_states.safetensors");
  struct watcher watcher = {.c = &c, .want = want};
  struct ab_probe *probe;
  c.config->compute_bubbles = true;
  ck_ok(ab_probe_new(&probe, &watching, &watcher, AB_LEVEL_FULL, (int)c.config->num_stages));
  ab_probe_want(probe, wants_loop, NULL);
  struct reference_run run = reference_run_pipeline(&c, &nnx_pipeline_ops, &ab_kernels_f32, probe);
  int buffers = (int)ab_tree_size(want) - 2; /* beside the two id arrays */
  ck_assert_int_eq(watcher.compared, buffers * (int)ab_total_iterations(c.config));
  reference_run_free(&run);
  ab_probe_free(probe);
  ab_tree_free(want);
  reference_close(&c);
}
END_TEST

START_TEST(test_ids) {
  struct reference_case c = reference_open_named(cases[_i]);
  struct ab_tree *want = reference_tensors(&c, "loop_states.safetensors");
  struct nnx_schedule schedule = nnx_schedule_of(c.config);
  struct ab_tensor *microbatches, *repeats;
  ck_ok(ab_tree_get(&microbatches, want, "microbatch_ids", c.name));
  ck_ok(ab_tree_get(&repeats, want, "repeat_ids", c.name));
  ck_assert_uint_eq(microbatches->count, (size_t)(schedule.iterations * schedule.num_stages));
  for (int i = 0; i < schedule.iterations * schedule.num_stages; i++) {
    struct nnx_cell_ids ids =
        nnx_get_microbatch_and_repeat_ids(&schedule, i / schedule.num_stages, i % schedule.num_stages);
    ck_assert_int_eq(ids.microbatch, ((const int32_t *)microbatches->data)[i]);
    ck_assert_int_eq(ids.repeat, ((const int32_t *)repeats->data)[i]);
  }
  ab_tree_free(want);
  reference_close(&c);
}
END_TEST

struct row {
  const char *stage[2]; /* "mb1 r0", or "-" for a bubble */
  int weights[2], circ_write;
};

static void check_table(int repeats, const struct row *rows, int count) {
  struct ab_config config = rig_config(2, 4, repeats, 1, 1);
  struct nnx_schedule schedule = nnx_schedule_of(&config);
  ck_assert_int_eq(schedule.iterations, count);
  for (int t = 0; t < count; t++) {
    for (int s = 0; s < 2; s++) {
      struct nnx_cell_ids ids = nnx_get_microbatch_and_repeat_ids(&schedule, t, s);
      char text[32] = "-";
      if (!ids.bubble) snprintf(text, sizeof text, "mb%d r%d", ids.microbatch, ids.repeat);
      ck_assert_str_eq(text, rows[t].stage[s]);
      ck_assert_int_eq(nnx_clamp_repeat(&schedule, ids.repeat), rows[t].weights[s]);
    }
    if (schedule.use_circ_storage) ck_assert_int_eq(nnx_circ_write_index(&schedule, t), rows[t].circ_write);
  }
}

START_TEST(test_table_without_repeats) {
  static const struct row rows[] = {{{"mb0 r0", "-"}, {0, 0}, 0},
                                    {{"mb1 r0", "mb0 r0"}, {0, 0}, 0},
                                    {{"mb2 r0", "mb1 r0"}, {0, 0}, 0},
                                    {{"mb3 r0", "mb2 r0"}, {0, 0}, 0},
                                    {{"-", "mb3 r0"}, {0, 0}, 0}};
  check_table(1, rows, 5);
}
END_TEST

START_TEST(test_table_with_circ_storage) {
  static const struct row rows[] = {
      {{"mb0 r0", "-"}, {0, 0}, 2},      {{"mb1 r0", "mb0 r0"}, {0, 0}, 3}, {{"mb2 r0", "mb1 r0"}, {0, 0}, 0},
      {{"mb3 r0", "mb2 r0"}, {0, 0}, 1}, {{"mb0 r1", "mb3 r0"}, {1, 0}, 2}, {{"mb1 r1", "mb0 r1"}, {1, 1}, 3},
      {{"mb2 r1", "mb1 r1"}, {1, 1}, 0}, {{"mb3 r1", "mb2 r1"}, {1, 1}, 1}, {{"-", "mb3 r1"}, {1, 1}, 2}};
  check_table(2, rows, 9);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_loop_state");
  TCase *tc = tcase_create("loop_state");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_loop_states, 0, CASES);
  tcase_add_loop_test(tc, test_ids, 0, CASES);
  tcase_add_test(tc, test_table_without_repeats);
  tcase_add_test(tc, test_table_with_circ_storage);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
