#include <math.h>
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "judgement.h"
#include "upstream.h"

/* Values of two sides for one comparison. */
struct pair_values {
  const struct ab_side_result *side[2];
};

static ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct pair_values *pair = ctx;
  return ab_kept_read(pair->side[side]->values, &observation->id, out);
}

static struct ab_side_result *ran(struct ab_judgement *j, enum ab_side_place place) {
  return j->side[place].values ? &j->side[place] : NULL;
}

static double error_of(const struct ab_side_result *side, const struct ab_side_result *truth,
                       const struct ab_identity *id) {
  const struct ab_recorded_metric *metric = ab_recording_metric(truth->recording, id->step, id->tensor);
  return metric && id->layer < 0 ? ab_metric_error(side, &metric->metric) : ab_tensor_error(side, truth, id);
}

void ab_own_bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  const struct ab_own_distance *sides = ctx;
  (void)given;
  if (!sides->oracle || !sides->truth) return;
  *own = error_of(sides->oracle, sides->truth, id);
  if (sides->other) *own = fmax(*own, error_of(sides->other, sides->truth, id));
}

static ab_status add(struct ab_judgement *j, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(&j->verdict[j->verdicts], c));
  j->verdicts++;
  return AB_OK;
}

/* Both routes have one arithmetic. */
static enum ab_pair pair_of(const struct ab_route *route) {
  return route->arithmetic == AB_ARITHMETIC_F64 ? AB_PAIR_F64 : AB_PAIR_SAME;
}

/* What two sides that need not agree bit for bit have in common and both keep the values of. */
static unsigned common_quantities(enum ab_pair pair, const struct ab_case *c) {
  unsigned kept = 1u << AB_Q_METRIC | 1u << AB_Q_WEIGHT_GRADIENT;
  if (ab_bundle_is_engine(c->bundle)) kept |= 1u << AB_Q_OUTPUT | 1u << AB_Q_INPUT_GRADIENT;
  if (pair == AB_PAIR_F64) kept |= 1u << AB_Q_INPUT;
  if (pair == AB_PAIR_SAME) kept = AB_Q_ALL;
  return ab_remat_differs(c->config) ? kept & ~(1u << AB_Q_RECOMPUTE) : kept;
}

static ab_status judge_pair(struct ab_judgement *j, const struct ab_side_result *a, const struct ab_side_result *b,
                            enum ab_pair pair, const struct ab_expected *expected, struct ab_own_distance *own) {
  struct pair_values sides = {{a, b}};
  struct ab_comparison c = {.a = a->recording,
                            .b = b->recording,
                            .pair = pair,
                            .quantities = common_quantities(pair, &j->opened),
                            .partial = pair == AB_PAIR_MIXED,
                            .retyped = pair == AB_PAIR_MIXED,
                            .expected = *expected,
                            .calibration = j->golden && !j->stale ? j->golden->calibration : NULL,
                            .calibrated = j->request.require_calibration,
                            .values = values,
                            .values_ctx = &sides,
                            .bounds = own && own->oracle && own->truth ? ab_own_bounds : NULL,
                            .bounds_ctx = own};
  AB_TRY(add(j, &c));
  return ab_judge_controls(j, &c);
}

/* The f32 oracle at A's parameters is the free one as long as both agree; otherwise it runs again there. */
static ab_status own_of(struct ab_own_distance *own, struct ab_judgement *j, const struct ab_verdict *against_oracle) {
  own->truth = ran(j, AB_SIDE_TRUTH);
  own->oracle = ran(j, AB_SIDE_ORACLE);
  if (against_oracle->exit == AB_EXIT_EQUAL) return AB_OK;
  AB_TRY(ab_judgement_run_oracle_at_a(j));
  own->oracle = ran(j, AB_SIDE_ORACLE_AT_A);
  return AB_OK;
}

static void enter(struct ab_judgement *j, enum ab_fact fact) {
  ab_fact_verdict(j->facts, fact, &j->verdict[j->verdicts - 1]);
}

/* A, and B where it is not A bit for bit, against the oracles. Verdicts 1 (A) and 2 (B) are the ones that decide who is
 * wrong. */
