#include "cell.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cell_judge.h"
#include "metrics.h"
#include "tiers.h"

/* What one side's run showed against what the reference's did. */
struct side_view {
  struct ab_cell_result result;
  int guilty;          /* slots */
  enum ab_phase phase; /* of the first in the order of the runner */
  int slot;
};

/* A candidate for what a side was fed. */
struct feed {
  struct ab_cell_feed of[AB_CELL_PHASES];
  const char *explains;
  char what[160];
};

/* In which phases: everywhere, or in some alone. */
static const struct scope {
  const char *words;
  bool in[AB_CELL_PHASES];
} scopes[] = {{"", {true, true, true}},
              {", and backward alone", {false, false, true}},
              {", in recomputation and backward alone", {false, true, true}},
              {", in recomputation alone", {false, true, false}}};
enum { SCOPES = sizeof scopes / sizeof *scopes };

static const enum ab_phase phases[AB_CELL_PHASES] = {AB_FORWARD, AB_RECOMPUTE, AB_BACKWARD};

struct ab_cell_order ab_cell_own(const struct ab_cell_judging *j, int side, int part) {
  struct ab_cell_order order = {.artifact = j->a, .block = j->block, .kernels = j->f32, .side = side, .part = part};
  for (int i = 0; i < AB_CELL_PHASES; i++) order.feed[i] = (struct ab_cell_feed){j->base, part, part};
  return order;
}

void ab_cell_place(char text[160], const struct ab_artifact *a) {
  int used = snprintf(text, 160, "step %d", a->at.step);
  if (a->where.iteration >= 0 && !a->sum)
    used += snprintf(text + used, 160 - (size_t)used, ", iteration %d, stage %d, repeat %d", a->where.iteration,
                     a->where.stage, a->where.repeat);
  if (a->at.microbatch >= 0) used += snprintf(text + used, 160 - (size_t)used, ", microbatch %d", a->at.microbatch);
  snprintf(text + used, 160 - (size_t)used, ", layer %d", a->at.layer);
}

/* Bit for bit where the reference is; else by its own distance. */
static bool is_guilty(const struct ab_slot_seen *seen, const struct ab_slot_seen *reference, bool bitwise) {
  if (!seen->seen || seen->equal) return false;
  double own = reference->seen ? reference->distance : -1;
  return bitwise || !(seen->distance <= ab_tier_bound(AB_PAIR_MIXED, AB_Q_ACTIVATION, -1, own).limit);
}

static bool all_equal(const struct ab_cell_result *r) {
  for (int p = 0; p < AB_CELL_PHASES; p++)
    for (int s = 0; s < AB_MAX_SLOTS; s++)
      if (r->slot[p][s].seen && !r->slot[p][s].equal) return false;
  return true;
}

static void weigh_slot(struct side_view *v, enum ab_phase phase, int slot, bool guilty) {
  if (!guilty) return;
  if (v->guilty++) return;
  v->phase = phase;
  v->slot = slot;
}

/* In the order of the runner: forward operator by operator, then cotangents from the last operator to the first. */
static void weigh(struct side_view *v, const struct ab_cell_judging *j, const struct ab_cell_result *reference) {
  bool bitwise = all_equal(reference);
  v->guilty = 0;
  for (int p = 0; p < AB_CELL_PHASES; p++)
    for (int i = 0; i < j->block->slot_count; i++) {
      int slot = phases[p] == AB_BACKWARD ? j->block->slot_count - 1 - i : i;
      const struct ab_slot_seen *seen = &v->result.slot[phases[p]][slot];
      weigh_slot(v, phases[p], slot, is_guilty(seen, &reference->slot[phases[p]][slot], bitwise));
    }
}

static bool has_others(const struct ab_artifact *a) {
  for (size_t i = 0; i < ab_tree_size(a->inputs); i++)
    if (strncmp(ab_tree_at(a->inputs, i)->name, "other/", 6) == 0) return true;
  return false;
}

static int repeat_of(const struct ab_config *c, int layer) {
  return (int)(layer / (c->num_stages * c->num_layers_per_pipeline_stage));
}

