#include <fcntl.h>
#include <unistd.h>

#include "report_doc.h"
#include "sides.h"

/* A red run with everything in it: one ulp, a NaN, a missing leaf, an oracle within its bounds. */
struct run {
  struct side a, b, oracle;
  struct both ab, ao;
  struct ab_verdict red, bounded;
  const struct ab_verdict *verdict[2];
  struct ab_facts facts;
  struct ab_report report;
};

static void run_start(struct run *r, float factor, bool missing) {
  r->a = side_values("linen");
  r->b = side_values("nnx");
  r->oracle = side_values("sequential64");
  side_leaf(&r->a, 1, 2, 0)[7] *= factor;
  side_run(&r->a, false, false);
  side_run(&r->b, false, false);
  side_run(&r->oracle, false, false);
  struct ab_identity id = identity(0, 1, "mlp/wi/kernel", AB_BACKWARD);
  if (missing) {
    side_tensor(&r->b, &id, AB_F32, (struct ab_shape){1, {4}});
    side_observe(&r->b, &id);
  }
  struct ab_comparison ab = comparison_of(&r->ab, &r->a, &r->b), ao = comparison_of(&r->ao, &r->a, &r->oracle);
  ao.pair = AB_PAIR_MIXED;
  ck_ok(ab_verdict(&r->red, &ab));
  ck_ok(ab_verdict(&r->bounded, &ao));
  r->verdict[0] = &r->red;
  r->verdict[1] = &r->bounded;
  r->facts = (struct ab_facts){0};
  ab_fact_verdict(&r->facts, AB_FACT_AB, &r->red);
  r->report = (struct ab_report){.tool = "ab_compare",
                                 .version = "0.1.0",
                                 .case_name = "t01",
                                 .command = "ab_compare t01 --a linen --b nnx",
                                 .numerics = "fast: f32, OpenBLAS SkylakeX, 2 threads",
                                 .dtype = "float32",
                                 .verdict = r->verdict,
                                 .verdicts = 2,
                                 .cause = ab_cause_of(&r->facts), .facts = &r->facts};
}

static void run_stop(struct run *r) {
  ab_verdict_free(&r->red);
  ab_verdict_free(&r->bounded);
  side_free(&r->a);
  side_free(&r->b);
  side_free(&r->oracle);
}

static int lines_of(const char *text) {
  int lines = 0;
  for (; *text; text++) lines += *text == '\n';
  return lines;
}

/* The member at a path of keys and element numbers, "comparisons/0/worst". */
static const struct ab_json *member(const struct ab_json *value, const char *path) {
  char part[128];
  while (*path) {
    size_t length = strcspn(path, "/");
    snprintf(part, sizeof part, "%.*s", (int)length, path);
    const struct ab_json *next = ab_json_find(value, part);
    if (ab_json_type(value) == AB_JSON_ARRAY) {
      next = ab_json_first(value);
      for (int i = atoi(part); i > 0; i--) next = ab_json_next(next);
    }
    ck_assert_msg(next != NULL, "no '%s' of '%s'", part, path);
    value = next;
    path += length + (path[length] == '/');
  }
  return value;
}

#define has(text, part) ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in:\n%s", part, text)

