/* One comparison: runs the sides, judges them against each other, the oracle, MaxText's numbers and a golden, and
 * reports.
 *
 * Order: A alone (it keeps all values), then B and both oracles at the same time: B and the float32 oracle keep only
 * what differs from A; the float64 oracle differentiates every step at A's own parameters of that step. Exact routes
 * have one oracle, in their own arithmetic.
 */
#pragma once

#include "cause.h"
#include "distance.h"
#include "expectation.h"
#include "explain.h"
#include "progress.h"
#include "reference.h"
#include "replay.h"
#include "teeth.h"

enum ab_side_place {
  AB_SIDE_A,
  AB_SIDE_B,
  AB_SIDE_ORACLE,
  AB_SIDE_TRUTH,
  AB_SIDE_ORACLE_AT_A,
  AB_SIDE_FREE_TRUTH, /* float64 from the initial parameters on, as a golden ran, */
  AB_SIDE_FREE_GOLDEN, /* and the f32 oracle in the golden's numerics */
  AB_SIDE_WHAT_IF_PASSES, /* the oracle of their arithmetic, with one thing changed per pass */
  AB_SIDE_TERMS, /* the exact oracle, one pass per microbatch */
  AB_SIDE_SLOPE_UP, /* float64 with A's weights of one step moved along a direction, and the other way */
  AB_SIDE_SLOPE_DOWN,
  AB_SIDE_WINDOW_A, /* A, B and the oracle once more, with the values of one layer (kept.h: window) */
  AB_SIDE_WINDOW_B,
  AB_SIDE_WINDOW_ORACLE,
  AB_SIDES
};
/* The verdict of A against the oracle of its own arithmetic; B's is the next, that of A against B the one before. */
enum { AB_AGAINST_ORACLE = 1 };
enum { AB_VERDICTS_MAX = 8, AB_NOTES_MAX = 16, AB_COMMON_MAX = 6 };

/* The f32 oracle at A's parameters, and its distance to the f64 one: what an uncalibrated bound is made of. */
struct ab_own_distance {
  const struct ab_side_result *oracle, *truth;
  const struct ab_side_result *other; /* the f32 oracle in a golden's numerics: the farther one counts. NULL: none */
};

struct ab_judgement {
  struct ab_request request; /* numerics as the golden asks when the user did not say */
  struct ab_case opened;
  const struct ab_route *a, *b;
  struct ab_program program[2]; /* of A and B */
  char *command_in[2], *command_out[2];
  bool fingerprints; /* for goldens */
  char *scratch;
  const char **case_arguments, **oracle_arguments;
  struct ab_side_result *side; /* [AB_SIDES]; a NULL recording: did not run */
  struct ab_reference *reference;
  struct ab_golden *golden;
  struct ab_recording *golden_recording;
  bool stale;          /* the golden is of another config: there is nothing to compare, but a pending one to write */
  bool golden_differs; /* a side gave other numbers than the golden */
  struct ab_verdict verdict[AB_VERDICTS_MAX];
  size_t verdicts;
  struct ab_own_distance own;
  struct ab_distance distance;
  struct ab_slope slope;
  struct ab_facts *facts;
  struct ab_recording *common[AB_COMMON_MAX]; /* of commands: what two sides both have */
  size_t commons;
  enum ab_cause cause;
  struct ab_teeth *teeth; /* of a run that came out equal */
  struct ab_side_failure failure[AB_SIDES];
  size_t failures;
  struct ab_explained_list explained;
  struct ab_replay *replay; /* NULL: no side left its oracle */
  char *note[AB_NOTES_MAX];
  size_t notes;
  size_t counts_checked, counts_wrong; /* executions, fetches, and the counters of both engines */
  double seconds; /* ab_judgement_run took */
  struct ab_progress progress;
  enum ab_exit extra;
  char extra_sentence[1024];
};

/* Opens the case and the routes. A failure is a user's mistake: exit 2. */
ab_status ab_judgement_open(struct ab_judgement *out, const struct ab_request *request);
/* Runs and judges. What goes wrong with a side, a golden or a count stands in the judgement; only the rest is a
 * failure. */
ab_status ab_judgement_run(struct ab_judgement *j);
void ab_judgement_close(struct ab_judgement *j);

