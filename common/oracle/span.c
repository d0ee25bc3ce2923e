#include "observed.h"
#include "parts.h"
#include "upstream.h"

static const struct ab_where nowhere = {-1, -1, -1, false};

static size_t layer_count(const struct oracle_span *span) {
  return (size_t)(span->end - span->begin);
}

/* The probe is flushed after every pass of a layer, so it holds one pass at most. */
static ab_status reserve(const struct oracle_span *span) {
  if (!span->exec->probe || layer_count(span) == 0) return AB_OK;
  size_t parts = span->microbatches > span->chunks ? (size_t)span->microbatches : 1;
  size_t events = ab_layer_backward_events(&span->layer) + ab_layer_forward_events(&span->layer) + 1;
  size_t values = span->layer.saved_count + span->layer.work_count + 4 * span->layer.tokens_count;
  AB_TRY(ab_probe_reserve(span->exec->probe, events * parts, 2 * values * span->exec->kernels->element));
  return AB_OK;
}

static ab_status plan(struct oracle_span *span, const struct ab_config *config, const struct ab_remat *remat) {
  int64_t rows = config->micro_batch_size_to_train_on / span->chunks;
  struct ab_layer_dims dims = ab_layer_dims_of(config, rows);
  AB_TRY(ab_layer_plan(&span->layer, ab_block_find(config->decoder_block), span->exec->kernels, &dims, remat));
  AB_TRY(reserve(span));
  return AB_OK;
}

static bool by_microbatch(const struct ab_exec *exec, enum oracle_order order) {
  return order == ORACLE_BY_DTYPE ? exec->kernels->dtype != AB_F64 : order == ORACLE_BY_MICROBATCH;
}

ab_status oracle_span_inside(struct oracle_span *out, const struct ab_config *config, const struct ab_exec *exec,
                             const struct oracle_store *store, enum oracle_order order) {
  int microbatches = (int)config->num_pipeline_microbatches;
  struct oracle_span span = {.store = store, .exec = exec, .chunks = 1};
  struct ab_remat remat;
  AB_TRY(ab_remat_pipeline(&remat, ab_block_find(config->decoder_block), config));
  if (config->pipelined) {
    span.end = (int)config->pipeline_parallel_layers;
    span.microbatches = microbatches;
    if (by_microbatch(exec, order)) span.chunks = microbatches;
    if (config->pipeline_fsdp_ag_per_repeat) span.circular.stages = (int)config->num_stages;
    span.circular.prefetch_defect = span.circular.stages && ab_faithful(config, AB_DEFECT_B1);
  }
  oracle_sown_of(&span.sown, config, exec, config->pipelined);
  AB_TRY(plan(&span, config, &remat));
  *out = span;
  return AB_OK;
}

ab_status oracle_span_outside(struct oracle_span *out, const struct ab_config *config, const struct ab_exec *exec,
                              const struct oracle_store *store) {
  struct oracle_span span = {.store = store, .exec = exec, .chunks = 1, .end = (int)config->num_decoder_layers};
  if (config->pipelined) span.begin = (int)config->pipeline_parallel_layers;
  struct ab_remat remat;
  oracle_sown_of(&span.sown, config, exec, false);
  AB_TRY(ab_remat_outside(&remat, ab_block_find(config->decoder_block), config));
  AB_TRY(plan(&span, config, &remat));
  *out = span;
  return AB_OK;
}

/* Chunk c of a whole-batch activation; and of a const one. */
static void *chunk_of(const struct oracle_span *span, void *batch, int chunk) {
  return (unsigned char *)batch + (size_t)chunk * span->layer.tokens_count * span->exec->kernels->element;
}

static const void *const_chunk_of(const struct oracle_span *span, const void *batch, int chunk) {
  return (const unsigned char *)batch + (size_t)chunk * span->layer.tokens_count * span->exec->kernels->element;
}

static ab_status take_forward(struct oracle_span *span) {
  struct ab_arena *arena = span->exec->arena, *book = span->exec->book;
  size_t layers = layer_count(span), chunks = (size_t)span->chunks, element = span->exec->kernels->element;
  AB_TRY(ab_arena_take(book, &span->act, layers + 1, sizeof(void *)));
  AB_TRY(ab_arena_take(book, &span->saved, layers * chunks, sizeof(void *)));
  AB_TRY(ab_arena_take(book, &span->offloaded, layers * chunks, sizeof(void *)));
  for (size_t i = 1; i <= layers; i++)
    AB_TRY(ab_arena_take(arena, &span->act[i], span->layer.tokens_count * chunks, element));
  for (size_t i = 0; i < layers * chunks; i++) {
    AB_TRY(ab_arena_take(arena, &span->saved[i], span->layer.saved_count, element));
    AB_TRY(ab_arena_take(arena, &span->offloaded[i], span->layer.offloaded_count, element));
  }
  if (layers == 0) return AB_OK;
  AB_TRY(ab_arena_take(arena, &span->work, span->layer.work_count, element));
  for (int i = 0; i < 2; i++) AB_TRY(ab_arena_take(arena, &span->cotangent[i], span->layer.tokens_count, element));
  return AB_OK;
}

