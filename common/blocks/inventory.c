#include <stdio.h>

#include "block.h"
#include "mem.h"

const struct ab_param ab_outer_params[3] = {
    {"token_embedder/embedding", {AB_AXIS_VOCAB, AB_AXIS_EMB}, {"vocab", "embed_vocab"}, AB_INIT_UNIT_NORMAL, 0, false},
    {"decoder/decoder_norm/scale", {AB_AXIS_EMB}, {"norm"}, AB_INIT_ONES, 0, false},
    {"decoder/logits_dense/kernel", {AB_AXIS_EMB, AB_AXIS_VOCAB}, {"embed_vocab", "vocab"}, AB_INIT_TRUNCATED, 1,
     false},
};

static void append(struct ab_inventory *inventory, int layer, const struct ab_param *param,
                   const struct ab_layer_dims *dims) {
  size_t count = ab_param_count(param, dims);
  inventory->row[inventory->rows++] = (struct ab_inventory_row){layer, param, count};
  inventory->elements += count;
}

ab_status ab_inventory_new(struct ab_inventory *out, const struct ab_config *config, bool layers_only) {
  const struct ab_block *block = ab_block_find(config->decoder_block);
  if (!block) return AB_FAIL(AB_ECONFIG, "key 'decoder_block': no block is called '%s'", config->decoder_block);
  struct ab_layer_dims dims = ab_layer_dims_of(config, 1);
  int64_t layers = layers_only && config->pipelined ? config->pipeline_parallel_layers : config->num_decoder_layers;
  struct ab_inventory inventory = {0};
  AB_TRY(ab_mem_new(&inventory.row, (size_t)layers * (size_t)block->param_count + 3, sizeof *inventory.row));
  if (!layers_only) append(&inventory, -1, &ab_outer_params[0], &dims);
  for (int64_t layer = 0; layer < layers; layer++)
    for (int i = 0; i < block->param_count; i++) append(&inventory, (int)layer, &block->param[i], &dims);
  for (int i = 1; i < 3 && !layers_only; i++) append(&inventory, -1, &ab_outer_params[i], &dims);
  *out = inventory;
  return AB_OK;
}

void ab_inventory_free(struct ab_inventory *inventory) {
  ab_mem_free(inventory->row);
  *inventory = (struct ab_inventory){0};
}

void ab_canonical_path(char *text, size_t size, int layer, const char *name) {
  if (layer < 0)
    snprintf(text, size, "%s", name);
  else
    snprintf(text, size, "layers/%d/%s", layer, name);
}
