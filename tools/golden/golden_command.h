/* ab_golden, by family: one row per subcommand in ab_golden.c; each parses its own words. */
#pragma once

#include "golden.h"
#include "golden_of.h"

/* argv[0] is the subcommand's name. The exit code. */
typedef int (*ab_golden_run_fn)(int argc, char **argv);
struct ab_golden_command {
  const char *name, *arguments, *help; /* one line each */
  ab_golden_run_fn run;
};

int ab_golden_record(int argc, char **argv);
int ab_golden_check(int argc, char **argv);
int ab_golden_list(int argc, char **argv);
int ab_golden_review(int argc, char **argv);
int ab_golden_accept(int argc, char **argv);
int ab_golden_reject(int argc, char **argv);
int ab_golden_import(int argc, char **argv);
int ab_golden_calibrate(int argc, char **argv);

/* What the subcommands are asked; strings are argv's. */
struct ab_golden_words {
  const char **word; /* owned; what is not an option */
  size_t words;
  const char *reason, *keep, *from;
  long timeout, runs, seed;
  bool no_run, no_pending, verbose;
};
/* AB_ECONFIG for a wrong option, and for fewer than `least` or more than `most` words (`what` they are). */
ab_status ab_golden_words_parse(struct ab_golden_words *out, int argc, char **argv, size_t least, size_t most,
                                const char *what);
void ab_golden_words_free(struct ab_golden_words *words);
/* The options for --help. */
void ab_golden_words_help(FILE *out);

/* "ab_golden: sentence" on stderr; exit 2. */
int ab_golden_complain(const char *sentence);
/* The last failure's sentence on stderr; `code`, or exit 2 when it was memory. */
int ab_golden_refuse(int code);

/* AB_ECONFIG unless there is a reason that a reviewer could read: one line of at least three letters or digits. */
ab_status ab_golden_check_reason(const char *reason);
/* AB_ECONFIG under CI (environment CI set to anything but "", 0 or false): nothing is recorded there. */
ab_status ab_golden_check_not_ci(void);

/* A case folder and what lies in it. */
struct ab_golden_case {
  char *folder, *golden, *pending; /* owned paths */
  bool has_config, has_golden, has_pending;
  bool unlisted; /* not in the inventory */
};
struct ab_golden_cases {
  struct ab_golden_case *row;
  size_t count;
};
/* Each target is a case, or a folder that is walked for cases and whose file `inventory` (a case per line, # comments)
 * must then name each of them; none: the folder golden. Cases named there that are not found are rows without
 * anything. AB_ENOTFOUND, AB_EIO; AB_ECONFIG when there is no case at all. */
ab_status ab_golden_cases_find(struct ab_golden_cases *out, const char *const *targets, size_t count);
void ab_golden_cases_free(struct ab_golden_cases *cases);
ab_status ab_golden_case_open(struct ab_golden_case *out, const char *folder);
void ab_golden_case_close(struct ab_golden_case *c);
/* Locks the case against other commands and removes what killed ones left. Unlock: ab_folder_unlock. */
ab_status ab_golden_case_lock(int *out, const struct ab_golden_case *c);

/* Parses the words of a subcommand, finds its cases and acts on them. The exit code. */
typedef int (*ab_golden_act_fn)(const struct ab_golden_cases *cases, const struct ab_golden_words *words);
int ab_golden_with_cases(int argc, char **argv, ab_golden_act_fn act);

/* When it was made, of its provenance. */
const char *ab_golden_created(const struct ab_golden *golden);
/* The request for a run of the case as it is, without its golden. */
struct ab_request ab_golden_request(const char *folder, const char *numerics, long timeout);

/* Runs both engines and the oracles twice. Exit 0 and a golden only when both runs are green, with their controls, and
 * agree in every bit; else prints what is wrong. */
int ab_golden_fresh(struct ab_golden **out, const char *folder, const char *numerics, long timeout,
                    enum ab_selection selection);

/* Old against new, worst first. */
ab_status ab_golden_print_diff(FILE *out, const struct ab_golden *old, const struct ab_golden *new_one);
/* Lets a fresh golden follow an old one (NULL: the first), printing the difference: its changelog goes on, and an entry
 * is added. AB_EMISMATCH when it holds less, unless that is allowed. */
ab_status ab_golden_follow(struct ab_golden *fresh, const struct ab_golden *old, const char *reason, bool may_shrink);
/* Accepts the pending golden at `pending` (the case's own, or one from elsewhere) into the case. The exit code. */
int ab_golden_accept_one(const struct ab_golden_case *c, const char *pending, const char *reason, long timeout);
/* Removes the pending golden of a case, if there is one. */
ab_status ab_golden_drop_pending(const struct ab_golden_case *c);
/* Removes the pending golden of a case. The exit code. */
int ab_golden_reject_one(const struct ab_golden_case *c);
