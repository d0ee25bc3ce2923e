#include "layout.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"

/* A group of layers that are stacked together: one leaf per parameter of the block. */
struct group {
  char prefix[AB_PATH_MAX / 2];
  int64_t first;
  int lead;                          /* stack axes in front of the parameter's own */
  struct ab_stack_axis lead_axis[2]; /* axis is filled by place_axes */
  const char *lead_logical[2];
  int64_t scan, scan_layers; /* extent of the scan axis (0: none) and layers per step */
  const char *scan_logical;
};

struct builder {
  struct ab_layout *layout;
  const struct ab_config *config;
  const struct ab_block *block;
  struct ab_layer_dims dims;
  size_t room;
};

static void push_axis(struct ab_layout_leaf *leaf, int64_t extent, const char *logical) {
  leaf->logical[leaf->shape.rank] = logical;
  leaf->shape.dim[leaf->shape.rank++] = extent;
}

static void push_stack(struct ab_layout_leaf *leaf, int64_t count, int64_t layers, const char *logical) {
  leaf->stack[leaf->stacks++] = (struct ab_stack_axis){leaf->shape.rank, count, layers};
  push_axis(leaf, count, logical);
}

static void place_axes(struct ab_layout_leaf *leaf, const struct group *group, const struct builder *b) {
  struct ab_shape own = ab_param_shape(leaf->param, &b->dims);
  int64_t scan_axis = b->config->param_scan_axis < own.rank ? b->config->param_scan_axis : own.rank;
  for (int i = 0; i < group->lead; i++)
    push_stack(leaf, group->lead_axis[i].count, group->lead_axis[i].layers, group->lead_logical[i]);
  for (int i = 0; i <= own.rank; i++) {
    if (group->scan && i == scan_axis) push_stack(leaf, group->scan, group->scan_layers, group->scan_logical);
    if (i < own.rank) push_axis(leaf, own.dim[i], leaf->param->logical[i]);
  }
}

static ab_status append(struct builder *b, const struct ab_param *param, const struct group *group) {
  struct ab_layout *layout = b->layout;
  if (layout->leaves == b->room) {
    b->room = b->room ? 2 * b->room : 32;
    AB_TRY(ab_mem_resize(&layout->leaf, b->room, sizeof *layout->leaf));
  }
  struct ab_layout_leaf *leaf = &layout->leaf[layout->leaves++];
  *leaf = (struct ab_layout_leaf){.param = param, .first = group->first};
  snprintf(leaf->path, sizeof leaf->path, "%s%s", group->prefix, param->name);
  place_axes(leaf, group, b);
  return AB_OK;
}

static ab_status append_group(struct builder *b, const struct group *group) {
  for (int i = 0; i < b->block->param_count; i++) AB_TRY(append(b, &b->block->param[i], group));
  return AB_OK;
}

static ab_status append_outer(struct builder *b, int index) {
  return append(b, &ab_outer_params[index], &(struct group){.first = -1});
}

/* The stack axes that every pipelined group has: [R, S] or [S]. */
static struct group pipeline_group(const struct ab_config *c) {
  int64_t stages = c->num_stages, per_stage = c->num_layers_per_pipeline_stage;
  const struct ab_stack_axis repeat = {0, c->num_pipeline_repeats, stages * per_stage}, stage = {0, stages, per_stage};
  if (c->num_pipeline_repeats == 1) return (struct group){.lead = 1, .lead_axis = {stage}, .lead_logical = {"layers"}};
  return (struct group){.lead = 2, .lead_axis = {repeat, stage}, .lead_logical = {"circular_repeats", "layers"}};
}

static ab_status append_pipeline(struct builder *b, bool root) {
  const struct ab_config *c = b->config;
  const char *module = root ? "" : "decoder/pipeline_module/";
  struct group group = pipeline_group(c);
  int64_t per_stage = c->num_layers_per_pipeline_stage;
  if (per_stage > 1 && c->scan_layers_per_stage) {
    snprintf(group.prefix, sizeof group.prefix, "%slayers_per_stage/", root ? "" : "decoder/");
    group.scan = per_stage, group.scan_layers = 1, group.scan_logical = "layers_per_stage";
    return append_group(b, &group);
  }
  snprintf(group.prefix, sizeof group.prefix, "%slayers/", module);
  if (per_stage == 1) return append_group(b, &group);
  for (int64_t q = 0; q < per_stage; q++) {
    group.first = q;
    snprintf(group.prefix, sizeof group.prefix, "%slayers/layers_%d/", module, (int)q);
    AB_TRY(append_group(b, &group));
  }
  return AB_OK;
}

static ab_status append_scanned(struct builder *b, const char *prefix, int64_t first, int64_t count) {
  struct group group = {.first = first, .scan = count, .scan_layers = 1, .scan_logical = "layers"};
  snprintf(group.prefix, sizeof group.prefix, "%s", prefix);
  return append_group(b, &group);
}

static ab_status append_unscanned(struct builder *b, const char *module, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    struct group group = {.first = i};
    snprintf(group.prefix, sizeof group.prefix, "%slayers_%d/", module, (int)i);
    AB_TRY(append_group(b, &group));
  }
  return AB_OK;
}