static ab_status judge_truth(struct ab_judgement *j, const struct ab_expected *sides) {
  const struct ab_side_result *a = ran(j, AB_SIDE_A), *b = ran(j, AB_SIDE_B), *oracle = ran(j, AB_SIDE_ORACLE),
                              *truth = ran(j, AB_SIDE_TRUTH);
  enum ab_pair pair = pair_of(j->a);
  struct ab_own_distance *own = &j->own;
  struct ab_expected owed;
  if (pair == AB_PAIR_F64) oracle = truth;
  AB_TRY(ab_expect_truth(&owed, &j->opened));
  AB_TRY(judge_pair(j, a, oracle, pair, sides, NULL));
  enter(j, AB_FACT_A_ORACLE);
  AB_TRY(judge_pair(j, b, oracle, pair, sides, NULL));
  enter(j, AB_FACT_B_ORACLE);
  if (j->a->arithmetic != AB_ARITHMETIC_F32) return AB_OK;
  AB_TRY(own_of(own, j, &j->verdict[AB_AGAINST_ORACLE]));
  AB_TRY(judge_pair(j, a, truth, AB_PAIR_MIXED, &owed, own));
  enter(j, AB_FACT_SHARED);
  AB_TRY(ab_judge_nearer(j));
  return AB_OK;
}

static ab_status judge_reference(struct ab_judgement *j) {
  const enum ab_side_place places[] = {AB_SIDE_A, AB_SIDE_B};
  if (!j->reference) return AB_OK;
  for (int i = 0; i < 2; i++) {
    struct ab_comparison c;
    AB_TRY(ab_reference_comparison(&c, j->reference, ran(j, places[i])));
    AB_TRY(add(j, &c));
    AB_TRY(ab_judge_controls(j, &c));
    enter(j, AB_FACT_SHARED);
  }
  return ab_judgement_note(j, "%zu files, keys and tensors of the bundle are not needed and were ignored",
                           ab_reference_ignored(j->reference));
}

/* A golden keeps no values; of a run there are. */
static ab_status run_values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct ab_side_result *run = ctx;
  if (side) return AB_FAIL(AB_ENOTFOUND, "a golden keeps no values");
  return ab_kept_read(run->values, &observation->id, out);
}

/* A golden is a run of its own from the first update on: so are the two whose distance bounds the run's. */
static ab_status judge_golden(struct ab_judgement *j) {
  struct ab_expected owed;
  struct ab_own_distance own;
  bool portable = j->opened.numerics == AB_NUMERICS_PORTABLE;
  const enum ab_side_place places[] = {AB_SIDE_A, AB_SIDE_B};
  if (!j->golden || j->stale) return AB_OK;
  AB_TRY(ab_expect_golden(&owed, &j->opened, j->golden->selection));
  if (!portable) AB_TRY(ab_judgement_run_free(j));
  own = (struct ab_own_distance){ran(j, AB_SIDE_ORACLE), ran(j, AB_SIDE_FREE_TRUTH), ran(j, AB_SIDE_FREE_GOLDEN)};
  for (int i = 0; i < 2; i++) {
    struct ab_side_result *run = ran(j, places[i]);
    struct ab_comparison c = ab_golden_comparison(j->golden, run->recording, j->golden_recording, portable, &owed);
    c.bounds = portable ? NULL : ab_free_bounds;
    c.bounds_ctx = &own;
    c.calibrated = j->request.require_calibration;
    AB_TRY(add(j, &c));
    j->golden_differs |= j->verdict[j->verdicts - 1].exit != AB_EXIT_EQUAL;
    c.values = run_values;
    c.values_ctx = run;
    AB_TRY(ab_judge_controls(j, &c));
    enter(j, i ? AB_FACT_B_GOLDEN : AB_FACT_A_GOLDEN);
  }
  return AB_OK;
}

/* What is recomputed is there or not, as the counts say. */
static bool only_recomputed_changed(const struct ab_verdict *v) {
  for (size_t i = 0; i < v->groups; i++)
    if (v->group[i].example.phase != AB_RECOMPUTE) return false;
  return v->groups_left_out == 0;
}

/* What no tensor tells: where none differs, a count that is wrong is the explanation. */
static void explain_count(struct ab_judgement *j, const char *reason) {
  struct ab_explained_list *list = &j->explained;
  if (j->verdict[0].failing || !only_recomputed_changed(&j->verdict[0]) || list->lines) return;
  struct ab_explained_line *line = &list->line[list->lines++];
  *line = (struct ab_explained_line){.id = "count",
                                     .of = {.step = -1, .accumulation = -1, .microbatch = -1, .layer = -1}};
  snprintf(line->of.tensor, sizeof line->of.tensor, "counters");
  snprintf(line->side, sizeof line->side, "%.60s", j->side[AB_SIDE_B].name);
  snprintf(line->text, sizeof line->text, "%.300s; no value differs", reason);
}

