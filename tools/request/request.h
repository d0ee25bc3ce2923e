/* What a tool is asked to compare: the command line, opened. Parent and sides read the same arguments. */
#pragma once

#include "bundle.h"
#include "dispatch.h"
#include "papers.h"

/* The command line as given; strings are argv's. */
struct ab_request {
  const char *program;          /* argv[0]; NULL: a request that no command line made */
  const char *target;           /* CONFIG.yml or CASE_DIR */
  const char *const *overrides; /* key=value */
  size_t override_count;
  const char *a, *b, *a_bin, *b_bin, *a_rev, *b_rev, *source, *a_cmd, *b_cmd;
  const char *golden, *numerics, *dump, *suite, *save_artifact, *replay;
  const char *teeth; /* "full": inputs are perturbed too; NULL: not */
  struct ab_paper_options papers;
  const char *label; /* of a case of a suite, for the line of progress; NULL: none */
  long steps, devices, timeout; /* 0: not given */
  bool allow_same, list_routes, list_defects, intended_oracle, check_slope, require_calibration, verbose, help, version;
  bool no_pending, require_pending; /* of a golden that a red comparison would have otherwise */
  bool ignore_golden;           /* a golden of the case directory is not compared with (it is being recorded) */
  /* side mode */
  const char *side, *side_values, *side_against, *side_from_stream, *side_from_values, *side_shake;
  bool side_fingerprint, side_terms, side_state;
  const char *side_what_if, *side_window, *side_cell;
  const char **positional; /* owned */
};

/* AB_ECONFIG for a wrong command line. */
ab_status ab_request_parse(struct ab_request *out, int argc, char **argv);
void ab_request_free(struct ab_request *request);
void ab_request_help(FILE *out);

/* The arguments that make another process open the same case, NULL at the end; owned by the caller (one block). */
ab_status ab_request_case_arguments(const char ***out, const struct ab_request *request);
/* Appends one word to a line of `used` bytes, quoted for a shell where it needs it (with control bytes as $'...', so
 * that the line stays one): at most 4 times its length and 4 bytes. The new length; no NUL is written. */
size_t ab_shell_word(char *line, size_t used, const char *word);
/* One shell line that repeats the run, with the M_<KEY> variables that the config (NULL: unknown) took from the
 * environment; owned by the caller. */
ab_status ab_request_command(char **out, const struct ab_request *request, const struct ab_config *config);

/* A case: config, and for a bundle its weights, batch and results. */
struct ab_case {
  struct ab_config *config;
  struct ab_bundle *bundle;   /* NULL: a config file or a golden case */
  char *golden_path;          /* --golden, or golden.json of the case directory; NULL: none */
  char *name;                 /* last component of the target without ending */
  bool folder;                /* the target is one: a bundle or a golden case */
  enum ab_numerics numerics;  /* --numerics, or what the golden was made with */
  int64_t steps;              /* to run */
};
ab_status ab_case_open(struct ab_case *out, const struct ab_request *request);
void ab_case_close(struct ab_case *opened);
