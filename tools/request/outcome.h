/* From a judgement to what a person and a machine read. */
#pragma once

#include "judgement.h"

/* A report with what it borrows. Its pointers lead into itself: not to be copied. */
struct ab_outcome {
  struct ab_report report;
  const struct ab_verdict *verdict[AB_VERDICTS_MAX];
  char numerics[256];
  char config[4096], golden[4096]; /* files to point at; golden "" for none */
  char *command; /* owned */
  struct ab_entry entry;
};
/* Borrows the judgement. */
ab_status ab_outcome_new(struct ab_outcome *out, const struct ab_judgement *j, const char *tool);
void ab_outcome_free(struct ab_outcome *outcome);

/* One line on stderr, "tool: sentence", escaped. AB_EXIT_USAGE. */
int ab_complain(const char *tool, const char *sentence);
/* A line on standard output, escaped as a whole. AB_EXIT_EQUAL; when memory is short its sentence on stderr and
 * AB_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int ab_say(const char *tool, const char *format, ...);
/* Prints the report for people (stdout, unless a report goes there) and writes the reports that were asked for; the
 * exit code: 2 when an output could not be written. */
int ab_outcome_print(const struct ab_judgement *j, const char *tool);
/* A run that could not be opened: the status's sentence on stderr and in the reports that were asked for, so that no
 * older one is taken for this run's. AB_EXIT_USAGE. */
int ab_outcome_refuse(const struct ab_request *request, const char *tool);

/* One report to the files that were asked for; _put prints its text before. */
ab_status ab_reports_write(const struct ab_paper_options *options, const struct ab_entry *entry);
ab_status ab_reports_put(const struct ab_paper_options *options, const struct ab_entry *entry);
