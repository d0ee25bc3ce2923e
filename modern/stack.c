#include "stack.h"

#include <stdio.h>
#include <string.h>

#include "layers.h"

static ab_status new_scanned(struct nnx_node *parent, struct ab_arena *book, const struct nnx_stack *stack) {
  struct nnx_node *layer;
  AB_TRY(nnx_decoder_layer_new(&layer, book, stack->block, &stack->dims, stack->dtype));
  AB_TRY(nnx_add_axis(layer, book, &stack->axis));
  return nnx_set_module(book, parent, stack->name, layer);
}

static ab_status new_sequential(struct nnx_node *parent, struct ab_arena *book, const struct nnx_stack *stack) {
  for (int i = 0; i < stack->count; i++) {
    struct nnx_node *layer;
    char name[64];
    snprintf(name, sizeof name, "%s_%d", stack->name, i);
    AB_TRY(nnx_decoder_layer_new(&layer, book, stack->block, &stack->dims, stack->dtype));
    AB_TRY(nnx_set_module(book, parent, name, layer));
  }
  return AB_OK;
}

ab_status nnx_stack_new(struct nnx_node **parent, struct ab_arena *book, const struct nnx_stack *stack) {
  if (stack->layout == NNX_BARE)
    return nnx_decoder_layer_new(parent, book, stack->block, &stack->dims, stack->dtype);
  return stack->layout == NNX_SCANNED ? new_scanned(*parent, book, stack) : new_sequential(*parent, book, stack);
}

static ab_status read_slice(struct ab_view *out, const struct nnx_node *layer, const struct nnx_stack *stack,
                            const struct ab_param *row) {
  struct ab_shape expected = ab_param_shape(row, &stack->dims);
  struct nnx_variable *variable;
  AB_TRY(nnx_get_variable(&variable, layer, row->name));
  if (!ab_shape_equal(&variable->value.shape, &expected)) {
    char found[96], wanted[96];
    ab_shape_print(found, sizeof found, &variable->value.shape);
    ab_shape_print(wanted, sizeof wanted, &expected);
    return AB_FAIL(AB_ESHAPE, "variable '%s' has shape %s in its layer, expected %s", row->name, found, wanted);
  }
  *out = variable->value;
  return AB_OK;
}

static ab_status bind_layer(struct nnx_layer_binding *out, const struct nnx_stack *stack,
                            const struct nnx_node *layer, const struct nnx_node *dlayer) {
  const void *fixed;
  AB_TRY(nnx_get_static(&fixed, layer, "block"));
  const struct ab_block *block = fixed;
  for (int j = 0; j < block->param_count; j++) {
    AB_TRY(read_slice(&out->slice[j], layer, stack, &block->param[j]));
    out->param[j] = nnx_contiguous(&out->slice[j]) ? out->slice[j].data : NULL;
    out->dparam[j] = NULL;
    if (!dlayer) continue;
    AB_TRY(read_slice(&out->dslice[j], dlayer, stack, &block->param[j]));
    if (nnx_contiguous(&out->dslice[j])) out->dparam[j] = out->dslice[j].data;
  }
  return AB_OK;
}

struct scanned {
  struct nnx_graphdef *graphdef;
  struct nnx_state state;
};

static ab_status split_scanned(struct scanned *out, struct ab_arena *book, const struct nnx_stack *stack,
                               const struct nnx_node *parent) {
  static const nnx_filter params[] = {NNX_PARAM};
  struct nnx_node *child;
  AB_TRY(nnx_get_module(&child, parent, stack->name));
  return nnx_split(&out->graphdef, &out->state, params, 1, book, child);
}

static ab_status merge_slice(struct nnx_node **out, struct ab_arena *book, const struct nnx_stack *stack,
                             const struct scanned *scanned, int i) {
  struct nnx_state slice;
  const struct nnx_state *states[] = {&slice};
  AB_TRY(nnx_index_axis(&slice, book, &scanned->state, &stack->axis, i));
  return nnx_merge(out, book, scanned->graphdef, states, 1);
}

static ab_status bind_scanned(struct nnx_layer_binding *out, struct ab_arena *book, const struct nnx_stack *stack,
                              const struct nnx_node *parent, const struct nnx_node *dparent) {
  struct scanned primal, cotangent;
  AB_TRY(split_scanned(&primal, book, stack, parent));
  if (dparent) AB_TRY(split_scanned(&cotangent, book, stack, dparent));
  for (int i = 0; i < stack->count; i++) {
    struct nnx_node *layer, *dlayer = NULL;
    AB_TRY(merge_slice(&layer, book, stack, &primal, i));
    if (dparent) AB_TRY(merge_slice(&dlayer, book, stack, &cotangent, i));
    AB_TRY(bind_layer(&out[i], stack, layer, dlayer));
  }
  return AB_OK;
}

static ab_status bind_sequential(struct nnx_layer_binding *out, const struct nnx_stack *stack,
                                 const struct nnx_node *parent, const struct nnx_node *dparent) {
  for (int i = 0; i < stack->count; i++) {
    struct nnx_node *layer, *dlayer = NULL;
    char name[64];
    snprintf(name, sizeof name, "%s_%d", stack->name, i);
    AB_TRY(nnx_get_module(&layer, parent, name));
    if (dparent) AB_TRY(nnx_get_module(&dlayer, dparent, name));
    AB_TRY(bind_layer(&out[i], stack, layer, dlayer));
  }
  return AB_OK;
}

ab_status nnx_stack_bind(struct nnx_layer_binding *out, struct ab_arena *book, const struct nnx_stack *stack,
                         const struct nnx_node *parent, const struct nnx_node *dparent) {
  switch (stack->layout) {
    case NNX_BARE: return bind_layer(out, stack, parent, dparent);
    case NNX_SCANNED: return bind_scanned(out, book, stack, parent, dparent);
    default: return bind_sequential(out, stack, parent, dparent);
  }
}

void nnx_stack_path(char *text, size_t size, const struct nnx_stack *stack, int i, const char *param) {
  if (stack->layout == NNX_BARE) snprintf(text, size, "%s", param);
  else if (stack->layout == NNX_SCANNED) snprintf(text, size, "%s/%s", stack->name, param);
  else snprintf(text, size, "%s_%d/%s", stack->name, i, param);
}

struct ab_view nnx_stack_slice(const struct nnx_stack *stack, const struct ab_view *leaf, int i) {
  if (stack->layout != NNX_SCANNED) return *leaf;
  int last = leaf->shape.rank - 1;
  return ab_view_index(leaf, stack->axis.axis < last ? stack->axis.axis : last, i);
}

size_t nnx_stack_elements(const struct nnx_stack *stack) {
  size_t elements = 0;
  for (int j = 0; j < stack->block->param_count; j++) elements += ab_param_count(&stack->block->param[j], &stack->dims);
  return elements;
}

bool nnx_stack_strided(const struct nnx_stack *stack) {
  return stack->layout == NNX_SCANNED && stack->axis.axis > 0 && stack->count > 1;
}
