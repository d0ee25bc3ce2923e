/* Bubbles that run and bubbles that do not: the same bits in each engine, but where a layer has a pole at zero. Bubbles of
 * the first iterations run on zeros; with epsilon 0 their norms are not finite (B22). Nothing of a real cell may see it
 * but the gradients of the weights that such a bubble runs with, into which a zero cotangent times infinity is summed.
 */
#include <string.h>

#include "both_sides.h"
#include "tap.h"

enum { ROUTES = 3 };
static const char *const route_name[ROUTES] = {"linen", "nnx", "linen+nnx-pipeline"};
/* One repeat; rotating outputs; circular storage; delay 2; ag_once; per repeat, 2 and 4 stages; two layers a stage. */
static const char *const names[] = {"p02_llama2", "p03_llama2", "p04_llama2", "p05_llama2", "p06_llama2",
                                    "p07_llama2", "p08_llama2", "p10_llama2"};
enum { CASES = sizeof names / sizeof *names };

static struct ab_recording *run(const struct ab_case *c, const char *route) {
  struct ab_recording *recording;
  ck_ok(side_run(&recording, c, side_route(route), NULL));
  return recording;
}

/* Stages behind the first wait on zeros, with the weights of repeat 0; the first one drains on zeros if there is no other
 * repeat. */
static bool poisoned(const struct ab_config *config, const struct ab_identity *id) {
  int64_t stage = id->layer / config->num_layers_per_pipeline_stage;
  if (id->phase != AB_BACKWARD || id->microbatch >= 0 || id->layer < 0) return false;
  return stage < config->num_stages && (stage > 0 || config->num_pipeline_repeats == 1);
}

/* Returns how many gradients have poles in them. */
static size_t check_same(const struct ab_recording *computed, const struct ab_recording *skipped,
                         const struct ab_config *config, bool poles) {
  size_t spoiled = 0;
  ck_assert_uint_eq(computed->observations, skipped->observations);
  for (size_t i = 0; i < skipped->observations; i++) {
    const struct ab_observation *a = &skipped->observation[i].observation;
    const struct ab_recorded *b = ab_recording_find(computed, &a->id);
    ck_assert_msg(b && !a->summary.nonfinite, "%s of layer %d", a->id.tensor, a->id.layer);
    bool pole = poles && poisoned(config, &a->id);
    ck_assert_msg(pole ? b->observation.summary.nonfinite > 0 : ab_summary_same(&a->summary, &b->observation.summary),
                  "%s: %s of layer %d, phase %s", computed->name, a->id.tensor, a->id.layer, ab_phase_name(a->id.phase));
    spoiled += pole;
  }
  return spoiled;
}

static void check_case(const char *name, const char *route, bool poles) {
  static const char *const epsilon[] = {"normalization_layer_epsilon=0", NULL};
  static const char *const both[] = {"ab_compute_bubbles=true", "normalization_layer_epsilon=0", NULL};
  static const char *const computing[] = {"ab_compute_bubbles=true", NULL};
  struct ab_case skipping, computed;
  side_case_open_with(&skipping, name, poles ? epsilon : NULL);
  side_case_open_with(&computed, name, poles ? both : computing);
  struct ab_recording *a = run(&skipping, route), *b = run(&computed, route);
  int64_t stages = computed.config->num_stages - (computed.config->num_pipeline_repeats > 1);
  int64_t layers = stages * computed.config->num_layers_per_pipeline_stage;
  size_t spoiled = check_same(b, a, computed.config, poles);
  ck_assert_uint_eq(spoiled, poles ? 9 * (size_t)layers : 0);
  ck_assert(!a->has_pole && b->bubbles > 0 && b->has_pole == poles);
  if (poles) ck_assert(b->pole.at.bubble && b->pole.at.stage > 0 && !strcmp(b->pole.id.tensor, "pre_norm"));
  ab_recording_free(a);
  ab_recording_free(b);
  ab_case_close(&skipping);
  ab_case_close(&computed);
}

START_TEST(bubbles_change_no_bit) {
  check_case(names[_i / ROUTES], route_name[_i % ROUTES], false);
}
END_TEST

START_TEST(a_pole_spoils_gradients_and_nothing_else) {
  check_case(names[_i / ROUTES], route_name[_i % ROUTES], true);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("poles");
  TCase *tc = tcase_create("poles");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, bubbles_change_no_bit, 0, CASES * ROUTES);
  tcase_add_loop_test(tc, a_pole_spoils_gradients_and_nothing_else, 0, CASES * ROUTES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
