/* A block for a pull request or a step summary: verdict first, then the tensor that matters, a small table, the rest
 * folded away, and how to repeat it. Words from outside stand in <code> or <pre>, escaped for there, so that they are
 * neither markup nor links nor mentions. Kept below what GitHub takes as one comment.
 */
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "report_parts.h"

/* Lines of the text report that stand in front of the table of a red one; all others are folded away. */
static const char *const dull[] = {"compared", "numerics", "also",    "controls", "control",   "unobserved", "blind to",
                                   "blind",    "note",     "finding", "findings", "reproduce", "exit"};

static void code(struct ab_page *page, const char *text) {
  ab_page_put(page, "<code>");
  ab_page_escape(page, AB_ESCAPE_MARKDOWN, text);
  ab_page_put(page, "</code>");
}

static void pre(struct ab_page *page, const char *text) {
  ab_page_put(page, "<pre>\n");
  ab_page_relay(page, AB_ESCAPE_XML, text);
  ab_page_put(page, "</pre>\n");
}

static bool is_dull(const char *line, size_t word) {
  for (size_t i = 0; i < sizeof dull / sizeof *dull; i++)
    if (strlen(dull[i]) == word && strncmp(line, dull[i], word) == 0) return true;
  return false;
}

/* "- worst: `...`" of what matters, at most so many. */
static void bullets(struct ab_page *page, const char *text) {
  size_t length, left = 16;
  ab_next_line(&text, &length);
  for (const char *line; left && (line = ab_next_line(&text, &length));) {
    const char *colon = memchr(line, ':', length);
    if (!colon || is_dull(line, (size_t)(colon - line))) continue;
    char shown[1200];
    size_t rest = length - (size_t)(colon - line) - 1;
    int cut = (int)(rest < sizeof shown - 1 ? rest : sizeof shown - 1);
    snprintf(shown, sizeof shown, "%.*s", cut, colon + 1);
    ab_page_put(page, "- ");
    ab_page_say(page, AB_ESCAPE_MARKDOWN, "%.*s", (int)(colon - line), line);
    ab_page_put(page, ": ");
    code(page, shown + strspn(shown, " "));
    ab_page_put(page, "\n");
    left--;
  }
}

static void put_worst(struct ab_page *page, const struct ab_verdict *v) {
  if (!v->any_difference) ab_page_put(page, "no bit differs");
  else if (v->worst.bound.tier == AB_TIER_BITWISE) ab_page_print(page, "%.2g of bitwise", v->worst.distance);
  else ab_page_print(page, "%.2g of %.2g", v->worst.distance, v->worst.bound.limit);
}

static void comparison(struct ab_page *page, const struct ab_report *r, size_t i) {
  const struct ab_verdict *v = r->verdict[i];
  ab_page_put(page, "| <code>");
  ab_report_put_names(page, AB_ESCAPE_MARKDOWN, r, i);
  ab_page_print(page, "</code> | %s | %zu of %zu | ", ab_exit_reason(v->exit), v->failing,
                v->tensors.compared + v->metrics.compared + v->unpinned);
  put_worst(page, v);
  ab_page_put(page, " |\n");
}

static void one(struct ab_sheet *sheet, const struct ab_entry *e, const char *text) {
  const struct ab_report *r = e->report;
  struct ab_page *page = &sheet->body;
  if (ab_report_exit(r) != AB_EXIT_EQUAL) bullets(page, text);
  if (r->verdicts) ab_page_put(page, "\n| comparison | outcome | over their bound | worst |\n|---|---|---|---|\n");
  for (size_t i = 0; i < r->verdicts; i++) comparison(page, r, i);
}

static void fold(struct ab_page *page, const char *summary, const char *text) {
  ab_page_put(page, "\n<details><summary>");
  code(page, summary);
  ab_page_put(page, "</summary>\n\n");
  pre(page, text);
  ab_page_put(page, "\n</details>\n");
}

/* Appends what was made unless the block would become too long. */
static ab_status append(struct ab_sheet *sheet, struct ab_page *made) {
  size_t most = sheet->about.suite ? AB_MARKDOWN_MOST / 2 : AB_MARKDOWN_MOST - sheet->rows.used;
  char *text;
  AB_TRY(ab_page_take(&text, made));
  if (sheet->body.used + strlen(text) > most) sheet->left_out[0]++;
  else ab_page_put(&sheet->body, text);
  ab_mem_free(text);
  return AB_OK;
}

