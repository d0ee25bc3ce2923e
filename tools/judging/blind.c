#include "blind.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>


/* Why the run lacks a trigger; empty: it has it. */
struct lack {
  char reason[AB_TEETH_TEXT];
};

__attribute__((format(printf, 2, 3))) static bool lacks(struct lack *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(l->reason, sizeof l->reason, format, args);
  va_end(args);
  return true;
}

static int64_t stages(const struct ab_run_facts *f) { return f->config->pipelined ? f->config->num_stages : 1; }
static int64_t repeats(const struct ab_run_facts *f) {
  return f->config->pipelined ? f->config->num_pipeline_repeats : 1;
}
static int64_t parts(const struct ab_run_facts *f) { return f->batch.microbatches; }

static bool one_microbatch(struct lack *l, const struct ab_run_facts *f) {
  return parts(f) < 2 && lacks(l, "one microbatch");
}

static bool no_surplus(struct lack *l, const struct ab_run_facts *f) {
  return (parts(f) < 4 || parts(f) <= stages(f)) &&
         lacks(l, "%" PRId64 " microbatches for %" PRId64 " stages", parts(f), stages(f));
}

static bool no_repeats(struct lack *l, const struct ab_run_facts *f) {
  if (repeats(f) < 2) return lacks(l, "one repeat");
  return parts(f) <= stages(f) && lacks(l, "%" PRId64 " microbatches for %" PRId64 " stages: nothing is stored "
                                        "between repeats", parts(f), stages(f));
}

static bool few_stages(struct lack *l, const struct ab_run_facts *f) {
  return stages(f) < 3 && lacks(l, "%" PRId64 " stage%s", stages(f), stages(f) > 1 ? "s: both neighbours are one" : "");
}

static bool even_layers(struct lack *l, const struct ab_run_facts *f) {
  const struct ab_config *c = f->config;
  return (!c->pipelined || c->pipeline_parallel_layers == c->num_decoder_layers) &&
         lacks(l, "all %" PRId64 " layers are in equal stages", c->num_decoder_layers);
}

static bool no_accumulation(struct lack *l, const struct ab_run_facts *f) {
  return f->config->gradient_accumulation_steps < 2 && lacks(l, "gradient_accumulation_steps is 1");
}

static bool equal_counts(struct lack *l, const struct ab_run_facts *f) {
  if (!f->batch.train) return lacks(l, "activations have no labels");
  return !f->batch.counts_differ && lacks(l, "every microbatch has as many valid tokens");
}

static bool unpacked(struct lack *l, const struct ab_run_facts *f) {
  if (f->batch.most_segments < 2) return lacks(l, "one document in a row");
  return !f->batch.boundaries_differ && lacks(l, "documents end at the same places in every microbatch");
}

static bool same_positions(struct lack *l, const struct ab_run_facts *f) {
  return !f->batch.positions_differ && lacks(l, "every row has the same positions");
}

static bool short_positions(struct lack *l, const struct ab_run_facts *f) {
  return f->batch.last_position <= 256 && lacks(l, "the last position is %d", (int)f->batch.last_position);
}

static bool rope_alone(struct lack *l, const struct ab_run_facts *f) {
  (void)f;
  return lacks(l, "positions are rotary, or not read");
}

static bool same_microbatches(struct lack *l, const struct ab_run_facts *f) {
  return parts(f) > 1 && !f->batch.microbatches_differ && lacks(l, "two microbatches hold the same data");
}

static bool no_repeated_token(struct lack *l, const struct ab_run_facts *f) {
  if (!f->batch.train) return lacks(l, "activations have no tokens");
  return !f->batch.repeated_tokens && lacks(l, "no token comes twice");
}

static bool one_row(struct lack *l, const struct ab_run_facts *f) {
  return f->batch.rows / parts(f) < 2 && lacks(l, "a microbatch is one row");
}

static bool one_side_of_clip(struct lack *l, const struct ab_run_facts *f) {
  double threshold = f->config->gradient_clipping_threshold;
  if (!f->batch.train) return lacks(l, "no update");
  if (!(threshold > 0)) return lacks(l, "gradients are not clipped");
  if (f->clipped && f->unclipped) return false;
  return lacks(l, "the gradient norm is %s %g in every step", f->clipped ? "above" : "below", threshold);
}

static bool few_steps(struct lack *l, const struct ab_run_facts *f) {
  if (!f->batch.train) return lacks(l, "no update");
  return f->steps < 3 && lacks(l, "%" PRId64 " step%s", f->steps, f->steps == 1 ? "" : "s");
}

static bool no_sgd(struct lack *l, const struct ab_run_facts *f) {
  if (!f->batch.train) return lacks(l, "no update");
  return strcmp(f->config->opt_type, "sgd") != 0 &&
         lacks(l, "%s does not feel a constant factor of the gradient", f->config->opt_type);
}

static bool no_adam(struct lack *l, const struct ab_run_facts *f) {
  if (!f->batch.train) return lacks(l, "no update");
  return strcmp(f->config->opt_type, "sgd") == 0 && lacks(l, "sgd has no moments");
}

