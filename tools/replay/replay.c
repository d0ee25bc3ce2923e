#include "replay.h"

#include <stdio.h>
#include <string.h>

#include "cell.h"
#include "cell_run.h"
#include "collect.h"
#include "file.h"
#include "mem.h"
#include "replay_outside.h"
#include "version.h"

/* The replay in progress. */
struct replaying {
  struct ab_judgement *j;
  struct ab_replay *out;
  int wrong; /* 0: A, 1: B */
  const struct ab_side_result *side[AB_ARTIFACT_SIDES]; /* re-runs */
};

static void name_writer(struct ab_divergent *p, const struct ab_block *block) {
  if (!p->known || p->metric || p->id.layer < 0) return;
  for (int i = 0; i < block->slot_count; i++)
    if (strcmp(block->slot[i].name, p->id.tensor) == 0) ab_cell_operators(p->writer, block, p->id.phase, i);
}

static bool is_cell(const struct ab_divergent *p) {
  enum ab_quantity q = ab_quantity_of(&p->id);
  return !p->metric && p->id.layer >= 0 && p->id.step >= 0 &&
         (q == AB_Q_ACTIVATION || q == AB_Q_RECOMPUTE || q == AB_Q_COTANGENT);
}

static bool is_sum(const struct ab_divergent *p) {
  return !p->metric && p->id.layer >= 0 && p->id.step >= 0 && ab_quantity_of(&p->id) == AB_Q_WEIGHT_GRADIENT;
}

/* Layers outside the pipeline run on the whole batch. */
static bool by_microbatch(const struct ab_config *c, const struct ab_divergent *p) {
  return c->pipelined && (p->id.microbatch >= 0 || (is_sum(p) && p->id.layer < c->pipeline_parallel_layers));
}

/* What an input that is wrong is instead: another tensor of the reference's, bit for bit. */
static void find_fed(char out[160], const struct replaying *r) {
  const struct ab_recording *got = r->j->side[AB_SIDE_A + r->wrong].recording,
                            *reference = r->j->side[AB_SIDE_ORACLE].recording;
  const struct ab_recorded *own = ab_recording_find(got, &r->out->divergence.bit.id);
  out[0] = '\0';
  if (own && own->observation.summary.l2 == 0 && !own->observation.summary.nonfinite) snprintf(out, 160, "zeros");
  for (size_t i = 0; own && !out[0] && i < reference->observations; i++) {
    const struct ab_observation *o = &reference->observation[i].observation;
    char text[AB_IDENTITY_TEXT];
    if (o->dtype != own->observation.dtype || o->summary.count != own->observation.summary.count ||
        o->id.phase != own->observation.id.phase || !ab_summary_same(&o->summary, &own->observation.summary))
      continue;
    ab_identity_print(text, &o->id);
    snprintf(out, 160, "that is %.140s", text);
  }
}

static struct ab_artifact describe(const struct replaying *r) {
  const struct ab_divergent *p = &r->out->divergence.bit;
  const struct ab_config *c = r->j->opened.config;
  struct ab_artifact a = {.sum = is_sum(p), .wrong = r->wrong, .at = p->id, .where = p->at, .config = c,
                          .parts = by_microbatch(c, p) ? (int)c->num_pipeline_microbatches : 1,
                          .devices = r->j->request.devices};
  snprintf(a.numerics, sizeof a.numerics, "%s", ab_numerics_name(r->j->opened.numerics));
  snprintf(a.version, sizeof a.version, "abpipe %.60s, commit %.60s", ab_version, ab_commit);
  if (!a.sum) find_fed(a.fed, r);
  return a;
}

/* The re-run must have given what the run did. */
static bool is_steady(const struct replaying *r, int side, const struct ab_side_result *first) {
  const struct ab_identity *id = &r->out->divergence.bit.id;
  const struct ab_recorded *then = ab_recording_find(first->recording, id),
                           *now = ab_recording_find(r->side[side]->recording, id);
  return then && now && ab_summary_same(&then->observation.summary, &now->observation.summary);
}

static ab_status measure(struct replaying *r, struct ab_divergent *p) {
  struct ab_view got, reference;
  if (!p->known || p->metric) return AB_OK;
  ab_status status = ab_kept_read(r->side[r->wrong]->values, &p->id, &got);
  if (status == AB_OK) status = ab_kept_read(r->side[AB_ARTIFACT_REFERENCE]->values, &p->id, &reference);
  if (status == AB_ENOTFOUND) {
    ab_status_clear();
    return AB_OK;
  }
  AB_TRY(status);
  return ab_divergence_measure(p, &got, &reference);
}

