#include "stack.h"

static void *step(const struct nnx_stack *stack, const void *base, size_t elements) {
  return (void *)((uintptr_t)base + elements * ab_dtype_size(stack->dtype));
}

/* Calls fn for every parameter of the layer with its place in a contiguous layout at base. */
static void each_param(const struct nnx_stack *stack, const void *base, void (*fn)(void *ctx, int j, void *place),
                       void *ctx) {
  size_t offset = 0;
  for (int j = 0; j < stack->block->param_count; j++) {
    fn(ctx, j, step(stack, base, offset));
    offset += ab_param_count(&stack->block->param[j], &stack->dims);
  }
}

static struct ab_view contiguous_like(const struct ab_view *slice, void *place) {
  struct ab_view view = *slice;
  ab_view_contiguous(&view);
  view.data = place;
  return view;
}

static void accumulate_param(void *ctx, int j, void *place) {
  struct nnx_layer_binding *layer = ctx;
  if (!nnx_contiguous(&layer->dslice[j])) layer->dparam[j] = place;
}

void nnx_accumulate_at(struct nnx_layer_binding *layer, const struct nnx_stack *stack, void *base) {
  each_param(stack, base, accumulate_param, layer);
}

struct transfer {
  struct nnx_layer_binding *layer;
  const struct nnx_layer_binding *home;
  const struct ab_kernels *kernels;
};

static void place_param(void *ctx, int j, void *place) {
  const struct transfer *t = ctx;
  const struct ab_view *home = &t->home->dslice[j];
  struct ab_view from = contiguous_like(home, place);
  if (!nnx_contiguous(home)) t->kernels->copy_view(home, &from);
}

void nnx_place(const struct nnx_layer_binding *layer, const struct nnx_stack *stack, const void *base,
               const struct ab_kernels *kernels) {
  struct transfer transfer = {.home = layer, .kernels = kernels};
  each_param(stack, base, place_param, &transfer);
}

static void fetch_param(void *ctx, int j, void *place) {
  const struct transfer *t = ctx;
  const struct ab_view *slice = &t->layer->slice[j];
  if (nnx_contiguous(slice)) return;
  struct ab_view to = contiguous_like(slice, place);
  t->kernels->copy_view(&to, slice);
  t->layer->param[j] = place;
}

ab_status nnx_stack_work_take(struct nnx_stack_work *out, struct ab_arena *arena, const struct nnx_stack *stack,
                              const struct ab_layer *plan) {
  size_t element = ab_dtype_size(stack->dtype);
  *out = (struct nnx_stack_work){0};
  if (plan->work_count) AB_TRY(ab_arena_take(arena, &out->work, plan->work_count, element));
  if (nnx_stack_strided(stack)) AB_TRY(ab_arena_take(arena, &out->weights, nnx_stack_elements(stack), element));
  for (int i = 0; i < 2 && stack->count > 1; i++)
    AB_TRY(ab_arena_take(arena, &out->cotangent[i], plan->tokens_count, element));
  return AB_OK;
}

ab_status nnx_stack_residual_take(struct nnx_stack_residual *out, struct ab_arena *arena,
                                  const struct nnx_stack *stack, const struct ab_layer *plan) {
  size_t element = ab_dtype_size(stack->dtype);
  for (int i = 0; i < stack->count; i++) {
    out->saved[i] = NULL;
    size_t kept = plan->saved_count + plan->offloaded_count;
    if (kept) AB_TRY(ab_arena_take(arena, &out->saved[i], kept, element));
  }
  if (stack->count == 1) return AB_OK;
  return ab_arena_take(arena, &out->layer_input, (size_t)(stack->count - 1) * plan->tokens_count, element);
}

static void *layer_input(const struct nnx_stack_call *call, int i) {
  return step(call->stack, call->residual->layer_input, (size_t)(i - 1) * call->plan->tokens_count);
}

static struct ab_layer_call layer_call(const struct nnx_stack_call *call, int i, const void *x) {
  struct nnx_layer_binding *layer = &call->layer[i];
  if (call->work->weights) {
    struct transfer transfer = {.layer = layer, .kernels = call->plan->kernels};
    each_param(call->stack, call->work->weights, fetch_param, &transfer);
  }
  return (struct ab_layer_call){.param = layer->param,
                                .dparam = layer->dparam,
                                .x = i == 0 ? x : layer_input(call, i),
                                .positions = call->positions,
                                .segment_ids = call->segment_ids,
                                .saved = call->residual->saved[i],
                                .offloaded = step(call->stack, call->residual->saved[i], call->plan->saved_count),
                                .work = call->work->work,
                                .recorder = call->recorder,
                                .id = {.microbatch = call->microbatch, .layer = call->first_layer + i},
                                .at = call->at};
}

static void sow(const struct nnx_stack_call *call, int i, const void *y) {
  void *const *to = call->sown[i];
  call->plan->kernels->statistics(to[AB_SOWN_MEAN], to[AB_SOWN_STDEV], to[AB_SOWN_FRACTION_ZERO], y,
                                  call->plan->tokens_count);
}

void nnx_stack_layer(const struct nnx_stack_call *call, int i, void *y, const void *x) {
  struct ab_layer_call layer = layer_call(call, i, x);
  layer.y = i == call->stack->count - 1 ? y : layer_input(call, i + 1);
  ab_layer_forward(call->plan, &layer);
  if (call->sown) sow(call, i, layer.y);
}

void nnx_stack_layer_pullback(const struct nnx_stack_call *call, int i, void *dx, const void *dy, const void *x) {
  struct ab_layer_call layer = layer_call(call, i, x);
  layer.dy = i == call->stack->count - 1 ? dy : call->work->cotangent[(i + 1) % 2];
  layer.dx = i == 0 ? dx : call->work->cotangent[i % 2];
  ab_layer_backward(call->plan, &layer);
}
