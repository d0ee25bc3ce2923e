/* A report with everything in it, in every form, against tests/fixtures/reports/: every word, number and line break.
 * AB_RENEW_FIXTURES=1 writes the files anew, for a change of wording that was meant; their diff is then to be read. */
#include <unistd.h>

#include "file.h"
#include "golden.h"
#include "report_parts.h"
#include "sides.h"

static struct ab_identity id_of(int step, int layer, const char *tensor) {
  struct ab_identity id = identity(step, layer, tensor, AB_BACKWARD);
  id.microbatch = layer < 0 ? -1 : 1;
  return id;
}

/* All that differs. a is 1.5, b 1.25, in `differing` of three elements. */
static struct ab_finding finding(int step, const char *tensor, size_t differing) {
  return (struct ab_finding){
      .id = id_of(step, 2, tensor), .at_a = {1, 2, 3, false}, .at_b = {0, 0, 0, false}, .order = 7,
      .quantity = AB_Q_WEIGHT_GRADIENT, .bound = {AB_TIER_BOUNDED, AB_RULE_FLOOR, 1e-6},
      .evidence = AB_EVIDENCE_VALUES, .distance = 0.25, .shape = {2, {1, 3}}, .differs = true, .fails = true,
      .difference = {.count = 3, .differing = differing, .sign_only = 1, .max_abs = 0.25, .l2 = 0.5, .l2_b = 2,
                     .rel_l2 = 0.125, .max_abs_over_max = 0.0625, .max_ulp = 3, .has_ulp = true,
                     .worst = {2, 1.5, 1.25, 0x3fc00000, 0x3fa00000}, .first = {1, 0, 1, 0xbeef, 0x3f800000}}};
}

struct full {
  struct ab_group group[3];
  struct ab_finding finding[2];
  struct ab_verdict verdict[3];
  const struct ab_verdict *verdicts[3];
  struct ab_facts facts;
  struct ab_distance distance;
  struct ab_slope slope;
  struct ab_divergence divergence;
  struct ab_replayed replayed;
  struct ab_teeth teeth;
  struct ab_explained_list explained;
  struct ab_side_failure failure[2];
  const char *note[9];
  struct ab_report report;
  struct ab_entry entry;
};

static void fill_structure(struct full *f) {
  f->group[0] = (struct ab_group){.change = AB_CHANGE_RESHAPED, .pattern = "reshaped", .count = 4,
                                  .example = id_of(0, 1, "a"), .shape_a = {2, {2, 3}}, .shape_b = {2, {3, 2}}};
  f->group[1] = (struct ab_group){.change = AB_CHANGE_RETYPED, .pattern = "retyped", .count = 2,
                                  .example = id_of(0, 1, "b"), .dtype_a = AB_F64, .shape_a = {1, {2}},
                                  .shape_b = {1, {2}}};
  f->group[2] = (struct ab_group){.change = AB_CHANGE_MISSING, .pattern = "missing", .count = 1,
                                  .example = id_of(0, -1, "c"), .shape_a = {.rank = -1}, .shape_b = {0, {9}}};
}

