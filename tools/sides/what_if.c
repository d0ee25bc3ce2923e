#include "what_if.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* More layers are tried only at the same place of another repeat or stage; more microbatches are not left out. */
enum { LAYERS_MOST = 16, WITHOUT_MOST = 8 };

void ab_what_if_words(char words[AB_WHAT_IF_WORDS], const struct ab_identity *first) {
  snprintf(words, AB_WHAT_IF_WORDS, "%d:%d:%s", first->step, first->layer, ab_phase_name(first->phase));
}

__attribute__((format(printf, 6, 7))) static void add(struct ab_what_if_plan *plan, const char *id,
                                                      enum ab_change_kind kind, int x, int y, const char *format, ...) {
  if (plan->passes == AB_WHAT_IF_MOST) return;
  struct ab_what_if *what = &plan->what[plan->passes];
  va_list args;
  plan->pass[plan->passes++] = (struct ab_what_if_pass){kind, x, y};
  *what = (struct ab_what_if){.id = id, .part = kind == AB_IF_PART ? x : -1};
  va_start(args, format);
  vsnprintf(what->sentence, sizeof what->sentence, format, args);
  va_end(args);
}

static int period(const struct ab_config *c) { return (int)(c->num_stages * c->num_layers_per_pipeline_stage); }

static void add_layer(struct ab_what_if_plan *plan, const struct ab_config *c, int own, int other) {
  int here = own / period(c), there = other / period(c);
  bool same_place = c->pipelined && own % period(c) == other % period(c);
  if (same_place)
    add(plan, "other-repeat", AB_IF_LAYER, own, other,
        "its weights are those of repeat %d (layer %d), expected repeat %d (layer %d)", there, other, here, own);
  else
    add(plan, "other-layer", AB_IF_LAYER, own, other, "its weights are those of layer %d, expected layer %d", other,
        own);
}

static void add_weights(struct ab_what_if_plan *plan, const struct ab_config *c) {
  int layers = (int)c->num_decoder_layers, own = plan->layer, step = (int)c->num_layers_per_pipeline_stage;
  for (int other = 0; other < layers; other++) {
    bool same_slot = c->pipelined && own % step == other % step;
    if (other != own && (layers <= LAYERS_MOST || same_slot)) add_layer(plan, c, own, other);
  }
  if (!c->pipelined) return;
  for (int r = 0; r < c->num_pipeline_repeats && c->num_pipeline_repeats > 1; r++)
    add(plan, "other-repeat", AB_IF_REPEAT, r, 0, "every repeat has the weights of repeat %d", r);
  int stage = own / step % (int)c->num_stages;
  for (int s = 0; s < c->num_stages; s++)
    if (s != stage) add(plan, "swapped-stages", AB_IF_STAGES, stage, s, "stages %d and %d have each other's weights",
                        stage < s ? stage : s, stage < s ? s : stage);
}

/* A kernel of the layer, as every matrix that its shape can be taken for. */
static void add_transposed(struct ab_what_if_plan *plan, const struct ab_config *c) {
  const struct ab_block *block = ab_block_find(c->decoder_block);
  struct ab_layer_dims dims = ab_layer_dims_of(c, 1);
  for (int p = 0; p < block->param_count; p++) {
    struct ab_shape shape = ab_param_shape(&block->param[p], &dims);
    int64_t rows = 1, count = (int64_t)ab_param_count(&block->param[p], &dims);
    for (int cut = 1; cut < shape.rank; cut++) {
      rows *= shape.dim[cut - 1];
      if (rows > 1 && count > rows)
        add(plan, "transposed", AB_IF_TRANSPOSED, plan->layer, p * AB_PARAM_RANK + cut,
            "%s of layer %d is transposed, as a matrix of %lld by %lld", block->param[p].name, plan->layer,
            (long long)rows, (long long)(count / rows));
    }
  }
}

static void add_inputs(struct ab_what_if_plan *plan) {
  add(plan, "positions-of-microbatch", AB_IF_POSITIONS, 0, 0, "every microbatch has the positions of microbatch 0");
  add(plan, "segments-of-microbatch", AB_IF_SEGMENTS, 0, 0, "every microbatch has the segments of microbatch 0");
  add(plan, "no-segments", AB_IF_NO_SEGMENTS, 0, 0, "segments are not seen: every position is in one segment");
}

