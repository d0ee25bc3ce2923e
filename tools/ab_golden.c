#include <stdio.h>
#include <string.h>

#include "golden_command.h"
#include "side_mode.h"
#include "start.h"
#include "version.h"

static const struct ab_golden_command commands[] = {
    {"record", "CASE_DIR", "write golden.json from two runs; one that is there is replaced with --reason only",
     ab_golden_record},
    {"calibrate", "CASE_DIR", "measure the bounds of float32 against float64 and write them into golden.json",
     ab_golden_calibrate},
    {"check", "[CASE_DIR ...]", "what CI calls: pending, orphan, placeholder, unexplained, unreproducible",
     ab_golden_check},
    {"list", "[CASE_DIR ...]", "every golden: schema, date, digest, reason, state", ab_golden_list},
    {"review", "[CASE_DIR ...]", "pending against golden, worst first; asks at a terminal", ab_golden_review},
    {"accept", "CASE_DIR ...", "run twice, then put the pending golden in place; needs --reason", ab_golden_accept},
    {"reject", "CASE_DIR ...", "remove the pending golden", ab_golden_reject},
    {"import", "BUNDLE CASE_DIR", "make a golden case of a bundle, such as MaxText's numbers", ab_golden_import},
    {0}};

static void print_help(void) {
  puts("ab_golden: keep the numbers of cases as golden JSON.\n\n"
       "  ab_golden record golden/main\n"
       "  ab_golden review\n"
       "  ab_golden accept golden/main --reason 'learning rate of the case was changed'\n\n"
       "usage: ab_golden COMMAND [CASE_DIR ...] [options]; a CASE_DIR may be a folder of cases (default: golden)");
  for (const struct ab_golden_command *c = commands; c->name; c++) {
    char head[64];
    snprintf(head, sizeof head, "%s %s", c->name, c->arguments);
    printf("  %-26s %s\n", head, c->help);
  }
  puts("\noptions:");
  ab_golden_words_help(stdout);
  puts("\nexit codes are ab_compare's; 4: a golden is missing, stale, malformed, pending or not explained");
}

/* A side of a comparison: this program again. */
static int run_side(int argc, char **argv) {
  struct ab_request request;
  if (ab_request_parse(&request, argc, argv) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = request.side ? ab_side_main(&request)
                          : ab_golden_complain("the first word must be a command; --help lists them");
  ab_request_free(&request);
  return code;
}

static bool asks(int argc, char **argv, const char *option) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], option) == 0) return true;
  return false;
}

static int act(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--" AB_SIDE_ROUTE) == 0) return run_side(argc, argv);
  if (asks(argc, argv, "--help")) return print_help(), AB_EXIT_EQUAL;
  if (asks(argc, argv, "--version")) return ab_version_print(stdout, "ab_golden"), AB_EXIT_EQUAL;
  for (const struct ab_golden_command *c = commands; argc > 1 && c->name; c++)
    if (strcmp(c->name, argv[1]) == 0) return c->run(argc - 1, argv + 1);
  return ab_golden_complain("the first word must be a command; --help lists them");
}

int main(int argc, char **argv) {
  int code = ab_start("ab_golden", argc, argv);
  return code ? code : ab_finish("ab_golden", act(argc, argv));
}