/* One with structure, findings and a metric; one whose counts are short; one that is equal and nothing more. */
static void fill_verdicts(struct full *f) {
  struct ab_verdict *v = f->verdict;
  f->finding[0] = finding(1, "mlp/wo/kernel", 2);
  f->finding[1] = finding(1, "mlp/wi/kernel", 1);
  f->finding[1].fails = false;
  v[0] = (struct ab_verdict){.name_a = "linen", .name_b = "nnx", .exit = AB_EXIT_INCOMPARABLE, .any = true,
                             .steps = {2, 2}, .tensors = {5, 4}, .elements = {AB_UNCOUNTED, 12}, .metrics = {2, 2},
                             .unpinned = 1, .ignored = 2, .unjudged = 3, .differing = 3, .failing = 2,
                             .differing_elements = 3, .sign_only = 1, .nonfinite = 4, .first_bad_step = 1,
                             .exact_steps = 1, .any_difference = true, .finding = f->finding, .findings = 2,
                             .changed = 7, .group = f->group, .groups = 3, .groups_left_out = 2, .uncalibrated = true};
  v[0].worst = v[0].first = v[0].first_difference = f->finding[0];
  v[0].worst_of[AB_Q_METRIC] = (struct ab_finding){.metric = true, .id = id_of(1, -1, "loss"), .differs = true,
                                                   .fails = true, .distance = 0.5,
                                                   .bound = {AB_TIER_BITWISE, AB_RULE_BITWISE, 0},
                                                   .difference = ab_difference_scalar(1.5, 1, true)};
  v[0].by_quantity[AB_Q_METRIC] = (struct ab_tally){2, 2};
  v[0].failing_of[AB_Q_METRIC] = v[0].differing_of[AB_Q_METRIC] = 1;
  v[0].by_quantity[AB_Q_PARAMETER] = (struct ab_tally){AB_UNCOUNTED, 1};
  v[0].changed_of[AB_Q_PARAMETER] = 6;
  v[0].by_quantity[AB_Q_WEIGHT_GRADIENT] = (struct ab_tally){5, 3};
  v[0].by_quantity[AB_Q_STATE] = (struct ab_tally){1, 1};
  v[1] = (struct ab_verdict){.name_a = "linen", .name_b = "golden", .exit = AB_EXIT_DIFFERENT, .any = true,
                             .steps = {3, 2}, .metrics = {2, 2}, .tensors = {AB_UNCOUNTED, 6}, .failing = 1,
                             .differing = 1, .any_difference = true, .findings = 1, .finding = f->finding,
                             .first_bad_step = AB_UNCOUNTED};
  v[1].worst = v[1].first = v[1].first_difference = f->finding[0];
  v[1].worst.distance = INFINITY;
  v[1].worst.difference.max_ulp = UINT64_MAX;
  v[1].worst.bound.tier = AB_TIER_BITWISE;
  v[2] = (struct ab_verdict){.name_a = "linen", .name_b = "nnx", .exit = AB_EXIT_EQUAL, .any = true,
                             .counts_right = true, .steps = {2, 2}, .tensors = {4, 4}, .metrics = {2, 2}};
  for (int i = 0; i < 3; i++) f->verdicts[i] = &v[i];
}

/* Behind the facts lies the first reason, which is of a fact that nobody looked at. */
static void fill_reasons(struct full *f) {
  for (int fact = 0; fact < AB_FACTS; fact++) {
    f->facts.known[fact] = (enum ab_known)(fact % 3);
    if (fact % 3) snprintf(f->facts.reason[fact], AB_REASON, "reason %d", fact);
  }
  f->facts.known[AB_FACT_AB] = f->facts.known[AB_FACT_FINITE] = AB_BROKEN;
  f->facts.reason[AB_FACT_INPUTS][0] = AB_BROKEN;
  f->distance = (struct ab_distance){.known = true, .a = 3e5, .b = 1, .worst = id_of(1, 2, "mlp/wo/kernel")};
  f->slope = (struct ab_slope){.known = true, .step = 1, .truth = 1, .by = {1.5, 2}, .scale = 4};
  struct ab_divergent point = {.known = true, .id = id_of(1, 2, "wo"), .at = {0, 1, 2, false}, .shape = {1, {3}},
                               .writer = "wo", .distance = 0.5, .difference = ab_difference_scalar(1, 2, true)};
  f->divergence = (struct ab_divergence){"linen", "sequential", point, point, point, 1e-6};
  f->replayed = (struct ab_replayed){.known = true, .kind = "cell", .side = "linen", .line = {"replay: wo"}, .lines = 1};
  ab_teeth_unobserved(&f->teeth, "segment_ids", "every token has segment %d", 1);
  f->teeth.looked = true;
  f->explained = (struct ab_explained_list){.line = {{"zero", "linen", id_of(1, 2, "wo"), false, false, "is zero"},
                                                     {"zero", "nnx", id_of(1, -1, "loss"), true, false, "is zero, too"}},
                                            .lines = 2};
}

static void fill(struct full *f) {
  memset(f, 0, sizeof *f);
  fill_structure(f);
  fill_verdicts(f);
  fill_reasons(f);
  f->failure[0] = (struct ab_side_failure){"a (linen)", "timed out", "step 1 logits forward"};
  f->failure[1] = (struct ab_side_failure){"b (nnx)", "was killed", NULL};
  for (int i = 0; i < 9; i++) f->note[i] = "a note";
  f->report = (struct ab_report){.tool = "ab_compare", .version = "0.1.0", .case_name = "t01", .command = "ab_compare t01",
                                 .numerics = "portable", .dtype = "float32", .verdict = f->verdicts, .verdicts = 3,
                                 .cause = AB_CAUSE_STRUCTURE, .facts = &f->facts, .distance = &f->distance,
                                 .slope = &f->slope, .divergence = &f->divergence, .replayed = &f->replayed,
                                 .teeth = &f->teeth, .verbose = true, .failure = f->failure, .failures = 2,
                                 .explained = &f->explained, .note = f->note, .notes = 9, .extra = AB_EXIT_GOLDEN,
                                 .extra_sentence = "golden/t01/golden.json is stale"};
  f->entry = (struct ab_entry){.name = "t01", .report = &f->report, .config = "golden/t01/config.yml",
                               .golden = "golden/t01/golden.json", .seconds = 1.5};
}

