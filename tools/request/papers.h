/* The report files that a command line asks for, one option per form (report_forms.h), and colour.
 *
 * "-" is standard output, which the text report then leaves alone; at most one file can go there. Files appear whole or
 * not at all. --github prints annotations behind the text report (on standard error when a file has standard output)
 * and adds the Markdown form to the file that $GITHUB_STEP_SUMMARY names. It is never on by itself: a test suite that
 * compares on purpose what is wrong would fill its host's pages.
 */
#pragma once

#include "options.h"
#include "outputs.h"
#include "report_forms.h"

struct ab_paper_options {
  const char *path[AB_FORMS]; /* NULL: not asked for */
  bool github;
  const char *color, *progress; /* NULL: auto */
};

/* Writes the rows of these options behind each other and returns how many. */
enum { AB_PAPER_OPTIONS = AB_FORMS + 2 };
size_t ab_papers_table(struct ab_option *out, struct ab_paper_options *options);
/* The other paths of a command line. */
enum { AB_INPUTS = 6, AB_FOLDERS = 2 };
struct ab_paths {
  const char *input[AB_INPUTS];         /* files and folders that are read; NULL: none */
  struct ab_output folder[AB_FOLDERS];  /* made besides the reports */
};
/* Before anything runs: AB_ECONFIG for two forms on standard output or an unknown choice, and what ab_outputs_check
 * says of all that is written. */
ab_status ab_papers_check(const struct ab_paper_options *options, const struct ab_paths *paths);
bool ab_papers_on_stdout(const struct ab_paper_options *options);
/* Whether what goes to fd is coloured: auto is a terminal that is not dumb, without NO_COLOR. */
bool ab_papers_colour(const struct ab_paper_options *options, int fd);
/* The text with its words up to the first colon in the colour of an exit code; owned by the caller. */
ab_status ab_painted(char **out, const char *text, enum ab_exit exit);

struct ab_papers {
  const struct ab_paper_options *options;
  struct ab_sheet sheet[AB_FORMS + 1]; /* the last is the step summary; an unused one has no form */
};
ab_status ab_papers_open(struct ab_papers *out, const struct ab_paper_options *options, const struct ab_about *about);
ab_status ab_papers_entry(struct ab_papers *papers, const struct ab_entry *entry);
/* Writes all of them; the first failure is returned, the others are written nevertheless. */
ab_status ab_papers_write(struct ab_papers *papers, enum ab_exit exit);
void ab_papers_close(struct ab_papers *papers);

/* A path as annotations need it: from the top of $GITHUB_WORKSPACE, as it is without that variable. */
void ab_paper_file(char *out, size_t size, const char *path);
