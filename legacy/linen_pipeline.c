#include "linen_pipeline.h"

#include "mem.h"
#include "observed.h"
#include "upstream.h"

/* nn.vmap over stages below nn.vmap over repeats, both at axis 0. */
ab_status linen_pipeline_lift(const struct linen_module *module, struct linen_scope *scope) {
  const struct linen_pipeline *self = (const struct linen_pipeline *)module;
  if (self->schedule.repeats > 1) AB_TRY(linen_scope_lift(scope, &self->repeats_axis));
  return linen_scope_lift(scope, &self->stages_axis);
}

/* decoders.py: get_pipeline_stage_module. The scanned stage keeps the name that the pipeline's owner gave it, and with
 * it its place in the owner's tree. */
static ab_status adopt_stage(struct linen_pipeline *self) {
  const struct ab_config *config = self->config;
  int k = self->schedule.layers_per_stage;
  struct linen_stack_options options = {.kind = k == 1 ? LINEN_BARE : LINEN_SEQUENTIAL,
                                        .name = "layers",
                                        .count = k,
                                        .rows = self->schedule.rows,
                                        .place = self->class->place};
  struct linen_module *owner = &self->base;
  if (k > 1 && config->scan_layers_per_stage) {
    if (ab_faithful(config, AB_DEFECT_B31))
      return AB_FAIL(AB_ECONFIG, "key 'scan_layers_per_stage' is true, expected false: with upstream_faithful=B31 the "
                     "scanned layers of a Linen stage lack their model_mode, as MaxText's do");
    options.kind = LINEN_SCANNED;
    options.name = "layers_per_stage";
    if (self->base.parent) owner = self->base.parent;
  }
  AB_TRY(linen_stack_new(&self->layers, owner, &options, config, self->exec));
  if (owner != &self->base) self->layers.base.lifter = &self->base;
  return AB_OK;
}

static ab_status take_tables(struct linen_pipeline *self) {
  size_t stages = (size_t)self->schedule.stages;
  AB_TRY(ab_arena_take_zeroed(self->exec->book, &self->cell, stages, sizeof *self->cell));
  AB_TRY(ab_arena_take_zeroed(self->exec->book, &self->weights, stages, sizeof *self->weights));
  for (size_t s = 0; s < stages; s++)
    AB_TRY(linen_weights_new(&self->weights[s], &self->layers, self->schedule.layers_per_stage));
  return self->class->setup(self);
}

ab_status linen_pipeline_new(struct linen_pipeline *self, const struct linen_pipeline_class *class,
                             struct linen_module *parent, const char *name, const struct ab_config *config,
                             const struct ab_exec *exec) {
  *self = (struct linen_pipeline){.class = class, .config = config, .exec = exec};
  AB_TRY(linen_schedule_of(&self->schedule, config));
  if (parent)
    AB_TRY(linen_module_adopt(&self->base, &class->module, parent, name));
  else
    linen_module_root(&self->base, &class->module);
  self->repeats_axis = (struct linen_axis){
      .length = self->schedule.repeats, .index = LINEN_WHOLE, .name = "circular_repeats"};
  self->stages_axis = (struct linen_axis){.length = self->schedule.stages, .index = LINEN_WHOLE, .name = "layers"};
  AB_TRY(adopt_stage(self));
  self->count = self->layers.plan.tokens_count;
  AB_TRY(take_tables(self));
  AB_TRY(linen_pipeline_new_residuals(self));
  return linen_stack_reserve(&self->layers);
}

void linen_select_stage(const struct linen_pipeline *self, struct linen_scope *scope, int repeat, int stage) {
  int axis = 0;
  if (self->schedule.repeats > 1) scope->axis[axis++].index = repeat;
  scope->axis[axis].index = stage;
}

ab_status linen_pipeline_leaves(const struct linen_pipeline *self, const struct linen_scope *root, ab_leaf_fn fn,
                                void *ctx) {
  const struct linen_stack *stack = &self->layers;
  struct linen_scope scope;
  struct linen_partitioned box;
  AB_TRY(linen_module_scope(&scope, &stack->base, root));
  int layers = self->schedule.repeats * self->schedule.stages * stack->count;
  for (int i = 0; i < layers * stack->leaves; i++) {
    int layer = i / stack->leaves, p = i % stack->leaves, cell = layer / stack->count;
    linen_select_stage(self, &scope, cell / self->schedule.stages, cell % self->schedule.stages);
    AB_TRY(linen_stack_leaf(&box, stack, &scope, layer % stack->count, p));
    AB_TRY(fn(ctx, layer, stack->plan.block->param[p].name, &box.value));
  }
  return AB_OK;
}

