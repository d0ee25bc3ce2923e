#include "layer.h"

/* Elements per alignment unit, so that every slot starts aligned. */
static size_t rounded(const struct ab_layer *layer, size_t count) {
  size_t unit = 64 / layer->kernels->element;
  return (count + unit - 1) / unit * unit;
}

static uint32_t mask_of(const int8_t *list, int size) {
  uint32_t mask = 0;
  for (int i = 0; i < size && list[i] >= 0; i++) mask |= 1u << list[i];
  return mask;
}

/* Operators whose outputs are among *need and nobody kept, and what those read in turn, which *need grows by.
 * Operators stand in execution order, so one pass from the last to the first closes the set. */
static uint32_t closure(const struct ab_block *block, uint32_t *need, uint32_t available) {
  uint32_t run = 0;
  for (int i = block->op_count - 1; i >= 0; i--) {
    if (!(mask_of(block->op[i].out, 4) & *need & ~available)) continue;
    run |= 1u << i;
    *need |= mask_of(block->op[i].in, 4);
  }
  return run;
}

static void close_sets(struct ab_layer *layer, const struct ab_remat *remat) {
  const struct ab_block *block = layer->block;
  uint32_t need = 0, output = 1u << block->output, available = (remat->keep | 1u) & ~output;
  for (int i = 0; i < block->op_count; i++) need |= block->op[i].input_needs | block->op[i].weight_needs;
  layer->recompute = closure(block, &need, available);
  available &= need;
  layer->keep = available & ~remat->offload & ~1u;
  layer->offload = available & remat->offload & ~1u;
  layer->replay = closure(block, &output, available);
}

static size_t slot_count(const struct ab_layer *layer, int slot) {
  return rounded(layer, layer->block->slot[slot].count(&layer->dims));
}

static void place_values(struct ab_layer *layer) {
  for (int i = 1; i < layer->block->slot_count; i++) {
    size_t *end = layer->keep >> i & 1 ? &layer->saved_count : &layer->work_count;
    layer->offset[i] = *end;
    *end += slot_count(layer, i);
    if (!(layer->offload >> i & 1)) continue;
    layer->offloaded[i] = layer->offloaded_count;
    layer->offloaded_count += slot_count(layer, i);
  }
}

/* Slots with a cotangent of their own: not the input (dx), not the result (dy), no statistics. */
static void place_cotangents(struct ab_layer *layer) {
  size_t largest = slot_count(layer, 0);
  for (int i = 1; i < layer->block->slot_count; i++) {
    if (i == layer->block->output || layer->block->slot[i].internal) continue;
    layer->cotangent[i] = layer->work_count;
    layer->work_count += slot_count(layer, i);
    if (slot_count(layer, i) > largest) largest = slot_count(layer, i);
  }
  layer->contribution = layer->work_count;
  layer->work_count += largest;
}

ab_status ab_layer_plan(struct ab_layer *out, const struct ab_block *block, const struct ab_kernels *kernels,
                        const struct ab_layer_dims *dims, const struct ab_remat *remat) {
  if (dims->rows < 1 || dims->length < 1)
    return AB_FAIL(AB_ESHAPE, "block '%s': a call of %lld rows of length %lld, expected at least one token",
                   block->name, (long long)dims->rows, (long long)dims->length);
  if (kernels->polynomial && !block->polynomial)
    return AB_FAIL(AB_ECONFIG, "key 'decoder_block' is '%s', which needs more than sums and products; expected a block "
                   "of matrix products, such as simple, for the table exact", block->name);
  struct ab_layer layer = {.block = block, .kernels = kernels, .dims = *dims};
  layer.tokens_count = (size_t)(dims->rows * dims->length * dims->emb);
  close_sets(&layer, remat);
  place_values(&layer);
  place_cotangents(&layer);
  layer.scratch = layer.work_count;
  layer.work_count += rounded(&layer, block->scratch(dims, kernels));
  *out = layer;
  return AB_OK;
}
