/* JUnit XML as Jenkins, GitLab and GitHub's viewers read it: unique names, totals, one failure per test case, short
 * texts.
 */
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "metrics.h"
#include "report_parts.h"

enum { MOST = 16 * 1024 }; /* bytes of one failure's text */

/* One test suite in the making. */
struct suite {
  struct ab_page cases;
  const struct ab_entry *entry;
  size_t tests, failures, errors, skips;
};

static void attribute(struct ab_page *page, const char *name, const char *value) {
  ab_page_print(page, " %s=\"", name);
  ab_page_escape(page, AB_ESCAPE_XML, value);
  ab_page_put(page, "\"");
}

static void property(struct ab_page *page, const char *name, const char *value) {
  if (!value) return;
  ab_page_put(page, "      <property");
  attribute(page, "name", name);
  attribute(page, "value", value);
  ab_page_put(page, "/>\n");
}

static void properties(struct ab_page *page, const struct ab_sheet *sheet, const struct ab_entry *e) {
  const struct ab_report *r = e->report;
  char code[16];
  snprintf(code, sizeof code, "%d", (int)(e->skip ? AB_EXIT_EQUAL : ab_entry_exit(e)));
  ab_page_put(page, "    <properties>\n");
  property(page, "version", sheet->about.version);
  property(page, "config", e->config);
  property(page, "golden", e->golden);
  if (!e->skip) property(page, "exit_code", code);
  if (r && r->verdicts) {
    property(page, "route_a", r->verdict[0]->name_a);
    property(page, "route_b", r->verdict[0]->name_b);
    property(page, "cause", ab_cause_name(r->cause));
  }
  if (r) property(page, "numerics", r->numerics);
  if (r) property(page, "dtype", r->dtype);
  if (r) property(page, "command", r->command);
  ab_page_put(page, "    </properties>\n");
}

/* `name` and everything else in `made` is escaped already. */
static void open_case(struct suite *s, const char *made) {
  s->tests++;
  ab_page_put(&s->cases, "    <testcase classname=\"abpipe.");
  ab_page_escape(&s->cases, AB_ESCAPE_XML, s->entry->name);
  ab_page_print(&s->cases, "\" name=\"%s\" time=\"0\"", made);
}

/* What went wrong: a failure for numbers, an error for the rest. The text is one of lines. */
static void close_wrong(struct suite *s, enum ab_exit exit, const char *message, const char *text) {
  bool failure = exit == AB_EXIT_DIFFERENT;
  const char *element = failure ? "failure" : "error";
  if (failure) s->failures++;
  else s->errors++;
  ab_page_print(&s->cases, ">\n      <%s", element);
  attribute(&s->cases, "type", ab_exit_reason(exit));
  attribute(&s->cases, "message", message);
  ab_page_put(&s->cases, ">");
  ab_page_relay(&s->cases, AB_ESCAPE_XML, text);
  ab_page_print(&s->cases, "      </%s>\n    </testcase>\n", element);
}

static void close_right(struct suite *s) { ab_page_put(&s->cases, "/>\n"); }

static void put_value(struct ab_page *page, const char *word, const char *side, double value, uint64_t bits,
                      enum ab_dtype dtype) {
  char shown[64];
  ab_value_print(shown, sizeof shown, value, bits, dtype);
  ab_page_say(page, AB_ESCAPE_TERMINAL, "%s: %s (%s)", word, shown, side);
  ab_page_put(page, "\n");
}

/* Expected and actual of the worst finding, its bound, where it began, and what it is. */
static void tell(struct ab_page *page, const struct ab_report *r, const struct ab_verdict *v,
                 const struct ab_finding *f) {
  const struct ab_value_pair *p = &f->difference.worst;
  if (f->difference.differing) {
    put_value(page, "expected", v->name_b, p->b, p->bits_b, f->difference.dtype_b);
    put_value(page, "actual", v->name_a, p->a, p->bits_a, f->difference.dtype_a);
  }
  ab_report_put_finding(page, "worst", v, f);
  ab_report_put_first(page, v);
  for (size_t i = 0; r->explained && i < r->explained->lines; i++) {
    const struct ab_explained_line *e = &r->explained->line[i];
    ab_page_say(page, AB_ESCAPE_TERMINAL, "explanation: %s: %s: %s [%s]", e->side, e->of.tensor, e->text, e->id);
    ab_page_put(page, "\n");
  }
  ab_page_say(page, AB_ESCAPE_TERMINAL, "cause: %s", ab_cause_name(r->cause));
  ab_page_put(page, "\n");
}

static ab_status quantity_wrong(struct suite *s, const struct ab_verdict *v, enum ab_quantity q, enum ab_cell cell) {
  struct ab_page told = {0};
  char message[160], *text;
  bool over = cell == AB_CELL_OVER;
  if (over)
    snprintf(message, sizeof message, "%zu of %zu differ by more than their bound", v->failing_of[q],
             v->by_quantity[q].compared);
  else if (v->by_quantity[q].expected == AB_UNCOUNTED)
    snprintf(message, sizeof message, "%zu have other names, shapes or dtypes", v->changed_of[q]);
  else
    snprintf(message, sizeof message, "%zu compared, %zu expected; %zu have other names, shapes or dtypes",
             v->by_quantity[q].compared, v->by_quantity[q].expected, v->changed_of[q]);
  if (over) tell(&told, s->entry->report, v, &v->worst_of[q]);
  else ab_report_put_compared(&told, v);
  AB_TRY(ab_page_take(&text, &told));
  close_wrong(s, over ? AB_EXIT_DIFFERENT : AB_EXIT_INCOMPARABLE, message, text);
  ab_mem_free(text);
  return AB_OK;
}