static ab_status check(struct ab_judgement *j, ab_status status) {
  if (status == AB_ENOMEM) return status;
  j->counts_checked++;
  j->counts_wrong += status != AB_OK;
  const char *reason = status == AB_OK ? "as the config asks" : ab_status_message();
  ab_fact_set(j->facts, AB_FACT_COUNTERS, status == AB_OK, reason);
  if (status != AB_OK) explain_count(j, reason);
  if (status != AB_OK) ab_judgement_trouble(j, AB_EXIT_INCOMPARABLE, ab_status_message());
  return AB_OK;
}

/* Which of upstream's defects the run reproduced, and which it had no occasion for. */
static ab_status note_defects(struct ab_judgement *j) {
  const struct ab_config *c = j->opened.config;
  char shown[AB_DEFECTS_SHOWN], idle[AB_DEFECTS_SHOWN];
  const char *who = j->request.intended_oracle ? ", but not the oracle," : " and oracle";
  ab_faithful_shown(shown, c);
  ab_faithful_idle(idle, c);
  if (strcmp(shown, idle) == 0)
    return ab_judgement_note(j, "upstream_faithful=%s changes nothing: this config gives no occasion", shown);
  return ab_judgement_note(j, "upstream_faithful=%s: engines%s reproduce these defects of MaxText%s%s", shown, who,
                           idle[0] ? "; this config gives no occasion for " : "", idle);
}

static ab_status note_mode(struct ab_judgement *j) {
  const struct ab_config *c = j->opened.config;
  bool meant = j->reference && ab_reference_as_meant(j->reference);
  if (j->request.intended_oracle && j->verdict[0].exit == AB_EXIT_EQUAL && !j->verdict[0].differing)
    AB_TRY(ab_judgement_note(j, "%s and %s agree in every bit: their comparison alone finds nothing", j->a->name,
                             j->b->name));
  if (c->upstream_faithful) return note_defects(j);
  if (!ab_defect_can_show(c, AB_DEFECT_B1)) return AB_OK;
  return ab_judgement_note(j, "every stage runs with the weights of its own repeat%s; upstream_faithful=B1 does what "
                           "MaxText does", meant ? " and is judged by the bundle's *_sequential numbers" : "");
}

/* A command's order of work is its own. */
static void judge_recomputed(struct ab_judgement *j, enum ab_side_place place, enum ab_fact fact) {
  const struct ab_recording *recording = j->side[place].recording;
  const struct ab_recorded *first;
  char text[AB_IDENTITY_TEXT], sentence[AB_IDENTITY_TEXT + 160];
  if (j->side[place].given.outside) return;
  size_t faults = ab_recording_recompute_faults(recording, &first);
  if (!faults) {
    ab_fact_set(j->facts, fact, true, "as forward");
    return;
  }
  ab_identity_print(text, &first->observation.id);
  snprintf(sentence, sizeof sentence, "%s recomputed %zu tensors to other bits than forward, first %s", recording->name,
           faults, text);
  ab_judgement_trouble(j, AB_EXIT_DIFFERENT, sentence);
  ab_fact_set(j->facts, fact, false, sentence);
}

/* A build that is older than they are cannot owe them, and is compared in the rest: never without a word. */
static ab_status judge_positions(struct ab_judgement *j, enum ab_side_place place, const struct ab_route *route) {
  const struct ab_side_result *side = &j->side[place];
  bool older;
  AB_TRY(ab_rng_predates(&older, side->recording, &j->opened, route));
  if (!older) return check(j, ab_check_rng(side->recording, &j->opened, route));
  return ab_judgement_note(j, "not reported by side %s (%s): rng positions; its build is older than such reports, and "
                           "all else was compared", place == AB_SIDE_A ? "a" : "b", side->recording->name);
}