static bool skipped_bubbles(struct lack *l, const struct ab_run_facts *f) {
  if (!f->config->pipelined) return lacks(l, "no pipeline");
  return !f->config->compute_bubbles && lacks(l, "bubble cells are skipped");
}

static bool untrained(struct lack *l, const struct ab_run_facts *f) {
  return f->steps < 200 && lacks(l, "%" PRId64 " step%s from initial weights", f->steps, f->steps == 1 ? "" : "s");
}

static bool no_dropout(struct lack *l, const struct ab_run_facts *f) {
  const char *rate = ab_config_value(f->config, "dropout_rate"), *on = ab_config_value(f->config, "enable_dropout");
  return (!rate || !on || strcmp(rate, "0.0") == 0 || strcmp(on, "true") != 0) && lacks(l, "no dropout");
}

static bool untied(struct lack *l, const struct ab_run_facts *f) {
  const char *tied = ab_config_value(f->config, "logits_via_embedding");
  return (!tied || strcmp(tied, "true") != 0) && lacks(l, "embedding and logits have their own weights");
}

static bool one_process(struct lack *l, const struct ab_run_facts *f) {
  (void)f;
  return lacks(l, "one replica");
}

static bool never_resumed(struct lack *l, const struct ab_run_facts *f) {
  (void)f;
  return lacks(l, "runs are not saved and resumed");
}

static bool no_experts(struct lack *l, const struct ab_run_facts *f) {
  (void)f;
  return lacks(l, "one expert");
}

/* faults.md 2.2. not_built: what no config of this build can have. */
static const struct trigger {
  const char *name;
  bool (*lack)(struct lack *l, const struct ab_run_facts *f);
  const char *hidden;
  bool not_built;
} triggers[] = {
    {"microbatches", one_microbatch, "a microbatch lost, doubled or scaled (S02-S07, S22, S38, S41)", false},
    {"more microbatches than stages", no_surplus, "schedules that only fit M = S (S02-S07, S38)", false},
    {"repeats with storage", no_repeats, "weights of another repeat, circular storage (S33, S34, S47)", false},
    {"three stages", few_stages, "the wrong neighbour in the ring (S32)", false},
    {"uneven layers", even_layers, "layers dropped or misplaced by a division (S27, S28)", false},
    {"valid tokens", equal_counts, "a wrong denominator of the loss (S17, S18, B31)", false},
    {"packed documents", unpacked, "masks of another row or microbatch (S41-S43)", false},
    {"positions per row", same_positions, "positions of another row or microbatch (S43)", false},
    {"positions above 256", short_positions, "tables of 8 or 16 bits (S44)", false},
    {"distinct microbatches", same_microbatches, "one microbatch in another's place (S21, S38, S41)", false},
    {"repeated tokens", no_repeated_token, "a scatter that stores where it must add (S16)", false},
    {"rows of a microbatch", one_row, "local and global row index mixed up (S45)", false},
    {"clipping both ways", one_side_of_clip, "where and what is clipped (S54, S57-S59, S67)", false},
    {"three steps", few_steps, "stale accumulators, counters, schedules (S10, S11, S60-S63)", false},
    {"sgd", no_sgd, "a constant factor of the gradient, in parameters alone (S03, S19)", false},
    {"adam", no_adam, "moments and their correction (S49, S60)", false},
    {"live bubbles", skipped_bubbles, "values of bubble cells that leak (S11, S37)", false},
    {"trained weights", untrained, "what shows in the loss after hundreds of steps only (B28, B29)", false},
    {"gradient accumulation", no_accumulation, "normalising and clearing over windows (S02, S14, S59, S63)", true},
    {"absolute positions", rope_alone, "a shift of all positions (S43)", true},
    {"dropout", no_dropout, "masks of another layer, stage or pass (S46, S47, S50)", true},
    {"tied embedding", untied, "a shared gradient counted once or twice (S12, S55, S56, S58)", true},
    {"data parallelism", one_process, "sums over replicas (S05, S08, S09, S19, S55, S66)", true},
    {"resuming", never_resumed, "state that is not saved (S35, S36, S48, S49, S64, S65)", true},
    {"routing", no_experts, "auxiliary losses and ties of experts (S23-S26, S51)", true},
};
_Static_assert(sizeof triggers / sizeof *triggers == AB_TRIGGERS, "AB_TRIGGERS counts the rows");
_Static_assert((int)AB_TRIGGERS <= (int)AB_BLINDS_MAX, "the report has room for every row");

const char *ab_trigger_name(size_t row) { return triggers[row].name; }

void ab_blind_of(struct ab_teeth *out, const struct ab_run_facts *facts) {
  for (size_t i = 0; i < AB_TRIGGERS; i++) {
    struct lack lack;
    if (!triggers[i].lack(&lack, facts)) continue;
    struct ab_blind *row = &out->blind[out->blinds++];
    *row = (struct ab_blind){.name = triggers[i].name, .hidden = triggers[i].hidden, .built = !triggers[i].not_built};
    memcpy(row->reason, lack.reason, sizeof row->reason);
  }
}
