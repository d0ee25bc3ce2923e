/* What comes through the gather door in each mode, per engine: the table in common/mesh/mesh.h. When the weights come
 * changes no bit.
 */
#include <stdio.h>

#include "both_sides.h"
#include "tap.h"

enum { OVERRIDES = 3, ENGINES = 2 };
static const char *const engine_name[ENGINES] = {"linen", "nnx"};

/* Fetches of one (stage, leaf) in one pass, forward and backward together. */
struct mode {
  const char *name; /* in tests/fixtures/reference */
  int leaves;       /* of a stage */
  int fetches[ENGINES];
  const char *override[OVERRIDES];
};

#define FLAG_OFF "set_remat_policy_on_pipeline_iterations=false"
#define ONCE "pipeline_fsdp_ag_once=true"

static const struct mode modes[] = {
    /* per iteration: S 2, M 8, R 4; fetched again where the iteration is rematerialised */
    {"p06_simple", 1, {64, 64}, {"pipeline_fsdp_ag_once=false"}},
    {"p06_simple", 1, {32, 32}, {"pipeline_fsdp_ag_once=false", FLAG_OFF}},
    {"p06_simple", 1, {66, 66}, {"pipeline_fsdp_ag_once=false", "ab_compute_bubbles=true"}},
    /* once: R, whatever else is asked for */
    {"p06_simple", 1, {4, 4}, {NULL}},
    {"p06_simple", 1, {4, 4}, {FLAG_OFF}},
    {"p06_simple", 1, {4, 4}, {"ab_compute_bubbles=true", "scan_pipeline_iterations=false"}},
    {"p06_llama2", 9, {4, 4}, {NULL}},
    {"p02_simple", 1, {1, 1}, {ONCE}},
    {"p05_simple", 1, {2, 2}, {ONCE}},
    {"p09_llama2", 9, {2, 2}, {ONCE}},
    {"p10_llama2", 18, {2, 2}, {ONCE}},
    {"p10_llama2", 18, {2, 2}, {ONCE, FLAG_OFF}},
    /* per repeat: R + 1 in Linen, R in NNX, and again in backward */
    {"p07_simple", 1, {10, 8}, {NULL}},
    {"p07_simple", 1, {10, 8}, {FLAG_OFF}},
    {"p07_simple", 1, {10, 4}, {FLAG_OFF, "upstream_faithful=B13"}},
    {"p07_simple", 1, {10, 8}, {"upstream_faithful=B13"}},
    {"p07_simple", 1, {10, 8}, {"ab_compute_bubbles=true"}},
    {"p08_llama2", 9, {6, 4}, {NULL}},
    {"p08_llama2", 9, {6, 4}, {"upstream_faithful=B1"}},
    {"p08_llama2", 9, {6, 4}, {ONCE}}, /* the circular engines know no other way */
};
enum { MODES = sizeof modes / sizeof modes[0] };

