#include <stdio.h>
#include <string.h>

#include "judgement.h"

/* What the comparison of two sides needs beside the comparison itself. */
struct meeting {
  struct ab_judgement *j;
  const struct ab_side_result *side[2];
};

bool ab_has_command(const struct ab_judgement *j) { return j->request.a_cmd || j->request.b_cmd; }

static ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct meeting *m = ctx;
  return ab_kept_read(m->side[side]->values, &observation->id, out);
}

void ab_free_bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  bool parameter = ab_quantity_of(id) == AB_Q_PARAMETER;
  double least = ab_bounds_least(parameter ? AB_BOUND_PARAMETER : AB_BOUND_GRADIENT) / 4;
  ab_own_bounds(ctx, id, given, own);
  if (!(*own >= least)) *own = least;
}

/* Of `of`, what is compared by value and the other has too. What neither has is missing from the counts. */
static ab_status common(struct ab_recording **out, struct ab_judgement *j, const struct ab_recording *of,
                        const struct ab_recording *with) {
  struct ab_recording *r;
  AB_TRY(ab_recording_new(&r, of->name));
  *out = j->common[j->commons++] = r;
  for (size_t i = 0; i < of->observations; i++) {
    const struct ab_observation *o = &of->observation[i].observation;
    if (ab_kept(NULL, &o->id) && ab_recording_find(with, &o->id)) AB_TRY(ab_recording_observe(r, o));
  }
  for (size_t i = 0; i < of->metrics; i++) {
    const struct ab_metric *m = &of->metric[i].metric;
    if (ab_recording_metric(with, m->step, m->name)) AB_TRY(ab_recording_add_metric(r, m));
  }
  ab_recording_complete(r);
  return AB_OK;
}

static void owe(struct ab_expected *e, enum ab_quantity quantity, size_t tensors, size_t elements) {
  e->tensors[quantity] = tensors;
  e->elements[quantity] = elements;
}

/* What a bundle owes: gradients of step 0, outputs of a pipeline module, and what it says it gives besides. */
static ab_status owed_by_bundle(struct ab_expected *e, const struct ab_case *c, const struct ab_given *given) {
  const struct ab_config *config = c->config;
  bool engine = ab_bundle_is_engine(c->bundle);
  struct ab_inventory inventory;
  size_t ble = (size_t)(config->micro_batch_size_to_train_on * config->max_target_length * config->emb_dim);
  size_t trees = (size_t)given->params_step1 + (size_t)given->params_final;
  AB_TRY(ab_inventory_new(&inventory, config, engine));
  *e = ab_expected_none();
  e->steps = (size_t)c->steps;
  owe(e, AB_Q_WEIGHT_GRADIENT, inventory.rows, inventory.elements);
  owe(e, AB_Q_PARAMETER, trees * inventory.rows, trees * inventory.elements);
  owe(e, AB_Q_OUTPUT, engine, engine * ble);
  owe(e, AB_Q_INPUT_GRADIENT, engine, engine * ble);
  size_t metrics = (size_t)c->steps * (size_t)__builtin_popcount(given->metrics);
  owe(e, AB_Q_METRIC, metrics, metrics);
  ab_inventory_free(&inventory);
  return AB_OK;
}

/* Of two commands, what both give; of one, what it gives; a stream all that is kept of a side. */
static ab_status owed(struct ab_expected *e, const struct meeting *m) {
  const struct ab_case *c = &m->j->opened;
  struct ab_given both = {.params_step1 = true, .params_final = true, .metrics = UINT32_MAX};
  bool bundle = false;
  for (int i = 0; i < 2; i++) {
    const struct ab_given *given = &m->side[i]->given;
    if (!given->outside || given->stream) continue;
    bundle = true;
    both.params_step1 &= given->params_step1;
    both.params_final &= given->params_final;
    both.metrics &= given->metrics;
  }
  return bundle ? owed_by_bundle(e, c, &both) : ab_expect_golden(e, c, AB_SELECT_ALL);
}

/* Routes with their own arithmetic bit for bit; a command, whose order of additions is its own, within bounds. */
static ab_status judge(struct ab_judgement *j, enum ab_fact fact, enum ab_side_place a, enum ab_side_place b) {
  struct meeting m = {j, {&j->side[a], &j->side[b]}};
  bool outside = m.side[0]->given.outside || m.side[1]->given.outside;
  struct ab_comparison c = {.pair = outside ? AB_PAIR_RECORDED : AB_PAIR_SAME,
                            .quantities = AB_Q_ALL,
                            .calibrated = j->request.require_calibration,
                            .values = values,
                            .values_ctx = &m,
                            .bounds = ab_free_bounds,
                            .bounds_ctx = &j->own};
  struct ab_recording *both[2];
  c.a = m.side[0]->recording;
  c.b = m.side[1]->recording;
  AB_TRY(outside ? owed(&c.expected, &m) : ab_expect_sides(&c.expected, &j->opened));
  for (int i = 0; i < 2 && outside; i++)
    AB_TRY(common(&both[i], j, m.side[i]->recording, m.side[1 - i]->recording));
  if (outside) {
    c.a = both[0];
    c.b = both[1];
  }
  AB_TRY(ab_verdict(&j->verdict[j->verdicts], &c));
  ab_fact_verdict(j->facts, fact, &j->verdict[j->verdicts++]);
  return ab_judge_controls(j, &c);
}