static ab_status name_of(char **out, const struct ab_report *r, size_t verdict, const char *what) {
  struct ab_page page = {0};
  ab_report_put_names(&page, AB_ESCAPE_XML, r, verdict);
  ab_page_print(&page, ": %s", what);
  return ab_page_take(out, &page);
}

static ab_status put_quantity(struct suite *s, size_t verdict, enum ab_quantity q) {
  const struct ab_verdict *v = s->entry->report->verdict[verdict];
  enum ab_cell cell = ab_cell_of(v, q);
  char *name;
  if (cell == AB_CELL_NONE) return AB_OK;
  AB_TRY(name_of(&name, s->entry->report, verdict, ab_quantity_name(q)));
  open_case(s, name);
  ab_mem_free(name);
  if (cell < AB_CELL_OVER) close_right(s);
  else AB_TRY(quantity_wrong(s, v, q, cell));
  return AB_OK;
}

/* What no quantity shows: steps that are missing, tensors that could not be judged, nothing compared. */
static ab_status put_counts(struct suite *s, size_t verdict) {
  const struct ab_verdict *v = s->entry->report->verdict[verdict];
  bool wrong = v->exit == AB_EXIT_INCOMPARABLE;
  struct ab_page told = {0};
  char *name, *text;
  AB_TRY(name_of(&name, s->entry->report, verdict, "counts"));
  open_case(s, name);
  ab_mem_free(name);
  if (!wrong) close_right(s);
  if (!wrong) return AB_OK;
  ab_report_put_compared(&told, v);
  AB_TRY(ab_page_take(&text, &told));
  close_wrong(s, AB_EXIT_INCOMPARABLE, "structure or counts differ", text);
  ab_mem_free(text);
  return AB_OK;
}

/* The fold of everything, counters and self-test included, with the text report. */
static ab_status put_whole(struct suite *s) {
  const struct ab_report *r = s->entry->report;
  enum ab_exit exit = ab_report_exit(r);
  char *text;
  open_case(s, "verdict");
  if (exit == AB_EXIT_EQUAL) close_right(s);
  if (exit == AB_EXIT_EQUAL) return AB_OK;
  AB_TRY(ab_report_text(&text, r));
  if (strlen(text) > MOST) text[MOST] = '\0';
  const char *rest = text;
  size_t length = 0;
  char first[512];
  snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "\n"), ab_next_line(&rest, &length));
  close_wrong(s, exit, first, text);
  ab_mem_free(text);
  return AB_OK;
}

static ab_status put_cases(struct suite *s) {
  const struct ab_entry *e = s->entry;
  if (e->skip || e->because) {
    open_case(s, "verdict");
    if (e->because) close_wrong(s, AB_EXIT_USAGE, e->because, e->because);
    if (e->because) return AB_OK;
    s->skips++;
    ab_page_put(&s->cases, ">\n      <skipped");
    attribute(&s->cases, "message", e->skip);
    ab_page_put(&s->cases, "/>\n    </testcase>\n");
    return AB_OK;
  }
  for (size_t i = 0; i < e->report->verdicts; i++) {
    for (int q = 0; q < AB_QUANTITIES; q++) AB_TRY(put_quantity(s, i, (enum ab_quantity)q));
    AB_TRY(put_counts(s, i));
  }
  return put_whole(s);
}

static void totals(struct ab_page *page, size_t tests, size_t failures, size_t errors, size_t skips, double seconds) {
  ab_page_print(page, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\"", tests, failures,
                errors, skips, seconds);
}

ab_status ab_junit_entry(struct ab_sheet *sheet, const struct ab_entry *entry) {
  struct suite s = {.entry = entry};
  char *cases;
  ab_status status = put_cases(&s);
  if (status != AB_OK) ab_page_free(&s.cases);
  AB_TRY(status);
  AB_TRY(ab_page_take(&cases, &s.cases));
  ab_page_put(&sheet->body, "  <testsuite");
  attribute(&sheet->body, "name", entry->name);
  totals(&sheet->body, s.tests, s.failures, s.errors, s.skips, entry->seconds);
  ab_page_put(&sheet->body, ">\n");
  properties(&sheet->body, sheet, entry);
  ab_page_put(&sheet->body, cases);
  ab_page_put(&sheet->body, "  </testsuite>\n");
  ab_mem_free(cases);
  sheet->tests += s.tests;
  sheet->failures += s.failures;
  sheet->errors += s.errors;
  sheet->skips += s.skips;
  return AB_OK;
}

ab_status ab_junit_finish(struct ab_page *out, struct ab_sheet *sheet) {
  ab_page_put(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
  attribute(out, "name", sheet->about.suite ? sheet->about.suite : "abpipe");
  totals(out, sheet->tests, sheet->failures, sheet->errors, sheet->skips, sheet->seconds);
  ab_page_put(out, ">\n");
  ab_page_put(out, sheet->body.text ? sheet->body.text : "");
  ab_page_put(out, "</testsuites>\n");
  return AB_OK;
}
