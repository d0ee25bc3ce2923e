#include "calibration.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "sides.h"

static struct ab_calibration *small(void) {
  struct ab_calibration *c = calibration_begun("x", 1);
  ck_ok(ab_calibration_add(c, "weight gradient mlp/wo/kernel", 1e-6));
  ck_ok(ab_calibration_add(c, "weight gradient mlp/wo/kernel", 2e-6));
  ck_ok(ab_calibration_add(c, "weight gradient mlp/wo/kernel", 1.5e-6));
  ck_ok(ab_calibration_add(c, "metric loss", 0));
  ab_calibration_conclude(c);
  return c;
}

START_TEST(a_bound_is_the_largest_of_all_runs_times_the_factor) {
  struct ab_calibration *c = small();
  struct ab_identity leaf = identity(0, 0, "mlp/wo/kernel", AB_BACKWARD), loss = {.layer = -1, .tensor = "loss"};
  struct ab_identity other = identity(0, 0, "mlp/wi/kernel", AB_BACKWARD);
  ck_assert_uint_eq(c->kinds, 2);
  ck_assert_double_eq(ab_calibration_bound(c, &leaf, AB_Q_WEIGHT_GRADIENT), AB_CALIBRATION_FACTOR * 2e-6);
  ck_assert_double_eq(ab_calibration_bound(c, &loss, AB_Q_METRIC), AB_CALIBRATION_LEAST_METRIC);
  ck_assert_double_lt(ab_calibration_bound(c, &other, AB_Q_WEIGHT_GRADIENT), 0);
  ab_calibration_free(c);
}
END_TEST

START_TEST(fifty_nine_runs_are_the_least_for_95_percent) {
  struct ab_calibration c = {.runs = AB_CALIBRATION_RUNS, .kinds = 6};
  ck_assert_double_ge(ab_calibration_confidence(&c), 0.95);
  ck_assert_double_eq_tol(ab_calibration_false_alarm(&c), 0.1, 1e-12);
  c.runs--;
  ck_assert_double_lt(ab_calibration_confidence(&c), 0.95);
}
END_TEST

START_TEST(the_ceiling_falls_towards_the_end_and_governs_where_it_is_smaller) {
  struct ab_calibration *c = small();
  struct ab_identity first = identity(0, 0, "mlp/wo/kernel", AB_BACKWARD), last = identity(0, 3, "mlp/wo/kernel",
                                                                                       AB_BACKWARD);
  struct ab_identity head = identity(0, -1, "decoder/logits_dense/kernel", AB_BACKWARD);
  double plain = AB_CEILING_K * AB_CEILING_EPS * 32;
  ck_assert_double_eq_tol(ab_calibration_ceiling(c, &head, AB_Q_WEIGHT_GRADIENT), plain, 1e-18);
  ck_assert_double_eq_tol(ab_calibration_ceiling(c, &last, AB_Q_WEIGHT_GRADIENT), plain * AB_CEILING_C, 1e-18);
  ck_assert_double_eq_tol(ab_calibration_ceiling(c, &first, AB_Q_WEIGHT_GRADIENT), plain * pow(AB_CEILING_C, 4), 1e-18);
  struct ab_identity before = identity(0, -1, "token_embedder/embedding", AB_BACKWARD);
  double loosest = plain * pow(AB_CEILING_C, 5);
  ck_assert_double_eq_tol(ab_calibration_ceiling(c, &before, AB_Q_WEIGHT_GRADIENT), loosest, 1e-18);
  ck_assert_double_eq_tol(ab_calibration_ceiling(c, &head, AB_Q_METRIC), loosest, 1e-18);
  ck_assert_double_eq_tol(ab_calibration_ceiling(c, &last, AB_Q_METRIC), loosest, 1e-18);
  ck_ok(ab_calibration_add(c, "weight gradient mlp/wo/kernel", 1));
  ab_calibration_conclude(c);
  ck_assert_double_eq_tol(ab_calibration_bound(c, &last, AB_Q_WEIGHT_GRADIENT), plain * AB_CEILING_C, 1e-18);
  ab_calibration_free(c);
}
END_TEST

