#include "intermediates.h"

#include <stdio.h>

static bool is_scan(const struct nnx_stack *stack) { return stack->layout == NNX_SCANNED; }

/* One layer's three variables; scanned layers have them in common. */
static ab_status declare_layer(struct nnx_node *module, const struct ab_exec *exec, const struct nnx_stack *stack,
                               int i) {
  const struct nnx_variable scalar = {.type = NNX_INTERMEDIATE, .value = {.dtype = exec->kernels->dtype}};
  for (int n = 0; n < AB_SOWN; n++) {
    char path[256];
    nnx_stack_path(path, sizeof path, stack, i, ab_sown_names[n]);
    AB_TRY(nnx_set_variable(exec->book, module, path, &scalar));
  }
  return AB_OK;
}

static ab_status declare(struct nnx_node **out, const struct ab_exec *exec, const struct nnx_stack *stack) {
  struct nnx_node *scanned;
  AB_TRY(nnx_module_new(out, exec->book, "Intermediates"));
  for (int i = 0; i < (is_scan(stack) ? 1 : stack->count); i++) AB_TRY(declare_layer(*out, exec, stack, i));
  if (!is_scan(stack)) return AB_OK;
  AB_TRY(nnx_get_module(&scanned, *out, stack->name));
  return nnx_add_axis(scanned, exec->book, &stack->axis);
}

ab_status nnx_sown_new(struct nnx_state *out, const struct ab_exec *exec, const struct nnx_stack *stack,
                       const struct nnx_axis *axes, int count) {
  static const nnx_filter sown[] = {NNX_INTERMEDIATE};
  struct nnx_graphdef *graphdef;
  struct nnx_node *module;
  AB_TRY(declare(&module, exec, stack));
  for (int i = 0; i < count; i++) AB_TRY(nnx_add_axis(module, exec->book, &axes[i]));
  AB_TRY(nnx_split(&graphdef, out, sown, 1, exec->book, module));
  AB_TRY(nnx_materialize(out, exec->arena));
  nnx_zero(out, exec->kernels);
  return AB_OK;
}

ab_status nnx_sown_variable(struct ab_view *out, const struct nnx_stack *stack, const struct nnx_state *state, int i,
                            enum ab_sown which) {
  char path[256];
  nnx_stack_path(path, sizeof path, stack, i, ab_sown_names[which]);
  const struct nnx_leaf *leaf = nnx_state_find(state, path);
  if (!leaf) return AB_FAIL(AB_ENOTFOUND, "the state of sown variables holds no '%s'", path);
  *out = leaf->variable.value;
  return AB_OK;
}

static ab_status layer_targets(nnx_sown_target target, const struct nnx_stack *stack, const struct nnx_state *slice,
                               int i) {
  for (int n = 0; n < AB_SOWN; n++) {
    struct ab_view view;
    AB_TRY(nnx_sown_variable(&view, stack, slice, i, (enum ab_sown)n));
    target[n] = nnx_stack_slice(stack, &view, i).data;
  }
  return AB_OK;
}

ab_status nnx_sown_targets(nnx_sown_target **out, struct ab_arena *book, const struct nnx_stack *stack,
                           const struct nnx_state *slice) {
  nnx_sown_target *target;
  AB_TRY(ab_arena_take(book, &target, (size_t)stack->count, sizeof *target));
  for (int i = 0; i < stack->count; i++) AB_TRY(layer_targets(target[i], stack, slice, i));
  *out = target;
  return AB_OK;
}
