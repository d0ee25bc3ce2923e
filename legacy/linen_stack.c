#include "linen_stack.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "observed.h"
#include "sown.h"

static ab_status scan_lift(const struct linen_module *module, struct linen_scope *scope) {
  return linen_scope_lift(scope, &((const struct linen_stack *)module)->scan);
}

static const struct linen_module_ops stack_class[] = {
    [LINEN_BARE] = {.class_name = "DecoderLayer"},
    [LINEN_SEQUENTIAL] = {.class_name = "SequentialBlockDecoderLayers"},
    [LINEN_SCANNED] = {.class_name = "ScanDecoderLayer", .lift = scan_lift}};

static int trees(const struct linen_stack *self) { return self->kind == LINEN_SEQUENTIAL ? self->count : 1; }

/* layers_<k>, in exec->book. */
static ab_status layer_name(const char **out, const struct linen_stack *self, int k) {
  char *name;
  *out = "";
  if (self->kind != LINEN_SEQUENTIAL) return AB_OK;
  AB_TRY(ab_arena_take(self->exec->book, &name, 24, 1));
  snprintf(name, 24, "layers_%d", k);
  *out = name;
  return AB_OK;
}

static ab_status adopt_layers(struct linen_stack *self, const struct ab_block *block,
                              const struct ab_layer_dims *dims) {
  AB_TRY(ab_arena_take(self->exec->book, &self->layer, (size_t)trees(self), sizeof *self->layer));
  for (int k = 0; k < trees(self); k++) {
    const char *name;
    AB_TRY(layer_name(&name, self, k));
    AB_TRY(linen_decoder_layer_new(&self->layer[k], &self->base, name, block, dims));
  }
  return AB_OK;
}

ab_status linen_stack_new(struct linen_stack *self, struct linen_module *parent,
                          const struct linen_stack_options *options, const struct ab_config *config,
                          const struct ab_exec *exec) {
  const struct ab_block *block;
  struct ab_remat remat;
  AB_TRY(linen_decoder_block(&block, config));
  AB_TRY(linen_remat(&remat, block, config, options->place));
  struct ab_layer_dims dims = ab_layer_dims_of(config, options->rows);
  *self = (struct linen_stack){
      .kind = options->kind, .count = options->count, .leaves = block->param_count, .exec = exec};
  self->scan = (struct linen_axis){
      .axis = (int)config->param_scan_axis, .length = options->count, .index = LINEN_WHOLE, .name = options->name};
  self->inputs = remat.inputs;
  AB_TRY(ab_layer_plan(&self->plan, block, exec->kernels, &dims, &remat));
  for (int p = 0; p < self->leaves; p++) self->leaf_count[p] = ab_param_count(&block->param[p], &dims);
  AB_TRY(linen_module_adopt(&self->base, &stack_class[options->kind], parent, options->name));
  return adopt_layers(self, block, &dims);
}

/* The cell itself too. */
ab_status linen_stack_reserve(const struct linen_stack *stack) {
  const struct ab_block *block = stack->plan.block;
  size_t layers = (size_t)stack->count, bytes = 0;
  for (int i = 0; i < block->slot_count; i++)
    bytes += 2 * block->slot[i].count(&stack->plan.dims) * stack->exec->kernels->element;
  size_t forward = ab_layer_forward_events(&stack->plan), backward = ab_layer_backward_events(&stack->plan);
  return ab_probe_reserve(stack->exec->probe, layers * (forward > backward ? forward : backward) + 1, layers * bytes);
}

ab_status linen_weights_new(struct linen_weights *weights, const struct linen_stack *stack, int buffers) {
  struct ab_arena *book = stack->exec->book;
  size_t n = (size_t)(stack->count * stack->leaves), held = (size_t)(buffers * stack->leaves);
  *weights = (struct linen_weights){.buffers = buffers};
  AB_TRY(ab_arena_take_zeroed(book, &weights->param, n, sizeof *weights->param));
  AB_TRY(ab_arena_take_zeroed(book, &weights->dparam, n, sizeof *weights->dparam));
  if (stack->kind != LINEN_SCANNED) return AB_OK;
  AB_TRY(ab_arena_take_zeroed(book, &weights->slice, n, sizeof *weights->slice));
  AB_TRY(ab_arena_take_zeroed(book, &weights->buffer, held, sizeof *weights->buffer));
  return ab_arena_take_zeroed(book, &weights->held, held, sizeof *weights->held);
}

