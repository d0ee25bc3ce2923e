/* The metrics that layers sow (record_internal_nn_metrics): equal in every bit between all routes and the oracle, found
 * by layer and microbatch and not by bubble, and upstream_faithful=B20 and B21 as the real code does them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "both_sides.h"
#include "sown.h"
#include "tap.h"

enum { OVERRIDES = 4, ROUTES = 3 };
static const char *const routes[ROUTES] = {"linen", "nnx", "linen+nnx-pipeline"};

#define RECORD "record_internal_nn_metrics=1"
#define FIXTURE "tests/fixtures/reference/"

static void open_case(struct ab_case *out, const char *target, const char *a, const char *b) {
  const char *overrides[OVERRIDES] = {RECORD, a, b}, *root = getenv("AB_SOURCE_ROOT");
  char path[512];
  struct ab_request request = {.target = path, .overrides = overrides};
  snprintf(path, sizeof path, "%s/%s", root ? root : ".", target);
  while (request.override_count < OVERRIDES && overrides[request.override_count]) request.override_count++;
  ck_ok(ab_case_open(out, &request));
}

static struct ab_recording *run(const struct ab_case *c, const char *route, const struct side_hooks *hooks) {
  struct ab_recording *recording;
  ck_ok(side_run(&recording, c, side_route(route), hooks));
  return recording;
}

/* -1 where nothing was recorded: no number here is. */
static double sown(const struct ab_recording *recording, int layer, enum ab_sown which) {
  struct ab_identity id = {.microbatch = -1, .layer = layer, .phase = AB_FORWARD};
  snprintf(id.tensor, sizeof id.tensor, "intermediates/%s", ab_sown_names[which]);
  const struct ab_recorded *row = ab_recording_find(recording, &id);
  return row ? row->observation.summary.sum : -1;
}

static size_t sown_count(const struct ab_recording *recording) {
  size_t found = 0;
  for (size_t i = 0; i < recording->observations; i++)
    found += ab_quantity_of(&recording->observation[i].observation.id) == AB_Q_METRIC;
  return found;
}

/* p01 .. p12: what they are says tests/fixtures/reference/README.md. */
static const struct mode {
  const char *target, *override;
} modes[] = {{FIXTURE "p02_llama2", NULL},         /* one repeat */
             {FIXTURE "p03_llama2", NULL},         /* two, without circular storage */
             {FIXTURE "p04_llama2", NULL},         /* with it */
             {FIXTURE "p04_llama2", "scan_pipeline_iterations=false"},
             {FIXTURE "p05_llama2", NULL},         /* delayed forwarding */
             {FIXTURE "p06_llama2", NULL},         /* all weights gathered once */
             {FIXTURE "p07_llama2", NULL},         /* weights gathered per repeat, four repeats */
             {FIXTURE "p08_llama2", NULL},         /* four stages */
             {FIXTURE "p08_llama2", "upstream_faithful=B1"},
             {FIXTURE "p09_llama2", NULL},         /* two layers a stage, scanned */
             {FIXTURE "p10_llama2", NULL},         /* by name */
             {FIXTURE "p12_llama2", NULL},         /* delay and circular storage */
             {"golden/layers_outside/config.yml", "steps=2"},
             {"golden/unpipelined/config.yml", "steps=2"},
             {"golden/unpipelined/config.yml", "scan_layers=false"}};
enum { MODES = sizeof modes / sizeof modes[0] };

static void must_equal(const struct ab_recording *a, const struct ab_recording *b, const struct ab_case *c,
                       const char *target) {
  struct ab_verdict verdict = side_verdict(a, b, c);
  ck_assert_msg(verdict.exit == AB_EXIT_EQUAL && !verdict.any_difference, "%s: %s is not %s: %zu differ, %zu changed",
                target, a->name, b->name, verdict.differing, verdict.changed);
  ab_verdict_free(&verdict);
}

static void every_route_equals_the_oracle(const struct mode *mode, const char *faithful) {
  struct ab_case c;
  open_case(&c, mode->target, faithful ? faithful : mode->override, faithful ? mode->override : NULL);
  if (c.steps > 2) c.steps = 2;
  struct ab_recording *oracle = run(&c, "sequential", NULL);
  size_t expected = (size_t)(c.steps * c.config->num_decoder_layers * AB_SOWN);
  ck_assert_uint_eq(sown_count(oracle), expected);
  for (int r = 0; r < ROUTES; r++) {
    struct ab_recording *side = run(&c, routes[r], NULL);
    must_equal(side, oracle, &c, mode->target);
    ck_ok(ab_check_sown(side, &c, side_route(routes[r])->family));
    ab_recording_free(side);
  }
  ab_recording_free(oracle);
  ab_case_close(&c);
}

