/* Workflow commands of GitHub Actions: `::error file=..,line=..,title=..::message`. A host shows ten errors and ten
 * warnings of a step and drops the rest silently, so the last of each says how many there are.
 */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "mem.h"
#include "report_parts.h"

enum { ERROR, WARNING, SHOWN = 9 };

static const char *const command[] = {[ERROR] = "error", [WARNING] = "warning"};
static const char *const plural[] = {[ERROR] = "errors", [WARNING] = "warnings"};

/* `message` is one line. */
static void annotate(struct ab_sheet *sheet, int kind, const char *file, size_t line, const char *title,
                     const char *message) {
  struct ab_page *page = &sheet->body;
  if (sheet->shown[kind] == SHOWN) {
    sheet->left_out[kind]++;
    return;
  }
  sheet->shown[kind]++;
  ab_page_print(page, "::%s ", command[kind]);
  if (file) {
    ab_page_put(page, "file=");
    ab_page_escape(page, AB_ESCAPE_PROPERTY, file);
    ab_page_print(page, ",line=%zu,", line);
  }
  ab_page_put(page, "title=");
  ab_page_escape(page, AB_ESCAPE_PROPERTY, title);
  ab_page_put(page, "::");
  ab_page_escape(page, AB_ESCAPE_DATA, message);
  ab_page_put(page, "\n");
}

static ab_status title_of(char **out, const struct ab_entry *e, const char *what) {
  struct ab_page title = {0};
  ab_page_print(&title, "abpipe: %s: ", what);
  ab_page_put(&title, e->name);
  return ab_page_take(out, &title);
}

/* What is said of a red comparison, on one line. */
static ab_status told(char **out, const struct ab_entry *e, size_t i) {
  const struct ab_verdict *v = e->report->verdict[i];
  struct ab_page lines = {0}, message = {0};
  char *text, lack[AB_LACK_TEXT];
  size_t length;
  ab_verdict_lack(lack, v);
  if (v->failing) ab_report_put_finding(&lines, "worst", v, &v->worst);
  if (v->failing) ab_report_put_first(&lines, v);
  else ab_report_put_compared(&lines, v);
  if (lack[0]) ab_page_print(&lines, "structure: %s\n", lack);
  AB_TRY(ab_page_take(&text, &lines));
  ab_report_put_names(&message, AB_ESCAPE_TERMINAL, e->report, i);
  const char *rest = text;
  for (const char *line; (line = ab_next_line(&rest, &length));)
    ab_page_print(&message, "; %.*s", (int)length, line);
  ab_mem_free(text);
  return ab_page_take(out, &message);
}

/* One error for each comparison that is red, on the golden's line of the worst where it is against a golden. */
static ab_status comparison(struct ab_sheet *sheet, const struct ab_entry *e, size_t i) {
  const struct ab_verdict *v = e->report->verdict[i];
  bool golden = strcmp(v->name_b, "golden") == 0 && e->golden;
  char *title, *message = NULL;
  size_t line = 1;
  if (v->exit == AB_EXIT_EQUAL) return AB_OK;
  AB_TRY(title_of(&title, e, ab_headline(v->exit)));
  ab_status status = told(&message, e, i);
  if (status == AB_OK && golden && v->failing)
    status = ab_golden_line(&line, e->golden, v->worst.metric, v->worst.order);
  if (status == AB_OK) annotate(sheet, ERROR, golden ? e->golden : e->config, line, title, message);
  ab_mem_free(message);
  ab_mem_free(title);
  return status;
}

/* The place with which a sentence of the YAML door begins: "configs/t.yml:7:12: ...". */
static bool begins_with_place(size_t *length, size_t *line, const char *sentence) {
  static const char digits[] = "0123456789";
  for (const char *at = strchr(sentence, ':'); at && at[1] != ' '; at = strchr(at + 1, ':')) {
    size_t row = strspn(at + 1, digits), column = at[1 + row] == ':' ? strspn(at + 2 + row, digits) : 0;
    if (!row || row > 7 || !column || strncmp(at + 2 + row + column, ": ", 2) != 0) continue;
    *length = (size_t)(at - sentence);
    *line = (size_t)strtoul(at + 1, NULL, 10);
    return true;
  }
  return false;
}

/* At the key that was wrong, in whichever file it stands, if the message knows; else at the first line of `file`. */
static ab_status say(struct ab_sheet *sheet, int kind, const struct ab_entry *e, const char *what, const char *file,
                     const char *message) {
  char *title, *named = NULL;
  size_t length, line = 1;
  AB_TRY(title_of(&title, e, what));
  ab_status status = AB_OK;
  if (begins_with_place(&length, &line, message)) {
    status = ab_mem_new(&named, length + 1, 1);
    if (named) memcpy(named, message, length);
  }
  if (status == AB_OK) annotate(sheet, kind, named ? named : file, line, title, message);
  ab_mem_free(named);
  ab_mem_free(title);
  return status;
}

static ab_status troubles(struct ab_sheet *sheet, const struct ab_entry *e) {
  const struct ab_report *r = e->report;
  for (size_t i = 0; i < r->failures; i++) {
    struct ab_page message = {0};
    char *text;
    ab_page_print(&message, "side %s: %s", r->failure[i].side, r->failure[i].reason);
    AB_TRY(ab_page_take(&text, &message));
    ab_status status = say(sheet, ERROR, e, ab_headline(AB_EXIT_SIDE), e->config, text);
    ab_mem_free(text);
    AB_TRY(status);
  }
  if (!r->extra_sentence) return AB_OK;
  const char *file = r->extra == AB_EXIT_GOLDEN && e->golden ? e->golden : e->config;
  return say(sheet, ERROR, e, ab_headline(r->extra), file, r->extra_sentence);
}

/* What a green does not cover. */
static ab_status warnings(struct ab_sheet *sheet, const struct ab_entry *e) {
  const struct ab_teeth *t = e->report->teeth;
  for (size_t i = 0; t && i < t->unobserveds; i++) {
    struct ab_page message = {0};
    char *text;
    ab_page_print(&message, "%s: %s", t->unobserved[i].name, t->unobserved[i].reason);
    AB_TRY(ab_page_take(&text, &message));
    ab_status status = say(sheet, WARNING, e, "an input is not observed", e->config, text);
    ab_mem_free(text);
    AB_TRY(status);
  }
  return AB_OK;
}

ab_status ab_github_entry(struct ab_sheet *sheet, const struct ab_entry *e) {
  if (e->skip) return say(sheet, WARNING, e, "skipped", sheet->about.suite, e->skip);
  if (e->because) return say(sheet, ERROR, e, ab_headline(AB_EXIT_USAGE), e->config, e->because);
  AB_TRY(troubles(sheet, e));
  for (size_t i = 0; i < e->report->verdicts; i++) AB_TRY(comparison(sheet, e, i));
  return warnings(sheet, e);
}

ab_status ab_github_finish(struct ab_page *out, struct ab_sheet *sheet) {
  ab_page_put(out, sheet->body.text ? sheet->body.text : "");
  for (int kind = ERROR; kind <= WARNING; kind++)
    if (sheet->left_out[kind])
      ab_page_print(out, "::%s title=abpipe::and %zu more %s: see the step summary\n", command[kind],
                    sheet->left_out[kind], plural[kind]);
  return AB_OK;
}