static int stage_of(const struct ab_config *c, int layer) {
  return (int)(layer / c->num_layers_per_pipeline_stage % c->num_stages);
}

static void say_weights(struct feed *f, const struct ab_artifact *a, int layer) {
  const struct ab_config *c = a->config;
  int own = a->at.layer, most = (int)c->pipeline_parallel_layers;
  snprintf(f->what, sizeof f->what, "the weights of layer %d", layer);
  f->explains = "other-layer";
  if (!c->pipelined || layer >= most || own >= most) return;
  bool repeat = repeat_of(c, layer) != repeat_of(c, own);
  if (repeat && stage_of(c, layer) == stage_of(c, own)) f->explains = "other-repeat";
  snprintf(f->what, sizeof f->what, "the weights of layer %d (%s %d, expected %d)", layer, repeat ? "repeat" : "stage",
           repeat ? repeat_of(c, layer) : stage_of(c, layer), repeat ? repeat_of(c, own) : stage_of(c, own));
}

static int layers_of(const struct ab_artifact *a) { return has_others(a) ? (int)a->config->num_decoder_layers : 0; }

static int feeds_of(const struct ab_artifact *a) { return layers_of(a) + 2 * a->parts + 1; }

/* Candidate i of layers + 2 parts + 1; what[0] is 0 for what the cell has anyway. */
static struct ab_cell_feed feed_at(struct feed *f, const struct ab_artifact *a, int part, int base, int i) {
  struct ab_cell_feed fed = {base, part, part};
  int layers = layers_of(a), parts = a->parts, rest = i - layers;
  if (i < layers && i != a->at.layer && i != base) {
    fed.weights = i;
    say_weights(f, a, i);
  } else if (rest >= 0 && rest < parts && rest != part) {
    fed.positions = rest;
    f->explains = "positions-of-microbatch";
    snprintf(f->what, sizeof f->what, "the positions of microbatch %d", rest);
  } else if (rest >= parts && rest < 2 * parts && rest - parts != part) {
    fed.segments = rest - parts;
    f->explains = "segments-of-microbatch";
    snprintf(f->what, sizeof f->what, "the segments of microbatch %d", fed.segments);
  } else if (rest == 2 * parts) {
    fed.segments = -1;
    f->explains = "no-segments";
    snprintf(f->what, sizeof f->what, "one segment everywhere");
  }
  return fed;
}

/* The candidate in the phases of the scope. */
static struct feed feed_in(const struct ab_artifact *a, int part, int base, int i, const struct scope *scope) {
  struct feed f = {.what = ""};
  struct ab_cell_feed fed = feed_at(&f, a, part, base, i);
  size_t used = strlen(f.what);
  for (int p = 0; p < AB_CELL_PHASES; p++) f.of[p] = scope->in[p] ? fed : (struct ab_cell_feed){base, part, part};
  if (used) snprintf(f.what + used, sizeof f.what - used, "%s", scope->words);
  return f;
}

static ab_status run_fed(struct side_view *v, const struct ab_cell_judging *j, int side, const struct feed *f) {
  struct ab_cell_order order = ab_cell_own(j, side, ab_artifact_part(j->a));
  memcpy(order.feed, f->of, sizeof order.feed);
  return ab_cell_run(&v->result, &order);
}

/* What the side was fed if with it every operator reproduces the side; what[0] stays empty otherwise. */
static ab_status find_feed(struct feed *found, const struct ab_cell_judging *j, int side,
                           const struct ab_cell_result *reference) {
  int feeds = feeds_of(j->a);
  found->what[0] = '\0';
  for (int i = 0; i < SCOPES * feeds; i++) {
    struct feed f = feed_in(j->a, ab_artifact_part(j->a), j->base, i % feeds, &scopes[i / feeds]);
    struct side_view v;
    if (!f.what[0]) continue;
    AB_TRY(run_fed(&v, j, side, &f));
    weigh(&v, j, reference);
    if (v.guilty) continue;
    *found = f;
    return AB_OK;
  }
  return AB_OK;
}

