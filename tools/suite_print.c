#include <string.h>

#include "suite.h"
#include "text.h"

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

static void print_verdict(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results) {
  size_t count[OUTCOMES], ran = tally(count, suite, results);
  enum ab_exit exit = ab_suite_exit(suite, results);
  char path[512];
  ab_text_escape(path, sizeof path, suite->path);
  fprintf(out, "%s: suite %s; %zu of %zu cases equal", exit == AB_EXIT_EQUAL ? "EQUAL" : "RED", path,
          count[AB_EXIT_EQUAL], ran);
  for (int e = 1; e < OUTCOMES; e++)
    if (count[e]) fprintf(out, ", %zu %s", count[e], ab_exit_reason((enum ab_exit)e));
  fprintf(out, ", %zu skipped\n", suite->rows - ran);
  if (suite->about) fprintf(out, "about: %s\n", suite->about);
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

static void print_row(FILE *out, int width, const struct ab_suite_row *row, const struct ab_suite_result *r) {
  fprintf(out, "%-*s  %-12s %-12s", width, row->name, r->schedule[0] ? r->schedule : "-", r->pair[0] ? r->pair : "-");
  for (int c = 0; c < AB_COLUMNS; c++) fprintf(out, "  %c ", ab_cell_sign(r->cell[c]));
  if (r->distance > 0)
    fprintf(out, " %-8.1e of %-8.1e", r->distance, r->limit);
  else
    fprintf(out, " %-20s", "0");
  fprintf(out, " %d\n", (int)r->exit);
}

static void print_matrix(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results) {
  int width = widest(suite);
  print_head(out, width);
  for (size_t i = 0; i < suite->rows; i++)
    if (!suite->row[i].skip) print_row(out, width, &suite->row[i], &results[i]);
  fprintf(out, "= same bits, < within its bound, X over it, ! structure or counts differ, . not compared\n");
  fprintf(out, "out dX dW los par lay cnt: the two routes against each other; orc: each against the oracle; f64: the "
               "first against the float64 oracle; rec: each against recorded numbers\n");
}

void ab_suite_print(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results) {
  print_verdict(out, suite, results);
  print_matrix(out, suite, results);
  for (size_t i = 0; i < suite->rows; i++)
    if (suite->row[i].skip) fprintf(out, "skipped: %s: %s\n", suite->row[i].name, suite->row[i].skip);
  for (size_t i = 0; i < suite->rows; i++)
    if (results[i].text) fprintf(out, "\n%s: %s", suite->row[i].name, results[i].text);
  enum ab_exit exit = ab_suite_exit(suite, results);
  fprintf(out, "exit: %d (%s)\n", (int)exit, ab_exit_reason(exit));
}
