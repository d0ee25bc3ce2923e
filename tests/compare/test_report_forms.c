#include "report_forms.h"
#include "report_doc.h"
#include "sides.h"

static const char evil[] = "x]]><script>alert(1)</script>`|\n::error::pwned\r%0A##[add-path]/e \x1b[2J@root #1 \xe2\x80\xae";

/* A red run whose every name is hostile: one value, one metric, one missing leaf, an oracle, a failed side. */
struct run {
  struct side a, b;
  struct both both;
  struct ab_verdict verdict;
  const struct ab_verdict *verdicts[1];
  struct ab_facts facts;
  struct ab_teeth teeth;
  struct ab_explained_list explained;
  struct ab_side_failure failure;
  const char *note[1];
  struct ab_report report;
  struct ab_entry entry;
};

static void run_start(struct run *r, const char *name, bool red) {
  memset(r, 0, sizeof *r);
  char tensor[AB_NAME_MAX];
  snprintf(tensor, sizeof tensor, "%.80s/kernel", name);
  r->a = side_new(name);
  r->b = side_new("nnx");
  struct ab_identity id = identity(0, -1, tensor, AB_BACKWARD);
  for (int i = 0; i < 2; i++) {
    struct side *s = i ? &r->b : &r->a;
    ((float *)side_tensor(s, &id, AB_F32, (struct ab_shape){1, {4}})->data)[1] = i || !red ? 2.5f : 2.75f;
    side_observe(s, &id);
    side_metric(s, 0, "loss", 1);
    ab_recording_complete(s->recording);
  }
  struct ab_comparison c = comparison_of(&r->both, &r->a, &r->b);
  c.expected = ab_expected_none();
  ck_ok(ab_verdict(&r->verdict, &c));
  r->verdicts[0] = &r->verdict;
  ab_fact_verdict(&r->facts, AB_FACT_AB, &r->verdict);
  ab_teeth_unobserved(&r->teeth, name, "%s", name);
  r->teeth.looked = true;
  r->explained = (struct ab_explained_list){.line = {{.id = "zero", .of = id}}, .lines = red};
  snprintf(r->explained.line[0].side, sizeof r->explained.line[0].side, "%s", name);
  snprintf(r->explained.line[0].text, sizeof r->explained.line[0].text, "%s", name);
  r->failure = (struct ab_side_failure){name, name, name};
  r->note[0] = name;
  r->report = (struct ab_report){.tool = "ab_compare", .version = "0.1.0", .case_name = name, .command = name,
                                 .numerics = name, .dtype = name, .verdict = r->verdicts, .verdicts = 1,
                                 .cause = ab_cause_of(&r->facts), .facts = &r->facts, .teeth = &r->teeth,
                                 .explained = &r->explained, .note = r->note, .notes = 1};
  r->entry = (struct ab_entry){.name = name, .report = &r->report, .config = name, .golden = name, .seconds = 1.5};
}

static void run_stop(struct run *r) {
  ab_verdict_free(&r->verdict);
  side_free(&r->a);
  side_free(&r->b);
}

static char *made(enum ab_form_kind kind, const char *suite, const struct ab_entry *entries, size_t count,
                  enum ab_exit exit) {
  struct ab_sheet sheet;
  char *text;
  ck_ok(ab_sheet_open(&sheet, kind, &(struct ab_about){"ab_compare", "0.1.0", suite}));
  for (size_t i = 0; i < count; i++) ck_ok(ab_sheet_entry(&sheet, &entries[i]));
  ck_ok(ab_sheet_finish(&text, &sheet, exit));
  ab_sheet_close(&sheet);
  return text;
}

static size_t times(const char *text, const char *part) {
  size_t n = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) n++;
  return n;
}

#define has(text, part) ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in:\n%.2000s", part, text)
#define lacks(text, part) ck_assert_msg(strstr(text, part) == NULL, "\"%s\" in:\n%.2000s", part, text)

