/* Inputs that nothing depends on, from what a run reports anyway. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "blind.h"
#include "judgement.h"
#include "mem.h"
#include "tap.h"
#include "what_if.h"

static struct ab_config *config;
static struct ab_recording *recording;
static struct ab_teeth teeth;

static void start(void) {
  char path[1024];
  snprintf(path, sizeof path, "%s/tests/fixtures/faults/circ.yml", getenv("AB_SOURCE_ROOT"));
  ck_ok(ab_config_load(&config, &(struct ab_config_request){.file = path, .ignore_environment = true}));
  ck_ok(ab_recording_new(&recording, "linen"));
  teeth = (struct ab_teeth){0};
}

static void stop(void) {
  ab_config_free(config);
  ab_recording_free(recording);
}

static void observe(int step, int layer, const char *name, enum ab_phase phase, float value) {
  float values[3] = {0, value, 0};
  struct ab_observation o = {.id = {.step = step, .microbatch = -1, .layer = layer, .phase = phase},
                             .at = {-1, -1, -1, false}, .shape = {1, {3}}};
  struct ab_view view = {.dtype = AB_F32, .shape = o.shape, .data = values};
  ab_view_contiguous(&view);
  snprintf(o.id.tensor, sizeof o.id.tensor, "%s", name);
  ab_summarize(&o.summary, &view);
  ck_ok(ab_recording_observe(recording, &o));
}

static void look(struct ab_batch_facts batch) {
  struct ab_run_facts facts = {.config = config, .batch = batch, .steps = 2};
  ab_unobserved_of(&teeth, &facts, recording);
}

static const struct ab_batch_facts rich = {.train = true, .any_valid = true, .positions_differ = true};

static bool listed(const char *name, const char *reason) {
  for (size_t i = 0; i < teeth.unobserveds; i++)
    if (strcmp(teeth.unobserved[i].name, name) == 0) return strstr(teeth.unobserved[i].reason, reason) != NULL;
  return false;
}

START_TEST(a_weight_is_unobserved_when_every_gradient_is_zero) {
  observe(0, -1, "token_embedder/embedding", AB_BACKWARD, 2);
  observe(1, -1, "token_embedder/embedding", AB_BACKWARD, 0);
  observe(0, 2, "mlp/wo/kernel", AB_BACKWARD, 0);
  observe(1, 2, "mlp/wo/kernel", AB_BACKWARD, 0);
  observe(0, 3, "mlp/wo/kernel", AB_BACKWARD, 0);
  observe(1, 3, "mlp/wo/kernel", AB_BACKWARD, 1e-30f); /* later it counts */
  observe(0, 1, "mlp/wo/kernel", AB_BACKWARD, NAN); /* not a number is not 0 */
  observe(1, 1, "mlp/wo/kernel", AB_BACKWARD, 0);
  observe(0, 0, "mlp/wo/kernel", AB_UPDATE, 0);     /* a parameter may be 0 */
  observe(0, 0, "mlp_output", AB_BACKWARD, 0);      /* so may a cotangent */
  look(rich);
  ck_assert_uint_eq(teeth.unobserveds, 1);
  ck_assert(listed("layers/2/mlp/wo/kernel", "its gradient is 0"));
}
END_TEST

START_TEST(places_that_are_the_same_everywhere) {
  struct ab_batch_facts batch = rich;
  batch.positions_differ = false;
  batch.one_segment = true;
  look(batch);
  ck_assert_uint_eq(teeth.unobserveds, 2);
  ck_assert(listed("inputs_position", "the same in every row") && listed("inputs_segmentation", "all one segment"));
  teeth = (struct ab_teeth){0};
  batch.train = false;
  look(batch);
  ck_assert(listed("positions", "the same in every row") && listed("segment_ids", "all one segment"));
}
END_TEST

START_TEST(a_block_that_does_not_read_them) {
  char *was = config->decoder_block, simple[] = "simple";
  config->decoder_block = simple;
  look(rich);
  config->decoder_block = was;
  ck_assert_uint_eq(teeth.unobserveds, 2);
  ck_assert(listed("inputs_position", "decoder block simple") && listed("inputs_segmentation", "decoder block simple"));
}
END_TEST

