#include "stack.h"

void *nnx_stack_step(const struct nnx_stack *stack, const void *base, size_t elements) {
  return (void *)((uintptr_t)base + elements * ab_dtype_size(stack->dtype));
}

/* Where inputs of layers lie, from layer `first` on: in residuals, or in work where backward puts them again. */
struct inputs {
  int first;
  bool again;
};

static const struct inputs inputs_of[] = {[AB_INPUTS_ONCE] = {.first = 1},
                                          [AB_INPUTS_TWICE] = {.first = 0},
                                          [AB_INPUTS_BY_NAME] = {.first = 1},
                                          [AB_INPUTS_OFFLOADED] = {.first = 0, .again = true},
                                          [AB_INPUTS_RECOMPUTED] = {.first = 1, .again = true}};

void *nnx_stack_input(const struct nnx_stack_call *call, int i) {
  const struct inputs *inputs = &inputs_of[call->stack->inputs];
  void *base = inputs->again ? call->work->layer_input : call->residual->layer_input;
  if (i < inputs->first) return NULL;
  return nnx_stack_step(call->stack, base, (size_t)(i - inputs->first) * call->plan->tokens_count);
}

static ab_status take_inputs(void **out, struct ab_arena *arena, const struct nnx_stack *stack,
                             const struct ab_layer *plan, bool again) {
  const struct inputs *inputs = &inputs_of[stack->inputs];
  int count = stack->count - inputs->first;
  *out = NULL;
  if (inputs->again != again || count == 0) return AB_OK;
  return ab_arena_take(arena, out, (size_t)count * plan->tokens_count, ab_dtype_size(stack->dtype));
}

ab_status nnx_stack_work_take(struct nnx_stack_work *out, struct ab_arena *arena, const struct nnx_stack *stack,
                              const struct ab_layer *plan) {
  size_t element = ab_dtype_size(stack->dtype);
  *out = (struct nnx_stack_work){0};
  if (plan->work_count) AB_TRY(ab_arena_take(arena, &out->work, plan->work_count, element));
  if (nnx_stack_strided(stack)) AB_TRY(ab_arena_take(arena, &out->weights, nnx_stack_elements(stack), element));
  for (int i = 0; i < 2 && stack->count > 1; i++)
    AB_TRY(ab_arena_take(arena, &out->cotangent[i], plan->tokens_count, element));
  return take_inputs(&out->layer_input, arena, stack, plan, true);
}

ab_status nnx_stack_residual_new(struct nnx_stack_residual *out, struct ab_arena *book, const struct nnx_stack *stack) {
  AB_TRY(ab_arena_take_zeroed(book, &out->saved, (size_t)stack->count, sizeof(void *)));
  return ab_arena_take_zeroed(book, &out->offloaded, (size_t)stack->count, sizeof(void *));
}

ab_status nnx_stack_residual_take(struct nnx_stack_residual *out, struct ab_arena *arena,
                                  const struct nnx_stack *stack, const struct ab_layer *plan) {
  size_t element = ab_dtype_size(stack->dtype), inputs = (size_t)stack->count * plan->tokens_count;
  for (int i = 0; i < stack->count; i++) {
    if (plan->saved_count) AB_TRY(ab_arena_take(arena, &out->saved[i], plan->saved_count, element));
    if (plan->offloaded_count) AB_TRY(ab_arena_take(arena, &out->offloaded[i], plan->offloaded_count, element));
  }
  if (stack->inputs == AB_INPUTS_OFFLOADED) AB_TRY(ab_arena_take(arena, &out->host_input, inputs, element));
  return take_inputs(&out->layer_input, arena, stack, plan, false);
}