START_TEST(hostile_names_steer_no_document) {
  for (int form = 0; form < AB_FORMS; form++) {
    for (int suite = 0; suite < 2; suite++) {
      struct run r;
      run_start(&r, evil, true);
      r.report.failure = &r.failure;
      r.report.failures = 1;
      r.report.extra = AB_EXIT_SELFTEST;
      r.report.extra_sentence = evil;
      const struct ab_entry entries[] = {r.entry, {.name = evil, .skip = evil}, {.name = evil, .because = evil}};
      char *text = made((enum ab_form_kind)form, suite ? evil : NULL, entries, suite ? 3 : 1, AB_EXIT_SIDE);
      for (const char *p = text; *p; p++) ck_assert_msg(*p == '\n' || (unsigned char)*p >= 0x20, "byte %d", *p);
      lacks(text, "\n::error::pwned");
      if (form != AB_FORM_JSON) {
        lacks(text, "\xe2\x80\xae");
        lacks(text, "##[");
      }
      if (form == AB_FORM_JUNIT || form == AB_FORM_MARKDOWN) {
        lacks(text, "<script");
        lacks(text, "]]>");
      }
      for (const char *line = text; form == AB_FORM_GITHUB && *line; line = strchr(line, '\n') + 1) {
        ck_assert_msg(!strncmp(line, "::error ", 8) || !strncmp(line, "::warning ", 10), "%.500s", line);
        ck_assert_ptr_null(memmem(line, strcspn(line, "\n"), "%0A", 3));
      }
      ab_mem_free(text);
      run_stop(&r);
    }
  }
}
END_TEST