static void add_labels(struct ab_what_if_plan *plan, int microbatches) {
  add(plan, "labels-of-microbatch", AB_IF_LABELS, 0, 0, "every microbatch has the labels of microbatch 0");
  if (microbatches > 1)
    add(plan, "labels-of-microbatch", AB_IF_LABELS_TURNED, 1, 0, "every microbatch has the labels of the next one");
  if (microbatches > 2)
    add(plan, "labels-of-microbatch", AB_IF_LABELS_TURNED, microbatches - 1, 0,
        "every microbatch has the labels of the one before");
  add(plan, "shifted-labels", AB_IF_LABELS_SHIFTED, 0, 0, "labels are shifted once too often, the last ones 0");
  add(plan, "shifted-labels", AB_IF_LABELS_SHIFTED, 1, 0, "labels are shifted once too often, the last ones kept");
  add(plan, "shifted-labels", AB_IF_LABELS_SHIFTED, 2, 0, "labels are shifted once too often, the last of a row is the "
      "first of the next");
  add(plan, "shifted-labels", AB_IF_LABELS_INPUTS, 0, 0, "labels are not shifted: they are the inputs");
}

/* Terms of the loss that can be left out. */
static void add_terms(struct ab_what_if_plan *plan, const struct ab_config *c) {
  if (c->z_loss_multiplier > 0)
    add(plan, "missing-term", AB_IF_NO_Z_LOSS, 0, 0, "is the truth without the z-loss: its term, z_loss_multiplier %g, "
        "is missing", c->z_loss_multiplier);
}

/* Apart from being the parts of every gradient, they are what a loss does that sees one microbatch. */
static void add_parts(struct ab_what_if_plan *plan, const struct ab_config *c, bool train) {
  int64_t parts = c->pipelined ? c->num_pipeline_microbatches : 1;
  for (int m = 0; parts > 1 && parts <= AB_EXPLAIN_PARTS && m < parts; m++)
    add(plan, "only-microbatch", AB_IF_PART, m, 0, "the loss is that of microbatch %d alone", m);
  for (int m = 0; train && parts > 2 && parts <= WITHOUT_MOST && m < parts; m++)
    add(plan, "missing-microbatch", AB_IF_WITHOUT, m, 0, "the loss leaves out microbatch %d", m);
}

const char *const ab_nudged_of_batch[] = {"inputs",  "inputs_position",  "inputs_segmentation",
                                          "targets", "targets_position", "targets_segmentation", NULL};
const char *const ab_nudged_of_activations[] = {"positions", "segment_ids", NULL};

static void add_nudges(struct ab_what_if_plan *plan, bool train) {
  const char *const *name = train ? ab_nudged_of_batch : ab_nudged_of_activations;
  add(plan, "nudged", AB_IF_NUDGED, -1, 0, "nothing");
  for (int i = 0; name[i]; i++) add(plan, "nudged", AB_IF_NUDGED, i, 0, "%s", name[i]);
}

ab_status ab_what_if_plan(struct ab_what_if_plan *out, const struct ab_case *c, const char *words) {
  char phase[16];
  *out = (struct ab_what_if_plan){0};
  if (sscanf(words, "%d:%d:%15s", &out->step, &out->layer, phase) != 3 || out->step < 0 ||
      out->layer >= c->config->num_decoder_layers)
    return AB_FAIL(AB_ECONFIG, "what-if '%.60s' is no STEP:LAYER:PHASE of this case", words);
  bool forward = strcmp(phase, ab_phase_name(AB_FORWARD)) == 0, train = !ab_bundle_is_engine(c->bundle);
  if (strcmp(words, AB_WHAT_IF_NUDGE) == 0) {
    add_nudges(out, train);
    return AB_OK;
  }
  if (!forward) add_parts(out, c->config, train);
  if (!forward && train) add_terms(out, c->config);
  if (forward && out->layer >= 0) add_weights(out, c->config);
  if (forward && out->layer >= 0) add_transposed(out, c->config);
  if (forward && c->config->pipelined) add_inputs(out);
  if (!forward && train && c->config->pipelined) add_labels(out, (int)c->config->num_pipeline_microbatches);
  return AB_OK;
}
