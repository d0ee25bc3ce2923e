#include <string.h>

#include "mem.h"
#include "report_parts.h"

const struct ab_form ab_forms[AB_FORMS] = {
    [AB_FORM_JSON] = {.option = "json", .argument = "FILE|-", .help = "write the report as JSON",
                      .begin = ab_json_sheet_begin, .entry = ab_json_sheet_entry, .finish = ab_json_sheet_finish},
    [AB_FORM_JUNIT] = {.option = "junit", .argument = "FILE|-", .entry = ab_junit_entry, .finish = ab_junit_finish,
                       .help = "as JUnit XML: a test case for each quantity that was compared"},
    [AB_FORM_MARKDOWN] = {.option = "markdown", .argument = "FILE|-", .entry = ab_markdown_entry,
                          .finish = ab_markdown_finish, .help = "as a block to paste into a pull request"},
    [AB_FORM_GITHUB] = {.option = "github", .entry = ab_github_entry, .finish = ab_github_finish,
                        .help = "print GitHub annotations; add to $GITHUB_STEP_SUMMARY"}};

enum ab_exit ab_entry_exit(const struct ab_entry *entry) {
  return entry->report ? ab_report_exit(entry->report) : AB_EXIT_USAGE;
}

ab_status ab_sheet_open(struct ab_sheet *out, enum ab_form_kind kind, const struct ab_about *about) {
  struct ab_sheet sheet = {.form = &ab_forms[kind], .about = *about};
  ab_status status = sheet.form->begin ? sheet.form->begin(&sheet) : AB_OK;
  *out = sheet;
  if (status != AB_OK) ab_sheet_close(out);
  return status;
}

ab_status ab_sheet_entry(struct ab_sheet *sheet, const struct ab_entry *entry) {
  sheet->entries++;
  sheet->seconds += entry->seconds;
  if (entry->skip) sheet->skipped++;
  else sheet->ended[ab_entry_exit(entry)]++;
  AB_TRY(sheet->form->entry(sheet, entry));
  AB_TRY(sheet->body.failed);
  AB_TRY(sheet->rows.failed);
  return AB_OK;
}

ab_status ab_sheet_finish(char **out, struct ab_sheet *sheet, enum ab_exit exit) {
  struct ab_page page = {0};
  sheet->exit = exit;
  ab_status status = sheet->form->finish(&page, sheet);
  if (status == AB_OK) status = ab_page_take(out, &page);
  ab_page_free(&page);
  return status;
}

void ab_sheet_close(struct ab_sheet *sheet) {
  ab_page_free(&sheet->body);
  ab_page_free(&sheet->rows);
  ab_json_writer_free(sheet->json);
  *sheet = (struct ab_sheet){0};
}

const char *ab_next_line(const char **text, size_t *length) {
  const char *line = *text;
  if (!*line) return NULL;
  *length = strcspn(line, "\n");
  *text = line + *length + (line[*length] == '\n');
  return line;
}

void ab_page_relay(struct ab_page *page, enum ab_escape as, const char *text) {
  size_t length;
  for (const char *line; (line = ab_next_line(&text, &length));) {
    ab_page_say(page, as, "%.*s", (int)length, line);
    ab_page_put(page, "\n");
  }
}

static size_t namesakes(const struct ab_report *report, size_t verdict) {
  size_t before = 0;
  for (size_t i = 0; i < verdict; i++)
    before += strcmp(report->verdict[i]->name_a, report->verdict[verdict]->name_a) == 0 &&
              strcmp(report->verdict[i]->name_b, report->verdict[verdict]->name_b) == 0;
  return before;
}

void ab_report_put_names(struct ab_page *page, enum ab_escape as, const struct ab_report *report, size_t verdict) {
  const struct ab_verdict *v = report->verdict[verdict];
  size_t before = namesakes(report, verdict);
  ab_page_say(page, as, "%s against %s", v->name_a, v->name_b);
  if (before) ab_page_print(page, " (%zu)", before + 1);
}

const char *ab_cell_name(enum ab_cell cell) {
  static const char *const names[AB_CELLS] = {[AB_CELL_NONE] = "not compared", [AB_CELL_SAME] = "same bits",
                                              [AB_CELL_WITHIN] = "within bound", [AB_CELL_OVER] = "over bound",
                                              [AB_CELL_BROKEN] = "not comparable"};
  return names[cell];
}

enum ab_cell ab_cell_of(const struct ab_verdict *v, enum ab_quantity q) {
  const struct ab_tally *t = &v->by_quantity[q];
  bool short_of = t->expected != AB_UNCOUNTED && t->expected != t->compared;
  if (short_of || v->changed_of[q]) return AB_CELL_BROKEN;
  if (!t->compared) return AB_CELL_NONE;
  if (v->failing_of[q]) return AB_CELL_OVER;
  return v->differing_of[q] ? AB_CELL_WITHIN : AB_CELL_SAME;
}
