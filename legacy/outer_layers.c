#include "linen_decoder.h"
#include "observed.h"

/* decoders.py: unpipelined layers are scanned or named one by one, those outside a pipeline are always scanned. */
static struct linen_stack_options outer_options(const struct ab_config *config) {
  struct linen_stack_options options = {.kind = LINEN_SCANNED,
                                        .name = "layers",
                                        .count = (int)config->num_decoder_layers,
                                        .rows = config->micro_batch_size_to_train_on,
                                        .place = LINEN_REMAT_OUTSIDE};
  if (config->pipelined) {
    options.name = "layers_outside_pipeline";
    options.count -= (int)config->pipeline_parallel_layers;
  } else if (!config->scan_layers) {
    options.kind = LINEN_SEQUENTIAL;
    options.name = "";
  }
  return options;
}

ab_status linen_outer_layers_new(struct linen_outer_layers *self, struct linen_module *parent,
                                 const struct ab_config *config, const struct ab_exec *exec) {
  struct linen_stack_options options = outer_options(config);
  *self = (struct linen_outer_layers){.first = config->pipelined ? (int)config->pipeline_parallel_layers : 0,
                                      .sows = ab_sows(config, exec->kernels)};
  if (options.count == 0) return AB_OK;
  AB_TRY(linen_stack_new(&self->stack, parent, &options, config, exec));
  AB_TRY(linen_weights_new(&self->weights, &self->stack, 1));
  return linen_stack_reserve(&self->stack);
}

ab_status linen_outer_layers_leaves(const struct linen_outer_layers *self, const struct linen_scope *root,
                                    ab_leaf_fn fn, void *ctx) {
  const struct linen_stack *stack = &self->stack;
  struct linen_scope scope;
  struct linen_partitioned box;
  if (stack->count == 0) return AB_OK;
  AB_TRY(linen_module_scope(&scope, &stack->base, root));
  for (int i = 0; i < stack->count * stack->leaves; i++) {
    int k = i / stack->leaves, p = i % stack->leaves;
    AB_TRY(linen_stack_leaf(&box, stack, &scope, k, p));
    AB_TRY(fn(ctx, self->first + k, stack->plan.block->param[p].name, &box.value));
  }
  return AB_OK;
}

static ab_status bind_outer(struct linen_outer_layers *self, const struct linen_scope *root) {
  struct linen_scope scope;
  AB_TRY(linen_module_scope(&scope, &self->stack.base, root));
  AB_TRY(linen_weights_begin(&self->weights, &self->stack));
  return linen_stack_bind(&self->weights, &self->stack, &scope, NULL);
}

static ab_status count_layers(const struct linen_outer_layers *self) {
  struct ab_identity id = self->cell.id;
  for (int k = 0; k < self->stack.count && self->cell.recorder; k++, id.layer++)
    ab_record_count(self->cell.recorder, AB_COUNT_EXECUTE, &id, &self->cell.at, 1);
  return ab_probe_flush(self->stack.exec->probe);
}

static ab_status sow_begin(struct linen_outer_layers *self, const struct linen_scope *root) {
  struct linen_scope scope;
  if (!self->sows) return AB_OK;
  AB_TRY(linen_module_scope(&scope, &self->stack.base, root));
  AB_TRY(linen_intermediates_begin(&self->intermediates, &self->stack, scope.path, NULL, 0, 1));
  self->cell.sown = linen_intermediates_of_worker(&self->intermediates, 0);
  return AB_OK;
}

/* Whole batch: one number per layer, reported as it is. */
static ab_status sow_end(struct linen_outer_layers *self) {
  const struct ab_exec *exec = self->stack.exec;
  void *value;
  if (!self->sows) return AB_OK;
  self->cell.sown = NULL;
  AB_TRY(linen_intermediates_place(&self->intermediates, 0, NULL));
  for (int i = 0; i < self->stack.count * AB_SOWN; i++) {
    enum ab_sown which = (enum ab_sown)(i % AB_SOWN);
    AB_TRY(linen_intermediates_read(&value, &self->intermediates, i / AB_SOWN, which, NULL));
    AB_TRY(ab_observe_sown(exec->probe, exec->kernels, self->first + i / AB_SOWN, which, value));
  }
  return AB_OK;
}