/* Runs both oracles of a golden of other numerics than the run's, into AB_SIDE_FREE_*. */
ab_status ab_judgement_run_free(struct ab_judgement *j);
/* Runs the f32 oracle at A's own parameters into AB_SIDE_ORACLE_AT_A. */
ab_status ab_judgement_run_oracle_at_a(struct ab_judgement *j);
/* Runs the exact oracle into AB_SIDE_TERMS, which has no values when the bundle is not of integers. */
ab_status ab_judgement_run_terms(struct ab_judgement *j);
/* Runs float64 at A's parameters with these two shakes into AB_SIDE_SLOPE_UP and _DOWN. */
ab_status ab_judgement_run_slope(struct ab_judgement *j, const char *up, const char *down);
/* truth.c: relative L2 error of a kept tensor, relative error of a metric, against float64; NaN when one is not
 * there. */
double ab_tensor_error(const struct ab_side_result *side, const struct ab_side_result *truth,
                       const struct ab_identity *id);
double ab_metric_error(const struct ab_side_result *side, const struct ab_metric *truth);
/* truth.c: when A and B differ, how far each is from float64, and where that does not tell who is wrong, or
 * request.check_slope asks, whose gradient is the slope of the float64 loss. */
ab_status ab_judge_nearer(struct ab_judgement *j);
/* terms.c: notes which terms of a wrong weight gradient are missing or doubled, where residues can tell. */
ab_status ab_judge_terms(struct ab_judgement *j);
/* pending_write.c. Whether a red comparison leaves a pending golden: its case folder's own golden, run as recorded. */
bool ab_pending_wanted(const struct ab_judgement *j);
/* Writes it when the golden is stale or differs, and notes what was done. AB_EIO only with --require-pending. */
ab_status ab_judgement_pend(struct ab_judgement *j);
/* outside.c: the same where a side is a command; bounded, and by what it gave. */
bool ab_has_command(const struct ab_judgement *j);
ab_status ab_judge_outside(struct ab_judgement *j);
/* verdicts.c: the bound of one identity by j->own, which is ctx. */
void ab_own_bounds(void *ctx, const struct ab_identity *id, double *given, double *own);
/* outside.c: the same where runs go their own ways from the first update on; ctx is a struct ab_own_distance of two
 * that do. As a bundle without bounds is judged: 4 x own, but not less than what MaxText is allowed. */
void ab_free_bounds(void *ctx, const struct ab_identity *id, double *given, double *own);
/* Runs the oracle's what-if passes (what_if.h), in float32 at A's own parameters; no values when that failed. */
ab_status ab_judgement_run_what_if(struct ab_judgement *j, const char *words);
/* explain.c: what the wrong tensors of A and B are. */
ab_status ab_judge_explain(struct ab_judgement *j);
/* Runs A, B and the oracle again up to the window's step, into AB_SIDE_WINDOW_*: no values where that failed. */
ab_status ab_judgement_run_window(struct ab_judgement *j, const struct ab_kept_window *window);
/* replay.c: where a side leaves its oracle, and which operator there. */
ab_status ab_judge_replay(struct ab_judgement *j);
/* explain.c: what the replayed cell was fed is an explanation, where none says so yet. */
void ab_judge_explain_cell(struct ab_judgement *j);
/* bite.c: runs the controls that a comparison which came out equal can serve. */
ab_status ab_judge_controls(struct ab_judgement *j, const struct ab_comparison *c);
/* unobserved.c, --teeth full: changes one input after the other and lists those that nothing depends on. */
ab_status ab_judge_perturbed(struct ab_judgement *j);
/* After the last verdict: what was not caught (exit 6), what is unobserved, what the run is blind to. */
ab_status ab_judge_teeth(struct ab_judgement *j);
/* Counters, from the config alone, and between the engines; and that what was computed again has the same bits. Of a
 * command nothing. Fails only on memory. */
ab_status ab_judge_counts(struct ab_judgement *j);
/* verdicts.c: everything that is judged once the sides have run. */
ab_status ab_judge_all(struct ab_judgement *j);
/* notes.c. The first trouble that is not a verdict stays; folded into the exit code. */
void ab_judgement_trouble(struct ab_judgement *j, enum ab_exit exit, const char *sentence);
ab_status ab_judgement_note(struct ab_judgement *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The inputs of the case as a bundle without results, for commands. */
ab_status ab_judgement_inputs(const struct ab_judgement *j, const char *folder);
/* --dump: what A produced, as a bundle in request.dump. The values must still be there (before close). */
ab_status ab_judgement_dump(const struct ab_judgement *j);

/* The config as golden pairs, what was given before what is derived: a list for ab_mem_free of texts that are the
 * config's. */
ab_status ab_config_pairs(struct ab_pair_text **out, size_t *count, const struct ab_config *config);