static struct ab_layer_call layer_call(const struct oracle_span *span, int layer, int chunk) {
  int64_t tokens = span->layer.dims.rows * span->layer.dims.length;
  int depth = layer - span->begin;
  return (struct ab_layer_call){
      .param = (const void *const *)oracle_store_layer(span->store, AB_PARAMS, oracle_weights_layer(span, layer)),
      .x = chunk_of(span, span->act[depth], chunk),
      .positions = span->positions + chunk * tokens,
      .segment_ids = span->segment_ids + chunk * tokens,
      .saved = span->saved[depth * span->chunks + chunk],
      .offloaded = span->offloaded[depth * span->chunks + chunk],
      .work = span->work,
      .recorder = ab_probe_recorder(span->exec->probe, 0),
      .id = {.microbatch = span->microbatches ? chunk : -1, .layer = layer},
      .at = nowhere,
      .microbatches = span->chunks == 1 ? span->microbatches : 0,
  };
}

static ab_status count_execution(const struct oracle_span *span, const struct ab_layer_call *call) {
  struct ab_identity id = call->id;
  for (int i = 0; i < (call->microbatches ? call->microbatches : 1); i++, id.microbatch++)
    if (call->recorder) ab_record_count(call->recorder, AB_COUNT_EXECUTE, &id, &call->at, 1);
  return ab_probe_flush(span->exec->probe);
}

static ab_status forward_chunk(struct oracle_span *span, int chunk) {
  for (int layer = span->begin; layer < span->end; layer++) {
    struct ab_layer_call call = layer_call(span, layer, chunk);
    call.y = chunk_of(span, span->act[layer - span->begin + 1], chunk);
    ab_layer_forward(&span->layer, &call);
    oracle_sow(span, layer, chunk, call.y);
    AB_TRY(count_execution(span, &call));
  }
  return AB_OK;
}

ab_status oracle_span_forward(struct oracle_span *span, void **outputs, void *inputs, const int32_t *positions,
                              const int32_t *segment_ids) {
  AB_TRY(take_forward(span));
  AB_TRY(oracle_sown_take(span));
  span->act[0] = inputs;
  span->positions = positions;
  span->segment_ids = segment_ids;
  for (int chunk = 0; chunk < span->chunks; chunk++) AB_TRY(forward_chunk(span, chunk));
  AB_TRY(oracle_sown_report(span));
  *outputs = span->act[layer_count(span)];
  return AB_OK;
}

/* The cotangent passes from layer to layer through two buffers of one chunk; the last one is the caller's. */
static ab_status backward_chunk(struct oracle_span *span, int chunk, void *d_inputs, const void *d_outputs) {
  const void *dy = d_outputs;
  for (int layer = span->end - 1; layer >= span->begin; layer--) {
    struct ab_layer_call call = layer_call(span, layer, chunk);
    call.dparam = oracle_accumulators(span, layer, chunk);
    call.dy = dy;
    call.dx = layer == span->begin ? d_inputs : span->cotangent[layer % 2];
    ab_layer_backward(&span->layer, &call);
    AB_TRY(ab_probe_flush(span->exec->probe));
    dy = call.dx;
  }
  return AB_OK;
}

ab_status oracle_span_backward(struct oracle_span *span, void *d_inputs, const void *d_outputs) {
  if (layer_count(span) == 0 && d_inputs != d_outputs)
    span->exec->kernels->copy(d_inputs, d_outputs, span->layer.tokens_count * (size_t)span->chunks);
  AB_TRY(oracle_chains_begin(span));
  for (int chunk = span->chunks - 1; chunk >= 0; chunk--)
    AB_TRY(backward_chunk(span, chunk, chunk_of(span, d_inputs, chunk), const_chunk_of(span, d_outputs, chunk)));
  oracle_chains_end(span);
  return AB_OK;
}

ab_status oracle_observe(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *value,
                         const struct ab_layer_dims *batch, int64_t width) {
  if (!exec->probe || exec->kernels->dry) return AB_OK;
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = phase};
  for (size_t i = 0; name[i] && i + 1 < sizeof id.tensor; i++) id.tensor[i] = name[i];
  struct ab_view view = {.dtype = exec->kernels->dtype,
                         .shape = {3, {batch->rows, batch->length, width}},
                         .data = (void *)(uintptr_t)value};
  ab_view_contiguous(&view);
  return ab_probe_observe(exec->probe, &id, &nowhere, &view);
}
