#include "observed.h"
#include "stack.h"

/* Calls fn for every parameter of the layer with its place in a contiguous layout at base. */
static void each_param(const struct nnx_stack *stack, const void *base, void (*fn)(void *ctx, int j, void *place),
                       void *ctx) {
  size_t offset = 0;
  for (int j = 0; j < stack->block->param_count; j++) {
    fn(ctx, j, nnx_stack_step(stack, base, offset));
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

static struct ab_layer_call layer_call(const struct nnx_stack_call *call, int i, const void *x) {
  struct nnx_layer_binding *layer = &call->layer[i];
  const void *input = nnx_stack_input(call, i);
  if (call->work->weights) {
    struct transfer transfer = {.layer = layer, .kernels = call->plan->kernels};
    each_param(call->stack, call->work->weights, fetch_param, &transfer);
  }
  return (struct ab_layer_call){.param = layer->param,
                                .dparam = layer->dparam,
                                .x = input ? input : x,
                                .positions = call->positions,
                                .segment_ids = call->segment_ids,
                                .saved = call->residual->saved[i],
                                .offloaded = call->residual->offloaded[i],
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

static void *host_input(const struct nnx_stack_call *call, int i) {
  return nnx_stack_step(call->stack, call->residual->host_input, (size_t)i * call->plan->tokens_count);
}

static void count_transfer(const struct nnx_stack_call *call, int i, const char *name) {
  struct ab_identity id = {.microbatch = call->microbatch, .layer = call->first_layer + i};
  size_t bytes = call->plan->tokens_count * call->plan->kernels->element;
  ab_record_count(call->recorder, name, &id, &call->at, (int64_t)bytes);
}

/* A second copy of the stack's input, where layer 0 has a place of its own; and the host's. */
static void keep_input(const struct nnx_stack_call *call, int i, const void *x) {
  const struct ab_kernels *k = call->plan->kernels;
  void *input = nnx_stack_input(call, i);
  if (i == 0 && input) k->copy(input, x, call->plan->tokens_count);
  if (call->stack->inputs != AB_INPUTS_OFFLOADED) return;
  k->copy(host_input(call, i), input, call->plan->tokens_count);
  count_transfer(call, i, AB_COUNT_LAYER_INPUT_OUT);
}

void nnx_stack_layer(const struct nnx_stack_call *call, int i, void *y, const void *x) {
  struct ab_layer_call layer = layer_call(call, i, x);
  keep_input(call, i, x);
  layer.y = i == call->stack->count - 1 ? y : nnx_stack_input(call, i + 1);
  ab_layer_forward(call->plan, &layer);
  if (call->sown) sow(call, i, layer.y);
}

static void fetch_input(const struct nnx_stack_call *call, int i) {
  if (call->stack->inputs != AB_INPUTS_OFFLOADED) return;
  call->plan->kernels->copy(nnx_stack_input(call, i), host_input(call, i), call->plan->tokens_count);
  count_transfer(call, i, AB_COUNT_LAYER_INPUT_BACK);
}

/* The inputs of all layers but the first, once more. */
static void replay(const struct nnx_stack_call *call, const void *x) {
  for (int i = 0; i < call->stack->count - 1; i++) {
    struct ab_layer_call layer = layer_call(call, i, x);
    layer.y = nnx_stack_input(call, i + 1);
    ab_layer_replay(call->plan, &layer);
  }
}

void nnx_stack_layer_pullback(const struct nnx_stack_call *call, int i, void *dx, const void *dy, const void *x) {
  bool last = i == call->stack->count - 1;
  if (last && call->stack->inputs == AB_INPUTS_RECOMPUTED) replay(call, x);
  fetch_input(call, i);
  struct ab_layer_call layer = layer_call(call, i, x);
  layer.dy = last ? dy : call->work->cotangent[(i + 1) % 2];
  layer.dx = i == 0 ? dx : call->work->cotangent[i % 2];
  ab_layer_backward(call->plan, &layer);
}
