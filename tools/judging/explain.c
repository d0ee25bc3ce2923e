#include "explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge.h"
#include "judgement.h"
#include "schedule.h"
#include "what_if.h"

enum { NUMBERS = 16, METRICS_TOLD = 3 };

/* Everything one side's explanation needs. */
struct explaining {
  struct ab_judgement *j;
  const struct ab_side_result *side[AB_EXPLAIN_SIDES]; /* wrong one, oracle, passes */
  const struct ab_verdict *verdict;
  struct ab_what_if_plan plan;
  struct ab_explain_number number[NUMBERS];
  struct ab_explain question;
};

static ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct explaining *e = ctx;
  return ab_kept_read(e->side[side]->values, &observation->id, out);
}

static double rate(const void *ctx, int64_t step) { return ab_learning_rate(ctx, step); }

static void number(struct explaining *e, const char *name, double value) {
  if (e->question.numbers < NUMBERS && isfinite(value) && value > 0 && value != 1)
    e->number[e->question.numbers++] = (struct ab_explain_number){name, value};
}

static void take_numbers(struct explaining *e, const struct ab_config *c) {
  double m = c->pipelined ? (double)c->num_pipeline_microbatches : 1, s = c->pipelined ? (double)c->num_stages : 1;
  double r = c->pipelined ? (double)c->num_pipeline_repeats : 1, ga = (double)c->gradient_accumulation_steps;
  double tokens = (double)(c->micro_batch_size_to_train_on * c->max_target_length);
  const struct ab_recorded_metric *valid = ab_recording_metric(e->side[1]->recording, 0, "total_weights");
  const struct ab_explain_number known[] = {{"M", m},   {"1/M", 1 / m}, {"GA", ga}, {"1/GA", 1 / ga}, {"S", s},
                                            {"1/S", 1 / s}, {"R", r},   {"1/R", 1 / r}, {"2", 2},   {"1/2", 0.5},
                                            {"-1", -1}, {"tokens", tokens}, {"1/tokens", 1 / tokens}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) number(e, known[i].name, known[i].value);
  if (!valid || !(valid->metric.value > 0) || valid->metric.value == tokens) return;
  number(e, "valid/tokens", valid->metric.value / tokens);
  number(e, "tokens/valid", tokens / valid->metric.value);
}

static void take_update(struct explaining *e, const struct ab_config *c) {
  bool adam = strcmp(c->opt_type, "adamw") == 0;
  bool known = (adam && c->adam_eps_root == 0) || strcmp(c->opt_type, "sgd") == 0;
  e->question.update = (struct ab_explain_update){.known = known,
                                                  .adam = adam,
                                                  .b1 = c->adam_b1,
                                                  .b2 = c->adam_b2,
                                                  .epsilon = c->adam_eps,
                                                  .decay = c->adam_weight_decay,
                                                  .clip = c->gradient_clipping_threshold,
                                                  .rate = rate,
                                                  .ctx = c};
}

static void ask(struct explaining *e) {
  const struct ab_config *c = e->j->opened.config;
  e->question = (struct ab_explain){.got = e->side[0]->recording,
                                    .truth = e->side[1]->recording,
                                    .values = values,
                                    .ctx = e,
                                    .number = e->number,
                                    .layers = (int)c->num_decoder_layers,
                                    .layers_per_stage = c->pipelined ? (int)c->num_layers_per_pipeline_stage : 1,
                                    .stages = c->pipelined ? (int)c->num_stages : 1};
  take_numbers(e, c);
  take_update(e, c);
}

/* What the passes are about: the first wrong tensor, but for an update's, which they cannot tell of. */
static ab_status run_passes(struct explaining *e) {
  struct ab_judgement *j = e->j;
  char words[AB_WHAT_IF_WORDS];
  const struct ab_finding *first = &e->verdict->first;
  bool only_initial = j->a->arithmetic == AB_ARITHMETIC_F64 || j->side[AB_SIDE_A].given.outside;
  if (first->id.phase == AB_UPDATE || first->id.step < 0 || (only_initial && first->id.step > 0)) return AB_OK;
  struct ab_identity about = first->id;
  if (first->metric) about.phase = AB_BACKWARD;
  ab_what_if_words(words, &about);
  AB_TRY(ab_what_if_plan(&e->plan, &j->opened, words));
  if (!e->plan.passes) return AB_OK;
  struct ab_side_result *passes = &j->side[AB_SIDE_WHAT_IF_PASSES];
  ab_sides_free(passes, 1);
  AB_TRY(ab_judgement_run_what_if(j, words));
  if (!passes->values)
    return ab_judgement_note(j, "the oracle's what-if passes failed: %.300s", passes->reason);
  e->side[2] = passes;
  e->question.passes = passes->recording;
  e->question.what_if = e->plan.what;
  e->question.what_ifs = e->plan.passes;
  return AB_OK;
}

