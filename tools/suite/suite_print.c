#include <string.h>

#include "mem.h"
#include "papers.h"
#include "suite.h"

enum { OUTCOMES = 7 };

/* How many rows ended with each exit code. */
static size_t tally(size_t count[OUTCOMES], const struct ab_suite *suite, const struct ab_suite_result *results) {
  size_t ran = 0;
  memset(count, 0, OUTCOMES * sizeof *count);
  for (size_t i = 0; i < suite->rows; i++) {
    if (suite->row[i].skip) continue;
    count[results[i].exit]++;
    ran++;
  }
  return ran;
}

enum ab_exit ab_suite_exit(const struct ab_suite *suite, const struct ab_suite_result *results) {
  enum ab_exit exit = AB_EXIT_EQUAL;
  size_t ran = 0;
  for (size_t i = 0; i < suite->rows; i++) {
    if (suite->row[i].skip) continue;
    exit = ab_exit_fold(exit, results[i].exit);
    ran++;
  }
  return ran ? exit : AB_EXIT_INCOMPARABLE;
}

static ab_status print_verdict(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results,
                               bool colour) {
  size_t count[OUTCOMES], ran = tally(count, suite, results);
  enum ab_exit exit = ab_suite_exit(suite, results);
  struct ab_page page = {0};
  char *text, *painted = NULL;
  ab_page_print(&page, "%s: suite ", exit == AB_EXIT_EQUAL ? "EQUAL" : "RED");
  ab_page_escape(&page, AB_ESCAPE_TERMINAL, suite->path);
  ab_page_print(&page, "; %zu of %zu cases equal", count[AB_EXIT_EQUAL], ran);
  for (int e = 1; e < OUTCOMES; e++)
    if (count[e]) ab_page_print(&page, ", %zu %s", count[e], ab_exit_reason((enum ab_exit)e));
  ab_page_print(&page, ", %zu skipped\n", suite->rows - ran);
  if (suite->about) ab_page_say(&page, AB_ESCAPE_TERMINAL, "about: %s", suite->about);
  if (suite->about) ab_page_put(&page, "\n");
  AB_TRY(ab_page_take(&text, &page));
  ab_status status = colour ? ab_painted(&painted, text, exit) : AB_OK;
  if (status == AB_OK) fputs(painted ? painted : text, out);
  ab_mem_free(text);
  ab_mem_free(painted);
  return status;
}

static int widest(const struct ab_suite *suite) {
  size_t width = strlen("case");
  for (size_t i = 0; i < suite->rows; i++)
    if (!suite->row[i].skip && strlen(suite->row[i].name) > width) width = strlen(suite->row[i].name);
  return (int)width;
}

static void print_head(FILE *out, int width) {
  fprintf(out, "%-*s  %-12s %-12s", width, "case", "S-M-R-K-d", "routes");
  for (int c = 0; c < AB_COLUMNS; c++) fprintf(out, " %-3s", ab_column_short((enum ab_column)c));
  fprintf(out, " worst of its bound  exit\n");
}

/* A name at the start of a line, where a CI host looks for commands. */
static ab_status print_name(FILE *out, const char *name, int width) {
  struct ab_page page = {0};
  char *shown;
  ab_page_escape(&page, AB_ESCAPE_TERMINAL, name);
  AB_TRY(ab_page_take(&shown, &page));
  fprintf(out, "%-*s", width, shown);
  ab_mem_free(shown);
  return AB_OK;
}

static ab_status print_row(FILE *out, int width, const struct ab_suite_row *row, const struct ab_suite_result *r) {
  AB_TRY(print_name(out, row->name, width));
  fprintf(out, "  %-12s %-12s", r->schedule[0] ? r->schedule : "-", r->pair[0] ? r->pair : "-");
  for (int c = 0; c < AB_COLUMNS; c++) fprintf(out, "  %c ", ab_cell_sign(r->cell[c]));
  if (r->distance > 0)
    fprintf(out, " %-8.1e of %-8.1e", r->distance, r->limit);
  else
    fprintf(out, " %-20s", "0");
  fprintf(out, " %d\n", (int)r->exit);
  return AB_OK;
}

static ab_status print_matrix(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results) {
  int width = widest(suite);
  print_head(out, width);
  for (size_t i = 0; i < suite->rows; i++)
    if (!suite->row[i].skip) AB_TRY(print_row(out, width, &suite->row[i], &results[i]));
  fprintf(out, "= same bits, < within its bound, X over it, ! structure or counts differ, . not compared\n");
  fprintf(out, "out dX dW los par lay cnt: the two routes against each other; orc: each against the oracle; f64: the "
               "first against the float64 oracle; rec: each against recorded numbers\n");
  return AB_OK;
}

static bool holds(const char *lines, const char *line, size_t length) {
  for (const char *at = lines; at && *at; at += strcspn(at, "\n") + 1)
    if (strcspn(at, "\n") == length && strncmp(at, line, length) == 0) return true;
  return false;
}

/* A line that rows from `first` on share, unless a row before has it: "note: M_STEPS=1 in force (2 of 3 cases)". */
static ab_status print_note(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results,
                            size_t first, const char *line) {
  struct ab_page page = {0};
  size_t length = strcspn(line, "\n"), count[OUTCOMES], ran = tally(count, suite, results), having = 0;
  char *shown;
  for (size_t i = 0; i < suite->rows; i++) {
    bool here = holds(results[i].variables, line, length);
    if (here && i < first) return AB_OK;
    having += here;
  }
  ab_page_say(&page, AB_ESCAPE_TERMINAL, "note: %.*s (%zu of %zu cases)", (int)length, line, having, ran);
  AB_TRY(ab_page_take(&shown, &page));
  fprintf(out, "%s\n", shown);
  ab_mem_free(shown);
  return AB_OK;
}

static ab_status print_notes(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results) {
  for (size_t i = 0; i < suite->rows; i++)
    for (const char *at = results[i].variables; at && *at; at += strcspn(at, "\n") + 1)
      AB_TRY(print_note(out, suite, results, i, at));
  return AB_OK;
}

static ab_status print_text(FILE *out, const struct ab_suite_row *row, const struct ab_suite_result *r, bool colour) {
  char *painted = NULL;
  if (!r->text) return AB_OK;
  fputs("\n", out);
  AB_TRY(print_name(out, row->name, 0));
  if (colour) AB_TRY(ab_painted(&painted, r->text, r->exit));
  fprintf(out, ": %s", painted ? painted : r->text);
  ab_mem_free(painted);
  return AB_OK;
}

ab_status ab_suite_print(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results, bool colour) {
  AB_TRY(print_verdict(out, suite, results, colour));
  AB_TRY(print_matrix(out, suite, results));
  AB_TRY(print_notes(out, suite, results));
  for (size_t i = 0; i < suite->rows; i++)
    if (suite->row[i].skip) fprintf(out, "skipped: %s: %s\n", suite->row[i].name, suite->row[i].skip);
  for (size_t i = 0; i < suite->rows; i++) AB_TRY(print_text(out, &suite->row[i], &results[i], colour));
  enum ab_exit exit = ab_suite_exit(suite, results);
  fprintf(out, "exit: %d (%s)\n", (int)exit, ab_exit_reason(exit));
  return AB_OK;
}
