#include "outcome.h"

#include <stdio.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "text.h"
#include "version.h"

int ab_complain(const char *tool, const char *sentence) {
  char shown[2048];
  ab_text_escape(shown, sizeof shown, sentence);
  fprintf(stderr, "%s: %s\n", tool, shown);
  return AB_EXIT_USAGE;
}

/* The core that side A read back, as its stream's header says. */
static void core_of(char *text, size_t size, const struct ab_recording *recording) {
  struct ab_json *header;
  const char *core;
  snprintf(text, size, "not reached");
  if (!recording || !recording->header) return;
  if (ab_json_parse(&header, recording->header, strlen(recording->header), "stream header", NULL) == AB_OK) {
    if (ab_json_get_string(&core, header, "blas_core") == AB_OK)
      snprintf(text, size, "%.*s", (int)strcspn(core, " "), core);
    ab_json_free(header);
  }
  ab_status_clear();
}

static const char *kernels_of(const struct ab_route *route, enum ab_numerics numerics) {
  return route->model || route->pipeline ? ab_route_kernels(route, numerics)->name : "a command";
}

static void describe(char *text, size_t size, const struct ab_judgement *j) {
  char core[64];
  core_of(core, sizeof core, j->side[AB_SIDE_A].recording);
  snprintf(text, size, "%s: %s and %s, BLAS core %s", ab_numerics_name(j->opened.numerics),
           kernels_of(j->a, j->opened.numerics), kernels_of(j->b, j->opened.numerics), core);
}

static const char *dtype_of(const struct ab_route *route) {
  static const char *const names[] = {[AB_ARITHMETIC_F32] = "float32 (MaxText's default is bfloat16)",
                                      [AB_ARITHMETIC_F64] = "float64",
                                      [AB_ARITHMETIC_EXACT] = "integers modulo 2^61 - 1"};
  return names[route->arithmetic];
}

static ab_status write_out(const struct ab_judgement *j, const struct ab_report *report) {
  char *text;
  AB_TRY(ab_report_text(&text, report));
  bool json_on_stdout = j->request.json && strcmp(j->request.json, "-") == 0;
  ab_status status = json_on_stdout ? AB_OK : ab_report_write("-", text);
  ab_mem_free(text);
  AB_TRY(status);
  if (!j->request.json) return AB_OK;
  AB_TRY(ab_report_json(&text, report));
  status = ab_report_write(j->request.json, text);
  ab_mem_free(text);
  return status;
}

ab_status ab_outcome_new(struct ab_outcome *out, const struct ab_judgement *j, const char *tool) {
  *out = (struct ab_outcome){0};
  AB_TRY(ab_request_command(&out->command, &j->request));
  for (size_t i = 0; i < j->verdicts; i++) out->verdict[i] = &j->verdict[i];
  describe(out->numerics, sizeof out->numerics, j);
  out->report = (struct ab_report){.tool = tool, .version = ab_version, .case_name = j->opened.name,
                                   .command = out->command, .numerics = out->numerics,
                                   .dtype = dtype_of(j->a), .verdict = out->verdict,
                                   .verdicts = j->verdicts, .cause = j->cause, .facts = j->facts,
                                   .distance = &j->distance, .slope = &j->slope,
                                   .explained = &j->explained, .failure = j->failure,
                                   .failures = j->failures, .note = (const char *const *)j->note, .notes = j->notes,
                                   .teeth = j->teeth, .verbose = j->request.verbose, .extra = j->extra,
                                   .extra_sentence = j->extra_sentence[0] ? j->extra_sentence : NULL};
  return AB_OK;
}

void ab_outcome_free(struct ab_outcome *outcome) {
  ab_mem_free(outcome->command);
  outcome->command = NULL;
}

int ab_outcome_print(const struct ab_judgement *j, const char *tool) {
  struct ab_outcome outcome;
  if (ab_outcome_new(&outcome, j, tool) != AB_OK) return ab_complain(tool, ab_status_message());
  ab_status status = write_out(j, &outcome.report);
  int code = status == AB_OK ? (int)ab_report_exit(&outcome.report) : ab_complain(tool, ab_status_message());
  ab_outcome_free(&outcome);
  return code;
}