ab_status linen_outer_layers_call(struct linen_outer_layers *self, const struct linen_scope *root, void *y,
                                  const void *x, const int32_t *positions, const int32_t *segment_ids) {
  const struct ab_exec *exec = self->stack.exec;
  size_t layers = (size_t)self->stack.count;
  self->cell = (struct linen_cell){.y = y,
                                   .positions = positions,
                                   .segment_ids = segment_ids,
                                   .recorder = ab_probe_recorder(exec->probe, 0),
                                   .id = {.microbatch = -1, .layer = self->first},
                                   .at = {-1, -1, -1, false}};
  AB_TRY(ab_arena_take(exec->arena, &self->cell.input, layers, linen_stack_input_bytes(&self->stack)));
  self->cell.iteration_input = self->cell.input;
  self->cell.inputs = (unsigned char *)self->cell.input + linen_stack_input_bytes(&self->stack);
  AB_TRY(ab_arena_take(exec->arena, &self->cell.saved, layers, linen_stack_saved_bytes(&self->stack)));
  AB_TRY(ab_arena_take(exec->arena, &self->cell.host, layers, linen_stack_host_bytes(&self->stack)));
  size_t mark = ab_arena_mark(exec->arena);
  AB_TRY(bind_outer(self, root));
  AB_TRY(ab_arena_take(exec->arena, &self->cell.work, 1, linen_stack_work_bytes(&self->stack)));
  exec->kernels->copy(self->cell.input, x, self->stack.plan.tokens_count);
  AB_TRY(sow_begin(self, root));
  linen_stack_call(&self->stack, &self->weights, &self->cell);
  AB_TRY(count_layers(self));
  AB_TRY(sow_end(self));
  ab_arena_release(exec->arena, mark);
  return AB_OK;
}

/* One layer's gradients in contiguous accumulators, those of a scanned stack placed as soon as they are complete: each
 * layer runs once. */
struct outer_backward {
  struct linen_outer_layers *layers;
  struct linen_scope cotangents;
  void *accumulator[AB_MAX_PARAMS]; /* SCANNED */
};

static ab_status take_outer_accumulators(struct outer_backward *backward) {
  const struct linen_stack *stack = &backward->layers->stack;
  if (stack->kind != LINEN_SCANNED)
    return linen_stack_bind_cotangents(&backward->layers->weights, stack, &backward->cotangents);
  for (int p = 0; p < stack->leaves; p++)
    AB_TRY(ab_arena_take(stack->exec->arena, &backward->accumulator[p], stack->leaf_count[p],
                         stack->exec->kernels->element));
  for (int i = 0; i < stack->count * stack->leaves; i++)
    backward->layers->weights.dparam[i] = backward->accumulator[i % stack->leaves];
  return AB_OK;
}

static ab_status place_layer(const struct outer_backward *backward, int k) {
  const struct linen_stack *stack = &backward->layers->stack;
  for (int p = 0; p < stack->leaves && stack->kind == LINEN_SCANNED; p++) {
    struct linen_partitioned box;
    AB_TRY(linen_stack_leaf(&box, stack, &backward->cotangents, k, p));
    linen_lift_place(stack->exec->kernels, &box.value, backward->accumulator[p]);
  }
  return AB_OK;
}

static ab_status outer_layer_vjp(void *ctx, int64_t i) {
  struct outer_backward *backward = ctx;
  const struct linen_stack *stack = &backward->layers->stack;
  int k = (int)i;
  for (int p = 0; p < stack->leaves; p++)
    stack->exec->kernels->zero(backward->layers->weights.dparam[k * stack->leaves + p], stack->leaf_count[p]);
  linen_stack_layer_vjp(stack, &backward->layers->weights, &backward->layers->cell, k);
  return place_layer(backward, k);
}

ab_status linen_outer_layers_vjp(struct linen_outer_layers *self, const struct linen_scope *root,
                                 const struct linen_scope *cotangents, void *dx, const void *dy) {
  struct ab_arena *arena = self->stack.exec->arena;
  struct outer_backward backward = {.layers = self};
  size_t mark = ab_arena_mark(arena);
  self->cell.dy = dy;
  self->cell.dx = dx;
  AB_TRY(bind_outer(self, root));
  AB_TRY(ab_arena_take(arena, &self->cell.work, 1, linen_stack_work_bytes(&self->stack)));
  AB_TRY(ab_arena_take(arena, &self->cell.between, 2, linen_stack_input_bytes(&self->stack)));
  AB_TRY(linen_module_scope(&backward.cotangents, &self->stack.base, cotangents));
  AB_TRY(take_outer_accumulators(&backward));
  AB_TRY(linen_scan_vjp(outer_layer_vjp, &backward, self->stack.count));
  ab_arena_release(arena, mark);
  return ab_probe_flush(self->stack.exec->probe);
}
