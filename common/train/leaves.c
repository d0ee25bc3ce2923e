#include "leaves.h"

#include <string.h>

#include "mem.h"

ab_status ab_leaf_table_new(struct ab_leaf_table *out, const struct ab_config *config, const struct ab_kernels *kernels,
                            bool layers_only) {
  struct ab_inventory inventory;
  struct ab_leaf_table table = {.dims = ab_layer_dims_of(config, 1), .dtype = kernels->dtype};
  AB_TRY(ab_inventory_new(&inventory, config, layers_only));
  ab_status status = ab_mem_new(&table.leaf, inventory.rows, sizeof *table.leaf);
  for (; status == AB_OK && table.leaves < inventory.rows; table.leaves++) {
    const struct ab_inventory_row *row = &inventory.row[table.leaves];
    table.leaf[table.leaves] = (struct ab_leaf){.layer = row->layer, .param = row->param, .count = row->count};
    if (row->count > table.largest) table.largest = row->count;
  }
  ab_inventory_free(&inventory);
  AB_TRY(status);
  *out = table;
  return AB_OK;
}

void ab_leaf_table_free(struct ab_leaf_table *table) {
  ab_mem_free(table->leaf);
  *table = (struct ab_leaf_table){0};
}

/* Rows of one layer stand together and layers ascend, so a bisection finds the layer; outer rows are few. */
static struct ab_leaf *find(struct ab_leaf_table *table, int layer, const char *name) {
  size_t begin = 0, end = table->leaves;
  while (layer >= 0 && begin < end) {
    size_t middle = begin + (end - begin) / 2;
    int there = table->leaf[middle].layer;
    if (there < 0 ? middle > 0 : there >= layer)
      end = middle;
    else
      begin = middle + 1;
  }
  for (size_t i = begin; i < table->leaves && (layer < 0 || table->leaf[i].layer == layer); i++)
    if (table->leaf[i].layer == layer && strcmp(table->leaf[i].param->name, name) == 0) return &table->leaf[i];
  return NULL;
}

static ab_status check_view(const struct ab_leaf_table *table, const struct ab_leaf *leaf, const struct ab_view *view,
                            const char *path) {
  struct ab_shape shape = ab_param_shape(leaf->param, &table->dims);
  char found[96], expected[96];
  if (view->dtype != table->dtype)
    return AB_FAIL(AB_EMISMATCH, "leaf '%s' is %s, expected %s", path, ab_dtype_name(view->dtype),
                   ab_dtype_name(table->dtype));
  if (ab_shape_equal(&view->shape, &shape)) return AB_OK;
  ab_shape_print(found, sizeof found, &view->shape);
  ab_shape_print(expected, sizeof expected, &shape);
  return AB_FAIL(AB_EMISMATCH, "leaf '%s' has shape %s, expected %s", path, found, expected);
}

static ab_status receive(void *ctx, int layer, const char *name, const struct ab_view *view) {
  struct ab_leaf_table *table = ctx;
  struct ab_leaf *leaf = find(table, layer, name);
  char path[AB_PATH_MAX];
  ab_canonical_path(path, sizeof path, layer, name);
  if (!leaf) return AB_FAIL(AB_EMISMATCH, "leaf '%s' is unknown, the config has no such parameter", path);
  if (leaf->view.data) return AB_FAIL(AB_EMISMATCH, "leaf '%s' was reported twice, expected once", path);
  AB_TRY(check_view(table, leaf, view, path));
  leaf->view = *view;
  return AB_OK;
}

static ab_status each_leaf(const struct ab_side *side, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  if (side->model_ops) return side->model_ops->leaves(side->model, kind, fn, ctx);
  return side->pipeline_ops->leaves(side->pipeline, kind, fn, ctx);
}

ab_status ab_leaf_table_fill(struct ab_leaf_table *table, const struct ab_side *side, enum ab_leaf_kind kind) {
  char path[AB_PATH_MAX];
  for (size_t i = 0; i < table->leaves; i++) table->leaf[i].view.data = NULL;
  AB_TRY(each_leaf(side, kind, receive, table));
  for (size_t i = 0; i < table->leaves; i++) {
    const struct ab_leaf *leaf = &table->leaf[i];
    if (leaf->view.data || leaf->count == 0) continue;
    ab_canonical_path(path, sizeof path, leaf->layer, leaf->param->name);
    return AB_FAIL(AB_EMISMATCH, "leaf '%s' is missing, the config has it", path);
  }
  return AB_OK;
}

static bool contiguous(const struct ab_view *view) {
  int64_t stride = 1;
  for (int i = view->shape.rank; i-- > 0;) {
    if (view->shape.dim[i] != 1 && view->stride[i] != stride) return false;
    stride *= view->shape.dim[i];
  }
  return true;
}