START_TEST(every_route_sows_what_the_oracle_sows) { every_route_equals_the_oracle(&modes[_i], NULL); }
END_TEST

/* Switched off nothing is reported; the other numbers are the same. */
START_TEST(sowing_changes_no_other_number) {
  struct ab_case with, without;
  open_case(&with, FIXTURE "p04_llama2", NULL, NULL);
  open_case(&without, FIXTURE "p04_llama2", "record_internal_nn_metrics=0", NULL);
  for (int r = 0; r < ROUTES; r++) {
    struct ab_recording *on = run(&with, routes[r], NULL), *off = run(&without, routes[r], NULL);
    ck_assert_uint_eq(sown_count(off), 0);
    ck_assert_uint_eq(on->observations, off->observations + sown_count(on));
    for (size_t i = 0; i < off->observations; i++) {
      const struct ab_recorded *row = ab_recording_find(on, &off->observation[i].observation.id);
      ck_assert(row && ab_summary_same(&row->observation.summary, &off->observation[i].observation.summary));
    }
    ab_recording_free(on);
    ab_recording_free(off);
  }
  ab_case_close(&with);
  ab_case_close(&without);
}
END_TEST

/* Every layer doubles its input: layer l of microbatch m gives 2^(l + 1) times that microbatch's values, which are
 * v_m / 2 and 3 v_m / 2 by turns. So mean and deviation name layer and microbatch, and all of it is exact. */
static double microbatch_value(int m) { return m == 3 ? 0 : (double)(1 << m) + (m % 2 ? 0.5 : 0); }

static ab_status double_input(void *ctx, int layer, const char *name, const struct ab_view *view) {
  static float packed[64 * 64];
  int64_t n = view->shape.dim[0];
  (void)ctx, (void)layer, (void)name;
  ck_assert(view->shape.rank == 2 && view->shape.dim[1] == n && n <= 64);
  for (int64_t i = 0; i < n * n; i++) packed[i] = i % (n + 1) == 0 ? 2 : 0;
  ab_view_unpack(view, packed);
  return AB_OK;
}

static ab_status double_inputs(void *ctx, const struct ab_side *side, const struct ab_kernels *kernels) {
  (void)kernels;
  return side->pipeline_ops->leaves(side->pipeline, AB_PARAMS, double_input, ctx);
}

static const struct side_hooks doubling = {.loaded = double_inputs};

static void set_inputs(const struct ab_case *c) {
  struct ab_activations given = ab_bundle_activations(c->bundle);
  float *inputs = (float *)(uintptr_t)given.inputs; /* the bundle is this test's own */
  size_t rows = given.count / (size_t)c->config->num_pipeline_microbatches;
  for (size_t i = 0; i < given.count; i++)
    inputs[i] = (float)(microbatch_value((int)(i / rows)) * (i % 2 ? 1.5 : 0.5));
}

/* Of one microbatch of a layer; a bubble of the warm-up makes zeros of zeros. */
struct numbers {
  double mean, stdev, zeros;
};

static struct numbers of_cell(int layer, int microbatch) {
  double value = ldexp(microbatch_value(microbatch), layer + 1);
  return (struct numbers){value, value / 2, value == 0};
}

static struct numbers of_layer(const struct ab_config *c, int layer) {
  struct numbers sum = {0, 0, 0};
  int64_t count = c->num_pipeline_microbatches;
  for (int m = 0; m < count; m++) {
    struct numbers one = of_cell(layer, m);
    sum.mean += one.mean / (double)count;
    sum.stdev += one.stdev / (double)count;
    sum.zeros += one.zeros / (double)count;
  }
  return sum;
}

/* Element number `layer` of [T, S, K]. */
static struct numbers of_element(const struct ab_config *c, int layer) {
  int count = (int)c->num_layers_per_pipeline_stage, stages = (int)c->num_stages;
  int k = layer % count, s = layer / count % stages, t = layer / count / stages;
  int n = t - (int)ab_forwarding_delay(c) * s, microbatches = (int)c->num_pipeline_microbatches;
  if (n < 0) return (struct numbers){0, 0, 1};
  return of_cell((n / microbatches * stages + s) * count + k, n % microbatches);
}

