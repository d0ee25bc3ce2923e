/* From a judgement to what a person and a machine read. */
#pragma once

#include "judgement.h"

/* A report with what it borrows. Its pointers lead into itself: not to be copied. */
struct ab_outcome {
  struct ab_report report;
  const struct ab_verdict *verdict[AB_VERDICTS_MAX];
  char numerics[256];
  char *command; /* owned */
};
/* Borrows the judgement. */
ab_status ab_outcome_new(struct ab_outcome *out, const struct ab_judgement *j, const char *tool);
void ab_outcome_free(struct ab_outcome *outcome);

/* One line on stderr, "tool: sentence", escaped. AB_EXIT_USAGE. */
int ab_complain(const char *tool, const char *sentence);
/* Prints the ten lines (stdout, unless the JSON goes there) and writes the JSON report if one was asked for; the exit
 * code: 2 when an output could not be written. */
int ab_outcome_print(const struct ab_judgement *j, const char *tool);