/* Whatever is measured after it, and however it is read: such a kind has no bound. */
START_TEST(an_error_that_is_no_number_is_refused) {
  static const double errors[] = {NAN, INFINITY, -1e-9};
  struct ab_calibration *c = small();
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    ck_fails(ab_calibration_add(c, "weight gradient mlp/wo/kernel", errors[i]), AB_EMISMATCH, "mlp/wo/kernel");
    ck_fails(ab_calibration_add(c, "weight gradient mlp/wi/kernel", errors[i]), AB_EMISMATCH, "mlp/wi/kernel");
  }
  ck_assert_uint_eq(c->kinds, 2);
  ck_assert_double_eq(c->kind[0].largest, 2e-6);
  ab_calibration_free(c);
}
END_TEST

static char *text_of(const struct ab_calibration *c) {
  struct ab_json_writer *w;
  const char *text;
  char *copy;
  size_t size;
  ck_ok(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, false);
  ab_calibration_put(w, c);
  ab_json_put_end(w);
  ck_ok(ab_json_writer_finish(&text, &size, w));
  ck_ok(ab_mem_string(&copy, text));
  ab_json_writer_free(w);
  return copy;
}

static ab_status read_back(struct ab_calibration **out, const char *text) {
  struct ab_json *root;
  ck_ok(ab_json_parse(&root, text, strlen(text), "golden", NULL));
  ab_status status = ab_calibration_get(out, ab_json_find(root, "calibration"));
  ab_json_free(root);
  return status;
}

START_TEST(no_calibrated_bound_is_above_what_any_bound_may_be) {
  struct ab_calibration *c = small();
  struct ab_identity first = identity(0, 0, "mlp/wo/kernel", AB_BACKWARD);
  struct ab_comparison comparison = {.pair = AB_PAIR_MIXED, .quantities = AB_Q_ALL, .calibration = c};
  c->layers = 300;
  ck_ok(ab_calibration_add(c, "weight gradient mlp/wo/kernel", 1));
  ab_calibration_conclude(c);
  ck_assert_double_gt(ab_calibration_bound(c, &first, AB_Q_WEIGHT_GRADIENT), AB_BOUND_MOST);
  struct ab_bound bound = ab_comparison_bound(&comparison, &first, AB_Q_WEIGHT_GRADIENT, -1, -1);
  ck_assert_int_eq(bound.rule, AB_RULE_CALIBRATED);
  ck_assert_double_eq(bound.limit, AB_BOUND_MOST);
  ab_calibration_free(c);
}
END_TEST

START_TEST(what_is_written_is_read_back) {
  size_t before = ab_mem_stats().live_blocks;
  struct ab_calibration *c = small(), *again;
  char *text = text_of(c), *second;
  ck_ok(read_back(&again, text));
  second = text_of(again);
  ck_assert_str_eq(text, second);
  ab_mem_free(text);
  ab_mem_free(second);
  ab_calibration_free(c);
  ab_calibration_free(again);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

START_TEST(what_was_edited_is_refused) {
  static const char *const edits[][2] = {{"\"version\": 1", "\"version\": 2"},
                                         {"\"largest\": 2e-06", "\"largest\": 3e-06"},
                                         {"\"kind\": \"metric loss\"", "\"kind\": \"weight gradient mlp/wo/kernel\""},
                                         {"\"runs\": 59", "\"runs\": 0"},
                                         {"\"runs\": 59", "\"runs\": 60"},
                                         {"\"layers\": 4", "\"layers\": 0"},
                                         {"\"layers\": 4", "\"layers\": -1"},
                                         {"\"layers\": 4", "\"layers\": 2147483647"},
                                         {"\"longest_reduction\": ", "\"longest_reduction\": -"},
                                         {"\"quantile\": 0.95", "\"quantile\": 0.5"},
                                         {"\"factor\": 2", "\"factor\": 20"},
                                         {"\"confidence\": 0.9", "\"confidence\": 0.8"},
                                         {"\"family_false_alarm\": 0.0", "\"family_false_alarm\": 0.1"},
                                         {"\"bound\": 4e-06", "\"bound\": 4e-06, \"more\": 1"},
                                         {"\"seed\": 1", "\"seed\": 1, \"more\": 1"}};
  struct ab_calibration *c = small(), *again;
  char *text = text_of(c);
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    char bad[4096];
    const char *at = strstr(text, edits[i][0]);
    ck_assert_msg(at != NULL, "no %s in %s", edits[i][0], text);
    snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - text), text, edits[i][1], at + strlen(edits[i][0]));
    ck_assert_int_eq(read_back(&again, bad), AB_EFORMAT);
  }
  ab_mem_free(text);
  c->kinds = 0;
  text = text_of(c);
  ck_fails(read_back(&again, text), AB_EFORMAT, "is empty");
  ab_mem_free(text);
  ab_calibration_free(c);
}
END_TEST