START_TEST(labels_that_do_not_count) {
  struct ab_batch_facts batch = rich;
  batch.any_valid = false;
  look(batch);
  ck_assert(listed("targets", "no label counts"));
}
END_TEST

/* What was perturbed is known better. */
START_TEST(after_perturbing_only_weights_are_looked_at) {
  struct ab_batch_facts batch = rich;
  batch.one_segment = true;
  teeth.perturbed = true;
  observe(0, 2, "mlp/wo/kernel", AB_BACKWARD, 0);
  look(batch);
  ck_assert_uint_eq(teeth.unobserveds, 1);
  ck_assert(listed("layers/2/mlp/wo/kernel", "its gradient is 0"));
}
END_TEST

/* Passes with one input changed each. By that of `pass` a tensor is another, or else the loss; -1: nothing came back. */
static int pass_that_shows;
static bool by_tensor;

static void put_loss(int step, double value) {
  struct ab_metric loss = {.step = step, .name = "loss", .value = value};
  ck_ok(ab_recording_add_metric(recording, &loss));
}

ab_status __wrap_ab_judgement_run_what_if(struct ab_judgement *j, const char *words);
ab_status __wrap_ab_judgement_run_what_if(struct ab_judgement *j, const char *words) {
  struct ab_what_if_plan plan;
  struct ab_side_result *passes = &j->side[AB_SIDE_WHAT_IF_PASSES];
  ck_ok(ab_what_if_plan(&plan, &j->opened, words));
  ab_recording_free(recording);
  ck_ok(ab_recording_new(&recording, "passes"));
  for (int p = 0; p < (int)plan.passes; p++) {
    bool shows = p == pass_that_shows;
    observe(p, 0, "mlp/wo/kernel", AB_BACKWARD, shows && by_tensor ? 2 : 1);
    put_loss(p, shows && !by_tensor ? 2 : 1);
  }
  passes->recording = recording;
  passes->values = pass_that_shows < 0 ? NULL : (void *)passes; /* never read */
  return AB_OK;
}

/* As when a tensor or the loss depends on one input alone. */
START_TEST(an_input_that_changes_nothing_is_unobserved) {
  char path[1024];
  struct ab_side_result side[AB_SIDES] = {0};
  struct ab_judgement j = {.side = side, .teeth = &teeth};
  struct ab_what_if_plan plan;
  snprintf(path, sizeof path, "%s/tests/fixtures/faults/circ.yml", getenv("AB_SOURCE_ROOT"));
  ck_ok(ab_case_open(&j.opened, &(struct ab_request){.target = path}));
  ck_ok(ab_what_if_plan(&plan, &j.opened, AB_WHAT_IF_NUDGE));
  ck_assert_uint_gt(plan.passes, 3);
  for (int i = 0; i < 2 * (int)plan.passes; i++) {
    pass_that_shows = i / 2;
    by_tensor = i % 2;
    teeth = (struct ab_teeth){0};
    ck_ok(ab_judge_perturbed(&j));
    ck_assert(teeth.perturbed);
    ck_assert_uint_eq(teeth.unobserveds, pass_that_shows ? plan.passes - 2 : 0);
    for (int p = 1; p < (int)plan.passes; p++)
      ck_assert(listed(plan.what[p].sentence, "nothing else changes") == (pass_that_shows && p != pass_that_shows));
  }
  pass_that_shows = -1;
  teeth = (struct ab_teeth){0};
  ck_ok(ab_judge_perturbed(&j));
  ck_assert(!teeth.perturbed && !teeth.unobserveds && j.notes == 1);
  ab_mem_free(j.note[0]);
  ab_case_close(&j.opened);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("unobserved");
  TCase *c = tcase_create("unobserved");
  tcase_add_checked_fixture(c, start, stop);
  tcase_add_test(c, a_weight_is_unobserved_when_every_gradient_is_zero);
  tcase_add_test(c, places_that_are_the_same_everywhere);
  tcase_add_test(c, a_block_that_does_not_read_them);
  tcase_add_test(c, labels_that_do_not_count);
  tcase_add_test(c, after_perturbing_only_weights_are_looked_at);
  tcase_add_test(c, an_input_that_changes_nothing_is_unobserved);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
