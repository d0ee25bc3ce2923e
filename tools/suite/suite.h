/* A suite: a list of cases that are compared one after another, and what they gave as one matrix.
 *
 *   about: what the list is
 *   cases:
 *     - name: non_circular                # unique
 *       case: maxtext_pipeline/non_circular
 *       overrides: [ici_fsdp_parallelism=1] # optional, as on the command line; a golden of the case is then stale
 *       a: linen                          # optional: routes, which --a and --b of the command line do not change
 *     - name: ragged_all_to_all
 *       skip: needs mixture-of-experts layers
 *
 * A row has either `case` (a CONFIG.yml or CASE_DIR, relative to the list's folder) or `skip` with the reason.
 * Malformed: AB_EFORMAT naming line and column. A row that cannot run is red like any other; the rest still runs. A
 * CASE_DIR must hold a golden or a bundle: a golden that was lost is exit 4, not a case without one.
 *
 * --json writes `abpipe-suite/1`: tool, version, suite, `cases`, exit_code, exit_reason. A case has name and skip, or
 * name, case, exit_code, exit_reason, schedule, routes, seconds, worst, worst_bound, `matrix` (a word per column) and
 * `report` (abpipe-report/1) or, if it could not be opened, `because` (docs/suite.schema.json).
 */
#pragma once

#include <stdio.h>

#include "report.h"
#include "request.h"
#include "yaml_door.h"

struct ab_suite_row {
  const char *name, *skip; /* skip NULL: runs */
  char *target, *golden;   /* owned; target NULL where skipped, golden NULL for a CONFIG.yml or a bundle */
  const char *a, *b;       /* NULL: the command line's */
  const char **overrides;  /* owned array */
  size_t override_count;
};

struct ab_suite {
  const char *path, *about; /* about NULL: not given */
  struct ab_yaml *yaml;     /* holds the strings */
  struct ab_suite_row *row;
  size_t rows;
};

/* path is borrowed. AB_ENOTFOUND, AB_EIO or AB_EFORMAT. */
ab_status ab_suite_read(struct ab_suite *out, const char *path);
void ab_suite_free(struct ab_suite *suite);

enum ab_column {
  AB_COLUMN_OUTPUTS, /* of the two routes against each other, by quantity */
  AB_COLUMN_D_INPUTS,
  AB_COLUMN_D_WEIGHTS,
  AB_COLUMN_LOSSES,
  AB_COLUMN_PARAMETERS, /* and other state */
  AB_COLUMN_LAYERS,   /* what goes in, activations, cotangents, what was recomputed */
  AB_COLUMN_COUNTERS,
  AB_COLUMN_ORACLE,   /* each route against the oracle in its own arithmetic */
  AB_COLUMN_FLOAT64,  /* A against the float64 oracle */
  AB_COLUMN_RECORDED, /* each route against the golden or MaxText's numbers */
  AB_COLUMNS
};
/* "outputs", for JSON; and three letters for the matrix. */
const char *ab_column_name(enum ab_column column);
const char *ab_column_short(enum ab_column column);
/* The sign of a cell (report.h) in the matrix. */
char ab_cell_sign(enum ab_cell cell);

struct ab_suite_result {
  enum ab_exit exit;
  char schedule[64], pair[64]; /* "4-8-2-1-1": S-M-R-K-delay; "linen:nnx" */
  enum ab_cell cell[AB_COLUMNS];
  double distance, limit; /* of the finding nearest to or furthest over its bound; 0, 0 where all bits are equal */
  double seconds;
  char *variables; /* M_<KEY> of the environment: a line of those in force, and one for each that was not read; owned */
  char *text; /* the case's own report unless it is equal and --verbose was not given; owned */
};
struct ab_judgement;
/* Everything but exit, seconds and text. */
void ab_suite_judge(struct ab_suite_result *out, const struct ab_judgement *j);

/* results: one per row. The fold of all that ran; 5 when nothing did. */
enum ab_exit ab_suite_exit(const struct ab_suite *suite, const struct ab_suite_result *results);
ab_status ab_suite_print(FILE *out, const struct ab_suite *suite, const struct ab_suite_result *results, bool colour);

/* Runs every row that is not skipped, with the command line's numerics, timeout and routes. results: zeroed, one per
 * row; freed with their texts by ab_suite_results_free. */
ab_status ab_suite_run_rows(struct ab_suite_result *results, const struct ab_suite *suite,
                            const struct ab_request *request);
void ab_suite_results_free(struct ab_suite_result *results, size_t rows);

/* Runs request->suite, prints the matrix (stdout, unless a report goes there), writes the reports that were asked for.
 * *code is the exit code; a failure is exit 2. */
ab_status ab_suite_run(int *code, const struct ab_request *request);