static void must_be(const struct ab_recording *recording, int layer, struct numbers expected, const char *name) {
  double mean = sown(recording, layer, AB_SOWN_MEAN), stdev = sown(recording, layer, AB_SOWN_STDEV);
  double zeros = sown(recording, layer, AB_SOWN_FRACTION_ZERO);
  ck_assert_msg(mean == expected.mean && stdev == expected.stdev && zeros == expected.zeros,
                "%s, %s, layer %d: mean %g, deviation %g, zeros %g; expected %g, %g, %g", name, recording->name, layer,
                mean, stdev, zeros, expected.mean, expected.stdev, expected.zeros);
}

static const char *const simple[] = {"p01_simple", "p03_simple", "p04_simple", "p05_simple", "p06_simple",
                                     "p07_simple", "p08_simple", "p09_simple", "p10_simple", "p12_simple"};
enum { SIMPLE = sizeof simple / sizeof simple[0] };

static void check_numbers(const char *name, const char *a, const char *b,
                          struct numbers (*expected)(const struct ab_config *c, int layer)) {
  static const char *const all[] = {"linen", "nnx", "linen+nnx-pipeline", "sequential"};
  char target[128];
  struct ab_case c;
  snprintf(target, sizeof target, FIXTURE "%s", name);
  open_case(&c, target, a, b);
  set_inputs(&c);
  for (size_t r = 0; r < sizeof all / sizeof all[0]; r++) {
    struct ab_recording *side = run(&c, all[r], &doubling);
    for (int layer = 0; layer < c.config->num_decoder_layers; layer++)
      must_be(side, layer, expected(c.config, layer), name);
    ab_recording_free(side);
  }
  ab_case_close(&c);
}

START_TEST(a_layer_reports_the_mean_of_its_own_microbatches) {
  check_numbers(simple[_i], NULL, NULL, of_layer);
}
END_TEST

/* Computed bubbles hold zeros in the warm-up and finished microbatches in the drain. */
START_TEST(bubbles_are_not_reported) {
  check_numbers(simple[_i], "ab_compute_bubbles=true", NULL, of_layer);
}
END_TEST

START_TEST(b21_reports_the_element_that_has_the_number_of_the_layer) {
  check_numbers(simple[_i], "upstream_faithful=B21", NULL, of_element);
}
END_TEST

/* The mode that names a defect itself names both. */
START_TEST(b21_is_the_same_in_every_route) {
  bool named = modes[_i].override && !strcmp(modes[_i].override, "upstream_faithful=B1");
  struct mode mode = {modes[_i].target, named ? NULL : modes[_i].override};
  every_route_equals_the_oracle(&mode, named ? "upstream_faithful=B1,B21" : "upstream_faithful=B21");
}
END_TEST

/* Both circular engines lose what is sown, each in its way; so does the oracle, and all are equal. */
START_TEST(b20_circular_engines_record_nothing) {
  struct ab_case c;
  open_case(&c, FIXTURE "p08_llama2", "upstream_faithful=B20", NULL);
  struct ab_recording *oracle = run(&c, "sequential", NULL);
  for (int r = 0; r < ROUTES; r++) {
    struct ab_recording *side = run(&c, routes[r], NULL);
    ck_assert_uint_eq(sown_count(side), 0);
    must_equal(side, oracle, &c, "p08_llama2");
    ab_recording_free(side);
  }
  ab_recording_free(oracle);
  ab_case_close(&c);
}
END_TEST

/* Where NNXPipeline has one repeat it alone records: what the layers sow, and that is a difference of structure. */
START_TEST(b20_one_repeat_is_recorded_by_nnx_alone) {
  struct ab_case c, meant;
  open_case(&c, FIXTURE "p02_llama2", "upstream_faithful=B20", NULL);
  open_case(&meant, FIXTURE "p02_llama2", NULL, NULL);
  struct ab_recording *linen = run(&c, "linen", NULL), *nnx = run(&c, "nnx", NULL);
  struct ab_recording *oracle = run(&c, "sequential", NULL), *intended = run(&meant, "sequential", NULL);
  struct ab_verdict verdict = side_verdict(linen, nnx, &c);
  ck_assert(verdict.exit == AB_EXIT_INCOMPARABLE && verdict.changed == 4 * AB_SOWN);
  ck_assert_uint_eq(sown_count(linen), 0);
  must_equal(linen, oracle, &c, "p02_llama2");
  must_equal(nnx, intended, &meant, "p02_llama2");
  ck_ok(ab_check_sown(linen, &c, AB_FAMILY_LINEN));
  ck_ok(ab_check_sown(nnx, &c, AB_FAMILY_NNX));
  ck_fails(ab_check_sown(linen, &c, AB_FAMILY_NNX), AB_EMISMATCH, "linen counted 0 sown metrics, expected 12");
  ck_fails(ab_check_sown(nnx, &c, AB_FAMILY_LINEN), AB_EMISMATCH, "nnx counted 12 sown metrics, expected 0");
  ab_verdict_free(&verdict);
  ab_recording_free(linen);
  ab_recording_free(nnx);
  ab_recording_free(oracle);
  ab_recording_free(intended);
  ab_case_close(&c);
  ab_case_close(&meant);
}
END_TEST

