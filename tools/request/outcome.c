#include "outcome.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "page.h"
#include "text.h"
#include "version.h"

int ab_complain(const char *tool, const char *sentence) {
  char shown[2048];
  ab_text_escape(shown, sizeof shown, sentence);
  fprintf(stderr, "%s: %s\n", tool, shown);
  return AB_EXIT_USAGE;
}

int ab_say(const char *tool, const char *format, ...) {
  struct ab_page page = {0};
  char *line;
  va_list args;
  va_start(args, format);
  ab_page_vsay(&page, AB_ESCAPE_TERMINAL, format, args);
  va_end(args);
  if (ab_page_take(&line, &page) != AB_OK) return ab_complain(tool, ab_status_message());
  puts(line);
  ab_mem_free(line);
  return AB_EXIT_EQUAL;
}

/* The core that side A read back. */
static ab_status core_of(char *text, size_t size, const struct ab_recording *recording) {
  AB_TRY(ab_version_core(text, size, recording ? recording->header : NULL));
  if (!*text) snprintf(text, size, "not reached");
  return AB_OK;
}

static const char *kernels_of(const struct ab_route *route, enum ab_numerics numerics) {
  return route->model || route->pipeline ? ab_route_kernels(route, numerics)->name : "a command";
}

static ab_status describe(char *text, size_t size, const struct ab_judgement *j) {
  char core[64];
  AB_TRY(core_of(core, sizeof core, j->side[AB_SIDE_A].recording));
  snprintf(text, size, "%s: %s and %s, BLAS core %s", ab_numerics_name(j->opened.numerics),
           kernels_of(j->a, j->opened.numerics), kernels_of(j->b, j->opened.numerics), core);
  return AB_OK;
}

static const char *dtype_of(const struct ab_route *route) {
  static const char *const names[] = {[AB_ARITHMETIC_F32] = "float32 (MaxText's default is bfloat16)",
                                      [AB_ARITHMETIC_F64] = "float64",
                                      [AB_ARITHMETIC_EXACT] = "integers modulo 2^61 - 1"};
  return names[route->arithmetic];
}

static ab_status print_text(const struct ab_paper_options *options, const struct ab_report *report) {
  char *text, *painted = NULL;
  if (ab_papers_on_stdout(options)) return AB_OK;
  AB_TRY(ab_report_text(&text, report));
  ab_status status = AB_OK;
  if (ab_papers_colour(options, STDOUT_FILENO)) status = ab_painted(&painted, text, ab_report_exit(report));
  if (status == AB_OK) status = ab_report_write("-", painted ? painted : text);
  ab_mem_free(text);
  ab_mem_free(painted);
  return status;
}

ab_status ab_reports_write(const struct ab_paper_options *options, const struct ab_entry *entry) {
  struct ab_papers papers;
  const struct ab_about about = {entry->report->tool, ab_version, NULL};
  AB_TRY(ab_papers_open(&papers, options, &about));
  ab_status status = ab_papers_entry(&papers, entry);
  if (status == AB_OK) status = ab_papers_write(&papers, ab_report_exit(entry->report));
  ab_papers_close(&papers);
  return status;
}

ab_status ab_reports_put(const struct ab_paper_options *options, const struct ab_entry *entry) {
  AB_TRY(print_text(options, entry->report));
  return ab_reports_write(options, entry);
}

/* Files to point at. */
static void locate(struct ab_outcome *out, const char *target, bool folder, const char *golden) {
  char config[4096];
  snprintf(config, sizeof config, "%s%s", target, folder ? "/config.yml" : "");
  ab_paper_file(out->config, sizeof out->config, config);
  if (golden) ab_paper_file(out->golden, sizeof out->golden, golden);
}

ab_status ab_outcome_new(struct ab_outcome *out, const struct ab_judgement *j, const char *tool) {
  *out = (struct ab_outcome){0};
  AB_TRY(describe(out->numerics, sizeof out->numerics, j));
  AB_TRY(ab_request_command(&out->command, &j->request, j->opened.config));
  for (size_t i = 0; i < j->verdicts; i++) out->verdict[i] = &j->verdict[i];
  locate(out, j->request.target, j->opened.folder, j->opened.golden_path);
  out->report = (struct ab_report){.tool = tool, .version = ab_version, .case_name = j->opened.name,
                                   .command = out->command, .numerics = out->numerics,
                                   .dtype = dtype_of(j->a), .verdict = out->verdict,
                                   .verdicts = j->verdicts, .cause = j->cause, .facts = j->facts,
                                   .distance = &j->distance, .slope = &j->slope,
                                   .divergence = j->replay ? &j->replay->divergence : NULL,
                                   .replayed = j->replay ? &j->replay->replayed : NULL,
                                   .explained = &j->explained, .failure = j->failure,
                                   .failures = j->failures, .note = (const char *const *)j->note, .notes = j->notes,
                                   .teeth = j->teeth, .verbose = j->request.verbose, .extra = j->extra,
                                   .extra_sentence = j->extra_sentence[0] ? j->extra_sentence : NULL};
  out->entry = (struct ab_entry){.name = j->opened.name, .report = &out->report, .seconds = j->seconds,
                                 .config = out->config, .golden = out->golden[0] ? out->golden : NULL};
  return AB_OK;
}

void ab_outcome_free(struct ab_outcome *outcome) {
  ab_mem_free(outcome->command);
  outcome->command = NULL;
}

int ab_outcome_print(const struct ab_judgement *j, const char *tool) {
  struct ab_outcome outcome;
  if (ab_outcome_new(&outcome, j, tool) != AB_OK) return ab_complain(tool, ab_status_message());
  ab_status status = ab_reports_put(&j->request.papers, &outcome.entry);
  int code = status == AB_OK ? (int)ab_report_exit(&outcome.report) : ab_complain(tool, ab_status_message());
  ab_outcome_free(&outcome);
  return code;
}

int ab_outcome_refuse(const struct ab_request *request, const char *tool) {
  char sentence[2048], *command;
  snprintf(sentence, sizeof sentence, "%s", ab_status_message());
  ab_status_clear();
  struct ab_outcome outcome = {0};
  if (ab_request_command(&command, request, NULL) != AB_OK) return ab_complain(tool, sentence);
  locate(&outcome, request->target, ab_folder_exists(request->target), request->golden);
  outcome.report = (struct ab_report){.tool = tool, .version = ab_version, .case_name = request->target,
                                      .command = command, .extra = AB_EXIT_USAGE, .extra_sentence = sentence};
  outcome.entry = (struct ab_entry){.name = request->target, .report = &outcome.report, .config = outcome.config};
  int code = ab_complain(tool, sentence);
  if (ab_reports_write(&request->papers, &outcome.entry) != AB_OK) code = ab_complain(tool, ab_status_message());
  ab_mem_free(command);
  return code;
}