/* | name | outcome | cause | over their bound | */
static void row(struct ab_sheet *sheet, const struct ab_entry *e) {
  const struct ab_verdict *v = e->report && e->report->verdicts ? ab_report_shown(e->report) : NULL;
  struct ab_page *page = &sheet->rows;
  if (page->used > AB_MARKDOWN_MOST / 2) {
    sheet->left_out[1]++;
    return;
  }
  ab_page_put(page, "| ");
  code(page, e->name);
  ab_page_print(page, " | %s | ", e->skip ? "skipped" : ab_exit_reason(ab_entry_exit(e)));
  if (e->skip || e->because) code(page, e->skip ? e->skip : e->because);
  else ab_page_put(page, v ? ab_cause_name(e->report->cause) : "not judged");
  ab_page_put(page, " | ");
  if (v) put_worst(page, v);
  ab_page_put(page, " |\n");
}

static void headline(struct ab_sheet *sheet, const struct ab_entry *e) {
  struct ab_page *page = &sheet->rows;
  const struct ab_report *r = e->report;
  ab_page_print(page, "**%s**", ab_headline(ab_entry_exit(e)));
  ab_page_put(page, ": ");
  if (r && r->verdicts) {
    ab_page_put(page, "<code>");
    ab_report_put_names(page, AB_ESCAPE_MARKDOWN, r, 0);
    ab_page_put(page, "</code>, ");
  }
  code(page, e->name);
  if (r && r->verdicts) ab_page_print(page, "; cause: %s", ab_cause_name(r->cause));
  ab_page_put(page, "\n\n");
}

static void repeat(struct ab_page *page, const struct ab_report *r) {
  if (!r->command) return;
  ab_page_put(page, "\nReproduce:\n\n");
  pre(page, r->command);
}

ab_status ab_markdown_entry(struct ab_sheet *sheet, const struct ab_entry *e) {
  bool alone = !sheet->about.suite;
  struct ab_page made = {0};
  char *text;
  if (alone) headline(sheet, e);
  else row(sheet, e);
  if (!e->report || (!alone && ab_report_exit(e->report) == AB_EXIT_EQUAL)) return AB_OK;
  AB_TRY(ab_report_text(&text, e->report));
  if (alone) one(sheet, e, text);
  fold(&made, alone ? "the whole report" : e->name, text);
  ab_mem_free(text);
  AB_TRY(append(sheet, &made));
  if (alone) repeat(&made, e->report);
  AB_TRY(append(sheet, &made));
  return AB_OK;
}

static void suite_headline(struct ab_page *out, const struct ab_sheet *sheet) {
  size_t ran = sheet->entries - sheet->skipped;
  ab_page_print(out, "**%s**: suite ", sheet->exit == AB_EXIT_EQUAL ? "EQUAL" : "RED");
  code(out, sheet->about.suite);
  ab_page_print(out, "; %zu of %zu cases equal", sheet->ended[AB_EXIT_EQUAL], ran);
  for (int i = 1; i < AB_EXITS; i++)
    if (sheet->ended[i]) ab_page_print(out, ", %zu %s", sheet->ended[i], ab_exit_reason((enum ab_exit)i));
  if (sheet->skipped) ab_page_print(out, ", %zu skipped", sheet->skipped);
  ab_page_put(out, "\n\n| case | outcome | cause | worst |\n|---|---|---|---|\n");
}

ab_status ab_markdown_finish(struct ab_page *out, struct ab_sheet *sheet) {
  if (sheet->about.suite) suite_headline(out, sheet);
  ab_page_put(out, sheet->rows.text ? sheet->rows.text : "");
  if (sheet->left_out[1]) ab_page_print(out, "\nand %zu more cases\n", sheet->left_out[1]);
  ab_page_put(out, sheet->body.text ? sheet->body.text : "");
  if (sheet->left_out[0]) ab_page_print(out, "\n%zu more parts would not fit in here.\n", sheet->left_out[0]);
  ab_page_print(out, "\nexit %d (%s), %s\n", (int)sheet->exit, ab_exit_reason(sheet->exit), sheet->about.version);
  return AB_OK;
}