static void check_fixture(const char *name, const char *text) {
  const char *root = getenv("AB_SOURCE_ROOT");
  char path[512], *recorded;
  size_t size, at = 0;
  snprintf(path, sizeof path, "%s/tests/fixtures/reports/%s", root ? root : ".", name);
  if (getenv("AB_RENEW_FIXTURES")) ck_ok(ab_file_write(path, text, strlen(text)));
  ck_ok(ab_file_read(&recorded, &size, path, 1 << 20));
  while (text[at] && text[at] == recorded[at]) at++;
  while (at && text[at - 1] != '\n') at--;
  if (strcmp(text, recorded) != 0) ck_abort_msg("%s: is\n%.200s\nwas\n%.200s", name, text + at, recorded + at);
  ab_mem_free(recorded);
}

START_TEST(the_text_is_the_recorded_one) {
  struct full f;
  char *text;
  fill(&f);
  ck_ok(ab_report_text(&text, &f.report));
  check_fixture("full.txt", text);
  ab_mem_free(text);
}
END_TEST

static const char *const files[][2] = {[AB_FORM_JSON] = {"full.json", "suite.json"},
                                       [AB_FORM_JUNIT] = {"full.xml", "suite.xml"},
                                       [AB_FORM_MARKDOWN] = {"full.md", "suite.md"},
                                       [AB_FORM_GITHUB] = {"full.github", "suite.github"}};

/* Alone, and in a suite with one that was skipped, one that could not run, one that is equal and one of each exit. */
START_TEST(every_form_is_the_recorded_one) {
  for (int suite = 0; suite < 2; suite++) {
    struct full f;
    struct ab_sheet sheet;
    char *text;
    fill(&f);
    struct ab_report equal = {.verdict = f.verdicts + 2, .verdicts = 1, .case_name = "t02"};
    const struct ab_entry more[] = {{.name = "skipped", .skip = "no blocks"},
                                    {.name = "broken", .because = "golden/t03/config.yml:1234567:8: no such key"},
                                    {.name = "t02", .report = &equal}};
    ck_ok(ab_sheet_open(&sheet, (enum ab_form_kind)_i, &(struct ab_about){"ab_compare", "0.1.0", suite ? "list.yml" : NULL}));
    ck_ok(ab_sheet_entry(&sheet, &f.entry));
    for (size_t i = 0; suite && i < sizeof more / sizeof *more; i++) ck_ok(ab_sheet_entry(&sheet, &more[i]));
    for (int exit = 1; suite && exit < AB_EXITS; exit++) {
      struct ab_report red = {.extra = (enum ab_exit)exit, .extra_sentence = "why"};
      ck_ok(ab_sheet_entry(&sheet, &(struct ab_entry){.name = "red", .report = &red, .config = "c.yml", .golden = "g"}));
    }
    ck_ok(ab_sheet_finish(&text, &sheet, AB_EXIT_SIDE));
    check_fixture(files[_i][suite], text);
    ab_mem_free(text);
    ab_sheet_close(&sheet);
  }
}
END_TEST

/* "also", notes and findings, where there is nothing more to say. */
START_TEST(what_is_all_is_not_said_to_be_more) {
  struct full f;
  for (size_t notes = 0; notes <= 9; notes++) {
    char *text;
    size_t lines = 0;
    fill(&f);
    f.report.notes = notes;
    f.report.verdicts = 1;
    f.verdict[0].findings = f.verdict[0].differing;
    f.report.verbose = false;
    ck_ok(ab_report_text(&text, &f.report));
    for (const char *at = text; (at = strstr(at, "\nnote: a note\n")); at++) lines++;
    ck_assert_uint_eq(lines, notes < 8 ? notes : 8);
    const char *more = strstr(text, "note: and ");
    ck_assert((more != NULL) == (notes == 9) && (!more || strncmp(more, "note: and 1 more\n", 17) == 0));
    ck_assert_ptr_nonnull(strstr(text, "also: nothing else was asked for\n"));
    ck_assert_ptr_null(strstr(text, "\n\n"));
    ab_mem_free(text);
  }
}
END_TEST