START_TEST(equal_is_ten_lines_with_the_verdict_first) {
  struct run r;
  char *text;
  run_start(&r, 1, false);
  ck_ok(ab_report_text(&text, &r.report));
  ck_assert_int_eq(lines_of(text), 10);
  ck_assert_int_eq(strncmp(text, "EQUAL: linen against nnx, t01", 29), 0);
  has(text, "compared: 12 of 12 tensors, 144 of 144 elements, 2 of 2 metrics, 2 of 2 steps");
  has(text, "numerics: fast: f32, OpenBLAS SkylakeX, 2 threads; dtype: float32");
  has(text, "worst: no tensor differs in any bit");
  has(text, "bound: bitwise; needs 0\n");
  has(text, "first divergence: none\n");
  has(text, "reproduce: ab_compare t01 --a linen --b nnx\n");
  has(text, "exit: 0 (equal)\n");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(a_red_report_names_tensor_values_bound_and_divergence) {
  struct run r;
  char *text;
  run_start(&r, 1.5f, false);
  ck_ok(ab_report_text(&text, &r.report));
  ck_assert_int_eq(lines_of(text), 11);
  ck_assert_int_eq(strncmp(text, "DIFFERENT: ", 11), 0);
  has(text, "DIFFERENT: linen against nnx, t01; 1 of 14 tensors and metrics differ; cause: undecided\n");
  has(text, "worst: step 1 layers/2/mlp/wo/kernel backward (linen against nnx, weight gradient, 1 of 12 ");
  has(text, "values: linen 4.1295 (0x40842"); /* 2.753 * 1.5 */
  has(text, ", nnx 2.753 (0x40303127) at [1, 3]");
  has(text, "bound: bitwise; would pass at 0.");
  has(text, "first divergence: step 1 layers/2/mlp/wo/kernel backward (linen against nnx); 1 of 2 steps are exact");
  has(text, "exit: 1 (numeric difference)");
  has(text, "also: linen against sequential64: numeric difference (12 tensors, 2 metrics, 1 fail)");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(a_bounded_difference_within_its_bound_is_shown_with_its_rule) {
  struct run r;
  char *text;
  run_start(&r, 1 + 2e-7f, false);
  r.report.verdict = r.verdict + 1;
  r.report.verdicts = 1;
  r.report.cause = AB_CAUSE_EQUAL;
  ck_ok(ab_report_text(&text, &r.report));
  has(text, "EQUAL: linen against sequential64");
  has(text, "bound: relative L2 <= 1e-06, floor 1e-6 (uncalibrated); needs ");
  has(text, "exit: 0 (equal)");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(of_several_that_pass_the_nearest_to_its_bound_is_shown) {
  struct run r;
  char *text;
  const struct ab_verdict *both[2];
  struct ab_verdict equal;
  run_start(&r, 1 + 2e-7f, false);
  struct ab_comparison c = comparison_of(&r.ab, &r.b, &r.oracle);
  c.expected.tensors[AB_Q_METRIC] = c.expected.steps = AB_UNCOUNTED;
  ck_ok(ab_verdict(&equal, &c));
  both[0] = &equal;
  both[1] = &r.bounded;
  r.report.verdict = both;
  r.report.cause = AB_CAUSE_EQUAL;
  ck_ok(ab_report_text(&text, &r.report));
  has(text, "EQUAL: nnx against sequential64");
  has(text, "worst: step 1 layers/2/mlp/wo/kernel backward (linen against sequential64");
  has(text, "also: linen against sequential64: within bounds (12 tensors, 2 metrics)");
  ab_mem_free(text);
  struct ab_json *json = json_of(&r.report);
  ck_assert_int_eq(ab_json_type(member(json, "comparisons/0/counts/steps/expected")), AB_JSON_NULL);
  ck_assert_int_eq(ab_json_type(member(json, "comparisons/0/first_bad_step")), AB_JSON_NULL);
  ab_json_free(json);
  ab_verdict_free(&equal);
  run_stop(&r);
}
END_TEST

START_TEST(structure_is_on_the_default_screen) {
  struct run r;
  char *text;
  run_start(&r, 1, true);
  ck_ok(ab_report_text(&text, &r.report));
  ck_assert_int_eq(lines_of(text), 12);
  ck_assert_int_eq(strncmp(text, "NOT COMPARABLE: ", 16), 0);
  has(text, "structure: missing in linen: layers/*/mlp/wi/kernel backward (1)");
  has(text, "exit: 5 (not comparable)");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(a_failed_side_says_which_why_and_where) {
  struct ab_side_failure failure = {"a (linen)", "was killed by SIGSEGV", "step 3 logits forward"};
  struct ab_report report = {.tool = "ab_compare", .failure = &failure, .failures = 1};
  char *text;
  ck_ok(ab_report_text(&text, &report));
  ck_assert_int_eq(strncmp(text, "SIDE FAILED: ", 13), 0);
  has(text, "failed: side a (linen): was killed by SIGSEGV; last observation: step 3 logits forward");
  has(text, "exit: 3 (a side failed)");
  ab_mem_free(text);
}
END_TEST

START_TEST(names_cannot_steer_a_terminal) {
  struct side a = side_new("li\x1b[2Jnen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  char *text, *long_command;
  struct ab_identity id = identity(0, -1, "x\r\x1b]0;t\x07y", AB_FORWARD);
  struct ab_observation o = {.id = id, .at = {-1, -1, -1, false}, .dtype = AB_F32};
  ck_ok(ab_recording_observe(b.recording, &o));
  side_metric(&a, 0, "lo\nss", 1);
  side_metric(&b, 0, "lo\nss", 2);
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  const struct ab_verdict *verdicts[] = {&v};
  const char *notes[] = {"note\x08\x1b"};
  ck_ok(ab_mem_new(&long_command, 9001, 1));
  memset(long_command, 'k', 9000);
  long_command[8999] = '\x1b';
  struct ab_report report = {.case_name = "c\x1b", .command = long_command, .verdict = verdicts, .verdicts = 1,
                             .note = notes, .notes = 1, .extra_sentence = "\x9b"};
  ck_ok(ab_report_text(&text, &report));
  for (const unsigned char *p = (unsigned char *)text; *p; p++) ck_assert(*p == '\n' || (*p >= 0x20 && *p < 0x7f));
  has(text, "k\\x1b\nexit:"); /* the command is not cut */
  ab_mem_free(text);
  ab_mem_free(long_command);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(a_fully_wrong_run_stays_short) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  const char *notes[100];
  char *text;
  for (int i = 0; i < 500; i++) {
    char name[AB_NAME_MAX];
    snprintf(name, sizeof name, "x%d", i);
    struct ab_observation o = {.id = identity(0, -1, name, AB_FORWARD), .at = {-1, -1, -1, false}, .dtype = AB_F32};
    ck_ok(ab_recording_observe(b.recording, &o));
    notes[i % 100] = "a note";
  }
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  const struct ab_verdict *verdicts[] = {&v};
  struct ab_report report = {.verdict = verdicts, .verdicts = 1, .note = notes, .notes = 100};
  ck_ok(ab_report_text(&text, &report));
  ck_assert_int_lt(lines_of(text), 30);
  has(text, "and 495 more patterns, 500 identities in all");
  has(text, "note: and 92 more");
  ab_mem_free(text);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

static void check_schema(const struct ab_report *report) {
  struct ab_json *schema = schema_root(), *json = json_of(report);
  struct schema s = {.root = schema};
  ck_assert_msg(schema_check(&s, json, schema), "%s", s.why);
  ab_json_free(json);
  ab_json_free(schema);
}

START_TEST(every_report_fits_the_published_schema) {
  static const float factors[] = {1, 1 + 2e-7f, 1.5f, (float)INFINITY, (float)NAN};
  for (int i = 0; i < 10; i++) {
    struct run r;
    run_start(&r, factors[i / 2], i % 2);
    check_schema(&r.report);
    run_stop(&r);
  }
  struct ab_side_failure failure = {"a", "timed out", NULL};
  struct ab_report bare = {.failure = &failure, .failures = 1};
  check_schema(&bare);
  struct ab_explained_list list = {.line = {{"zero", "linen", identity(0, 3, "mlp/wo/kernel", AB_BACKWARD), false,
                                             false, "is zero"}},
                                   .lines = 1};
  struct ab_report explained = {.explained = &list};
  char *text;
  check_schema(&explained);
  report_json(&text, &explained);
  has(text, "\"text\": \"is zero\"");
  ab_mem_free(text);
  struct ab_divergent point = {.known = true, .id = list.line[0].of, .writer = "wo", .distance = 0.5};
  struct ab_divergence divergence = {.side = "linen", .bit = point, .good = point, .limit = 1e-6};
  struct ab_replayed replayed = {.known = true, .kind = "cell", .line = {"replay: operator wo"}, .lines = 1};
  struct ab_report placed = {.divergence = &divergence, .replayed = &replayed};
  check_schema(&placed);
  divergence.above = point;
  divergence.above.difference = ab_difference_scalar(1, 2, true);
  check_schema(&placed);
  struct run r;
  run_start(&r, 1.5f, true);
  r.report.explained = &list;
  ck_ok(ab_report_text(&text, &r.report));
  has(text, "\nexplanation: linen: step 0 layers/3/mlp/wo/kernel backward: is zero [zero]\n");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(distance_and_slope_are_shown) {
  struct run r;
  run_start(&r, 1.5f, false);
  struct ab_distance distance = {.known = true, .a = 3.1e5, .b = 1, .worst = {.layer = 2, .tensor = "mlp/wo/kernel"}};
  struct ab_slope slope = {.known = true, .truth = 1, .by = {(double)NAN, 2}, .scale = 4};
  r.report.distance = &distance;
  r.report.slope = &slope;
  check_schema(&r.report);
  char *text;
  ck_ok(ab_report_text(&text, &r.report));
  ck_assert(strstr(text, "distance to truth: linen 3.1e+05, nnx 1.0 (x the float32 oracle's own; ") != NULL);
  ck_assert(strstr(text, "slope of the float64 loss: 1; linen nan (off by inf), nnx 2 (off by 2.5e-01)") != NULL);
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(the_schema_check_can_fail) {
  struct run r;
  run_start(&r, 1.5f, true);
  struct ab_json *schema = schema_root();
  char *text;
  report_json(&text, &r.report);
  static const char *const edits[][2] = {{"\"exit_code\": 5", "\"exit_code\": 7"}, {"\"cause\"", "\"Cause\""},
                                         {"\"pattern\": \"", "\"pattern\": 1, \"x\": \""}, {"\"bits\": ", "\"bit\": "}};
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    char *at = strstr(text, edits[i][0]), *bad;
    ck_assert_msg(at != NULL, "no %s", edits[i][0]);
    ck_ok(ab_mem_new(&bad, strlen(text) + 64, 1));
    snprintf(bad, strlen(text) + 64, "%.*s%s%s", (int)(at - text), text, edits[i][1], at + strlen(edits[i][0]));
    struct ab_json *json;
    struct schema s = {.root = schema};
    ck_ok(ab_json_parse(&json, bad, strlen(bad), "report", NULL));
    ck_assert_msg(!schema_check(&s, json, schema), "%s was not seen", edits[i][1]);
    ab_json_free(json);
    ab_mem_free(bad);
  }
  ab_mem_free(text);
  ab_json_free(schema);
  run_stop(&r);
}
END_TEST

static const struct {
  const char *path, *text; /* text NULL: the number */
  double number;
} field[] = {
    {"schema", "abpipe-report/1", 0},
    {"tool", "ab_compare", 0},
    {"version", "0.1.0", 0},
    {"case", "t01", 0},
    {"command", "ab_compare t01 --a linen --b nnx", 0},
    {"numerics", "fast: f32, OpenBLAS SkylakeX, 2 threads", 0},
    {"dtype", "float32", 0},
    {"exit_code", NULL, 3},
    {"exit_reason", "a side failed", 0},
    {"cause", "structure differs", 0},
    {"because", "why", 0},
    {"failures/0/side", "b (nnx)", 0},
    {"failures/0/reason", "timed out", 0},
    {"failures/0/last", "nothing", 0},
    {"notes/0", "one", 0},
    {"comparisons/0/a", "linen", 0},
    {"comparisons/0/b", "nnx", 0},
    {"comparisons/0/pair", "same arithmetic", 0},
    {"comparisons/0/exit_code", NULL, 5},
    {"comparisons/0/exit_reason", "not comparable", 0},
    {"comparisons/0/counts/steps/expected", NULL, 2},
    {"comparisons/0/counts/steps/compared", NULL, 2},
    {"comparisons/0/counts/tensors/expected", NULL, 12},
    {"comparisons/0/counts/tensors/compared", NULL, 12},
    {"comparisons/0/counts/elements/compared", NULL, 144},
    {"comparisons/0/counts/metrics/compared", NULL, 2},
    {"comparisons/0/counts/quantities/weight gradient/compared", NULL, 12},
    {"comparisons/0/counts/quantities/metric/expected", NULL, 2},
    {"comparisons/0/counts/unpinned", NULL, 0},
    {"comparisons/0/counts/ignored", NULL, 0},
    {"comparisons/0/counts/unjudged", NULL, 0},
    {"comparisons/0/structure/changed", NULL, 1},
    {"comparisons/0/structure/groups/0/change", "missing", 0},
    {"comparisons/0/structure/groups/0/pattern", "layers/*/mlp/wi/kernel backward", 0},
    {"comparisons/0/structure/groups/0/count", NULL, 1},
    {"comparisons/0/structure/groups/0/example", "step 0 layers/1/mlp/wi/kernel backward", 0},
    {"comparisons/0/structure/groups/0/shape_b/0", NULL, 4},
    {"comparisons/0/structure/groups/0/dtype_b", "F32", 0},
    {"comparisons/0/structure/groups_left_out", NULL, 0},
    {"comparisons/0/differing", NULL, 1},
    {"comparisons/0/failing", NULL, 1},
    {"comparisons/0/differing_elements", NULL, 1},
    {"comparisons/0/sign_only", NULL, 0},
    {"comparisons/0/nonfinite", NULL, 0},
    {"comparisons/0/first_bad_step", NULL, 1},
    {"comparisons/0/exact_steps", NULL, 1},
    {"comparisons/0/worst/step", NULL, 1},
    {"comparisons/0/worst/accumulation", NULL, 0},
    {"comparisons/0/worst/microbatch", NULL, -1},
    {"comparisons/0/worst/layer", NULL, 2},
    {"comparisons/0/worst/tensor", "mlp/wo/kernel", 0},
    {"comparisons/0/worst/phase", "backward", 0},
    {"comparisons/0/worst/quantity", "weight gradient", 0},
    {"comparisons/0/worst/at_a/stage", NULL, -1},
    {"comparisons/0/worst/at_b/repeat", NULL, -1},
    {"comparisons/0/worst/order", NULL, 9},
    {"comparisons/0/worst/shape/1", NULL, 4},
    {"comparisons/0/worst/bound/tier", "bitwise", 0},
    {"comparisons/0/worst/bound/rule", "bitwise", 0},
    {"comparisons/0/worst/bound/limit", NULL, 0},
    {"comparisons/0/worst/evidence", "values", 0},
    {"comparisons/0/worst/elements/count", NULL, 12},
    {"comparisons/0/worst/elements/differing", NULL, 1},
    {"comparisons/0/worst/elements/nonfinite_a", NULL, 0},
    {"comparisons/0/worst/elements/worst/index", NULL, 7},
    {"comparisons/0/worst/elements/worst/b/value", NULL, 2.753},
    {"comparisons/0/worst/elements/worst/b/bits", "40303127", 0},
    {"comparisons/0/worst/elements/worst/b/dtype", "F32", 0},
    {"comparisons/0/worst/elements/first/index", NULL, 7},
    {"comparisons/0/first_divergence/tensor", "mlp/wo/kernel", 0},
    {"comparisons/0/first_difference/layer", NULL, 2},
    {"comparisons/1/pair", "float32 against float64", 0},
    {"comparisons/1/worst/bound/rule", "floor 1e-6 (uncalibrated)", 0},
    {"comparisons/1/worst/bound/limit", NULL, 1e-6},
};

START_TEST(every_field_holds_what_it_says) {
  struct run r;
  struct ab_side_failure failure = {"b (nnx)", "timed out", "nothing"};
  const char *notes[] = {"one"};
  run_start(&r, 1.5f, true);
  r.report.failure = &failure;
  r.report.failures = 1;
  r.report.note = notes;
  r.report.notes = 1;
  r.report.extra_sentence = "why";
  struct ab_json *json = json_of(&r.report);
  for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
    const struct ab_json *value = member(json, field[i].path);
    const char *text = NULL;
    double number = 0;
    if (field[i].text) {
      ck_ok(ab_json_string(&text, value));
      ck_assert_msg(strcmp(text, field[i].text) == 0, "%s is '%s'", field[i].path, text);
    } else {
      ck_ok(ab_json_double(&number, value));
      ck_assert_msg(number == field[i].number, "%s is %.17g", field[i].path, number);
    }
  }
  bool right;
  ck_ok(ab_json_bool(&right, member(json, "comparisons/0/counts/right")));
  ck_assert(right);
  ab_json_free(json);
  run_stop(&r);
}
END_TEST

START_TEST(the_exit_code_folds_everything) {
  struct ab_verdict equal = {.exit = AB_EXIT_EQUAL}, red = {.exit = AB_EXIT_DIFFERENT}, shape = {.exit = 5};
  struct ab_side_failure failure = {0};
  const struct ab_verdict *all[] = {&equal, &red, &shape};
  struct ab_report report = {0};
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_INCOMPARABLE);
  report.verdict = all;
  report.verdicts = 1;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_EQUAL);
  report.verdicts = 2;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_DIFFERENT);
  report.extra = AB_EXIT_GOLDEN;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_GOLDEN);
  report.verdicts = 3;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_INCOMPARABLE);
  report.extra = AB_EXIT_SELFTEST;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_SELFTEST);
  report.failure = &failure;
  report.failures = 1;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_SIDE);
  report.extra = AB_EXIT_USAGE;
  ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_USAGE);
}
END_TEST