/* A name of one byte more would be cut to that of another kind. */
START_TEST(a_kind_is_read_up_to_its_longest_name) {
  for (int more = 0; more < 2; more++) {
    struct ab_calibration *c = calibration_begun("x", 1), *again;
    char bad[4096], name[AB_KIND_TEXT + 1] = "";
    memset(name, 'k', (size_t)AB_KIND_TEXT - 1 + (size_t)more);
    ck_ok(ab_calibration_add(c, "k", 0));
    ab_calibration_conclude(c);
    char *text = text_of(c), *at = strstr(text, "\"k\"");
    snprintf(bad, sizeof bad, "%.*s\"%s\"%s", (int)(at - text), text, name, at + 3);
    if (more) ck_fails(read_back(&again, bad), AB_EFORMAT, "is no bound of a kind of its own");
    else ck_ok(read_back(&again, bad));
    if (!more) ck_assert_str_eq(again->kind[0].kind, name);
    if (!more) ab_calibration_free(again);
    ab_mem_free(text);
    ab_calibration_free(c);
  }
}
END_TEST

START_TEST(only_what_was_taken_in_is_concluded) {
  struct ab_calibrated rows[] = {{.kind = "a", .largest = 1}, {.kind = "b", .largest = 1, .bound = -7}};
  struct ab_calibration c = {.kind = rows, .kinds = 1};
  ab_calibration_conclude(&c);
  ck_assert_double_eq(rows[0].bound, AB_CALIBRATION_FACTOR);
  ck_assert_double_eq(rows[1].bound, -7);
}
END_TEST

START_TEST(a_calibrated_bound_judges_float32_against_float64_only) {
  struct ab_calibration *c = small();
  struct side a = side_values("linen"), b = side_values("sequential64");
  struct both both;
  struct ab_verdict v;
  side_leaf(&a, 0, 1, 0)[3] *= 1 + 6e-6f;
  side_run(&a, false, false);
  side_run(&b, false, false);
  struct ab_comparison comparison = comparison_of(&both, &a, &b);
  comparison.pair = AB_PAIR_MIXED;
  comparison.calibration = c;
  comparison.calibrated = true;
  ck_ok(ab_verdict(&v, &comparison));
  ck_assert_int_eq(v.worst.bound.rule, AB_RULE_CALIBRATED);
  ck_assert_double_eq(v.worst.bound.limit, 4e-6);
  ck_assert(!v.uncalibrated);
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ab_verdict_free(&v);
  comparison.calibration = NULL;
  ck_ok(ab_verdict(&v, &comparison));
  ck_assert(v.uncalibrated);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ab_verdict_free(&v);
  comparison.pair = AB_PAIR_SAME;
  comparison.calibration = c;
  ck_ok(ab_verdict(&v, &comparison));
  ck_assert_int_eq(v.worst.bound.rule, AB_RULE_BITWISE);
  ck_assert_int_eq(v.exit, AB_EXIT_DIFFERENT);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
  ab_calibration_free(c);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("calibration");
  TCase *c = tcase_create("calibration");
  tcase_add_test(c, a_bound_is_the_largest_of_all_runs_times_the_factor);
  tcase_add_test(c, fifty_nine_runs_are_the_least_for_95_percent);
  tcase_add_test(c, the_ceiling_falls_towards_the_end_and_governs_where_it_is_smaller);
  tcase_add_test(c, an_error_that_is_no_number_is_refused);
  tcase_add_test(c, no_calibrated_bound_is_above_what_any_bound_may_be);
  tcase_add_test(c, what_is_written_is_read_back);
  tcase_add_test(c, what_was_edited_is_refused);
  tcase_add_test(c, a_kind_is_read_up_to_its_longest_name);
  tcase_add_test(c, only_what_was_taken_in_is_concluded);
  tcase_add_test(c, a_calibrated_bound_judges_float32_against_float64_only);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
