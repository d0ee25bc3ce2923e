#include "replay_outside.h"

#include <stdio.h>
#include <string.h>

#include "observed.h"

enum { READS = 2 };

/* A tensor outside the layers: who writes it, from what. */
struct row {
  const char *tensor;
  enum ab_phase phase;
  const char *writer;
  struct {
    const char *tensor;
    enum ab_phase phase;
  } read[READS];
};

static const struct row rows[] = {
    {AB_OBS_EMBEDDING, AB_FORWARD, "the embedding", {{0}}},
    {AB_OBS_INPUTS, AB_FORWARD, "what leads into the pipeline", {{AB_OBS_EMBEDDING, AB_FORWARD}}},
    {AB_OBS_OUTPUTS, AB_FORWARD, "the pipeline's output buffer", {{0}}},
    {AB_OBS_DECODER_NORM, AB_FORWARD, "decoder_norm", {{AB_OBS_OUTPUTS, AB_FORWARD}}},
    {AB_OBS_LOGITS, AB_FORWARD, "logits_dense", {{AB_OBS_DECODER_NORM, AB_FORWARD}}},
    {AB_OBS_LOSS, AB_FORWARD, "the loss", {{AB_OBS_OUTPUTS, AB_FORWARD}}},
    {AB_OBS_D_LOGITS, AB_BACKWARD, "the loss", {{AB_OBS_LOGITS, AB_FORWARD}}},
    {AB_OBS_D_DECODER_NORM, AB_BACKWARD, "logits_dense", {{AB_OBS_D_LOGITS, AB_BACKWARD}}},
    {AB_OBS_D_OUTPUTS, AB_BACKWARD, "decoder_norm", {{AB_OBS_D_DECODER_NORM, AB_BACKWARD}}},
    {AB_OBS_D_INPUTS, AB_BACKWARD, "the pipeline's cotangent buffer", {{0}}},
    {"token_embedder/embedding", AB_BACKWARD, "the embedding", {{AB_OBS_D_INPUTS, AB_BACKWARD}}},
    {"decoder/decoder_norm/scale", AB_BACKWARD, "decoder_norm", {{AB_OBS_D_DECODER_NORM, AB_BACKWARD}}},
    {"decoder/logits_dense/kernel", AB_BACKWARD, "logits_dense",
     {{AB_OBS_D_LOGITS, AB_BACKWARD}, {AB_OBS_DECODER_NORM, AB_FORWARD}}},
};

static const struct row *find(const struct ab_identity *id) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].phase == id->phase && strcmp(rows[i].tensor, id->tensor) == 0) return &rows[i];
  return NULL;
}

static bool agrees(const struct ab_recording *a, const struct ab_recording *b, const struct ab_identity *id) {
  const struct ab_recorded *x = ab_recording_find(a, id), *y = ab_recording_find(b, id);
  return x && y && ab_summary_same(&x->observation.summary, &y->observation.summary);
}

static const char *writer_of(const struct ab_divergent *p, const struct row *row) {
  if (p->id.step < 0) return "who loads weights and batch";
  if (p->id.phase == AB_UPDATE) return "the optimizer";
  if (row) return row->writer;
  return p->metric ? "who computes metrics" : "an unknown part";
}

/* "; what it reads agrees: logits" */
static void read_of(char text[256], const struct ab_divergent *p, const struct row *row, const struct ab_recording *got,
                    const struct ab_recording *reference) {
  size_t used = 0;
  struct ab_identity id = p->id;
  text[0] = '\0';
  id.phase = AB_BACKWARD;
  if (p->id.phase == AB_UPDATE && agrees(got, reference, &id)) {
    snprintf(text, 256, "; its gradient agrees");
    return;
  }
  for (int i = 0; row && i < READS && row->read[i].tensor; i++) {
    id.phase = row->read[i].phase;
    snprintf(id.tensor, sizeof id.tensor, "%s", row->read[i].tensor);
    if (!agrees(got, reference, &id)) continue;
    used += (size_t)snprintf(text + used, 256 - used, "%s%s", used ? ", " : "; what it reads agrees: ", id.tensor);
  }
}

void ab_replay_outside(struct ab_replayed *out, const struct ab_divergence *d, const struct ab_recording *got,
                       const struct ab_recording *reference) {
  const struct ab_divergent *p = &d->bit;
  const struct row *row = p->metric ? NULL : find(&p->id);
  char read[256];
  read_of(read, p, row, got, reference);
  *out = (struct ab_replayed){.known = true, .kind = "outside"};
  snprintf(out->side, sizeof out->side, "%s", d->side);
  snprintf(out->operator, sizeof out->operator, "%s", writer_of(p, row));
  ab_replayed_say(out, "replay: no cell: %s (step %d) comes from %s, outside the layers%s", p->id.tensor, p->id.step,
                  out->operator, read);
}
