#include "suite.h"

#include <unistd.h>

#include "json.h"
#include "mem.h"
#include "outcome.h"
#include "variables.h"
#include "version.h"

static const char tool[] = "ab_compare";

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
                           .papers.progress = request->papers.progress,
                           .verbose = request->verbose};
  return own;
}

/* What a suite's JSON says of a row before its report. */
struct members {
  const struct ab_suite_row *row;
  const struct ab_suite_result *result;
};

static void put_members(struct ab_json_writer *w, const void *ctx) {
  const struct members *m = ctx;
  const struct ab_suite_result *r = m->result;
  ab_json_put_string(w, "case", m->row->target);
  ab_json_put_int64(w, "exit_code", r->exit);
  ab_json_put_string(w, "exit_reason", ab_exit_reason(r->exit));
  ab_json_put_string(w, "schedule", r->schedule);
  ab_json_put_string(w, "routes", r->pair);
  ab_json_put_double(w, "seconds", r->seconds);
  ab_json_put_double(w, "worst", r->distance);
  ab_json_put_double(w, "worst_bound", r->limit);
  ab_json_put_object(w, "matrix", false);
  for (int c = 0; c < AB_COLUMNS; c++)
    ab_json_put_string(w, ab_column_name((enum ab_column)c), ab_cell_name(r->cell[c]));
  ab_json_put_end(w);
}

/* A row that could not be opened or run: its sentence instead of a report. */
static ab_status refuse(struct ab_papers *papers, const struct ab_suite_row *row, struct ab_suite_result *r) {
  char sentence[1024], line[1100];
  snprintf(sentence, sizeof sentence, "%s", ab_status_message());
  ab_status_clear();
  r->exit = AB_EXIT_USAGE;
  snprintf(line, sizeof line, "ERROR: %s\n", sentence);
  AB_TRY(ab_mem_string(&r->text, line));
  const struct members members = {row, r};
  const struct ab_entry entry = {.name = row->name, .because = sentence, .config = row->target,
                                 .members = put_members, .ctx = &members};
  return ab_papers_entry(papers, &entry);
}

static ab_status put_line(void *page, const char *sentence) {
  ab_page_say(page, AB_ESCAPE_TERMINAL, "%s", sentence); /* a name with a line end stays one line */
  ab_page_put(page, "\n");
  return ((struct ab_page *)page)->failed;
}

static ab_status variables_of(char **out, const struct ab_case *opened) {
  struct ab_page page = {0};
  ab_status status = ab_variables_put(&page, opened->config);
  if (page.used) ab_page_put(&page, "in force\n");
  if (status == AB_OK) status = ab_variables_each(opened, put_line, &page);
  if (status != AB_OK) ab_page_free(&page);
  return status == AB_OK ? ab_page_take(out, &page) : status;
}

static ab_status take(struct ab_papers *papers, const struct ab_suite_row *row, struct ab_suite_result *r,
                      const struct ab_judgement *j) {
  struct ab_outcome outcome;
  AB_TRY(ab_outcome_new(&outcome, j, tool));
  ab_suite_judge(r, j);
  r->exit = ab_report_exit(&outcome.report);
  bool shown = r->exit != AB_EXIT_EQUAL || j->request.verbose;
  ab_status status = variables_of(&r->variables, &j->opened);
  if (status == AB_OK && shown) status = ab_report_text(&r->text, &outcome.report);
  const struct members members = {row, r};
  outcome.entry.name = row->name;
  outcome.entry.members = put_members;
  outcome.entry.ctx = &members;
  if (status == AB_OK) status = ab_papers_entry(papers, &outcome.entry);
  ab_outcome_free(&outcome);
  return status;
}

static ab_status run_row(struct ab_papers *papers, const struct ab_request *request, const struct ab_suite *suite,
                         size_t i, struct ab_suite_result *r) {
  struct ab_judgement j;
  const struct ab_suite_row *row = &suite->row[i];
  struct ab_request own = request_of(request, row);
  char label[160];
  snprintf(label, sizeof label, "case %zu of %zu, %.100s: ", i + 1, suite->rows, row->name);
  own.label = label;
  if (ab_judgement_open(&j, &own) != AB_OK) return refuse(papers, row, r);
  ab_status status = ab_judgement_run(&j);
  r->seconds = j.seconds;
  status = status == AB_OK ? take(papers, row, r, &j) : refuse(papers, row, r);
  ab_judgement_close(&j);
  return status;
}

static ab_status run_rows(struct ab_papers *papers, const struct ab_request *request, const struct ab_suite *suite,
                          struct ab_suite_result *results) {
  for (size_t i = 0; i < suite->rows; i++) {
    const struct ab_entry skipped = {.name = suite->row[i].name, .skip = suite->row[i].skip};
    if (skipped.skip) AB_TRY(ab_papers_entry(papers, &skipped));
    else AB_TRY(run_row(papers, request, suite, i, &results[i]));
  }
  return AB_OK;
}

ab_status ab_suite_run_rows(struct ab_suite_result *results, const struct ab_suite *suite,
                            const struct ab_request *request) {
  struct ab_papers none = {.options = &request->papers};
  return run_rows(&none, request, suite, results);
}

void ab_suite_results_free(struct ab_suite_result *results, size_t rows) {
  for (size_t i = 0; results && i < rows; i++) {
    ab_mem_free(results[i].text);
    ab_mem_free(results[i].variables);
  }
  ab_mem_free(results);
}

static ab_status run_all(int *code, struct ab_papers *papers, const struct ab_request *request,
                         const struct ab_suite *suite, struct ab_suite_result *results) {
  AB_TRY(run_rows(papers, request, suite, results));
  enum ab_exit exit = ab_suite_exit(suite, results);
  bool colour = ab_papers_colour(&request->papers, STDOUT_FILENO);
  if (!ab_papers_on_stdout(&request->papers)) AB_TRY(ab_suite_print(stdout, suite, results, colour));
  if (fflush(stdout) != 0) return AB_FAIL(AB_EIO, "cannot write standard output");
  AB_TRY(ab_papers_write(papers, exit));
  *code = exit;
  return AB_OK;
}

ab_status ab_suite_run(int *code, const struct ab_request *request) {
  struct ab_suite suite;
  struct ab_suite_result *results = NULL;
  struct ab_papers papers;
  const struct ab_about about = {tool, ab_version, request->suite};
  AB_TRY(ab_suite_read(&suite, request->suite));
  ab_status status = ab_papers_open(&papers, &request->papers, &about);
  if (status == AB_OK) status = ab_mem_new(&results, suite.rows, sizeof *results);
  if (status == AB_OK) status = run_all(code, &papers, request, &suite, results);
  ab_papers_close(&papers);
  ab_suite_results_free(results, suite.rows);
  ab_suite_free(&suite);
  return status;
}