/* A sentence in the place of a replay. */
static void say_failed(struct replaying *r, const char *why) {
  r->out->replayed = (struct ab_replayed){.known = true, .kind = "outside"};
  snprintf(r->out->replayed.side, sizeof r->out->replayed.side, "%s", r->out->divergence.side);
  ab_replayed_say(&r->out->replayed, "replay: not done: %.400s", why);
}

static ab_status ask(struct replaying *r, struct ab_artifact *a) {
  struct ab_judgement *j = r->j;
  enum ab_exit exit;
  char *folder;
  AB_TRY(ab_path_join(&folder, j->scratch, "cell"));
  ab_status status = ab_artifact_write(a, folder);
  if (status == AB_OK) status = ab_cell_ask(&r->out->replayed, &exit, folder, 0);
  ab_mem_free(folder);
  if (status != AB_OK) say_failed(r, ab_status_message());
  a->said = &r->out->replayed;
  ab_status_clear();
  if (!j->request.save_artifact) return AB_OK;
  if (ab_artifact_write(a, j->request.save_artifact) != AB_OK)
    ab_judgement_trouble(j, AB_EXIT_USAGE, ab_status_message());
  ab_status_clear();
  return AB_OK;
}

static ab_status replay(struct replaying *r) {
  struct ab_artifact a = describe(r);
  const struct ab_side_result *first[AB_ARTIFACT_SIDES] = {&r->j->side[AB_SIDE_A], &r->j->side[AB_SIDE_B],
                                                           &r->j->side[AB_SIDE_ORACLE]};
  struct ab_kept_window window = {a.at.step, a.sum ? -1 : a.at.microbatch, a.at.layer};
  AB_TRY(ab_judgement_run_window(r->j, &window));
  for (int s = 0; s < AB_ARTIFACT_SIDES; s++) {
    r->side[s] = &r->j->side[AB_SIDE_WINDOW_A + s];
    bool needed = s == r->wrong || s == AB_ARTIFACT_REFERENCE;
    if (needed && !r->side[s]->values) {
      say_failed(r, r->side[s]->reason);
      return AB_OK;
    }
    if (needed && !is_steady(r, s, first[s])) {
      say_failed(r, "a second run gave other bits: the side is not deterministic");
      return AB_OK;
    }
  }
  AB_TRY(measure(r, &r->out->divergence.bit));
  AB_TRY(measure(r, &r->out->divergence.above));
  struct ab_divergence *d = &r->out->divergence;
  if (d->bit.distance > d->limit) d->above = d->bit;
  AB_TRY(ab_collect(&a, r->j, r->side));
  ab_status status = ask(r, &a);
  ab_artifact_free(&a);
  return status;
}

static ab_status look(struct replaying *r) {
  struct ab_judgement *j = r->j;
  const struct ab_recording *got = j->side[AB_SIDE_A + r->wrong].recording, *right = j->side[AB_SIDE_ORACLE].recording;
  struct ab_divergence *d = &r->out->divergence;
  const struct ab_block *block = ab_block_find(j->opened.config->decoder_block);
  ab_divergence_find(d, got, right);
  name_writer(&d->bit, block);
  name_writer(&d->above, block);
  name_writer(&d->good, block);
  if (!d->bit.known) return AB_OK;
  if (!is_cell(&d->bit) && !is_sum(&d->bit)) {
    ab_replay_outside(&r->out->replayed, d, got, right);
  } else if (j->a->arithmetic != AB_ARITHMETIC_F32) {
    say_failed(r, "cells of residues are not replayed");
  } else {
    return replay(r);
  }
  return AB_OK;
}

static ab_status note_no_artifact(struct ab_judgement *j) {
  bool cell = j->replay && strcmp(j->replay->replayed.kind, "outside") != 0 && j->replay->replayed.known;
  if (!j->request.save_artifact || cell) return AB_OK;
  return ab_judgement_note(j, "--save-artifact: no cell of a layer is where a side goes wrong; nothing was written");
}

ab_status ab_judge_replay(struct ab_judgement *j) {
  struct replaying r = {.j = j, .wrong = ab_verdict_parts(&j->verdict[AB_AGAINST_ORACLE]) ? 0 : 1};
  bool f64 = j->a->arithmetic == AB_ARITHMETIC_F64 || j->a->arithmetic != j->b->arithmetic;
  if (!f64 && ab_verdict_parts(&j->verdict[AB_AGAINST_ORACLE + r.wrong])) {
    AB_TRY(ab_mem_new(&j->replay, 1, sizeof *j->replay));
    r.out = j->replay;
    AB_TRY(look(&r));
  }
  return note_no_artifact(j);
}