ab_status linen_weights_begin(struct linen_weights *weights, const struct linen_stack *stack) {
  if (stack->kind != LINEN_SCANNED) return AB_OK;
  for (int i = 0; i < weights->buffers * stack->leaves; i++) {
    weights->held[i] = NULL;
    AB_TRY(ab_arena_take(stack->exec->arena, &weights->buffer[i], stack->leaf_count[i % stack->leaves],
                         stack->exec->kernels->element));
  }
  return AB_OK;
}

ab_status linen_stack_layer_scope(struct linen_scope *out, const struct linen_stack *stack,
                                  const struct linen_scope *scope, int k, int64_t index) {
  *out = *scope;
  if (stack->kind == LINEN_SEQUENTIAL) return linen_scope_push(out, scope, stack->layer[k].base.name);
  if (stack->kind == LINEN_BARE) return AB_OK;
  AB_TRY(linen_scope_lift(out, &stack->scan));
  out->axis[out->axes - 1].index = index;
  return AB_OK;
}

static const struct linen_decoder_layer *tree_of(const struct linen_stack *stack, int k) {
  return &stack->layer[stack->kind == LINEN_SEQUENTIAL ? k : 0];
}

ab_status linen_stack_leaf(struct linen_partitioned *out, const struct linen_stack *stack,
                           const struct linen_scope *scope, int k, int p) {
  struct linen_scope inner;
  AB_TRY(linen_stack_layer_scope(&inner, stack, scope, k, k));
  struct linen_param_row row = linen_decoder_layer_row(tree_of(stack, k), p);
  return linen_param_get(out, &inner, &row);
}

size_t linen_stack_fetches(const struct linen_stack *stack) { return (size_t)(trees(stack) * stack->leaves); }

/* The i-th fetch of a stage. */
static void *fetch(const struct linen_door *door, void *data, size_t count, int i) {
  const void *local;
  if (!door) return data;
  if (door->kept && door->replay)
    local = door->kept[i];
  else
    local = door->mesh->ops->gather(door->mesh, data, count, door->repeat, door->stage);
  if (door->kept) door->kept[i] = local;
  memcpy(&data, &local, sizeof data); /* views carry no const; weights are read only */
  return data;
}

/* The slices of one stacked leaf, all layers. */
static void bind_slices(struct linen_weights *weights, const struct linen_stack *stack,
                        const struct linen_partitioned *leaf, const struct linen_door *door, int p) {
  struct ab_view view = leaf->value;
  int axis = stack->scan.axis < view.shape.rank ? stack->scan.axis : view.shape.rank - 1;
  view.data = fetch(door, view.data, (size_t)stack->count * stack->leaf_count[p], p);
  for (int k = 0; k < stack->count; k++) weights->slice[k * stack->leaves + p] = ab_view_index(&view, axis, k);
}

ab_status linen_stack_bind(struct linen_weights *weights, const struct linen_stack *stack,
                           const struct linen_scope *scope, const struct linen_door *door) {
  struct linen_partitioned box[AB_MAX_PARAMS];
  for (int k = 0; k < trees(stack); k++) {
    struct linen_scope inner;
    AB_TRY(linen_stack_layer_scope(&inner, stack, scope, k, LINEN_WHOLE));
    AB_TRY(linen_decoder_layer_params(tree_of(stack, k), &inner, box));
    for (int p = 0; p < stack->leaves; p++) {
      if (stack->kind == LINEN_SCANNED)
        bind_slices(weights, stack, &box[p], door, p);
      else
        weights->param[k * stack->leaves + p] =
            fetch(door, box[p].value.data, stack->leaf_count[p], k * stack->leaves + p);
    }
  }
  return AB_OK;
}

