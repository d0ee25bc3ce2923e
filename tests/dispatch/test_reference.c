/* Numbers of a bundle: every tensor and every metric that it holds is compared with what a side produced. A side runs in
 * this process and agrees; one value of its is then changed on the way. */
#include "reference.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "both_sides.h"
#include "tap.h"

enum { GRADS, OUTPUTS, STEP1, FINAL, TREES };

/* What happens on the way. */
static struct {
  int spoilt, dropped; /* tree of the side, and of the bundle; TREES: none */
  bool last;           /* of the spoilt one the last element, else the first */
  bool a_step_less, a_metric_less; /* in the bundle */
} way;

static struct ab_tree *tree_of(const struct ab_produced *p, int tree) {
  struct ab_tree *const all[] = {p->grads, p->outputs, p->params_step1, p->params_final};
  return all[tree];
}

ab_status __real_ab_produced_new(struct ab_produced *out, const struct ab_case *c, const struct ab_layout *layout,
                                 const struct ab_side_result *side);
ab_status __wrap_ab_produced_new(struct ab_produced *out, const struct ab_case *c, const struct ab_layout *layout,
                                 const struct ab_side_result *side);
ab_status __wrap_ab_produced_new(struct ab_produced *out, const struct ab_case *c, const struct ab_layout *layout,
                                 const struct ab_side_result *side) {
  AB_TRY(__real_ab_produced_new(out, c, layout, side));
  if (way.spoilt == TREES) return AB_OK;
  struct ab_tree *tree = tree_of(out, way.spoilt);
  const struct ab_tensor *tensor = ab_tree_at(tree, way.last ? ab_tree_size(tree) - 1 : 0);
  ((float *)tensor->data)[way.last ? tensor->count - 1 : 0] += 1;
  return AB_OK;
}

ab_status __real_ab_bundle_expect(struct ab_results *out, const struct ab_bundle *bundle);
ab_status __wrap_ab_bundle_expect(struct ab_results *out, const struct ab_bundle *bundle);
ab_status __wrap_ab_bundle_expect(struct ab_results *out, const struct ab_bundle *bundle) {
  AB_TRY(__real_ab_bundle_expect(out, bundle));
  struct ab_tree **const held[] = {&out->grads, &out->outputs, &out->params_step1, &out->params_final};
  if (way.dropped < TREES) {
    ab_tree_free(*held[way.dropped]);
    *held[way.dropped] = NULL;
  }
  out->steps -= way.a_step_less;
  if (way.a_metric_less) out->step[0].present &= ~1u;
  return AB_OK;
}

static const char *const b1[] = {"upstream_faithful=B1", NULL};
static const struct bundle {
  const char *name, *const *overrides;
  int64_t steps;   /* to run; 0: all */
  bool as_meant;   /* judged by what the real code was meant to give */
  size_t parameters, outputs, metrics; /* that it holds of this run: trees, tensors, numbers */
} bundles[] = {{"e01_simple", NULL, 0, false, 0, 2, 1}, {"p08_simple", NULL, 0, true, 0, 2, 1},
               {"p08_simple", b1, 0, false, 0, 2, 1},   {"t02", NULL, 0, false, 2, 0, 36},
               {"t02", NULL, 1, false, 1, 0, 9}};
enum { BUNDLES = sizeof bundles / sizeof *bundles };

static struct ab_case opened[BUNDLES];
static struct ab_side_result ran[BUNDLES];

static void set_up(void) {
  const char *root = getenv("AB_SOURCE_ROOT");
  for (int i = 0; i < BUNDLES; i++) {
    char target[512], path[] = "/tmp/abpipe-reference-XXXXXX";
    struct side_hooks hooks = {.values = fdopen(mkstemp(path), "w")};
    struct ab_request request = {.target = target, .overrides = bundles[i].overrides,
                                 .override_count = bundles[i].overrides ? 1 : 0, .steps = bundles[i].steps};
    snprintf(target, sizeof target, "%s/tests/fixtures/reference/%s", root ? root : ".", bundles[i].name);
    ck_ok(ab_case_open(&opened[i], &request));
    ck_ok(side_run(&ran[i].recording, &opened[i], side_route("linen"), &hooks));
    ck_assert_int_eq(fclose(hooks.values), 0);
    ck_ok(ab_kept_open(&ran[i].values, ran[i].recording, path, NULL, NULL));
    unlink(path);
  }
}

static void tear_down(void) {
  for (int i = 0; i < BUNDLES; i++) {
    ab_kept_close(ran[i].values);
    ab_recording_free(ran[i].recording);
    ab_case_close(&opened[i]);
  }
}

static void nothing_in_the_way(void) {
  way.spoilt = way.dropped = TREES;
  way.last = way.a_step_less = way.a_metric_less = false;
}

/* Both sides of a comparison are the one that ran; the second is asked. */
static enum ab_exit judged(int bundle, struct ab_verdict *out) {
  struct ab_reference *reference;
  struct ab_verdict first;
  ck_ok(ab_reference_open(&reference, &opened[bundle]));
  ck_assert(ab_reference_as_meant(reference) == bundles[bundle].as_meant);
  ck_ok(ab_reference_judge(&first, reference, &ran[bundle]));
  ck_ok(ab_reference_judge(out, reference, &ran[bundle]));
  ck_assert_int_eq(first.exit, out->exit);
  enum ab_exit exit = out->exit;
  ab_verdict_free(&first);
  ab_verdict_free(out);
  ab_reference_close(reference);
  return exit;
}