/* In units of its bound; a failing one before all. */
START_TEST(the_worst_comparison_is_shown) {
  static const struct {
    double distance[2], limit[2];
    bool fails; /* the second */
    int shown;
  } rows[] = {{{1e-7, 1e-9}, {1e-6, 2e-9}, false, 1}, {{0.9, 0.5}, {1, 0}, false, 0}, {{0.5, 0.9}, {0, 1}, false, 1},
              {{0.9, 0.1}, {1, 1}, true, 1},          {{0.5, 0.5}, {1, 1}, false, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct full f;
    char *text, expected[64];
    fill(&f);
    for (int v = 0; v < 2; v++) {
      f.verdict[v] = (struct ab_verdict){.name_a = v ? "second" : "first", .name_b = "b", .any_difference = true,
                                         .failing = v && rows[i].fails, .worst = f.finding[0]};
      f.verdict[v].worst.distance = rows[i].distance[v];
      f.verdict[v].worst.bound.limit = rows[i].limit[v];
    }
    f.report.verdicts = 2;
    f.report.verbose = false;
    ck_ok(ab_report_text(&text, &f.report));
    snprintf(expected, sizeof expected, "kernel backward (%s against b", rows[i].shown ? "second" : "first");
    const char *worst = strstr(text, "\nworst: ");
    ck_assert_msg(worst && strstr(worst, expected), "row %zu: %s", i, worst ? worst : text);
    ab_mem_free(text);
  }
}
END_TEST

START_TEST(a_cell_is_what_its_quantity_gave) {
  static const struct {
    struct ab_tally tally;
    size_t changed, failing, differing;
    enum ab_cell cell;
  } rows[] = {{{0, 0}, 0, 0, 0, AB_CELL_NONE},           {{AB_UNCOUNTED, 0}, 0, 0, 0, AB_CELL_NONE},
              {{3, 3}, 0, 0, 0, AB_CELL_SAME},           {{AB_UNCOUNTED, 3}, 0, 0, 0, AB_CELL_SAME},
              {{3, 3}, 0, 0, 1, AB_CELL_WITHIN},         {{3, 3}, 0, 1, 1, AB_CELL_OVER},
              {{3, 2}, 0, 1, 1, AB_CELL_BROKEN},         {{0, 1}, 0, 0, 0, AB_CELL_BROKEN},
              {{AB_UNCOUNTED, 3}, 1, 0, 0, AB_CELL_BROKEN}, {{1, 0}, 0, 0, 0, AB_CELL_BROKEN}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_verdict v = {.by_quantity[AB_Q_STATE] = rows[i].tally, .changed_of[AB_Q_STATE] = rows[i].changed,
                           .failing_of[AB_Q_STATE] = rows[i].failing, .differing_of[AB_Q_STATE] = rows[i].differing};
    ck_assert_msg(ab_cell_of(&v, AB_Q_STATE) == rows[i].cell, "row %zu: %s", i, ab_cell_name(ab_cell_of(&v, AB_Q_STATE)));
  }
}
END_TEST

/* More cases than a table of a comment takes. */
START_TEST(a_table_has_room_for_its_first_half) {
  struct ab_sheet sheet;
  char *text;
  ck_ok(ab_sheet_open(&sheet, AB_FORM_MARKDOWN, &(struct ab_about){"ab_compare", "0.1.0", "list.yml"}));
  for (int i = 0; i < 2000; i++) ck_ok(ab_sheet_entry(&sheet, &(struct ab_entry){.name = "case", .skip = "why"}));
  ck_ok(ab_sheet_finish(&text, &sheet, AB_EXIT_EQUAL));
  size_t rows = 0;
  for (const char *at = text; (at = strstr(at, "\n| <code>case</code>")); at++) rows++;
  char expected[64];
  snprintf(expected, sizeof expected, "\nand %zu more cases\n", 2000 - rows);
  ck_assert_uint_gt(rows, 100);
  ck_assert_uint_lt(strlen(text), AB_MARKDOWN_MOST * 3 / 4);
  ck_assert_ptr_nonnull(strstr(text, expected));
  ab_mem_free(text);
  ab_sheet_close(&sheet);
}
END_TEST

static const char golden_lines[] =
    "{\n"                                                              /* 1 */
    "  \"metrics\": [\n"
    "    {\n      \"order\": 0,\n      \"name\": \"loss\"\n    },\n"    /* 3: the name on 5 */
    "    {\n      \"order\": 3,\n      \"name\": \"loss\"\n    },\n"    /* 9 */
    "    {\n      \"order\": \"4\",\n      \"name\": \"loss\"\n    }\n" /* no number */
    "  ],\n"
    "  \"leaves\": [\n"                                                /* 16 */
    "    {\n      \"order\": 1,\n      \"tensor\": \"wo\"\n    },\n"    /* 19 */
    "    {\n      \"order\": 2,\n      \"tensor\": \"wo\"\n    },\n"    /* 23 */
    "    {\n      \"order\": 5\n    }\n"                               /* no name */
    "  ]\n}\n";

START_TEST(a_finding_is_found_in_a_goldens_file) {
  static const struct {
    bool metric;
    size_t order, line;
  } rows[] = {{true, 0, 5},   {true, 3, 9},   {true, 4, 1},  {true, 1, 1}, {false, 1, 19},
              {false, 2, 23}, {false, 5, 1}, {false, 0, 1}, {true, 9, 1}};
  char path[] = "/tmp/ab_line_XXXXXX";
  size_t line = 0;
  close(mkstemp(path));
  ck_ok(ab_file_write(path, golden_lines, sizeof golden_lines - 1));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ck_ok(ab_golden_line(&line, path, rows[i].metric, rows[i].order));
    ck_assert_msg(line == rows[i].line, "row %zu: line %zu", i, line);
  }
  ck_ok(ab_file_write(path, "{}", 2));
  ck_ok(ab_golden_line(&line, path, true, 0));
  ck_assert_uint_eq(line, 1);
  unlink(path);
  ck_ok(ab_golden_line(&line, path, true, 0));
  ck_assert_uint_eq(line, 1);
  ck_assert_str_eq(ab_status_message(), "");
}
END_TEST