static struct ab_view packed_view(const struct ab_leaf *leaf, void *packed) {
  struct ab_view view = {.dtype = leaf->view.dtype, .shape = leaf->view.shape, .data = packed};
  ab_view_contiguous(&view);
  return view;
}

void *ab_leaf_pack(const struct ab_leaf *leaf, void *scratch, const struct ab_kernels *kernels) {
  if (contiguous(&leaf->view)) return leaf->view.data;
  struct ab_view to = packed_view(leaf, scratch);
  kernels->copy_view(&to, &leaf->view);
  return scratch;
}

void ab_leaf_unpack(const struct ab_leaf *leaf, void *packed, const struct ab_kernels *kernels) {
  if (packed == leaf->view.data) return;
  struct ab_view from = packed_view(leaf, packed);
  kernels->copy_view(&leaf->view, &from);
}

ab_status ab_leaf_values_new(struct ab_leaf_values *out, const struct ab_leaf_table *table) {
  struct ab_leaf_values buffer = {0};
  AB_TRY(ab_mem_new(&buffer.values, table->largest, sizeof *buffer.values));
  ab_status status = ab_mem_new(&buffer.elements, table->largest, ab_dtype_size(table->dtype));
  if (status != AB_OK) {
    ab_leaf_values_free(&buffer);
    AB_TRY(status);
  }
  *out = buffer;
  return AB_OK;
}

void ab_leaf_values_free(struct ab_leaf_values *buffer) {
  ab_mem_free(buffer->values);
  ab_mem_free(buffer->elements);
  *buffer = (struct ab_leaf_values){0};
}

ab_status ab_leaf_set(const struct ab_leaf *leaf, const struct ab_leaf_values *buffer,
                      const struct ab_kernels *kernels) {
  char path[AB_PATH_MAX];
  size_t taken = kernels->from_f32(buffer->elements, buffer->values, leaf->count);
  if (taken < leaf->count) {
    ab_canonical_path(path, sizeof path, leaf->layer, leaf->param->name);
    return AB_FAIL(AB_EFORMAT, "parameter '%s' is %g at element %zu, which table %s cannot hold; expected an integer",
                   path, (double)buffer->values[taken], taken, kernels->name);
  }
  ab_leaf_unpack(leaf, buffer->elements, kernels);
  return AB_OK;
}

static ab_status load(struct ab_leaf_table *table, struct ab_leaf_values *buffer, const struct ab_side *side,
                      const struct ab_kernels *kernels, const struct ab_layout *layout, const struct ab_tree *tree) {
  AB_TRY(ab_leaf_values_new(buffer, table));
  AB_TRY(ab_leaf_table_fill(table, side, AB_PARAMS));
  for (size_t i = 0; i < table->leaves; i++) {
    const struct ab_leaf *leaf = &table->leaf[i];
    struct ab_view view;
    AB_TRY(ab_layout_view(&view, layout, tree, leaf->layer, leaf->param->name));
    ab_view_pack(buffer->values, &view);
    AB_TRY(ab_leaf_set(leaf, buffer, kernels));
  }
  return AB_OK;
}

ab_status ab_leaves_load(const struct ab_side *side, const struct ab_config *config, const struct ab_kernels *kernels,
                         const struct ab_layout *layout, const struct ab_tree *tree) {
  struct ab_leaf_table table;
  struct ab_leaf_values buffer = {0};
  AB_TRY(ab_leaf_table_new(&table, config, kernels, side->model_ops == NULL));
  ab_status status = load(&table, &buffer, side, kernels, layout, tree);
  ab_leaf_values_free(&buffer);
  ab_leaf_table_free(&table);
  AB_TRY(status);
  return AB_OK;
}

static ab_status store(struct ab_tree *tree, struct ab_leaf_table *table, const struct ab_kernels *kernels,
                       const struct ab_layout *layout) {
  for (size_t i = 0; i < table->leaves; i++) {
    struct ab_view to;
    AB_TRY(ab_layout_view(&to, layout, tree, table->leaf[i].layer, table->leaf[i].param->name));
    kernels->copy_view(&to, &table->leaf[i].view);
  }
  return AB_OK;
}

ab_status ab_leaves_store(struct ab_tree **out, const struct ab_side *side, enum ab_leaf_kind kind,
                          const struct ab_config *config, const struct ab_kernels *kernels,
                          const struct ab_layout *layout) {
  struct ab_leaf_table table;
  struct ab_tree *tree = NULL;
  AB_TRY(ab_leaf_table_new(&table, config, kernels, side->model_ops == NULL));
  ab_status status = ab_leaf_table_fill(&table, side, kind);
  if (status == AB_OK) status = ab_layout_tree(&tree, layout, kernels->dtype);
  if (status == AB_OK) status = store(tree, &table, kernels, layout);
  ab_leaf_table_free(&table);
  if (status != AB_OK) ab_tree_free(tree);
  AB_TRY(status);
  *out = tree;
  return AB_OK;
}
