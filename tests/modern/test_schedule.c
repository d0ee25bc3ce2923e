/* The schedule, from what the engine counts, for every shape up to S 5, M 10, R 4 and both delays; and the same shapes
 * bit for bit against the sequential layers. */
#include <stdio.h>
#include <string.h>

#include "nnx.h"
#include "observed.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"

static char simple[] = "simple";

enum { MAX_S = 5, MAX_M = 10, MAX_R = 4, COMBINATIONS = MAX_S * MAX_M * MAX_R * 2 };

/* Combination i; false when MaxText does not allow it. */
static bool combination(struct ab_config *config, int i) {
  int delay = i % 2 + 1, stages = i / 2 % MAX_S + 1, repeats = i / 2 / MAX_S % MAX_R + 1;
  int microbatches = i / 2 / MAX_S / MAX_R + 1;
  if (microbatches % stages != 0 || (delay == 2 && microbatches < 2 * stages)) return false;
  *config = rig_config(stages, microbatches, repeats, 1, delay);
  config->decoder_block = simple;
  config->max_target_length = 2;
  return true;
}

/* The n-th allowed one; false when there are fewer. */
static bool shape(struct ab_config *config, int n) {
  for (int i = 0; i < COMBINATIONS; i++)
    if (combination(config, i) && n-- == 0) return true;
  return false;
}

static int shape_count(void) {
  struct ab_config config;
  int count = 0;
  while (shape(&config, count)) count++;
  return count;
}

struct tally {
  const struct ab_config *config;
  int executed[MAX_R][MAX_S][MAX_M];
  int bubbles, inputs, rng, others;
};

static ab_status on_observe(void *ctx, const struct ab_observation *observation, const void *values) {
  (void)ctx;
  (void)observation;
  (void)values;
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  struct tally *tally = ctx;
  const struct ab_config *c = tally->config;
  int first = at->iteration - (int)ab_forwarding_delay(c) * at->stage, steps = (int)c->num_pipeline_microbatches;
  if (strcmp(name, AB_COUNT_BUBBLE) == 0) {
    ck_assert(at->bubble && (first < 0 || first >= steps * c->num_pipeline_repeats));
    tally->bubbles += (int)amount;
  } else if (strcmp(name, AB_COUNT_EXECUTE) == 0) {
    ck_assert(!at->bubble);
    ck_assert_int_eq(first, at->repeat * steps + id->microbatch);
    ck_assert_int_eq(id->layer, at->repeat * c->num_stages + at->stage);
    tally->executed[at->repeat][at->stage][id->microbatch] += (int)amount;
  } else if (strcmp(name, AB_COUNT_ITERATION_INPUT) == 0) {
    tally->inputs++;
  } else if (strncmp(name, AB_COUNT_RNG, strlen(AB_COUNT_RNG)) == 0) {
    tally->rng++;
  } else if (strncmp(name, AB_COUNT_RECOMPUTE, strlen(AB_COUNT_RECOMPUTE)) != 0) {
    tally->others++;
  }
  return AB_OK;
}

static const struct ab_probe_ops counting = {on_observe, on_count};

static void check_tally(const struct tally *tally, const char *name) {
  const struct ab_config *c = tally->config;
  int64_t cells = ab_total_iterations(c) * c->num_stages;
  int64_t real = c->num_stages * c->num_pipeline_microbatches * c->num_pipeline_repeats;
  ck_assert_msg(tally->bubbles == cells - real, "%s: %d bubbles, expected %d", name, tally->bubbles,
                (int)(cells - real));
  ck_assert_msg(tally->bubbles == c->num_stages * ab_pipeline_depth(c), "%s: %d bubbles", name, tally->bubbles);
  ck_assert_int_eq(tally->others, 0);
  ck_assert_int_eq(tally->rng, 3 * c->num_pipeline_repeats * c->num_stages); /* two words of the key, draws */
  ck_assert_int_eq(tally->inputs, c->num_stages * ab_total_iterations(c));
  for (int r = 0; r < c->num_pipeline_repeats; r++)
    for (int s = 0; s < c->num_stages; s++)
      for (int m = 0; m < c->num_pipeline_microbatches; m++)
        ck_assert_msg(tally->executed[r][s][m] == 1, "%s: (%d, %d, %d) ran %d times", name, r, s, m,
                      tally->executed[r][s][m]);
}

static void check_ledger(const struct rig *rig, const struct ab_config *c, const char *name) {
  struct ab_ledger ledger = ab_mesh_ledger(&rig->s.mesh);
  int64_t rings = 2 * ab_total_iterations(c) * (ab_use_circ_storage(c) ? 3 : 2) * c->num_stages;
  int64_t tokens = (int64_t)rig->elements / c->num_pipeline_microbatches;
  int64_t real = c->num_stages * c->num_pipeline_microbatches * c->num_pipeline_repeats;
  ck_assert_msg(ledger.ring_messages == rings, "%s: %d messages", name, (int)ledger.ring_messages);
  ck_assert_int_eq(ledger.ring_bytes, rings * tokens * 4);
  ck_assert_msg(ledger.gathers == 2 * real, "%s: %d gathers", name, (int)ledger.gathers);
}

START_TEST(test_every_cell_once) {
  struct ab_config config;
  char name[64];
  ck_assert(shape(&config, _i));
  snprintf(name, sizeof name, "S%d M%d R%d d%d", (int)config.num_stages, (int)config.num_pipeline_microbatches,
           (int)config.num_pipeline_repeats, (int)ab_forwarding_delay(&config));
  struct tally tally = {.config = &config};
  struct ab_probe *probe;
  struct rig rig;
  ck_ok(ab_probe_new(&probe, &counting, &tally, AB_LEVEL_OFF, (int)config.num_stages));
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32_portable, &config, probe);
  ck_ok(rig_forward(&rig));
  ck_ok(rig_backward(&rig));
  check_tally(&tally, name);
  check_ledger(&rig, &config, name);
  rig_check_same(name, rig_result_of(&rig, &config),
                 rig_run(&ab_oracle_pipeline_ops, &ab_kernels_f32_portable, &config, NULL));
  rig_free(&rig);
  ab_probe_free(probe);
}
END_TEST

START_TEST(test_enough_shapes) {
  struct ab_config config;
  int shapes = shape_count(), circular = 0, rotating = 0, delayed = 0;
  for (int i = 0; shape(&config, i); i++) {
    circular += ab_use_circ_storage(&config);
    rotating += config.num_pipeline_repeats > 1 && !ab_use_circ_storage(&config);
    delayed += config.pipeline_delay_activation_forwarding;
  }
  ck_assert_int_ge(shapes, 100);
  ck_assert_int_ge(circular, 20);
  ck_assert_int_ge(rotating, 20);
  ck_assert_int_ge(delayed, 20);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_schedule");
  TCase *tc = tcase_create("schedule");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_every_cell_once, 0, shape_count());
  tcase_add_test(tc, test_enough_shapes);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
