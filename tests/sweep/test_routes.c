/* What the exact routes refuse and by which name, what they say about the loss, and MaxText's integer bundles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "m61.h"
#include "routes.h"
#include "tap.h"

static const char *const exact_routes[] = {"linen-exact", "nnx-exact", "linen+nnx-pipeline-exact",
                                           "sequential-exact"};
static const char *const float_routes[] = {"linen", "nnx", "linen+nnx-pipeline", "sequential"};
enum { ROUTES = 4 };

static struct sweep_case opened;

static void open_small(const char *block, enum sweep_fill fill, enum ab_loss_kind loss) {
  opened = (struct sweep_case){.seed = 7};
  sweep_key(&opened, "decoder_block=%s", block);
  sweep_key(&opened, "base_emb_dim=8");
  sweep_key(&opened, "base_mlp_dim=8");
  sweep_key(&opened, "base_num_query_heads=2");
  sweep_key(&opened, "base_num_kv_heads=1");
  sweep_key(&opened, "head_dim=4");
  sweep_key(&opened, "vocab_size=11");
  sweep_key(&opened, "base_num_decoder_layers=4");
  sweep_key(&opened, "dtype=float32");
  sweep_pipeline(&opened, 2, 4, 2, 1, 1, 3);
  ck_ok(sweep_open(&opened, fill, loss));
}

static void close_small(void) { sweep_close(&opened); }

static ab_status run(struct sweep_side *side, const char *route) {
  return sweep_run(side, &opened, route, AB_NUMERICS_FAST, AB_LEVEL_VALUES, NULL);
}

static void refuses(const char *route, ab_status code, const char *text) {
  struct sweep_side side;
  ck_fails(run(&side, route), code, text);
  sweep_side_free(&side);
}

START_TEST(a_block_with_more_than_products_is_refused) {
  open_small("llama2", SWEEP_NORMAL, AB_LOSS_DOT);
  refuses(exact_routes[_i], AB_ECONFIG, "key 'decoder_block' is 'llama2'");
  refuses(exact_routes[_i], AB_ECONFIG, "the table exact");
}
END_TEST

START_TEST(a_whole_model_is_refused) {
  open_small("simple", SWEEP_NORMAL, AB_LOSS_TRAIN);
  refuses(exact_routes[_i], AB_ECONFIG, "not a whole model");
}
END_TEST

START_TEST(a_loss_with_a_root_is_refused) {
  open_small("simple", SWEEP_SMALL_INTEGERS, AB_LOSS_NORM);
  refuses(exact_routes[_i], AB_ECONFIG, "loss_kind 'norm'");
}
END_TEST

START_TEST(a_broken_number_is_refused_by_name) {
  open_small("simple_mlp", SWEEP_SMALL_INTEGERS, AB_LOSS_DOT);
  struct ab_tree *batch = opened.opened.bundle->batch;
  ((float *)ab_tree_find(batch, "inputs")->data)[5] = 0.5f;
  refuses(exact_routes[_i], AB_EFORMAT, "'inputs' is 0.5 at element 5");
  ((float *)ab_tree_find(batch, "inputs")->data)[5] = 1;
  ((float *)ab_tree_find(batch, "targets")->data)[2] = 1e-3f;
  refuses(exact_routes[_i], AB_EFORMAT, "'targets' is 0.001 at element 2");
  ((float *)ab_tree_find(batch, "targets")->data)[2] = 1;
  ((float *)ab_tree_at(opened.opened.bundle->params, 0)->data)[3] = 1.25f;
  refuses(exact_routes[_i], AB_EFORMAT, "parameter 'layers/0/ff_1' is 1.25 at element 3");
}
END_TEST

/* All 61 bits: as a tensor, where a metric would hold 53 of them. */
START_TEST(the_loss_is_a_residue) {
  struct sweep_side side;
  struct ab_view loss, outputs;
  uint64_t sum = 0;
  open_small("simple", SWEEP_RESIDUES, AB_LOSS_DOT);
  ck_ok(run(&side, exact_routes[_i]));
  ck_assert(sweep_value(&loss, &side, &(struct ab_identity){.microbatch = -1, .layer = -1, .tensor = "loss"}));
  ck_assert(
      sweep_value(&outputs, &side, &(struct ab_identity){.microbatch = -1, .layer = -1, .tensor = "pipeline/outputs"}));
  const float *targets = ab_tree_find(opened.opened.bundle->batch, "targets")->data;
  for (size_t i = 0; i < ab_view_count(&outputs); i++)
    sum = ab_m61_add(sum, ab_m61_multiply(((uint64_t *)outputs.data)[i], ab_m61_of_integer((int64_t)targets[i])));
  ck_assert_uint_eq(*(uint64_t *)loss.data, sum);
  ck_assert_uint_eq(ab_view_count(&loss), 1);
  ck_assert_double_eq(ab_recording_metric(side.recording, 0, "loss")->metric.value, (double)ab_m61_integer(sum));
  sweep_side_free(&side);
}
END_TEST