static bool same_input(const struct ab_cell_judging *j, int side, enum ab_phase phase, int slot) {
  const char *name = j->block->slot[slot].name;
  int part = ab_artifact_part(j->a);
  const struct ab_tensor *own = ab_artifact_recorded(j->a, side, part, phase, name),
                         *right = ab_artifact_input(j->a, phase == AB_FORWARD ? "x" : "dy", part);
  struct ab_difference d;
  if (!own || !right) return true;
  struct ab_view a = ab_view_of(own), b = ab_view_of(right);
  return ab_difference(&d, &a, &b) == AB_OK && !d.differing;
}

/* The truth about the guilty operator: each side's output against float64 from that side's own inputs. */
static ab_status say_truth(const struct ab_cell_judging *j, const struct side_view *v, int side) {
  struct ab_cell_order order = ab_cell_own(j, side, ab_artifact_part(j->a));
  struct ab_cell_result wrong, right;
  order.kernels = j->f64;
  AB_TRY(ab_cell_run(&wrong, &order));
  order.side = AB_ARTIFACT_REFERENCE;
  AB_TRY(ab_cell_run(&right, &order));
  ab_replayed_say(j->out, "replay: %s against float64 from the same inputs: %s is off by %.2g, %s by %.2g; %d outputs "
                  "of the cell differ so", j->block->slot[v->slot].name, j->a->name[side],
                  wrong.slot[v->phase][v->slot].distance, j->a->name[AB_ARTIFACT_REFERENCE],
                  right.slot[v->phase][v->slot].distance, v->guilty);
  return AB_OK;
}

static ab_status say_guilty(struct ab_cell_judging *j, const struct side_view *v, int side,
                            const struct ab_cell_result *reference) {
  static const char *const parts[] = {"", " (recomputed)", " (backward)"};
  char place[160];
  struct feed fed;
  bool agreed = same_input(j, side, v->phase == AB_BACKWARD ? AB_BACKWARD : AB_FORWARD,
                           v->phase == AB_BACKWARD ? j->block->output : 0);
  ab_cell_place(place, j->a);
  AB_TRY(find_feed(&fed, j, side, reference));
  if (fed.what[0]) {
    snprintf(j->out->fed, sizeof j->out->fed, "%s", fed.what);
    snprintf(j->out->explains, sizeof j->out->explains, "%s", fed.explains);
    ab_replayed_say(j->out, "replay: cell (%s): every operator reproduces %s when it is given %s: that is what it was "
                    "fed", place, j->a->name[side], fed.what);
    return AB_OK;
  }
  ab_cell_operators(j->out->operator, j->block, v->phase, v->slot);
  ab_replayed_say(j->out, "replay: cell (%s): operator %s%s of %s differs given %s inputs", place, j->out->operator,
                  parts[v->phase], j->a->name[side], agreed ? "agreed" : "its own");
  return say_truth(j, v, side);
}

/* No operator differs: the cell was given something else, or nothing is wrong. */
static void say_fed(struct ab_cell_judging *j, int side) {
  char place[160];
  bool x = same_input(j, side, AB_FORWARD, 0), dy = same_input(j, side, AB_BACKWARD, j->block->output);
  ab_cell_place(place, j->a);
  const char *what = !x ? "input" : !dy ? "cotangent" : NULL;
  if (!what) {
    ab_replayed_say(j->out, "replay: cell (%s): every operator reproduces %s", place, j->a->name[side]);
    return;
  }
  j->differs = true;
  bool known = side == j->a->wrong && j->a->fed[0];
  snprintf(j->out->fed, sizeof j->out->fed, "another %s%s%.120s", what, known ? ": " : "", known ? j->a->fed : "");
  ab_replayed_say(j->out, "replay: cell (%s): every operator reproduces %s from what it was given: the side fed it "
                  "%s%s", place, j->a->name[side], j->out->fed, x ? "" : "; the operators are not at fault");
}

static ab_status check_there(const struct ab_artifact *a, int side, enum ab_phase phase, const char *slot) {
  int part = ab_artifact_part(a);
  if (ab_artifact_recorded(a, side, part, phase, slot)) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "the artifact has no '%s/%d/%s/%s'", ab_artifact_keys[side], part, ab_phase_name(phase),
                 slot);
}

/* Where nothing was recorded nothing differs: the first difference must be there on both sides, and of the rest what
 * either side has. */