static ab_status judge_counts_of(struct ab_judgement *j, enum ab_side_place place, const struct ab_route *route) {
  const struct ab_side_result *side = &j->side[place];
  if (route->family != AB_FAMILY_SEQUENTIAL) {
    AB_TRY(check(j, ab_check_executions(side->recording, &j->opened)));
    AB_TRY(check(j, ab_check_gathers(side->recording, &j->opened, route->family)));
    AB_TRY(check(j, ab_check_remat(side->recording, &j->opened, route)));
  }
  if (side->given.outside) return AB_OK;
  AB_TRY(judge_positions(j, place, route));
  if (route->arithmetic == AB_ARITHMETIC_EXACT) return AB_OK;
  return check(j, ab_check_sown(side->recording, &j->opened, route->family));
}

ab_status ab_judge_counts(struct ab_judgement *j) {
  const struct ab_recording *a = j->side[AB_SIDE_A].recording, *b = j->side[AB_SIDE_B].recording;
  bool oracle = j->a->family == AB_FAMILY_SEQUENTIAL || j->b->family == AB_FAMILY_SEQUENTIAL;
  AB_TRY(judge_counts_of(j, AB_SIDE_A, j->a));
  AB_TRY(judge_counts_of(j, AB_SIDE_B, j->b));
  bool fetches_too = j->a->family == j->b->family || !j->opened.config->pipeline_fsdp_ag_per_repeat;
  bool recomputes_too = !ab_remat_differs(j->opened.config);
  if (!oracle) AB_TRY(check(j, ab_check_same_counters(a, b, fetches_too, recomputes_too)));
  judge_recomputed(j, AB_SIDE_A, AB_FACT_A_RECOMPUTE);
  judge_recomputed(j, AB_SIDE_B, AB_FACT_B_RECOMPUTE);
  return AB_OK;
}

/* B22: bubbles begin with zeros, and what they give has zero cotangents, which times infinity is no number. */
static ab_status note_pole(struct ab_judgement *j) {
  const struct ab_recording *a = j->side[AB_SIDE_A].recording, *b = j->side[AB_SIDE_B].recording;
  const struct ab_recording *met = a->has_pole ? a : b;
  if (!met->has_pole) return AB_OK;
  return ab_judgement_note(j, "a bubble of stage %d meets a pole at zero: %s of iteration %d, with epsilon %g, in %s; "
                           "gradients of that stage may be NaN (B22), ab_compute_bubbles=false runs no bubble",
                           met->pole.at.stage, met->pole.id.tensor, met->pole.at.iteration,
                           j->opened.config->normalization_layer_epsilon,
                           a->has_pole && b->has_pole ? "both sides" : met->name);
}

/* What a reader would otherwise have to find out. */
static ab_status note_limits(struct ab_judgement *j) {
  AB_TRY(note_pole(j));
  char odd[AB_LACK_TEXT];
  ab_verdict_note_nonfinite(odd, &j->verdict[0]);
  if (odd[0]) AB_TRY(ab_judgement_note(j, "%s", odd));
  if (j->opened.folder && !j->opened.bundle && !j->golden && !j->request.ignore_golden)
    AB_TRY(ab_judgement_note(j, "the case directory holds no golden.json: nothing recorded was compared with"));
  return AB_OK;
}

ab_status ab_judge_all(struct ab_judgement *j) {
  struct ab_expected sides;
  if (ab_has_command(j)) return ab_judge_outside(j);
  AB_TRY(ab_expect_sides(&sides, &j->opened));
  if (j->a->arithmetic == AB_ARITHMETIC_EXACT) ab_expect_exact(&sides, &j->opened);
  AB_TRY(judge_pair(j, &j->side[AB_SIDE_A], &j->side[AB_SIDE_B], pair_of(j->a), &sides, NULL));
  enter(j, AB_FACT_AB);
  AB_TRY(judge_truth(j, &sides));
  AB_TRY(ab_judge_terms(j));
  AB_TRY(ab_judge_explain(j));
  AB_TRY(ab_judge_replay(j));
  ab_judge_explain_cell(j);
  AB_TRY(note_mode(j));
  AB_TRY(judge_reference(j));
  AB_TRY(judge_golden(j));
  AB_TRY(ab_judge_counts(j));
  j->cause = ab_cause_of(j->facts);
  if (j->stale && j->cause == AB_CAUSE_EQUAL) j->cause = AB_CAUSE_GOLDEN_STALE;
  AB_TRY(note_limits(j));
  return ab_judge_teeth(j);
}