static void open_case(struct ab_case *out, const char *name, const char *const *overrides) {
  char path[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  struct ab_request request = {.target = path, .overrides = overrides};
  snprintf(path, sizeof path, "%s/tests/fixtures/reference/%s", root ? root : ".", name);
  while (request.override_count < OVERRIDES && overrides[request.override_count]) request.override_count++;
  ck_ok(ab_case_open(out, &request));
}

static struct ab_recording *run(const struct ab_case *c, const char *route) {
  struct ab_recording *recording;
  ck_ok(side_run(&recording, c, side_route(route), NULL));
  return recording;
}

static int64_t total(const struct ab_recording *recording, const char *name) {
  struct ab_identity any = {.step = -1, .accumulation = -1, .microbatch = -1, .layer = -1};
  snprintf(any.tensor, sizeof any.tensor, "%s", name);
  return ab_recording_count(recording, &any, NULL);
}

static const struct mode *mode_of(int i) { return &modes[i / ENGINES]; }

START_TEST(weights_come_as_often_as_the_mode_says) {
  const struct mode *mode = mode_of(_i);
  const char *engine = engine_name[_i % ENGINES];
  struct ab_case c;
  open_case(&c, mode->name, mode->override);
  struct ab_recording *recording = run(&c, engine);
  int64_t calls = total(recording, "gather/calls"), bytes = total(recording, "gather/bytes");
  int64_t expected = c.config->num_stages * mode->leaves * mode->fetches[_i % ENGINES];
  ck_assert_msg(calls == expected, "%s, mode %d: %s fetched %d weights, expected %d", mode->name, _i / ENGINES, engine,
                (int)calls, (int)expected);
  ck_assert_int_gt(bytes, calls * (int64_t)sizeof(float));
  ck_ok(ab_check_gathers(recording, &c, side_route(engine)->family));
  ab_recording_free(recording);
  ab_case_close(&c);
}
END_TEST

/* Each mode of plain schedules against the same schedule with fetches in every iteration. */
START_TEST(when_weights_come_changes_no_bit) {
  static const char *const names[] = {"p02_simple", "p05_simple", "p06_llama2", "p09_llama2", "p10_llama2"};
  const char *plain[OVERRIDES] = {"pipeline_fsdp_ag_once=false"}, *once[OVERRIDES] = {ONCE};
  const char *engine = engine_name[_i % ENGINES];
  struct ab_case a, b;
  open_case(&a, names[_i / ENGINES], plain);
  open_case(&b, names[_i / ENGINES], once);
  struct ab_recording *each = run(&a, engine), *all = run(&b, engine);
  struct ab_verdict verdict = side_verdict(all, each, &a);
  ck_assert_msg(verdict.exit == AB_EXIT_EQUAL && !verdict.any_difference, "%s of %s differs", engine,
                names[_i / ENGINES]);
  ck_assert_int_lt(total(all, "gather/bytes"), total(each, "gather/bytes"));
  ab_verdict_free(&verdict);
  ab_recording_free(each);
  ab_recording_free(all);
  ab_case_close(&a);
  ab_case_close(&b);
}
END_TEST

/* A count that is not the mode's is refused, with both numbers. */
START_TEST(another_count_is_refused) {
  const char *none[OVERRIDES] = {NULL};
  struct ab_case c;
  open_case(&c, "p07_simple", none);
  struct ab_recording *recording = run(&c, "nnx");
  ck_fails(ab_check_gathers(recording, &c, AB_FAMILY_LINEN), AB_EMISMATCH, "16 weight fetches, expected 20");
  ab_recording_free(recording);
  ab_case_close(&c);
}
END_TEST

/* upstream_faithful=B7: what ledger.json measured (weight_reshard_bytes without fsdp, per stage), in units of the
 * weights of one stage and repeat, four passes: s2f1 8 P, s4f1 12 P. Values and fetches stay as they were. */
START_TEST(misplaced_weights_are_counted_and_change_no_bit) {
  static const struct {
    const char *name;
    int moved; /* P per stage */
  } rows[] = {{"p06_llama2", 8}, {"p04_llama2", 12}, {"p10_llama2", 4}, {"p02_simple", 0}};
  const char *once[OVERRIDES] = {ONCE}, *faithful[OVERRIDES] = {ONCE, "upstream_faithful=B7"};
  struct ab_case a, b;
  open_case(&a, rows[_i].name, once);
  open_case(&b, rows[_i].name, faithful);
  struct ab_recording *meant = run(&a, "nnx"), *real = run(&b, "nnx"), *linen = run(&b, "linen");
  struct ab_verdict verdict = side_verdict(real, meant, &a);
  ck_assert(verdict.exit == AB_EXIT_EQUAL && !verdict.any_difference);
  ck_assert_int_eq(total(real, "gather/calls"), total(meant, "gather/calls"));
  int64_t fetched = total(real, "gather/bytes") / a.config->num_pipeline_repeats; /* P of all stages */
  ck_assert_int_eq(total(real, "reshard/bytes"), rows[_i].moved * fetched);
  ck_assert_int_eq(total(meant, "reshard/bytes"), 0);
  ck_assert_int_eq(total(linen, "reshard/bytes"), 0);
  ck_ok(ab_check_gathers(real, &b, AB_FAMILY_NNX));
  ck_ok(ab_check_gathers(linen, &b, AB_FAMILY_LINEN));
  if (rows[_i].moved) ck_fails(ab_check_gathers(real, &a, AB_FAMILY_NNX), AB_EMISMATCH, "expected 0");
  ab_verdict_free(&verdict);
  ab_recording_free(meant);
  ab_recording_free(real);
  ab_recording_free(linen);
  ab_case_close(&a);
  ab_case_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gathers");
  TCase *tc = tcase_create("gathers");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, weights_come_as_often_as_the_mode_says, 0, MODES * ENGINES);
  tcase_add_loop_test(tc, when_weights_come_changes_no_bit, 0, 5 * ENGINES);
  tcase_add_test(tc, another_count_is_refused);
  tcase_add_loop_test(tc, misplaced_weights_are_counted_and_change_no_bit, 0, 4);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
