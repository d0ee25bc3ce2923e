#include "terms.h"

#include <stdio.h>

#include "judgement.h"
#include "loss.h"

/* Explanations that are written out per side; further ones are counted. */
enum { SHOWN = 3 };

/* A sum of one term per microbatch, in values that residues can hold. */
static bool has_terms(const struct ab_judgement *j) {
  const struct ab_config *c = j->opened.config;
  const struct ab_bundle *bundle = j->opened.bundle;
  return ab_bundle_is_engine(bundle) && c->pipelined && ab_loss_kind_polynomial(bundle->loss_kind) &&
         ab_block_find(c->decoder_block)->polynomial;
}

static ab_status add_term(struct ab_terms *terms, struct ab_kept_values *values, const struct ab_identity *id) {
  struct ab_view view;
  AB_TRY(ab_kept_read(values, id, &view));
  AB_TRY(ab_terms_add(terms, id->layer, id->tensor, id->step, &view));
  return AB_OK;
}

static ab_status add_terms(struct ab_terms *terms, const struct ab_side_result *truth) {
  for (size_t i = 0; i < truth->recording->observations; i++) {
    const struct ab_identity *id = &truth->recording->observation[i].observation.id;
    if (ab_quantity_of(id) == AB_Q_WEIGHT_GRADIENT) AB_TRY(add_term(terms, truth->values, id));
  }
  return AB_OK;
}

/* A gradient that is no integer has no explanation of this kind. */
static ab_status explain_one(struct ab_judgement *j, const struct ab_terms *terms, const struct ab_side_result *side,
                             const struct ab_identity *id, int *wrong) {
  struct ab_explanation explanation;
  struct ab_view view;
  AB_TRY(ab_kept_read(side->values, id, &view));
  ab_status status = ab_terms_explain(&explanation, terms, id->layer, id->tensor, &view);
  if (status == AB_EFORMAT) {
    ab_status_clear();
    return AB_OK;
  }
  AB_TRY(status);
  if (explanation.kind == AB_EXPLAINED_EQUAL || ++*wrong > SHOWN) return AB_OK;
  return ab_judgement_note(j, "%s, gradient layers/%d/%s: %s%s", side->name, id->layer, id->tensor, explanation.text,
                           explanation.unique ? "" : " (or other multiples of terms that depend on each other)");
}

static ab_status explain_side(struct ab_judgement *j, const struct ab_terms *terms, const struct ab_side_result *side) {
  int wrong = 0;
  for (size_t i = 0; i < side->recording->observations; i++) {
    const struct ab_identity *id = &side->recording->observation[i].observation.id;
    if (ab_quantity_of(id) == AB_Q_WEIGHT_GRADIENT) AB_TRY(explain_one(j, terms, side, id, &wrong));
  }
  if (wrong <= SHOWN) return AB_OK;
  return ab_judgement_note(j, "%s, %d more gradients are wrong", side->name, wrong - SHOWN);
}

static ab_status explain_sides(struct ab_judgement *j, struct ab_terms *terms) {
  AB_TRY(add_terms(terms, &j->side[AB_SIDE_TERMS]));
  for (int i = 0; i < 2; i++)
    if (ab_verdict_parts(&j->verdict[AB_AGAINST_ORACLE + i])) AB_TRY(explain_side(j, terms, &j->side[AB_SIDE_A + i]));
  return AB_OK;
}

ab_status ab_judge_terms(struct ab_judgement *j) {
  const struct ab_config *c = j->opened.config;
  struct ab_terms *terms;
  bool wrong = ab_verdict_parts(&j->verdict[AB_AGAINST_ORACLE]) || ab_verdict_parts(&j->verdict[AB_AGAINST_ORACLE + 1]);
  if (!wrong || !has_terms(j)) return AB_OK;
  AB_TRY(ab_judgement_run_terms(j));
  if (!j->side[AB_SIDE_TERMS].values) return AB_OK;
  AB_TRY(ab_terms_new(&terms, (int)c->num_decoder_layers, (int)c->num_pipeline_microbatches, 1));
  ab_status status = explain_sides(j, terms);
  ab_terms_free(terms);
  AB_TRY(status);
  return AB_OK;
}
