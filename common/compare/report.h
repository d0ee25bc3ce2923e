/* Reports: about a dozen lines for people, `abpipe-report/1` (docs/report.schema.json) for machines. */
#pragma once

#include "cause.h"
#include "distance.h"
#include "divergence.h"
#include "explain.h"
#include "golden.h"
#include "json.h"
#include "teeth.h"

#define AB_REPORT_SCHEMA "abpipe-report/1"

/* A side that did not finish. */
struct ab_side_failure {
  const char *side;   /* "a (linen)" */
  const char *reason; /* "killed by signal 11", "timed out after 60 s", "stream damaged at byte 123: ..." */
  const char *last;   /* last observation, or "nothing" */
};

/* Everything borrowed. */
struct ab_report {
  const char *tool, *version, *case_name;
  const char *command;  /* reproduces this run */
  const char *numerics; /* "fast: f32, OpenBLAS SkylakeX, 2 threads" */
  const char *dtype;    /* "float32 (MaxText's default is bfloat16)" */
  const struct ab_verdict *const *verdict; /* [0] a against b; then each against oracle, reference, golden */
  size_t verdicts;
  enum ab_cause cause;
  const struct ab_facts *facts; /* the reasons of the cause; NULL: none */
  const struct ab_distance *distance; /* of A and B to float64; NULL or not known: A = B */
  const struct ab_slope *slope;       /* NULL or not known: not asked */
  const struct ab_divergence *divergence; /* NULL or not known: no side left its oracle */
  const struct ab_replayed *replayed;     /* NULL or not known: nothing was replayed */
  const struct ab_teeth *teeth; /* NULL: nothing was proved */
  bool verbose;                 /* every control, blind row and finding on a line of its own */
  const struct ab_side_failure *failure;
  size_t failures;
  const struct ab_explained_list *explained; /* NULL: nothing was looked for */
  const char *const *note; /* ignored files and keys, modes, unsupported defaults */
  size_t notes;
  enum ab_exit extra; /* folded into the exit code: golden trouble, self-test; AB_EXIT_EQUAL if none */
  const char *extra_sentence; /* why; NULL if none */
};

/* What one quantity of one comparison gave; a fold of cells is the largest. */
enum ab_cell { AB_CELL_NONE, AB_CELL_SAME, AB_CELL_WITHIN, AB_CELL_OVER, AB_CELL_BROKEN, AB_CELLS };
/* "same bits", "within bound", ... */
const char *ab_cell_name(enum ab_cell cell);
/* Of a verdict and one of its quantities. */
enum ab_cell ab_cell_of(const struct ab_verdict *v, enum ab_quantity q);

/* The fold over failures, verdicts and `extra`; 5 when there is no verdict and nothing else; 6 when all of them are
 * equal but the cause is not: the judge contradicts itself, and that is never green. */
enum ab_exit ab_report_exit(const struct ab_report *report);
/* Ten lines, verdict first, and those of teeth.h; failures, the sentence of `extra` and the reasons of a cause come on
 * lines of their own after the first. Text from outside is escaped. Owned by the caller. */
ab_status ab_report_text(char **out, const struct ab_report *report);
/* The JSON form, as a document (key NULL) or a member of a larger one. */
void ab_report_put(struct ab_json_writer *writer, const char *key, const struct ab_report *report);
/* "-" is stdout, anything else an atomically replaced file. A short or failed write is AB_EIO. */
ab_status ab_report_write(const char *path, const char *text);
