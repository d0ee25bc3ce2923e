#include <stdio.h>
#include <string.h>

#include "cell.h"
#include "file.h"
#include "guard.h"
#include "outcome.h"
#include "side_mode.h"
#include "start.h"
#include "suite.h"
#include "upstream.h"
#include "version.h"

static int fail(void) { return ab_complain("ab_compare", ab_status_message()); }

static int list_routes(void) {
  for (const struct ab_route *route = ab_routes; route->name; route++) printf("%-24s %s\n", route->name, route->what);
  return AB_EXIT_EQUAL;
}

/* `B1  value    what it does [where]`, and why those that cannot be switched on cannot. */
static int list_defects(void) {
  for (int d = 0; d < AB_DEFECT_COUNT; d++) {
    const struct ab_upstream_defect *defect = &ab_upstream_defects[d];
    printf("%-4s %-8s %s [%s]%s%s%s\n", defect->id, defect->changes, defect->what, defect->source,
           defect->missing ? " (not here: " : "", defect->missing ? defect->missing : "", defect->missing ? ")" : "");
  }
  return AB_EXIT_EQUAL;
}

/* What was asked for must be writable before anything runs. */
static ab_status check_outputs(const struct ab_request *request) {
  struct ab_names names;
  bool there = false;
  struct ab_paths paths = {.input = {request->target, request->golden, request->suite, request->a_bin, request->b_bin},
                           .folder = {{"dump", request->dump, true}, {"save-artifact", request->save_artifact, true}}};
  AB_TRY(ab_papers_check(&request->papers, &paths));
  if (request->dump) AB_TRY(ab_file_find(&there, request->dump));
  if (there) {
    AB_TRY(ab_folder_list(&names, request->dump, 1000));
    size_t held = names.count;
    ab_names_free(&names);
    if (held) return AB_FAIL(AB_EIO, "--dump '%s' is there and not empty; expected a new folder", request->dump);
  }
  if (request->save_artifact) AB_TRY(ab_artifact_check(request->save_artifact));
  return AB_OK;
}

static int compare(const struct ab_request *request) {
  struct ab_judgement j;
  if (check_outputs(request) != AB_OK) return fail();
  if (ab_judgement_open(&j, request) != AB_OK) return ab_outcome_refuse(request, "ab_compare");
  if (request->verbose) {
    ab_config_print(stderr, j.opened.config);
    ab_config_print_notes(stderr, j.opened.config);
  }
  ab_status status = ab_judgement_run(&j);
  int code = status == AB_OK ? ab_outcome_print(&j, "ab_compare") : ab_outcome_refuse(request, "ab_compare");
  if (status == AB_OK && request->dump && j.side[AB_SIDE_A].values && ab_judgement_dump(&j) != AB_OK)
    code = fail();
  ab_judgement_close(&j);
  return code;
}

static int run_suite(const struct ab_request *request) {
  int code;
  if (check_outputs(request) != AB_OK) return fail();
  return ab_suite_run(&code, request) == AB_OK ? code : fail();
}

static int act(const struct ab_request *request) {
  if (request->help) ab_request_help(stdout);
  if (request->version) ab_version_print(stdout, "ab_compare");
  if (request->list_routes) return list_routes();
  if (request->list_defects) return list_defects();
  if (request->help || request->version) return AB_EXIT_EQUAL;
  if (request->suite) return run_suite(request);
  if (request->replay) return ab_replay_main(request);
  return request->side ? ab_side_main(request) : compare(request);
}

int main(int argc, char **argv) {
  struct ab_request request;
  if (argc > 2 && strcmp(argv[1], "--" AB_GUARD) == 0) return ab_guard_main(argv + 2);
  int code = ab_start("ab_compare", argc, argv);
  if (code) return code;
  if (ab_request_parse(&request, argc, argv) == AB_OK) {
    code = act(&request);
    ab_request_free(&request);
  } else {
    code = fail();
  }
  return ab_finish("ab_compare", code);
}