START_TEST(only_an_equal_cause_is_green) {
  struct ab_verdict equal = {.exit = AB_EXIT_EQUAL}, red = {.exit = AB_EXIT_DIFFERENT};
  const struct ab_verdict *all[] = {&equal, &red};
  for (enum ab_cause cause = AB_CAUSE_EQUAL; cause <= AB_CAUSE_UNCALIBRATED; cause++) {
    struct ab_report report = {.verdict = all, .verdicts = 1, .cause = cause};
    ck_assert_int_eq(ab_report_exit(&report), cause == AB_CAUSE_EQUAL ? AB_EXIT_EQUAL : AB_EXIT_SELFTEST);
    report.verdicts = 2;
    ck_assert_int_eq(ab_report_exit(&report), AB_EXIT_DIFFERENT);
  }
}
END_TEST

START_TEST(a_report_that_cannot_be_written_is_an_error) {
  char path[] = "/tmp/ab_report_XXXXXX", back[8] = "";
  int fd = mkstemp(path);
  ck_ok(ab_report_write(path, "text\n"));
  close(fd);
  fd = open(path, O_RDONLY);
  ck_assert_int_eq(read(fd, back, sizeof back), 5);
  ck_assert_str_eq(back, "text\n");
  close(fd);
  unlink(path);
  ck_assert_int_ne(ab_report_write("/nonexistent/report.json", "x"), AB_OK);
  ck_fails(ab_report_write("/dev/full", "x"), AB_EIO, "/dev/full");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("report");
  TCase *c = tcase_create("report");
  tcase_add_test(c, equal_is_ten_lines_with_the_verdict_first);
  tcase_add_test(c, a_red_report_names_tensor_values_bound_and_divergence);
  tcase_add_test(c, a_bounded_difference_within_its_bound_is_shown_with_its_rule);
  tcase_add_test(c, of_several_that_pass_the_nearest_to_its_bound_is_shown);
  tcase_add_test(c, structure_is_on_the_default_screen);
  tcase_add_test(c, a_failed_side_says_which_why_and_where);
  tcase_add_test(c, names_cannot_steer_a_terminal);
  tcase_add_test(c, a_fully_wrong_run_stays_short);
  tcase_add_test(c, every_report_fits_the_published_schema);
  tcase_add_test(c, distance_and_slope_are_shown);
  tcase_add_test(c, the_schema_check_can_fail);
  tcase_add_test(c, every_field_holds_what_it_says);
  tcase_add_test(c, the_exit_code_folds_everything);
  tcase_add_test(c, only_an_equal_cause_is_green);
  tcase_add_test(c, a_report_that_cannot_be_written_is_an_error);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