/* With repeats the tree that a stage hands back is not the one that it came from; Linen runs, and records nothing. */
START_TEST(b20_repeats_fail_in_nnx_pipeline) {
  static const char *const names[] = {FIXTURE "p04_llama2", FIXTURE "p06_llama2", FIXTURE "p09_llama2"};
  struct ab_recording *side;
  struct ab_case c;
  open_case(&c, names[_i], "upstream_faithful=B20", NULL);
  for (int r = 1; r < ROUTES; r++) {
    ck_fails(side_run(&side, &c, side_route(routes[r]), NULL), AB_EMISMATCH, "expected equal trees");
    ab_recording_free(side);
  }
  side = run(&c, "linen", NULL);
  ck_assert_uint_eq(sown_count(side), 0);
  ab_recording_free(side);
  ab_case_close(&c);
}
END_TEST

/* What is outside the pipeline is recorded in every mode. */
START_TEST(b20_leaves_layers_outside_the_pipeline_alone) {
  struct ab_case c;
  open_case(&c, "golden/layers_outside/config.yml", "upstream_faithful=B20", "steps=1");
  struct ab_recording *linen = run(&c, "linen", NULL), *oracle = run(&c, "sequential", NULL);
  int64_t outside = c.config->num_decoder_layers - c.config->pipeline_parallel_layers;
  ck_assert(outside > 0 && c.config->pipelined);
  ck_assert_uint_eq(sown_count(linen), (size_t)(outside * AB_SOWN));
  must_equal(linen, oracle, &c, "layers_outside");
  ab_recording_free(linen);
  ab_recording_free(oracle);
  ab_case_close(&c);
}
END_TEST

static bool is_deviation_of_layer_2(const struct ab_identity *id) {
  return id->layer == 2 && !strcmp(id->tensor, "intermediates/activation_stdev");
}

/* A sown metric that does not arrive is missed by the count and by the verdict. */
START_TEST(a_missing_metric_is_seen) {
  const struct side_hooks losing = {.hides = is_deviation_of_layer_2};
  struct ab_case c;
  open_case(&c, FIXTURE "p04_llama2", NULL, NULL);
  struct ab_recording *whole = run(&c, "linen", NULL);
  struct ab_recording *lacking = run(&c, "nnx", &losing), *both = run(&c, "linen", &losing);
  ck_fails(ab_check_sown(lacking, &c, AB_FAMILY_NNX), AB_EMISMATCH, "nnx counted 23 sown metrics, expected 24");
  struct ab_verdict one = side_verdict(lacking, whole, &c), two = side_verdict(lacking, both, &c);
  ck_assert(one.exit == AB_EXIT_INCOMPARABLE && one.changed == 1);
  ck_assert(two.exit == AB_EXIT_INCOMPARABLE && !two.changed && !two.counts_right);
  ab_verdict_free(&one);
  ab_verdict_free(&two);
  ab_recording_free(whole);
  ab_recording_free(lacking);
  ab_recording_free(both);
  ab_case_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sown");
  TCase *tc = tcase_create("sown");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, every_route_sows_what_the_oracle_sows, 0, MODES);
  tcase_add_test(tc, sowing_changes_no_other_number);
  tcase_add_loop_test(tc, a_layer_reports_the_mean_of_its_own_microbatches, 0, SIMPLE);
  tcase_add_loop_test(tc, bubbles_are_not_reported, 0, SIMPLE);
  tcase_add_loop_test(tc, b21_reports_the_element_that_has_the_number_of_the_layer, 0, SIMPLE);
  tcase_add_loop_test(tc, b21_is_the_same_in_every_route, 0, MODES);
  tcase_add_test(tc, b20_circular_engines_record_nothing);
  tcase_add_test(tc, b20_one_repeat_is_recorded_by_nnx_alone);
  tcase_add_loop_test(tc, b20_repeats_fail_in_nnx_pipeline, 0, 3);
  tcase_add_test(tc, b20_leaves_layers_outside_the_pipeline_alone);
  tcase_add_test(tc, a_missing_metric_is_seen);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
