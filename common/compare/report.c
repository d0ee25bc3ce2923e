#include <string.h>
#include <unistd.h>

#include "file.h"
#include "report_parts.h"

enum ab_exit ab_report_exit(const struct ab_report *report) {
  enum ab_exit exit = report->extra;
  if (report->failures) exit = ab_exit_fold(exit, AB_EXIT_SIDE);
  for (size_t i = 0; i < report->verdicts; i++) exit = ab_exit_fold(exit, report->verdict[i]->exit);
  bool nothing = !report->failures && !report->verdicts && report->extra == AB_EXIT_EQUAL;
  if (nothing) return AB_EXIT_INCOMPARABLE;
  return exit == AB_EXIT_EQUAL && report->cause != AB_CAUSE_EQUAL ? AB_EXIT_SELFTEST : exit;
}

/* How far a verdict is out: its exit code's class first, then the worst finding in units of its bound. */
static double badness(const struct ab_verdict *v) {
  if (!v->any_difference) return 0;
  return v->worst.bound.limit > 0 ? v->worst.distance / v->worst.bound.limit : v->worst.distance;
}

const struct ab_verdict *ab_report_shown(const struct ab_report *report) {
  const struct ab_verdict *shown = report->verdicts ? report->verdict[0] : NULL;
  for (size_t i = 0; i < report->verdicts; i++)
    if (report->verdict[i]->failing) return report->verdict[i];
  for (size_t i = 1; i < report->verdicts; i++)
    if (badness(report->verdict[i]) > badness(shown)) shown = report->verdict[i];
  return shown;
}

ab_status ab_report_write(const char *path, const char *text) {
  if (strcmp(path, "-") == 0)
    AB_TRY(ab_file_put(STDOUT_FILENO, text, strlen(text), "standard output"));
  else
    AB_TRY(ab_file_write(path, text, strlen(text)));
  return AB_OK;
}