/* Metrics of the first wrong step that are off by more than rounding. */
static ab_status explain_metrics(struct ab_explained_list *list, struct explaining *e) {
  const struct ab_recording *truth = e->question.truth;
  int told = 0;
  for (size_t i = 0; i < truth->metrics && told < METRICS_TOLD; i++) {
    const struct ab_metric *b = &truth->metric[i].metric;
    const struct ab_recorded_metric *a = ab_recording_metric(e->question.got, b->step, b->name);
    bool off = a && !(fabs(a->metric.value - b->value) <= 1e-5 * fabs(b->value));
    if (b->step != e->verdict->first.id.step || !off) continue;
    struct ab_finding finding = {.metric = true, .id = ab_metric_identity(b), .quantity = AB_Q_METRIC};
    AB_TRY(ab_explain(list, &e->question, &finding));
    told++;
  }
  return AB_OK;
}

/* The first wrong weight gradient of the first wrong step: where a sum over microbatches shows. */
static ab_status explain_gradient(struct ab_explained_list *list, struct explaining *e) {
  const struct ab_recording *truth = e->question.truth;
  const struct ab_identity *first = &e->verdict->first.id;
  if (!e->verdict->first.metric && first->phase != AB_BACKWARD) return AB_OK;
  for (size_t i = 0; i < truth->observations; i++) {
    const struct ab_observation *b = &truth->observation[i].observation;
    if (b->id.step != first->step || ab_quantity_of(&b->id) != AB_Q_WEIGHT_GRADIENT) continue;
    const struct ab_recorded *a = ab_recording_find(e->question.got, &b->id);
    if (!a || ab_summary_same(&a->observation.summary, &b->summary)) continue;
    struct ab_finding finding = {.id = b->id, .quantity = AB_Q_WEIGHT_GRADIENT};
    return ab_explain(list, &e->question, &finding);
  }
  return AB_OK;
}

/* What could not be explained is a consequence where something else could. */
static void keep_found(struct ab_explained_list *list) {
  size_t found = 0, kept = 0;
  for (size_t i = 0; i < list->lines; i++) found += strcmp(list->line[i].id, "none") != 0;
  for (size_t i = 0; i < list->lines; i++)
    if (strcmp(list->line[i].id, "none") != 0 || (!found && i == 0)) list->line[kept++] = list->line[i];
  list->lines = kept;
}

/* Everything else that is wrong follows from what was found. */
static bool is_complete(const struct ab_explained_list *list) {
  bool complete = false;
  for (size_t i = 0; i < list->lines; i++) complete |= list->line[i].complete;
  return complete;
}

static void append(struct ab_explained_list *to, const struct ab_explained_list *from) {
  for (size_t i = 0; i < from->lines && to->lines < AB_EXPLAIN_LINES; i++) to->line[to->lines++] = from->line[i];
}

static ab_status explain_side(struct explaining *e) {
  struct ab_explained_list list = {.lines = 0};
  ask(e);
  AB_TRY(run_passes(e));
  AB_TRY(ab_explain(&list, &e->question, &e->verdict->first));
  if (!is_complete(&list)) {
    AB_TRY(explain_gradient(&list, e));
    AB_TRY(ab_explain(&list, &e->question, &e->verdict->worst));
    AB_TRY(explain_metrics(&list, e));
  }
  keep_found(&list);
  append(&e->j->explained, &list);
  return AB_OK;
}

ab_status ab_judge_explain(struct ab_judgement *j) {
  if (j->a->arithmetic == AB_ARITHMETIC_EXACT || j->a->arithmetic != j->b->arithmetic) return AB_OK;
  bool f64 = j->a->arithmetic == AB_ARITHMETIC_F64;
  for (int i = 0; i < 2; i++) {
    struct explaining e = {.j = j,
                           .side = {&j->side[AB_SIDE_A + i], &j->side[f64 ? AB_SIDE_TRUTH : AB_SIDE_ORACLE]},
                           .verdict = &j->verdict[AB_AGAINST_ORACLE + i]};
    if (ab_verdict_parts(e.verdict) && e.side[0]->values && e.side[1]->values) AB_TRY(explain_side(&e));
  }
  return AB_OK;
}

/* Its lines "none" are dropped; false when something was found. */
static bool unexplained(struct ab_explained_list *list, const char *side) {
  size_t kept = 0, found = 0;
  for (size_t i = 0; i < list->lines; i++)
    found += strcmp(list->line[i].side, side) == 0 && strcmp(list->line[i].id, "none") != 0;
  if (found) return false;
  for (size_t i = 0; i < list->lines; i++)
    if (strcmp(list->line[i].side, side) != 0) list->line[kept++] = list->line[i];
  list->lines = kept;
  return true;
}

void ab_judge_explain_cell(struct ab_judgement *j) {
  const struct ab_replayed *r = j->replay ? &j->replay->replayed : NULL;
  struct ab_explained_list *list = &j->explained;
  if (!r || !r->known || !r->explains[0] || !unexplained(list, r->side) || list->lines == AB_EXPLAIN_LINES) return;
  struct ab_explained_line *line = &list->line[list->lines++];
  *line = (struct ab_explained_line){.of = j->replay->divergence.bit.id};
  snprintf(line->id, sizeof line->id, "%.39s", r->explains);
  snprintf(line->side, sizeof line->side, "%.63s", r->side);
  snprintf(line->text, sizeof line->text, "every operator of its cell reproduces it when it is given %.150s",
           r->fed);
}