START_TEST(all_that_a_bundle_holds_is_compared) {
  const struct bundle *b = &bundles[_i];
  size_t leaves = opened[_i].bundle->layout.leaves;
  struct ab_verdict v;
  nothing_in_the_way();
  ck_assert_int_eq(judged(_i, &v), AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.by_quantity[AB_Q_WEIGHT_GRADIENT].compared, leaves);
  ck_assert_uint_eq(v.by_quantity[AB_Q_PARAMETER].compared, b->parameters * leaves);
  ck_assert_uint_eq(v.by_quantity[AB_Q_PARAMETER].expected, b->parameters * leaves);
  ck_assert_uint_eq(v.by_quantity[AB_Q_OUTPUT].compared, b->outputs);
  ck_assert_uint_eq(v.by_quantity[AB_Q_OUTPUT].expected, b->outputs);
  ck_assert_uint_eq(v.metrics.compared, b->metrics);
  ck_assert_uint_eq(v.steps.expected, opened[_i].steps);
}
END_TEST

START_TEST(one_element_of_any_tensor_is_a_difference) {
  const struct bundle *b = &bundles[_i];
  const bool held[TREES] = {true, b->outputs > 0, b->parameters > 0, b->parameters > 1};
  const int steps[TREES] = {0, 0, 0, (int)opened[_i].steps - 1};
  for (int tree = 0; tree < TREES; tree++)
    for (int last = 0; held[tree] && last < 2; last++) {
      struct ab_verdict v;
      nothing_in_the_way();
      way.spoilt = tree;
      way.last = last;
      ck_assert_msg(judged(_i, &v) == AB_EXIT_DIFFERENT, "%s, tree %d: %d", b->name, tree, (int)v.exit);
      ck_assert_msg(v.failing == 1 && v.first_bad_step == (size_t)steps[tree], "%s, tree %d", b->name, tree);
    }
}
END_TEST

START_TEST(any_metric_is_a_difference) {
  const struct ab_recording *r = ran[_i].recording;
  size_t red = 0;
  nothing_in_the_way();
  for (size_t i = 0; i < r->metrics; i++) {
    struct ab_verdict v;
    double was = r->metric[i].metric.value;
    r->metric[i].metric.value = 2 * was + 1;
    red += judged(_i, &v) == AB_EXIT_DIFFERENT;
    r->metric[i].metric.value = was;
  }
  ck_assert_uint_eq(red, bundles[_i].metrics);
}
END_TEST

START_TEST(a_metric_that_is_lacking_is_never_equal) {
  struct ab_recording *r = ran[_i].recording;
  size_t all = r->metrics;
  struct ab_verdict v;
  nothing_in_the_way();
  for (int kept = 0; kept < 2; kept++) {
    r->metrics = kept ? all - 1 : 0;
    ck_assert_int_eq(judged(_i, &v), AB_EXIT_INCOMPARABLE);
  }
  r->metrics = all;
}
END_TEST

START_TEST(a_metric_that_no_bundle_states_is_not_compared) {
  struct ab_verdict v;
  nothing_in_the_way();
  way.a_metric_less = opened[_i].bundle->train;
  ck_assert_int_eq(judged(_i, &v), AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.metrics.compared, bundles[_i].metrics - way.a_metric_less);
}
END_TEST

START_TEST(a_bundle_without_its_main_numbers_is_refused) {
  static const char *const names[] = {"/grads.safetensors is missing", "/outputs.safetensors is missing"};
  for (int tree = 0; tree < TREES; tree++) {
    struct ab_reference *reference;
    nothing_in_the_way();
    way.dropped = tree;
    bool needed = tree == GRADS || (tree == OUTPUTS && bundles[_i].outputs);
    ab_status status = ab_reference_open(&reference, &opened[_i]);
    ck_assert_msg(status == (needed ? AB_ENOTFOUND : AB_OK), "%s, tree %d", bundles[_i].name, tree);
    if (needed) ck_assert_ptr_nonnull(strstr(ab_status_message(), names[tree]));
    else ab_reference_close(reference);
  }
}
END_TEST

START_TEST(a_bundle_of_other_steps_is_refused) {
  struct ab_reference *reference;
  nothing_in_the_way();
  way.a_step_less = true;
  if (opened[_i].bundle->train) ck_fails(ab_reference_open(&reference, &opened[_i]), AB_EFORMAT, "steps has 3 entries");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("reference");
  TCase *tests = tcase_create("reference");
  tcase_add_unchecked_fixture(tests, set_up, tear_down);
  tcase_add_loop_test(tests, all_that_a_bundle_holds_is_compared, 0, BUNDLES);
  tcase_add_loop_test(tests, one_element_of_any_tensor_is_a_difference, 0, BUNDLES);
  tcase_add_loop_test(tests, any_metric_is_a_difference, 0, BUNDLES);
  tcase_add_loop_test(tests, a_metric_that_is_lacking_is_never_equal, 0, BUNDLES);
  tcase_add_loop_test(tests, a_metric_that_no_bundle_states_is_not_compared, 0, BUNDLES);
  tcase_add_loop_test(tests, a_bundle_without_its_main_numbers_is_refused, 0, BUNDLES);
  tcase_add_loop_test(tests, a_bundle_of_other_steps_is_refused, 0, BUNDLES);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
