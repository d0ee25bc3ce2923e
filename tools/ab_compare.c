#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judgement.h"
#include "mem.h"
#include "process.h"
#include "side_mode.h"
#include "text.h"
#include "version.h"

static int fail(enum ab_exit code) {
  char sentence[2048];
  ab_text_escape(sentence, sizeof sentence, ab_status_message());
  fprintf(stderr, "ab_compare: %s\n", sentence);
  return code;
}

static int list_routes(void) {
  for (const struct ab_route *route = ab_routes; route->name; route++) printf("%-14s %s\n", route->name, route->what);
  return AB_EXIT_EQUAL;
}

static void describe(char *text, size_t size, const struct ab_judgement *j) {
  const char *core = ab_blas_core_wanted();
  snprintf(text, size, "%s: %s and %s, BLAS core %s", ab_numerics_name(j->opened.numerics),
           ab_route_kernels(j->a, j->opened.numerics)->name, ab_route_kernels(j->b, j->opened.numerics)->name,
           core ? core : "chosen by OpenBLAS");
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

static int report(const struct ab_judgement *j) {
  char numerics[256], *command;
  const struct ab_verdict *verdicts[AB_VERDICTS_MAX];
  if (ab_request_command(&command, &j->request) != AB_OK) return fail(AB_EXIT_USAGE);
  for (size_t i = 0; i < j->verdicts; i++) verdicts[i] = &j->verdict[i];
  describe(numerics, sizeof numerics, j);
  struct ab_report r = {.tool = "ab_compare", .version = ab_version, .case_name = j->opened.name, .command = command,
                        .numerics = numerics, .dtype = "float32 (MaxText's default is bfloat16)",
                        .verdict = verdicts, .verdicts = j->verdicts, .cause = j->cause,
                        .failure = j->failure, .failures = j->failures,
                        .note = (const char *const *)j->note, .notes = j->notes, .extra = j->extra,
                        .extra_sentence = j->extra_sentence[0] ? j->extra_sentence : NULL};
  ab_status status = write_out(j, &r);
  ab_mem_free(command);
  return status == AB_OK ? (int)ab_report_exit(&r) : fail(AB_EXIT_USAGE);
}

static int compare(const struct ab_request *request) {
  struct ab_judgement j;
  if (ab_judgement_open(&j, request) != AB_OK) return fail(AB_EXIT_USAGE);
  if (request->verbose) {
    ab_config_print(stderr, j.opened.config);
    ab_config_print_notes(stderr, j.opened.config);
  }
  ab_status status = ab_judgement_run(&j);
  if (status == AB_OK && request->dump && j.extra != AB_EXIT_USAGE && !j.failures) status = ab_judgement_dump(&j);
  int code = status == AB_OK ? report(&j) : fail(AB_EXIT_USAGE);
  ab_judgement_close(&j);
  return code;
}

static int act(const struct ab_request *request) {
  if (request->help) ab_request_help(stdout);
  if (request->version) ab_version_print(stdout, "ab_compare");
  if (request->list_routes) return list_routes();
  if (request->help || request->version) return AB_EXIT_EQUAL;
  return request->side ? ab_side_main(request) : compare(request);
}

int main(int argc, char **argv) {
  struct ab_request request;
  if (ab_process_claim_standard_fds() != AB_OK) return AB_EXIT_USAGE;
  signal(SIGPIPE, SIG_IGN);
  if (ab_request_parse(&request, argc, argv) != AB_OK) return fail(AB_EXIT_USAGE);
  int code = act(&request);
  ab_request_free(&request);
  if (fflush(stdout) != 0) {
    fprintf(stderr, "ab_compare: cannot write standard output\n");
    return AB_EXIT_USAGE;
  }
  return code;
}