ab_status linen_stack_bind_cotangents(struct linen_weights *weights, const struct linen_stack *stack,
                                      const struct linen_scope *scope) {
  struct linen_partitioned box;
  for (int i = 0; i < stack->count * stack->leaves; i++) {
    AB_TRY(linen_stack_leaf(&box, stack, scope, i / stack->leaves, i % stack->leaves));
    weights->dparam[i] = box.value.data;
  }
  return AB_OK;
}

ab_status linen_stack_zero_cotangents(const struct linen_stack *stack, const struct linen_scope *scope) {
  struct linen_partitioned box[AB_MAX_PARAMS];
  for (int k = 0; k < trees(stack); k++) {
    struct linen_scope inner;
    AB_TRY(linen_stack_layer_scope(&inner, stack, scope, k, LINEN_WHOLE));
    AB_TRY(linen_decoder_layer_params(tree_of(stack, k), &inner, box));
    for (int p = 0; p < stack->leaves; p++)
      stack->exec->kernels->zero(box[p].value.data, ab_view_count(&box[p].value));
  }
  return AB_OK;
}

/* Arena blocks are AB_ALIGN-aligned; keep the parts of one block so too. */
static size_t aligned(const struct linen_stack *stack, size_t count) {
  return (count * stack->exec->kernels->element + AB_ALIGN - 1) / AB_ALIGN * AB_ALIGN;
}

size_t linen_stack_input_bytes(const struct linen_stack *stack) { return aligned(stack, stack->plan.tokens_count); }
size_t linen_stack_saved_bytes(const struct linen_stack *stack) { return aligned(stack, stack->plan.saved_count); }
size_t linen_stack_host_bytes(const struct linen_stack *stack) { return aligned(stack, stack->plan.offloaded_count); }
size_t linen_stack_work_bytes(const struct linen_stack *stack) { return aligned(stack, stack->plan.work_count); }

static void *nth(void *base, size_t bytes, int i) {
  return bytes ? (unsigned char *)base + (size_t)i * bytes : NULL;
}

/* Layer k's contiguous params; a slice that its buffer holds already is not copied again. */
static const void *const *layer_params(const struct linen_stack *stack, const struct linen_weights *weights, int k) {
  for (int p = 0; p < stack->leaves && stack->kind == LINEN_SCANNED; p++) {
    int from = k * stack->leaves + p, to = k % weights->buffers * stack->leaves + p;
    if (weights->held[to] != weights->slice[from].data)
      linen_lift_slice(stack->exec->kernels, weights->buffer[to], &weights->slice[from]);
    weights->held[to] = weights->slice[from].data;
    weights->param[from] = weights->buffer[to];
  }
  return &weights->param[k * stack->leaves];
}

static void *input_of(const struct linen_stack *stack, const struct linen_cell *cell, int k) {
  return k == 0 ? cell->input : nth(cell->inputs, linen_stack_input_bytes(stack), k - 1);
}

static struct ab_layer_call layer_call(const struct linen_stack *stack, const struct linen_weights *weights,
                                       const struct linen_cell *cell, int k) {
  struct ab_layer_call call = {.param = layer_params(stack, weights, k),
                               .dparam = &weights->dparam[k * stack->leaves],
                               .x = input_of(stack, cell, k),
                               .positions = cell->positions,
                               .segment_ids = cell->segment_ids,
                               .saved = nth(cell->saved, linen_stack_saved_bytes(stack), k),
                               .offloaded = nth(cell->host, linen_stack_host_bytes(stack), k),
                               .work = cell->work,
                               .recorder = cell->recorder,
                               .id = cell->id,
                               .at = cell->at};
  if (call.id.layer >= 0) call.id.layer += k;
  return call;
}

struct layer_loop {
  const struct linen_stack *stack;
  const struct linen_weights *weights;
  const struct linen_cell *cell;
};