START_TEST(a_given_cotangent_has_no_loss) {
  struct sweep_side side;
  struct ab_view loss;
  open_small("simple", SWEEP_RESIDUES, AB_LOSS_GIVEN);
  ck_ok(run(&side, exact_routes[_i]));
  ck_assert(!sweep_value(&loss, &side, &(struct ab_identity){.microbatch = -1, .layer = -1, .tensor = "loss"}));
  ck_assert_uint_eq(side.recording->metrics, 0);
  sweep_side_free(&side);
}
END_TEST

/* e05 shows a defect of the real code: by default its layers-in-order numbers count, on demand its own. */
static const struct {
  const char *name, *override;
} bundles[] = {{"e01_simple", NULL},     {"e01_simple_mlp", NULL}, {"e02_simple", NULL}, {"e03_simple", NULL},
               {"e03_simple_mlp", NULL}, {"e04_simple", NULL},     {"e04_simple_mlp", NULL},
               {"e05_simple", NULL},     {"e05_simple", "upstream_faithful=B1"}, {"e06_simple", NULL},
               {"e06_simple_mlp", NULL}, {"e07_simple", NULL},     {"e07_simple_mlp", NULL}};
enum { BUNDLES = sizeof bundles / sizeof *bundles };

/* MaxText's own numbers, as residues. */
static void equals_maxtext(const struct sweep_side *side, const struct ab_results *results) {
  static const struct {
    const char *name, *observed;
    enum ab_phase phase;
  } rows[] = {{"outputs", "pipeline/outputs", AB_FORWARD}, {"d_inputs", "pipeline/d_inputs", AB_BACKWARD}};
  for (int i = 0; i < 2; i++) {
    struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = rows[i].phase};
    struct ab_view view;
    snprintf(id.tensor, sizeof id.tensor, "%s", rows[i].observed);
    ck_assert(sweep_value(&view, side, &id));
    const struct ab_tensor *expected = ab_tree_find(results->outputs, rows[i].name);
    for (size_t e = 0; e < expected->count; e++)
      ck_assert_int_eq(ab_m61_integer(((uint64_t *)view.data)[e]), (int64_t)((float *)expected->data)[e]);
  }
  ck_assert_double_eq(ab_recording_metric(side->recording, 0, "loss")->metric.value, results->loss);
}

START_TEST(integer_bundles_are_equal_in_every_arithmetic) {
  struct sweep_side truth, side;
  struct ab_results results;
  char path[512], sentence[SWEEP_SENTENCE];
  const char *root = getenv("AB_SOURCE_ROOT");
  opened = (struct sweep_case){.seed = 0};
  const char *name = bundles[_i].name, *override = bundles[_i].override;
  snprintf(path, sizeof path, "%s/tests/fixtures/reference/%s", root ? root : ".", name);
  struct ab_request request = {.target = path, .overrides = &override, .override_count = override != NULL};
  ck_ok(ab_case_open(&opened.opened, &request));
  ck_ok(ab_bundle_expect(&results, opened.opened.bundle));
  if (!override) ab_results_as_meant(&results);
  ck_ok(run(&truth, "sequential-exact"));
  equals_maxtext(&truth, &results);
  for (int r = 0; r < ROUTES; r++) {
    ck_ok(run(&side, exact_routes[r]));
    ck_ok(sweep_compare(sentence, &opened, &side, &truth, AB_PAIR_SAME));
    ck_assert_msg(!sentence[0], "%s: %s", name, sentence);
    sweep_side_free(&side);
    ck_ok(run(&side, float_routes[r]));
    ck_ok(sweep_compare_integers(sentence, &side, &truth));
    ck_assert_msg(!sentence[0], "%s: %s", name, sentence);
    sweep_side_free(&side);
  }
  sweep_side_free(&truth);
  ab_results_free(&results);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("exact_routes");
  TCase *tcase = tcase_create("exact_routes");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, NULL, close_small);
  tcase_add_loop_test(tcase, a_block_with_more_than_products_is_refused, 0, ROUTES);
  tcase_add_loop_test(tcase, a_whole_model_is_refused, 0, ROUTES);
  tcase_add_loop_test(tcase, a_loss_with_a_root_is_refused, 0, ROUTES);
  tcase_add_loop_test(tcase, a_broken_number_is_refused_by_name, 0, ROUTES);
  tcase_add_loop_test(tcase, the_loss_is_a_residue, 0, ROUTES);
  tcase_add_loop_test(tcase, a_given_cotangent_has_no_loss, 0, ROUTES);
  tcase_add_loop_test(tcase, integer_bundles_are_equal_in_every_arithmetic, 0, BUNDLES);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
