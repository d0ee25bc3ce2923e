#include "suite.h"

#include <string.h>
#include <time.h>

#include "json.h"
#include "mem.h"
#include "outcome.h"
#include "text.h"
#include "version.h"

static const char tool[] = "ab_compare", schema[] = "abpipe-suite/1";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct ab_request request_of(const struct ab_request *request, const struct ab_suite_row *row) {
  struct ab_request own = {.program = request->program,
                           .target = row->target,
                           .overrides = row->overrides,
                           .override_count = row->override_count,
                           .golden = row->golden,
                           .a = row->a ? row->a : request->a,
                           .b = row->b ? row->b : request->b,
                           .a_bin = request->a_bin,
                           .b_bin = request->b_bin,
                           .a_rev = request->a_rev,
                           .b_rev = request->b_rev,
                           .source = request->source,
                           .numerics = request->numerics,
                           .timeout = request->timeout,
                           .teeth = request->teeth,
                           .allow_same = request->allow_same,
                           .verbose = request->verbose};
  return own;
}

static void put_cells(struct ab_json_writer *w, const struct ab_suite_result *r) {
  ab_json_put_object(w, "matrix", false);
  for (int c = 0; c < AB_COLUMNS; c++)
    ab_json_put_string(w, ab_column_name((enum ab_column)c), ab_cell_name(r->cell[c]));
  ab_json_put_end(w);
}

/* What a row says before its report. */
static void put_row(struct ab_json_writer *w, const struct ab_suite_row *row, const struct ab_suite_result *r) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "name", row->name);
  if (row->skip) {
    ab_json_put_string(w, "skip", row->skip);
    return;
  }
  ab_json_put_string(w, "case", row->target);
  ab_json_put_int64(w, "exit_code", r->exit);
  ab_json_put_string(w, "exit_reason", ab_exit_reason(r->exit));
  ab_json_put_string(w, "schedule", r->schedule);
  ab_json_put_string(w, "routes", r->pair);
  ab_json_put_double(w, "seconds", r->seconds);
  ab_json_put_double(w, "worst", r->distance);
  ab_json_put_double(w, "worst_bound", r->limit);
  put_cells(w, r);
}

/* A row that could not be opened or run: its sentence instead of a report. */
static ab_status refuse(struct ab_json_writer *w, const struct ab_suite_row *row, struct ab_suite_result *r) {
  char sentence[2048], line[2100];
  ab_text_escape(sentence, sizeof sentence, ab_status_message());
  ab_status_clear();
  r->exit = AB_EXIT_USAGE;
  snprintf(line, sizeof line, "ERROR: %s\n", sentence);
  AB_TRY(ab_mem_string(&r->text, line));
  if (!w) return AB_OK;
  put_row(w, row, r);
  ab_json_put_string(w, "because", sentence);
  ab_json_put_end(w);
  return AB_OK;
}

static ab_status take(struct ab_json_writer *w, const struct ab_suite_row *row, struct ab_suite_result *r,
                      const struct ab_judgement *j) {
  struct ab_outcome outcome;
  AB_TRY(ab_outcome_new(&outcome, j, tool));
  ab_suite_judge(r, j);
  r->exit = ab_report_exit(&outcome.report);
  bool shown = r->exit != AB_EXIT_EQUAL || j->request.verbose;
  ab_status status = shown ? ab_report_text(&r->text, &outcome.report) : AB_OK;
  if (w && status == AB_OK) {
    put_row(w, row, r);
    ab_report_put(w, "report", &outcome.report);
    ab_json_put_end(w);
  }
  ab_outcome_free(&outcome);
  return status;
}

static ab_status run_row(struct ab_json_writer *w, const struct ab_request *request, const struct ab_suite_row *row,
                         struct ab_suite_result *r) {
  struct ab_judgement j;
  struct ab_request own = request_of(request, row);
  double start = now();
  if (ab_judgement_open(&j, &own) != AB_OK) return refuse(w, row, r);
  ab_status status = ab_judgement_run(&j);
  r->seconds = now() - start;
  status = status == AB_OK ? take(w, row, r, &j) : refuse(w, row, r);
  ab_judgement_close(&j);
  return status;
}

static ab_status run_rows(struct ab_json_writer *w, const struct ab_request *request, const struct ab_suite *suite,
                          struct ab_suite_result *results) {
  for (size_t i = 0; i < suite->rows; i++) {
    if (!suite->row[i].skip) {
      AB_TRY(run_row(w, request, &suite->row[i], &results[i]));
    } else if (w) {
      put_row(w, &suite->row[i], &results[i]);
      ab_json_put_end(w);
    }
  }
  return AB_OK;
}

ab_status ab_suite_run_rows(struct ab_suite_result *results, const struct ab_suite *suite,
                            const struct ab_request *request) {
  return run_rows(NULL, request, suite, results);
}

void ab_suite_results_free(struct ab_suite_result *results, size_t rows) {
  for (size_t i = 0; results && i < rows; i++) ab_mem_free(results[i].text);
  ab_mem_free(results);
}

static void put_begin(struct ab_json_writer *w, const struct ab_suite *suite) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "schema", schema);
  ab_json_put_string(w, "tool", tool);
  ab_json_put_string(w, "version", ab_version);
  ab_json_put_string(w, "suite", suite->path);
  ab_json_put_array(w, "cases", false);
}

static ab_status write_json(struct ab_json_writer *w, const char *path, enum ab_exit exit) {
  const char *text;
  size_t size;
  ab_json_put_end(w);
  ab_json_put_int64(w, "exit_code", exit);
  ab_json_put_string(w, "exit_reason", ab_exit_reason(exit));
  ab_json_put_end(w);
  AB_TRY(ab_json_writer_finish(&text, &size, w));
  AB_TRY(ab_report_write(path, text));
  return AB_OK;
}

static ab_status run_all(int *code, struct ab_json_writer *w, const struct ab_request *request,
                         const struct ab_suite *suite, struct ab_suite_result *results) {
  if (w) put_begin(w, suite);
  AB_TRY(run_rows(w, request, suite, results));
  enum ab_exit exit = ab_suite_exit(suite, results);
  if (!request->json || strcmp(request->json, "-") != 0) ab_suite_print(stdout, suite, results);
  if (w) AB_TRY(write_json(w, request->json, exit));
  *code = exit;
  return AB_OK;
}

ab_status ab_suite_run(int *code, const struct ab_request *request) {
  struct ab_suite suite;
  struct ab_suite_result *results = NULL;
  struct ab_json_writer *w = NULL;
  AB_TRY(ab_suite_read(&suite, request->suite));
  ab_status status = ab_mem_new(&results, suite.rows, sizeof *results);
  if (status == AB_OK && request->json) status = ab_json_writer_new(&w);
  if (status == AB_OK) status = run_all(code, w, request, &suite, results);
  ab_json_writer_free(w);
  ab_suite_results_free(results, suite.rows);
  ab_suite_free(&suite);
  return status;
}
