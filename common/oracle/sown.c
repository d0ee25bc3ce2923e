/* Sown metrics of a span (sown.h): every layer's numbers for every microbatch, then one report per layer. */
#include "parts.h"
#include "upstream.h"

void oracle_sown_of(struct oracle_sown *out, const struct ab_config *config, const struct ab_exec *exec, bool inside) {
  *out = (struct oracle_sown){.on = ab_sows(config, exec->kernels)};
  if (!inside) return;
  if (ab_faithful(config, AB_DEFECT_B20)) out->on = false;
  out->by_cell = ab_faithful(config, AB_DEFECT_B21);
  out->stages = (int)config->num_stages;
  out->layers_per_stage = (int)config->num_layers_per_pipeline_stage;
  out->delay = (int)ab_forwarding_delay(config);
}

static int parts_of(const struct oracle_span *span) { return span->microbatches ? span->microbatches : 1; }

/* The numbers of one microbatch of a layer. */
static void *number_at(const struct oracle_span *span, int layer, int microbatch, enum ab_sown which) {
  size_t at = ((size_t)(layer - span->begin) * (size_t)parts_of(span) + (size_t)microbatch) * AB_SOWN + (size_t)which;
  return (unsigned char *)span->sown.numbers + at * span->exec->kernels->element;
}

/* Elements of one microbatch. */
static size_t part_count(const struct oracle_span *span) {
  return span->layer.tokens_count * (size_t)span->chunks / (size_t)parts_of(span);
}

/* A bubble runs one microbatch of zeros, whatever the span's own chunks are, and nothing is kept of it. */
static ab_status take_bubble(struct oracle_span *span) {
  struct oracle_sown *sown = &span->sown;
  const struct ab_kernels *k = span->exec->kernels;
  const struct ab_remat remat = {.keep = AB_KEEP_NONE};
  struct ab_layer_dims dims = span->layer.dims;
  dims.rows = dims.rows * span->chunks / parts_of(span);
  AB_TRY(ab_layer_plan(&sown->bubble, span->layer.block, k, &dims, &remat));
  AB_TRY(ab_arena_take(span->exec->arena, &sown->work, sown->bubble.work_count, k->element));
  for (int i = 0; i < 2; i++) AB_TRY(ab_arena_take(span->exec->arena, &sown->flow[i], part_count(span), k->element));
  return AB_OK;
}

ab_status oracle_sown_take(struct oracle_span *span) {
  size_t numbers = (size_t)(span->end - span->begin) * (size_t)parts_of(span) * AB_SOWN;
  if (!span->sown.on || numbers == 0) return AB_OK;
  AB_TRY(ab_arena_take(span->exec->arena, &span->sown.numbers, numbers, span->exec->kernels->element));
  AB_TRY(ab_arena_take(span->exec->arena, &span->sown.reported, AB_SOWN, span->exec->kernels->element));
  if (span->sown.by_cell) AB_TRY(take_bubble(span));
  return AB_OK;
}

static void *reported(const struct oracle_span *span, enum ab_sown which) {
  return (unsigned char *)span->sown.reported + (size_t)which * span->exec->kernels->element;
}

void oracle_sow(const struct oracle_span *span, int layer, int chunk, const void *y) {
  const struct ab_kernels *k = span->exec->kernels;
  int parts = parts_of(span) / span->chunks;
  if (!span->sown.on) return;
  for (int i = 0; i < parts; i++) {
    int microbatch = chunk * parts + i;
    k->statistics(number_at(span, layer, microbatch, AB_SOWN_MEAN), number_at(span, layer, microbatch, AB_SOWN_STDEV),
                  number_at(span, layer, microbatch, AB_SOWN_FRACTION_ZERO),
                  (const unsigned char *)y + (size_t)i * part_count(span) * k->element, part_count(span));
  }
}

static void mean(const struct oracle_span *span, int layer, enum ab_sown which) {
  const struct ab_kernels *k = span->exec->kernels;
  void *out = reported(span, which);
  k->copy(out, number_at(span, layer, 0, which), 1);
  for (int m = 1; m < parts_of(span); m++) k->add(out, out, number_at(span, layer, m, which), 1);
  if (span->microbatches) k->scale(out, out, 1.0 / span->microbatches, 1);
}

static void run_bubble_layer(struct oracle_span *span, int layer) {
  struct oracle_sown *sown = &span->sown;
  void *x = sown->flow[0];
  struct ab_layer_call call = {
      .param = (const void *const *)oracle_store_layer(span->store, AB_PARAMS, oracle_weights_layer(span, layer)),
      .x = x,
      .y = sown->flow[1],
      .positions = span->positions,
      .segment_ids = span->segment_ids,
      .work = sown->work};
  ab_layer_forward(&sown->bubble, &call);
  sown->flow[0] = call.y;
  sown->flow[1] = x;
}

/* Cell (t, s) of the warm-up: zeros that entered stage s - t div d and went through repeat 0 from there, with the
 * positions of microbatch 0. */
static void bubble(struct oracle_span *span, int t, int s, int k) {
  const struct oracle_sown *sown = &span->sown;
  int first = (s - t / sown->delay) * sown->layers_per_stage, last = s * sown->layers_per_stage + k;
  span->exec->kernels->zero(sown->flow[0], part_count(span));
  for (int layer = first; layer <= last; layer++) run_bubble_layer(span, layer);
  span->exec->kernels->statistics(reported(span, AB_SOWN_MEAN), reported(span, AB_SOWN_STDEV),
                                  reported(span, AB_SOWN_FRACTION_ZERO), sown->flow[0], part_count(span));
}

/* upstream_faithful=B21: what layer k of stage s did in iteration t, these being the digits of `layer`. */
static void cell(struct oracle_span *span, int layer) {
  const struct oracle_sown *sown = &span->sown;
  int k = layer % sown->layers_per_stage, slot = layer / sown->layers_per_stage;
  int s = slot % sown->stages, t = slot / sown->stages, n = t - sown->delay * s;
  if (n < 0) {
    bubble(span, t, s, k);
    return;
  }
  int repeat = n / span->microbatches, real = (repeat * sown->stages + s) * sown->layers_per_stage + k;
  for (int i = 0; i < AB_SOWN; i++)
    span->exec->kernels->copy(reported(span, (enum ab_sown)i),
                              number_at(span, real, n % span->microbatches, (enum ab_sown)i), 1);
}

ab_status oracle_sown_report(struct oracle_span *span) {
  const struct ab_exec *exec = span->exec;
  for (int layer = span->begin; span->sown.on && layer < span->end; layer++) {
    if (span->sown.by_cell) cell(span, layer);
    for (int i = 0; i < AB_SOWN; i++) {
      if (!span->sown.by_cell) mean(span, layer, (enum ab_sown)i);
      AB_TRY(ab_observe_sown(exec->probe, exec->kernels, layer, (enum ab_sown)i, reported(span, (enum ab_sown)i)));
    }
  }
  return AB_OK;
}