/* A verdict that left its golden, told at the golden's line. */
START_TEST(an_annotation_points_at_the_goldens_line) {
  char path[] = "/tmp/ab_line_XXXXXX", *text;
  struct full f;
  struct ab_sheet sheet;
  fill(&f);
  close(mkstemp(path));
  ck_ok(ab_file_write(path, golden_lines, sizeof golden_lines - 1));
  f.verdict[1].worst.metric = false;
  f.verdict[1].worst.order = 2;
  f.entry.golden = path;
  ck_ok(ab_sheet_open(&sheet, AB_FORM_GITHUB, &(struct ab_about){"ab_compare", "0.1.0", NULL}));
  ck_ok(ab_sheet_entry(&sheet, &f.entry));
  ck_ok(ab_sheet_finish(&text, &sheet, AB_EXIT_SIDE));
  unlink(path);
  ck_assert_msg(strstr(text, ",line=23,title=abpipe%3A DIFFERENT%3A t01::linen against golden; ") != NULL, "%s", text);
  ab_mem_free(text);
  ab_sheet_close(&sheet);
}
END_TEST

/* Names of every length up to more than a block of memory. */
START_TEST(an_annotation_names_the_file_of_its_sentence) {
  for (int length = 1; length < 140; length++) {
    char because[256], expected[256], *text;
    struct ab_sheet sheet;
    snprintf(because, sizeof because, "c:%0*d:7:8: why", length, 0);
    snprintf(expected, sizeof expected, "::error file=c%%3A%0*d,line=7,title=", length, 0);
    ck_ok(ab_sheet_open(&sheet, AB_FORM_GITHUB, &(struct ab_about){"ab_compare", "0.1.0", NULL}));
    ck_ok(ab_sheet_entry(&sheet, &(struct ab_entry){.name = "t", .because = because, .config = "c.yml"}));
    ck_ok(ab_sheet_finish(&text, &sheet, AB_EXIT_USAGE));
    ck_assert_msg(strncmp(text, expected, strlen(expected)) == 0, "%s", text);
    ab_mem_free(text);
    ab_sheet_close(&sheet);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("report_full");
  TCase *tests = tcase_create("report_full");
  tcase_add_test(tests, the_text_is_the_recorded_one);
  tcase_add_loop_test(tests, every_form_is_the_recorded_one, 0, AB_FORMS);
  tcase_add_test(tests, what_is_all_is_not_said_to_be_more);
  tcase_add_test(tests, the_worst_comparison_is_shown);
  tcase_add_test(tests, a_cell_is_what_its_quantity_gave);
  tcase_add_test(tests, a_table_has_room_for_its_first_half);
  tcase_add_test(tests, a_finding_is_found_in_a_goldens_file);
  tcase_add_test(tests, an_annotation_points_at_the_goldens_line);
  tcase_add_test(tests, an_annotation_names_the_file_of_its_sentence);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