ab_status linen_pipeline_begin(struct linen_pipeline *self, const struct linen_scope *root) {
  AB_TRY(linen_module_scope(&self->layers_scope, &self->layers.base, root));
  for (int s = 0; s < self->schedule.stages; s++) AB_TRY(linen_weights_begin(&self->weights[s], &self->layers));
  return AB_OK;
}

ab_status linen_take_buffer(const struct linen_pipeline *self, struct linen_buffer *out, int columns) {
  *out = (struct linen_buffer){.columns = columns, .count = self->count};
  size_t activations = (size_t)self->schedule.stages * (size_t)columns;
  return ab_arena_take(self->exec->arena, &out->data, activations * self->count, self->exec->kernels->element);
}

static ab_status take_zeroed(const struct linen_pipeline *self, struct linen_buffer *out, int columns) {
  AB_TRY(linen_take_buffer(self, out, columns));
  self->exec->kernels->zero(out->data, (size_t)self->schedule.stages * (size_t)columns * self->count);
  return AB_OK;
}

/* All but state_io, as zeros: the start of forward and of backward. */
ab_status linen_take_loop_state(struct linen_pipeline *self) {
  struct linen_loop_state *state = &self->state;
  struct linen_buffer moving;
  AB_TRY(take_zeroed(self, &state->shift, 1));
  if (self->schedule.forwarding_delay > 1) AB_TRY(take_zeroed(self, &state->prev_outputs, 1));
  AB_TRY(linen_take_buffer(self, &self->stages_out, 1));
  AB_TRY(linen_take_buffer(self, &moving, 1));
  self->column = moving.data;
  AB_TRY(linen_take_buffer(self, &moving, 1));
  self->moved = moving.data;
  if (!self->schedule.use_circ_storage) return AB_OK;
  AB_TRY(take_zeroed(self, &state->circ_storage_mover, 1));
  return take_zeroed(self, &state->circ_storage, self->schedule.microbatches);
}

ab_status linen_take_work(struct linen_pipeline *self, bool backward) {
  struct ab_arena *arena = self->exec->arena;
  for (int s = self->exec->mesh->stage_begin; s < self->exec->mesh->stage_end; s++) {
    struct linen_cell *cell = &self->cell[s];
    *cell = (struct linen_cell){.recorder = ab_probe_recorder(self->exec->probe, s)};
    AB_TRY(ab_arena_take(arena, &cell->work, 1, linen_stack_work_bytes(&self->layers)));
    if (backward && self->layers.count > 1)
      AB_TRY(ab_arena_take(arena, &cell->between, 2, linen_stack_input_bytes(&self->layers)));
  }
  return linen_take_layer_inputs(self);
}

/* Stage s of iteration t: rows, weights' identity, and the residuals that are its own. */
static void place_cell(struct linen_pipeline *self, int t, int s) {
  struct linen_cell *cell = &self->cell[s];
  struct linen_ids ids = linen_get_microbatch_and_repeat_ids(&self->schedule, t, s);
  size_t row = (size_t)ids.microbatch * (size_t)self->schedule.rows * (size_t)self->layers.plan.dims.length;
  int first = (ids.repeat * self->schedule.stages + s) * self->layers.count;
  cell->at = (struct ab_where){.iteration = t, .stage = s, .repeat = ids.repeat, .bubble = ids.bubble};
  cell->id = (struct ab_identity){.microbatch = ids.bubble ? -1 : ids.microbatch, .layer = ids.bubble ? -1 : first};
  cell->positions = self->positions + row;
  cell->segment_ids = self->segment_ids + row;
  linen_place_residuals(self, t, s);
}

bool linen_cell_runs(const struct linen_pipeline *self, int s) {
  return self->config->compute_bubbles || !self->cell[s].at.bubble;
}

ab_status linen_begin_iteration(struct linen_pipeline *self, int t, bool backward) {
  for (int s = self->exec->mesh->stage_begin; s < self->exec->mesh->stage_end; s++) {
    place_cell(self, t, s);
    if (!linen_cell_runs(self, s)) continue;
    AB_TRY(self->class->weights(self, t, s, backward));
    if (backward) AB_TRY(self->class->accumulators(self, t, s));
  }
  return AB_OK;
}