/* What stands in Markdown outside <code> and <pre> is ours alone. */
START_TEST(markdown_keeps_words_from_outside_in_code) {
  struct run r;
  run_start(&r, evil, true);
  char *text = made(AB_FORM_MARKDOWN, NULL, &r.entry, 1, AB_EXIT_DIFFERENT);
  for (char *open; (open = strstr(text, "<code>")) || (open = strstr(text, "<pre>"));) {
    char *end = strstr(open, open[1] == 'c' ? "</code>" : "</pre>");
    ck_assert_ptr_nonnull(end);
    if (open[1] == 'c') ck_assert_ptr_null(memchr(open, '`', (size_t)(end - open)));
    if (open[1] == 'c') ck_assert_ptr_null(memchr(open, '|', (size_t)(end - open)));
    memset(open, ' ', (size_t)(end - open) + 2);
  }
  lacks(text, "alert");
  lacks(text, "root");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(junit_has_a_case_for_each_quantity_of_each_comparison) {
  struct run r;
  run_start(&r, "linen", true);
  const struct ab_verdict *twice[] = {&r.verdict, &r.verdict};
  r.report.verdict = twice;
  r.report.verdicts = 2;
  char *text = made(AB_FORM_JUNIT, NULL, &r.entry, 1, AB_EXIT_DIFFERENT);
  has(text, "<testsuites name=\"abpipe\" tests=\"7\" failures=\"3\" errors=\"0\" skipped=\"0\" time=\"1.500\">");
  has(text, "<testcase classname=\"abpipe.linen\" name=\"linen against nnx: metric\" time=\"0\"/>");
  has(text, "name=\"linen against nnx: weight gradient\" time=\"0\">\n      <failure type=\"numeric difference\" "
            "message=\"1 of 1 differ by more than their bound\">expected: 2.5 (0x40200000) (nnx)\n"
            "actual: 2.75 (0x40300000) (linen)\n");
  has(text, "name=\"linen against nnx (2): weight gradient\"");
  has(text, "\nbound: bitwise; would pass at 0.1\n");
  has(text, "\nfirst divergence: step 0 linen/kernel backward (linen against nnx)");
  has(text, "\nexplanation: linen: linen/kernel: linen [zero]\n");
  has(text, "\ncause: undecided\n");
  has(text, "<property name=\"version\" value=\"0.1.0\"/>");
  has(text, "<property name=\"route_b\" value=\"nnx\"/>");
  has(text, "<property name=\"numerics\" value=\"linen\"/>");
  has(text, "<testcase classname=\"abpipe.linen\" name=\"verdict\" time=\"0\">\n      <failure ");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(junit_counts_what_is_no_number_as_errors) {
  struct run r;
  run_start(&r, "linen", false);
  r.report.extra = AB_EXIT_SELFTEST;
  r.report.extra_sentence = "a control was missed";
  const struct ab_entry entries[] = {r.entry, {.name = "s", .skip = "no blocks"}, {.name = "w", .because = "no file"}};
  char *text = made(AB_FORM_JUNIT, "list.yml", entries, 3, AB_EXIT_USAGE);
  has(text, "<testsuites name=\"list.yml\" tests=\"6\" failures=\"0\" errors=\"2\" skipped=\"1\" time=\"1.500\">");
  has(text, "<error type=\"self-test failed\" message=\"SELF-TEST FAILED: linen against nnx, linen");
  has(text, "<testcase classname=\"abpipe.s\" name=\"verdict\" time=\"0\">\n      <skipped message=\"no blocks\"/>");
  has(text, "<error type=\"usage, config or environment error\" message=\"no file\">no file\n");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(markdown_says_the_verdict_first) {
  struct run r;
  run_start(&r, "linen", true);
  r.report.command = "ab_compare 'a b'";
  char *text = made(AB_FORM_MARKDOWN, NULL, &r.entry, 1, AB_EXIT_DIFFERENT);
  ck_assert_int_eq(strncmp(text, "**DIFFERENT**: <code>linen against nnx</code>, <code>linen</code>; cause: undecided\n",
                           80), 0);
  has(text, "\n- worst: <code>step 0 linen/kernel backward (linen against nnx, weight gradient, 1 of 4");
  has(text, "\n- explanation: <code>linen&#x3A; step 0 linen/kernel backward&#x3A; linen &#x5B;zero&#x5D;</code>\n");
  has(text, "\n| <code>linen against nnx</code> | numeric difference | 1 of 2 | 0.1 of bitwise |\n");
  has(text, "<details><summary><code>the whole report</code></summary>\n\n<pre>\nDIFFERENT: ");
  has(text, "Reproduce:\n\n<pre>\nab_compare &#x27;a b&#x27;\n</pre>\n");
  lacks(text, "\n- numerics");
  lacks(text, "\n- exit");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(markdown_stays_below_what_a_host_takes) {
  struct run r;
  struct ab_entry entries[400];
  run_start(&r, "linen", true);
  for (int i = 0; i < 400; i++) entries[i] = r.entry;
  char *text = made(AB_FORM_MARKDOWN, "list.yml", entries, 400, AB_EXIT_DIFFERENT);
  ck_assert_int_eq(strncmp(text, "**RED**: suite <code>list.yml</code>; 0 of 400 cases equal, 400 numeric", 70), 0);
  ck_assert_uint_lt(strlen(text), 65000);
  has(text, "more parts would not fit in here");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

START_TEST(annotations_are_capped_and_say_how_many_more) {
  struct run r;
  struct ab_entry entries[24];
  run_start(&r, "linen", true);
  for (int i = 0; i < 24; i++) entries[i] = i < 12 ? r.entry : (struct ab_entry){.name = "s", .skip = "why"};
  char *text = made(AB_FORM_GITHUB, "list.yml", entries, 24, AB_EXIT_DIFFERENT);
  ck_assert_uint_eq(times(text, "::error "), 10);
  ck_assert_uint_eq(times(text, "::warning "), 10);
  has(text, "::error title=abpipe::and 3 more errors: see the step summary\n");
  has(text, "::warning title=abpipe::and 15 more warnings: see the step summary\n");
  has(text, "::error file=linen,line=1,title=abpipe%3A DIFFERENT%3A linen::linen against nnx; worst: step 0 linen/kernel");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

/* Shaped as one comparison is: an error on the golden's file when the golden is what it left. */
START_TEST(annotations_point_at_the_file) {
  struct run r;
  run_start(&r, "linen", true);
  r.entry.config = "golden/t/config.yml";
  r.entry.golden = "golden/t/golden.json";
  r.verdict.name_b = "golden";
  char *text = made(AB_FORM_GITHUB, NULL, &r.entry, 1, AB_EXIT_DIFFERENT);
  has(text, "::error file=golden/t/golden.json,line=1,");
  has(text, "::warning file=golden/t/config.yml,line=1,title=abpipe%3A an input is not observed");
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

/* Sentences of the YAML door and others, and where each points. */
static const struct {
  const char *because, *where;
} refused[] = {
    {"golden/t/config.yml:7:12: key 'steps' is many", "file=golden/t/config.yml,line=7,"},
    {"configs/base.yml:123:1: key 'stepz' is unknown", "file=configs/base.yml,line=123,"},
    {"odd:3:4: name.yml:5:6: key", "file=odd,line=3,"},
    {"a:b.yml:5:6: key", "file=a%3Ab.yml,line=5,"},
    {"golden/t/config.yml: 5 bytes", "file=golden/t/config.yml,line=1,"},
    {"a.yml:12: key", "file=golden/t/config.yml,line=1,"},
    {"a.yml:12:x: key", "file=golden/t/config.yml,line=1,"},
    {"a.yml:12:5 key", "file=golden/t/config.yml,line=1,"},
    {"a.yml:123456789:5: key", "file=golden/t/config.yml,line=1,"},
    {"a.yml::5: key", "file=golden/t/config.yml,line=1,"},
    {"the build: ../x.c:12:5: error", "file=golden/t/config.yml,line=1,"},
    {"steps:", "file=golden/t/config.yml,line=1,"},
};

START_TEST(a_refusal_points_at_the_key) {
  const struct ab_entry entry = {.name = "t", .config = "golden/t/config.yml", .because = refused[_i].because};
  char *text = made(AB_FORM_GITHUB, NULL, &entry, 1, AB_EXIT_USAGE);
  ck_assert_msg(strstr(text, refused[_i].where) != NULL, "%s: %s", refused[_i].because, text);
  ck_assert_uint_eq(times(text, "::error "), 1);
  ab_mem_free(text);
}
END_TEST

START_TEST(verbose_lists_all_that_differs) {
  struct run r;
  run_start(&r, "linen", true);
  char *text;
  ck_ok(ab_report_text(&text, &r.report));
  lacks(text, "finding");
  ab_mem_free(text);
  r.report.verbose = true;
  ck_ok(ab_report_text(&text, &r.report));
  has(text, "\nfinding over its bound: step 0 linen/kernel backward (linen against nnx");
  ab_mem_free(text);
  text = made(AB_FORM_JSON, NULL, &r.entry, 1, AB_EXIT_DIFFERENT);
  has(text, "\"findings_left_out\": 0");
  ck_assert_uint_eq(times(text, "\"tensor\": \"linen/kernel\""), 5);
  struct ab_json *schema = schema_root(), *json;
  ck_ok(ab_json_parse(&json, text, strlen(text), "report", NULL));
  struct schema s = {.root = schema};
  ck_assert_msg(schema_check(&s, json, schema), "%s", s.why);
  ab_json_free(json);
  ab_json_free(schema);
  ab_mem_free(text);
  run_stop(&r);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("report_forms");
  TCase *c = tcase_create("report_forms");
  tcase_add_test(c, hostile_names_steer_no_document);
  tcase_add_test(c, markdown_keeps_words_from_outside_in_code);
  tcase_add_test(c, junit_has_a_case_for_each_quantity_of_each_comparison);
  tcase_add_test(c, junit_counts_what_is_no_number_as_errors);
  tcase_add_test(c, markdown_says_the_verdict_first);
  tcase_add_test(c, markdown_stays_below_what_a_host_takes);
  tcase_add_test(c, annotations_are_capped_and_say_how_many_more);
  tcase_add_test(c, annotations_point_at_the_file);
  tcase_add_loop_test(c, a_refusal_points_at_the_key, 0, sizeof refused / sizeof *refused);
  tcase_add_test(c, verbose_lists_all_that_differs);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
