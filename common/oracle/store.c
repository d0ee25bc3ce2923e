#include "parts.h"

static ab_status take_leaves(struct oracle_store *store, const struct ab_exec *exec, enum ab_leaf_kind kind) {
  AB_TRY(ab_arena_take(exec->book, &store->leaf[kind], store->rows, sizeof(void *)));
  for (size_t i = 0; i < store->rows; i++)
    AB_TRY(ab_arena_take(exec->slab, &store->leaf[kind][i], store->row[i].count, exec->kernels->element));
  return AB_OK;
}

static ab_status copy_inventory(struct oracle_store *store, const struct ab_exec *exec,
                                const struct ab_inventory *inventory) {
  store->rows = inventory->rows;
  AB_TRY(ab_arena_take(exec->book, &store->row, inventory->rows, sizeof *store->row));
  for (size_t i = 0; i < inventory->rows; i++) store->row[i] = inventory->row[i];
  return AB_OK;
}

ab_status oracle_store_create(struct oracle_store *out, const struct ab_config *config, const struct ab_exec *exec,
                              bool layers_only) {
  struct ab_inventory inventory;
  AB_TRY(ab_inventory_new(&inventory, config, layers_only));
  struct oracle_store store = {.dims = ab_layer_dims_of(config, 1),
                               .dtype = exec->kernels->dtype,
                               .kernels = exec->kernels,
                               .outer = layers_only ? 0 : 1,
                               .params = ab_block_find(config->decoder_block)->param_count};
  ab_status status = copy_inventory(&store, exec, &inventory);
  ab_inventory_free(&inventory);
  AB_TRY(status);
  AB_TRY(take_leaves(&store, exec, AB_PARAMS));
  AB_TRY(take_leaves(&store, exec, AB_GRADS));
  *out = store;
  return AB_OK;
}

void oracle_store_zero_grads(const struct oracle_store *store) {
  for (size_t i = 0; i < store->rows; i++) store->kernels->zero(store->leaf[AB_GRADS][i], store->row[i].count);
}

ab_status oracle_store_leaves(const struct oracle_store *store, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  for (size_t i = 0; i < store->rows; i++) {
    const struct ab_inventory_row *row = &store->row[i];
    struct ab_view view = {.dtype = store->dtype,
                           .shape = ab_param_shape(row->param, &store->dims),
                           .data = store->leaf[kind][i]};
    ab_view_contiguous(&view);
    AB_TRY(fn(ctx, row->layer, row->param->name, &view));
  }
  return AB_OK;
}

void **oracle_store_layer(const struct oracle_store *store, enum ab_leaf_kind kind, int layer) {
  return &store->leaf[kind][store->outer + (size_t)layer * (size_t)store->params];
}

void *oracle_store_outer(const struct oracle_store *store, enum ab_leaf_kind kind, int index) {
  return store->leaf[kind][index == 0 ? 0 : store->rows - 3 + (size_t)index];
}