/* self.sow at the end of a decoder layer. */
static void sow(const struct layer_loop *loop, int k, const void *y) {
  const struct ab_kernels *kernels = loop->stack->exec->kernels;
  void *to[AB_SOWN];
  for (int i = 0; i < AB_SOWN; i++) to[i] = nth(loop->cell->sown, kernels->element, k * AB_SOWN + i);
  kernels->statistics(to[AB_SOWN_MEAN], to[AB_SOWN_STDEV], to[AB_SOWN_FRACTION_ZERO], y,
                      loop->stack->plan.tokens_count);
}

static ab_status layer_forward(void *ctx, int64_t i) {
  const struct layer_loop *loop = ctx;
  const struct linen_stack *stack = loop->stack;
  int k = (int)i;
  struct ab_layer_call call = layer_call(stack, loop->weights, loop->cell, k);
  call.y = k + 1 < stack->count ? input_of(stack, loop->cell, k + 1) : loop->cell->y;
  ab_layer_forward(&stack->plan, &call);
  if (loop->cell->sown) sow(loop, k, call.y);
  return AB_OK;
}

/* The inputs of all layers, to the host or back. */
static void move_inputs(const struct linen_stack *stack, const struct linen_cell *cell, bool out) {
  const struct ab_kernels *kernels = stack->exec->kernels;
  size_t count = stack->plan.tokens_count, bytes = (size_t)stack->count * count * kernels->element;
  for (int k = 0; k < stack->count; k++) {
    void *here = input_of(stack, cell, k), *there = nth(cell->host_inputs, linen_stack_input_bytes(stack), k);
    kernels->copy(out ? there : here, out ? here : there, count);
  }
  if (cell->recorder)
    ab_record_count(cell->recorder, out ? AB_COUNT_LAYER_INPUT_OUT : AB_COUNT_LAYER_INPUT_BACK, &cell->id, &cell->at,
                    (int64_t)bytes);
}

/* The next layer's input once more. */
static ab_status layer_replay(void *ctx, int64_t i) {
  const struct layer_loop *loop = ctx;
  int k = (int)i;
  struct ab_layer_call call = layer_call(loop->stack, loop->weights, loop->cell, k);
  call.y = input_of(loop->stack, loop->cell, k + 1);
  ab_layer_replay(&loop->stack->plan, &call);
  return AB_OK;
}

void linen_stack_call(const struct linen_stack *stack, const struct linen_weights *weights,
                      const struct linen_cell *cell) {
  struct layer_loop loop = {stack, weights, cell};
  if (cell->input != cell->iteration_input)
    stack->exec->kernels->copy(cell->input, cell->iteration_input, stack->plan.tokens_count);
  (void)linen_scan_call(layer_forward, &loop, stack->count); /* a layer does not fail */
  if (cell->host_inputs) move_inputs(stack, cell, true);
}

void linen_stack_layer_vjp(const struct linen_stack *stack, const struct linen_weights *weights,
                           const struct linen_cell *cell, int k) {
  struct ab_layer_call call = layer_call(stack, weights, cell, k);
  size_t bytes = linen_stack_input_bytes(stack);
  call.dy = k + 1 < stack->count ? nth(cell->between, bytes, (k + 1) % 2) : cell->dy;
  call.dx = k > 0 ? nth(cell->between, bytes, k % 2) : cell->dx;
  ab_layer_backward(&stack->plan, &call);
}

static ab_status layer_backward(void *ctx, int64_t k) {
  const struct layer_loop *loop = ctx;
  linen_stack_layer_vjp(loop->stack, loop->weights, loop->cell, (int)k);
  return AB_OK;
}

void linen_stack_vjp(const struct linen_stack *stack, const struct linen_weights *weights,
                     const struct linen_cell *cell) {
  struct layer_loop loop = {stack, weights, cell};
  if (cell->host_inputs) move_inputs(stack, cell, false);
  if (stack->inputs == AB_INPUTS_RECOMPUTED) (void)linen_scan_call(layer_replay, &loop, stack->count - 1);
  (void)linen_scan_vjp(layer_backward, &loop, stack->count);
}