/* Appends what a route would have been compared by and the side was not: "activation (128 of 128)". */
static void put_lacking(char *text, size_t size, const struct ab_verdict *v, const struct ab_expected *of_route) {
  for (int q = 0; q < AB_QUANTITIES; q++) {
    size_t owed = of_route->tensors[q], compared = v->by_quantity[q].compared, used = strlen(text);
    const char *name = ab_quantity_name((enum ab_quantity)q);
    if (owed == AB_UNCOUNTED && !compared) snprintf(text + used, size - used, "%s (all), ", name);
    if (owed != AB_UNCOUNTED && compared < owed)
      snprintf(text + used, size - used, "%s (%zu of %zu), ", name, owed - compared, owed);
  }
}

/* Metrics that a bundle does not state, by name. */
static void put_metrics(char *text, size_t size, const struct ab_judgement *j, const struct ab_given *given) {
  const char *between = "; metrics not stated: ";
  bool train = !ab_bundle_is_engine(j->opened.bundle);
  for (int i = 0; train && !given->stream && ab_metric_fields[i].name; i++) {
    size_t used = strlen(text);
    if (given->metrics >> i & 1) continue;
    snprintf(text + used, size - used, "%s%s", between, ab_metric_fields[i].name);
    between = ", ";
  }
}

/* v: the side against the oracle. */
static ab_status note_given(struct ab_judgement *j, const char *side, const struct ab_given *given,
                            const struct ab_verdict *v) {
  char lacking[320] = "", metrics[160] = "";
  struct ab_expected of_route;
  if (!given->outside) return AB_OK;
  AB_TRY(ab_expect_sides(&of_route, &j->opened));
  put_lacking(lacking, sizeof lacking, v, &of_route);
  put_metrics(metrics, sizeof metrics, j, given);
  return ab_judgement_note(j, "side %s handed over a %s; not compared: %scounters%s", side,
                           given->stream ? "stream" : "bundle", lacking, metrics);
}

/* MaxText's numbers judge a command too when it gives all of them. */
static ab_status judge_reference(struct ab_judgement *j, enum ab_side_place place) {
  const struct ab_given *given = &j->side[place].given;
  bool train = !ab_bundle_is_engine(j->opened.bundle);
  bool all = given->params_final && (given->params_step1 || j->opened.steps == 1);
  if (!j->reference || (given->outside && train && !given->stream && !all)) return AB_OK;
  AB_TRY(ab_reference_judge(&j->verdict[j->verdicts], j->reference, &j->side[place]));
  ab_fact_verdict(j->facts, AB_FACT_SHARED, &j->verdict[j->verdicts++]);
  return AB_OK;
}

ab_status ab_judge_outside(struct ab_judgement *j) {
  j->own = (struct ab_own_distance){.oracle = &j->side[AB_SIDE_ORACLE], .truth = &j->side[AB_SIDE_TRUTH]};
  AB_TRY(judge(j, AB_FACT_AB, AB_SIDE_A, AB_SIDE_B));
  AB_TRY(judge(j, AB_FACT_A_ORACLE, AB_SIDE_A, AB_SIDE_ORACLE));
  AB_TRY(judge(j, AB_FACT_B_ORACLE, AB_SIDE_B, AB_SIDE_ORACLE));
  AB_TRY(ab_judge_explain(j));
  AB_TRY(judge_reference(j, AB_SIDE_A));
  AB_TRY(judge_reference(j, AB_SIDE_B));
  AB_TRY(ab_judge_counts(j));
  j->cause = ab_cause_of(j->facts);
  AB_TRY(note_given(j, "a", &j->side[AB_SIDE_A].given, &j->verdict[AB_AGAINST_ORACLE]));
  AB_TRY(note_given(j, "b", &j->side[AB_SIDE_B].given, &j->verdict[AB_AGAINST_ORACLE + 1]));
  AB_TRY(ab_judgement_note(j, "the bounds of a command are 4 x the f32 oracle's own distance to the f64 one, but at "
                           "least %g, and %g for parameters", ab_bounds_least(AB_BOUND_GRADIENT),
                           ab_bounds_least(AB_BOUND_PARAMETER)));
  return ab_judge_teeth(j);
}