static ab_status append_layers(struct builder *b, bool root) {
  const struct ab_config *c = b->config;
  int64_t rest = c->num_decoder_layers - c->pipeline_parallel_layers;
  if (c->pipelined) {
    AB_TRY(append_pipeline(b, root));
    if (root || rest <= 0) return AB_OK;
    return append_scanned(b, "decoder/layers_outside_pipeline/", c->pipeline_parallel_layers, rest);
  }
  if (c->scan_layers) return append_scanned(b, root ? "layers/" : "decoder/layers/", 0, c->num_decoder_layers);
  return append_unscanned(b, root ? "" : "decoder/", c->num_decoder_layers);
}

static ab_status build(struct builder *b, bool layers_only) {
  if (!layers_only) AB_TRY(append_outer(b, 0));
  AB_TRY(append_layers(b, layers_only));
  for (int i = 1; i < 3 && !layers_only; i++) AB_TRY(append_outer(b, i));
  return AB_OK;
}

ab_status ab_layout_new(struct ab_layout *out, const struct ab_config *config, bool layers_only) {
  struct ab_layout layout = {0};
  struct builder b = {.layout = &layout, .config = config, .block = ab_block_find(config->decoder_block)};
  if (!b.block) return AB_FAIL(AB_ECONFIG, "key 'decoder_block': no block is called '%s'", config->decoder_block);
  b.dims = ab_layer_dims_of(config, 1);
  ab_status status = build(&b, layers_only);
  if (status != AB_OK) {
    ab_layout_free(&layout);
    AB_TRY(status);
  }
  *out = layout;
  return AB_OK;
}

void ab_layout_free(struct ab_layout *layout) {
  ab_mem_free(layout->leaf);
  *layout = (struct ab_layout){0};
}

ab_status ab_layout_tree(struct ab_tree **out, const struct ab_layout *layout, enum ab_dtype dtype) {
  struct ab_tree *tree;
  AB_TRY(ab_tree_new(&tree));
  for (size_t i = 0; i < layout->leaves; i++) {
    ab_status status = ab_tree_add(tree, layout->leaf[i].path, dtype, &layout->leaf[i].shape, NULL);
    if (status == AB_OK) continue;
    ab_tree_free(tree);
    AB_TRY(status);
  }
  *out = tree;
  return AB_OK;
}

static ab_status check_leaf(const struct ab_layout_leaf *leaf, const struct ab_tensor *tensor, enum ab_dtype dtype,
                            const char *what) {
  char found[96], expected[96];
  if (tensor->dtype != dtype)
    return AB_FAIL(AB_EMISMATCH, "%s: tensor '%s' is %s, expected %s", what, leaf->path, ab_dtype_name(tensor->dtype),
                   ab_dtype_name(dtype));
  if (ab_shape_equal(&tensor->shape, &leaf->shape)) return AB_OK;
  ab_shape_print(found, sizeof found, &tensor->shape);
  ab_shape_print(expected, sizeof expected, &leaf->shape);
  return AB_FAIL(AB_ESHAPE, "%s: tensor '%s' has shape %s, but the config makes it %s", what, leaf->path, found,
                 expected);
}

static bool known(const struct ab_layout *layout, const char *path) {
  for (size_t i = 0; i < layout->leaves; i++)
    if (strcmp(layout->leaf[i].path, path) == 0) return true;
  return false;
}

ab_status ab_layout_check(const struct ab_layout *layout, const struct ab_tree *tree, enum ab_dtype dtype,
                          const char *what) {
  for (size_t i = 0; i < layout->leaves; i++) {
    const struct ab_tensor *tensor = ab_tree_find(tree, layout->leaf[i].path);
    if (!tensor)
      return AB_FAIL(AB_EMISMATCH, "%s: tensor '%s' is missing, but the config has it", what, layout->leaf[i].path);
    AB_TRY(check_leaf(&layout->leaf[i], tensor, dtype, what));
  }
  for (size_t i = 0; i < ab_tree_size(tree) && ab_tree_size(tree) > layout->leaves; i++)
    if (!known(layout, ab_tree_at(tree, i)->name))
      return AB_FAIL(AB_EMISMATCH, "%s: tensor '%s' is unknown, the config has no such parameter", what,
                     ab_tree_at(tree, i)->name);
  return AB_OK;
}

/* The indices of a layer on the leaf's stack axes; false when it is not there. */
static bool locate(int64_t index[AB_STACK_MAX], const struct ab_layout_leaf *leaf, int64_t layer) {
  if (layer < 0 || leaf->first < 0) return layer < 0 && leaf->first < 0;
  int64_t rest = layer - leaf->first;
  for (int i = 0; i < leaf->stacks; i++) {
    index[i] = rest / leaf->stack[i].layers;
    if (rest < 0 || index[i] >= leaf->stack[i].count) return false;
    rest -= index[i] * leaf->stack[i].layers;
  }
  return rest == 0;
}

ab_status ab_layout_view(struct ab_view *out, const struct ab_layout *layout, const struct ab_tree *tree, int layer,
                         const char *name) {
  int64_t index[AB_STACK_MAX];
  for (size_t i = 0; i < layout->leaves; i++) {
    const struct ab_layout_leaf *leaf = &layout->leaf[i];
    if (strcmp(leaf->param->name, name) != 0 || !locate(index, leaf, layer)) continue;
    struct ab_tensor *tensor;
    AB_TRY(ab_tree_get(&tensor, tree, leaf->path, "the parameter tree"));
    struct ab_view view = ab_view_of(tensor);
    for (int s = leaf->stacks; s-- > 0;) view = ab_view_index(&view, leaf->stack[s].axis, index[s]);
    *out = view;
    return AB_OK;
  }
  return AB_FAIL(AB_ENOTFOUND, "the layout has no parameter '%s' of layer %d", name, layer);
}
