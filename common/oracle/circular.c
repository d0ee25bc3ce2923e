#include "parts.h"

int oracle_weights_layer(const struct oracle_span *span, int layer) {
  const struct oracle_circular *circular = &span->circular;
  bool late = circular->prefetch_defect && layer >= circular->stages && layer % circular->stages >= 2;
  return late ? layer - circular->stages : layer;
}

/* Stage s runs its last s microbatches when stage 0 is already in the next window, or in the drain. */
static enum oracle_chain chain_of(const struct oracle_span *span, int layer, int microbatch) {
  int later = layer % span->circular.stages;
  return microbatch >= span->chunks - later ? ORACLE_NEXT_WINDOW : ORACLE_OWN_WINDOW;
}

void **oracle_accumulators(const struct oracle_span *span, int layer, int microbatch) {
  if (!span->circular.stages || span->chunks == 1)
    return oracle_store_layer(span->store, AB_GRADS, oracle_weights_layer(span, layer));
  return &span->circular.chain[chain_of(span, layer, microbatch)][layer * span->store->params];
}

/* Leaf p of a layer; the span begins with layer 0. */
static size_t leaf_count(const struct oracle_store *store, int leaf) {
  return store->row[store->outer + (size_t)leaf].count;
}

static ab_status take_chain(void ***out, const struct oracle_span *span, int leaves) {
  const struct ab_kernels *k = span->exec->kernels;
  AB_TRY(ab_arena_take(span->exec->book, out, (size_t)leaves, sizeof **out));
  for (int i = 0; i < leaves; i++) {
    AB_TRY(ab_arena_take(span->exec->arena, &(*out)[i], leaf_count(span->store, i), k->element));
    k->zero((*out)[i], leaf_count(span->store, i));
  }
  return AB_OK;
}

ab_status oracle_chains_begin(struct oracle_span *span) {
  int leaves = (span->end - span->begin) * span->store->params;
  if (!span->circular.stages || span->chunks == 1) return AB_OK;
  AB_TRY(take_chain(&span->circular.chain[ORACLE_OWN_WINDOW], span, leaves));
  return take_chain(&span->circular.chain[ORACLE_NEXT_WINDOW], span, leaves);
}

static void add_layer(const struct oracle_span *span, int layer) {
  void **own = oracle_accumulators(span, layer, 0);
  void **next = &span->circular.chain[ORACLE_NEXT_WINDOW][layer * span->store->params];
  void **grads = oracle_store_layer(span->store, AB_GRADS, oracle_weights_layer(span, layer));
  for (int p = 0; p < span->store->params; p++) {
    size_t count = leaf_count(span->store, layer * span->store->params + p);
    span->exec->kernels->add(own[p], own[p], next[p], count);
    span->exec->kernels->add(grads[p], grads[p], own[p], count);
  }
}

void oracle_chains_end(const struct oracle_span *span) {
  if (!span->circular.stages || span->chunks == 1) return;
  for (int layer = span->end - 1; layer >= span->begin; layer--) add_layer(span, layer);
}