static ab_status check_complete(const struct ab_cell_judging *j, int side) {
  static const enum ab_phase owed[] = {AB_FORWARD, AB_BACKWARD};
  const int pair[] = {side, AB_ARTIFACT_REFERENCE};
  for (int i = 0; i < 2; i++) AB_TRY(check_there(j->a, pair[i], j->a->at.phase, j->a->at.tensor));
  for (int i = 0; i < 2 * j->block->slot_count; i++) {
    const char *slot = j->block->slot[i / 2].name;
    bool there[2];
    for (int k = 0; k < 2; k++)
      there[k] = ab_artifact_recorded(j->a, pair[k], ab_artifact_part(j->a), owed[i % 2], slot) != NULL;
    if (there[0] != there[1]) return check_there(j->a, pair[there[0]], owed[i % 2], slot);
  }
  return AB_OK;
}

static ab_status judge_side(struct ab_cell_judging *j, int side, const struct ab_cell_result *reference) {
  struct side_view v;
  struct ab_cell_order order = ab_cell_own(j, side, ab_artifact_part(j->a));
  AB_TRY(check_complete(j, side));
  AB_TRY(ab_cell_run(&v.result, &order));
  weigh(&v, j, reference);
  j->differs |= v.guilty > 0;
  snprintf(j->out->side, sizeof j->out->side, "%s", j->a->name[side]);
  if (v.guilty) return say_guilty(j, &v, side, reference);
  say_fed(j, side);
  return AB_OK;
}

/* A reference that follows upstream's defects runs some cells with the weights of another layer. */
static ab_status find_base(struct ab_cell_judging *j, struct ab_cell_result *reference) {
  struct ab_cell_order order = ab_cell_own(j, AB_ARTIFACT_REFERENCE, ab_artifact_part(j->a));
  AB_TRY(ab_cell_run(reference, &order));
  for (int i = 0; i < layers_of(j->a) && !all_equal(reference); i++) {
    struct ab_cell_result other;
    if (i == j->a->at.layer) continue;
    for (int p = 0; p < AB_CELL_PHASES; p++) order.feed[p].weights = i;
    AB_TRY(ab_cell_run(&other, &order));
    if (!all_equal(&other)) continue;
    *reference = other;
    j->base = i;
    ab_replayed_say(j->out, "replay: %s itself runs this cell with the weights of layer %d",
                    j->a->name[AB_ARTIFACT_REFERENCE], i);
  }
  return AB_OK;
}

static ab_status judge_cell(struct ab_cell_judging *j) {
  struct ab_cell_result reference;
  AB_TRY(find_base(j, &reference));
  AB_TRY(judge_side(j, j->a->wrong, &reference));
  if (!all_equal(&reference))
    ab_replayed_say(j->out, "replay: %s does not come out bit for bit here (another machine or core, or other "
                    "weights): judged by its distance", j->a->name[AB_ARTIFACT_REFERENCE]);
  return AB_OK;
}

ab_status ab_cell_judge(struct ab_replayed *out, enum ab_exit *exit, const struct ab_artifact *artifact) {
  enum ab_numerics numerics;
  const struct ab_route *f32, *f64;
  *out = (struct ab_replayed){.known = true};
  const struct ab_block *block = ab_block_find(artifact->config->decoder_block);
  struct ab_cell_judging j = {.a = artifact, .out = out, .base = -1, .block = block};
  if (ab_numerics_find(&numerics, artifact->numerics) != AB_OK)
    return AB_FAIL(AB_EFORMAT, "artifact.json: 'numerics' is '%.40s'", artifact->numerics);
  AB_TRY(ab_route_find(&f32, "sequential"));
  AB_TRY(ab_route_find(&f64, "sequential64"));
  j.f32 = ab_route_kernels(f32, numerics);
  j.f64 = ab_route_kernels(f64, numerics);
  snprintf(out->kind, sizeof out->kind, "%s", artifact->sum ? "sum" : "cell");
  AB_TRY(artifact->sum ? ab_cell_judge_sum(&j) : judge_cell(&j));
  *exit = j.differs ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL;
  return AB_OK;
}