ab_status linen_end_iteration(struct linen_pipeline *self, bool count) {
  if (!self->exec->probe) return AB_OK;
  for (int s = self->exec->mesh->stage_begin; count && s < self->exec->mesh->stage_end; s++) {
    ab_record_count(self->cell[s].recorder, self->cell[s].at.bubble ? AB_COUNT_BUBBLE : AB_COUNT_EXECUTE,
                    &self->cell[s].id, &self->cell[s].at, 1);
    linen_count_residuals(self, s);
  }
  return ab_probe_flush(self->exec->probe);
}

ab_status linen_observe_whole(const struct linen_pipeline *self, const char *name, enum ab_phase phase,
                              const void *data) {
  struct ab_layer_dims batch = self->layers.plan.dims;
  batch.rows *= self->schedule.microbatches;
  return linen_observe(self->exec, name, phase, data, &batch, batch.emb);
}

/* Rows of `kept`: fetched weights that are read again, one per repeat when all are gathered before the loop, one per
 * iteration when iterations are not rematerialised. */
static int kept_rows(const struct linen_pipeline *self) {
  if (self->config->pipeline_fsdp_ag_once) return self->schedule.repeats;
  return self->config->set_remat_policy_on_pipeline_iterations ? 0 : self->schedule.iterations;
}

static ab_status keep_weights(struct linen_pipeline *self) {
  size_t cells = (size_t)(self->schedule.stages * kept_rows(self));
  if (cells == 0) return AB_OK;
  return ab_arena_take_zeroed(self->exec->book, &self->kept, cells * linen_stack_fetches(&self->layers),
                              sizeof *self->kept);
}

static ab_status bind_stage(struct linen_pipeline *self, int repeat, int s, int row, bool replay) {
  size_t cell = (size_t)row * (size_t)self->schedule.stages + (size_t)s;
  struct linen_scope scope = self->layers_scope;
  struct linen_door door = {.mesh = self->exec->mesh, .repeat = repeat, .stage = s, .replay = replay};
  if (self->kept) door.kept = &self->kept[cell * linen_stack_fetches(&self->layers)];
  linen_select_stage(self, &scope, repeat, s);
  return linen_stack_bind(&self->weights[s], &self->layers, &scope, &door);
}

static ab_status get_current_stage_weights(struct linen_pipeline *self, int t, int s, bool backward) {
  int repeat = self->cell[s].at.repeat;
  bool once = self->config->pipeline_fsdp_ag_once;
  return bind_stage(self, repeat, s, once ? repeat : t, once || backward);
}

/* pipeline.py: all_gather_over_fsdp. All that stages will read, before the loop. */
static ab_status all_gather_over_fsdp(struct linen_pipeline *self) {
  const struct ab_mesh *mesh = self->exec->mesh;
  for (int repeat = 0; repeat < self->schedule.repeats; repeat++)
    for (int s = mesh->stage_begin; s < mesh->stage_end; s++) {
      AB_TRY(bind_stage(self, repeat, s, repeat, false));
      AB_TRY(linen_count_fetched(self, AB_COUNT_WEIGHTS, repeat, s));
    }
  return AB_OK;
}

static ab_status iteration(void *ctx, int64_t t) { return linen_run_one_iteration(ctx, (int)t); }
static ab_status iteration_vjp(void *ctx, int64_t t) { return linen_run_one_iteration_vjp(ctx, (int)t); }

static ab_status scan_iterations(struct linen_pipeline *self) {
  if (self->config->pipeline_fsdp_ag_once) AB_TRY(all_gather_over_fsdp(self));
  return linen_scan_call(iteration, self, self->schedule.iterations);
}

static ab_status scan_iterations_vjp(struct linen_pipeline *self) {
  return linen_scan_vjp(iteration_vjp, self, self->schedule.iterations);
}

const struct linen_pipeline_class linen_pipeline_per_iteration = {
    .module = {.class_name = "Pipeline", .lift = linen_pipeline_lift},
    .place = LINEN_REMAT_ITERATION,
    .setup = keep_weights,
    .take_residuals = linen_pipeline_take_residuals,
    .loop = scan_iterations,
    .loop_vjp = scan_iterations_vjp,
    .weights = get_current_stage_weights,
    .accumulators = linen_pipeline_accumulators};
