#include <stdio.h>
#include <string.h>

#include "blind.h"
#include "block_ops.h"
#include "judgement.h"
#include "what_if.h"

static bool reads(const struct ab_block *block, void (*op)(struct ab_op_call *call)) {
  for (int i = 0; block && i < block->op_count; i++)
    if (block->op[i].forward == op) return true;
  return false;
}

static bool zero(const struct ab_observation *o) { return o->summary.max_abs == 0 && !o->summary.nonfinite; }

/* o is of the first step. */
static bool always_zero(const struct ab_recording *recording, const struct ab_observation *o, int64_t steps) {
  struct ab_identity id = o->id;
  if (!zero(o)) return false;
  for (id.step++; id.step < steps; id.step++) {
    const struct ab_recorded *later = ab_recording_find(recording, &id);
    if (later && !zero(&later->observation)) return false;
  }
  return true;
}

/* A parameter that nothing depends on has no gradient anywhere. */
static void unobserved_weights(struct ab_teeth *out, const struct ab_run_facts *facts,
                               const struct ab_recording *recording) {
  for (size_t i = 0; i < recording->observations; i++) {
    const struct ab_observation *o = &recording->observation[i].observation;
    char path[AB_TEETH_NAME];
    if (o->id.step != 0 || ab_quantity_of(&o->id) != AB_Q_WEIGHT_GRADIENT) continue;
    if (!always_zero(recording, o, facts->steps)) continue;
    ab_canonical_path(path, sizeof path, o->id.layer, o->id.tensor);
    ab_teeth_unobserved(out, path, "its gradient is 0 in every element of every step");
  }
}

/* Inputs that are the same everywhere: a mix-up of rows or microbatches would not show. */
static void unobserved_places(struct ab_teeth *out, const struct ab_run_facts *facts) {
  const struct ab_batch_facts *b = &facts->batch;
  const struct ab_block *block = ab_block_find(facts->config->decoder_block);
  const char *positions = b->train ? "inputs_position" : "positions";
  const char *segments = b->train ? "inputs_segmentation" : "segment_ids";
  if (!reads(block, ab_op_rope_table))
    ab_teeth_unobserved(out, positions, "decoder block %s does not read them", facts->config->decoder_block);
  else if (!b->positions_differ)
    ab_teeth_unobserved(out, positions, "the same in every row");
  if (!reads(block, ab_op_attention))
    ab_teeth_unobserved(out, segments, "decoder block %s does not read them", facts->config->decoder_block);
  else if (b->one_segment)
    ab_teeth_unobserved(out, segments, "all one segment");
  if (b->train && !b->any_valid) ab_teeth_unobserved(out, "targets", "no label counts");
}

void ab_unobserved_of(struct ab_teeth *out, const struct ab_run_facts *facts, const struct ab_recording *recording) {
  if (!out->perturbed) unobserved_places(out, facts);
  unobserved_weights(out, facts, recording);
}

/* Observations of one pass that are not those of pass 0. */
static size_t changed(const struct ab_recording *passes, int pass) {
  size_t count = 0;
  for (size_t i = 0; i < passes->observations; i++) {
    const struct ab_observation *o = &passes->observation[i].observation;
    struct ab_identity first = o->id;
    first.step = 0;
    const struct ab_recorded *before = ab_recording_find(passes, &first);
    if (o->id.step == pass && before) count += !ab_summary_same(&before->observation.summary, &o->summary);
  }
  for (size_t i = 0; i < passes->metrics; i++) {
    const struct ab_metric *m = &passes->metric[i].metric;
    const struct ab_recorded_metric *before = ab_recording_metric(passes, 0, m->name);
    if (m->step == pass && before) count += m->value != before->metric.value;
  }
  return count;
}

ab_status ab_judge_perturbed(struct ab_judgement *j) {
  struct ab_what_if_plan plan;
  struct ab_side_result *passes = &j->side[AB_SIDE_WHAT_IF_PASSES];
  AB_TRY(ab_what_if_plan(&plan, &j->opened, AB_WHAT_IF_NUDGE));
  AB_TRY(ab_judgement_run_what_if(j, AB_WHAT_IF_NUDGE));
  if (!passes->values)
    return ab_judgement_note(j, "inputs could not be perturbed one by one: %.300s", passes->reason);
  j->teeth->perturbed = true;
  for (size_t p = 1; p < plan.passes; p++)
    if (!changed(passes->recording, (int)p))
      ab_teeth_unobserved(j->teeth, plan.what[p].sentence, "changed in every row, and nothing else changes");
  return AB_OK;
}
