#include <string.h>

#include "golden_command.h"
#include "outcome.h"

const char *ab_golden_created(const struct ab_golden *golden) { return ab_golden_provenance(golden, "created"); }

struct ab_request ab_golden_request(const char *folder, const char *numerics, long timeout) {
  return (struct ab_request){.program = "ab_compare", /* what repeats the comparison without recording */
                             .target = folder,
                             .numerics = numerics,
                             .timeout = timeout,
                             .teeth = "full",
                             .ignore_golden = true};
}

/* A run whose controls were not all caught has exit 6 and is red like any other. */
static int judged(const struct ab_judgement *j, bool show) {
  struct ab_outcome outcome;
  if (show) return ab_outcome_print(j, "ab_golden");
  if (ab_outcome_new(&outcome, j, "ab_golden") != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = (int)ab_report_exit(&outcome.report);
  ab_outcome_free(&outcome);
  return code == AB_EXIT_EQUAL ? code : ab_outcome_print(j, "ab_golden");
}

static int run_once(struct ab_golden **out, const struct ab_request *request, enum ab_selection selection, bool show) {
  struct ab_judgement j;
  if (ab_judgement_open(&j, request) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  j.fingerprints = true;
  int code = ab_judgement_run(&j) == AB_OK ? judged(&j, show) : ab_golden_refuse(AB_EXIT_USAGE);
  if (code == AB_EXIT_EQUAL && ab_golden_of(out, &j, selection) != AB_OK) code = ab_golden_refuse(AB_EXIT_USAGE);
  ab_judgement_close(&j);
  return code;
}

static ab_status same_bits(const struct ab_golden *a, const struct ab_golden *b, const char *folder) {
  char one[33], two[33];
  AB_TRY(ab_golden_content_digest(one, a));
  AB_TRY(ab_golden_content_digest(two, b));
  if (strcmp(one, two) == 0) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "two runs of %s gave other bits (content %s and %s): nothing is recorded", folder, one,
                 two);
}

int ab_golden_fresh(struct ab_golden **out, const char *folder, const char *numerics, long timeout,
                    enum ab_selection selection) {
  struct ab_request request = ab_golden_request(folder, numerics, timeout);
  struct ab_golden *first, *second;
  int code = run_once(&first, &request, selection, true);
  if (code != AB_EXIT_EQUAL) return code;
  code = run_once(&second, &request, selection, false);
  if (code == AB_EXIT_EQUAL) {
    if (same_bits(first, second, folder) != AB_OK) code = ab_golden_refuse(AB_EXIT_DIFFERENT);
    ab_golden_free(second);
  }
  if (code == AB_EXIT_EQUAL) *out = first;
  else ab_golden_free(first);
  return code;
}
