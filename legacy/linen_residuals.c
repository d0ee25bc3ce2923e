/* What the iterations of a Pipeline leave for their backward: where it lies, and how many bytes of it have which name
 * (common/blocks/observed.h). */
#include "linen_pipeline.h"
#include "observed.h"

/* Activations of a stage of K layers by enum ab_inputs (common/blocks/remat.h): K times the first, plus the second. */
static const struct {
  int layers[2], iteration; /* residuals: decoder_layer_input, iteration_input */
  bool host;                /* K in host memory */
  bool apart;               /* iteration_input is no decoder_layer_input at the same time */
} places[] = {[AB_INPUTS_ONCE] = {{1, -1}, 1, false, false},
              [AB_INPUTS_TWICE] = {{1, 0}, 1, false, true},
              [AB_INPUTS_BY_NAME] = {{1, 0}, 0, false, false},
              [AB_INPUTS_OFFLOADED] = {{0, 0}, 0, true, false},
              [AB_INPUTS_RECOMPUTED] = {{0, 0}, 1, false, false}};

static int layer_inputs(const struct linen_stack *stack) {
  return places[stack->inputs].layers[0] * stack->count + places[stack->inputs].layers[1];
}

static int device_inputs(const struct linen_stack *stack) {
  return layer_inputs(stack) + places[stack->inputs].iteration;
}

ab_status linen_pipeline_new_residuals(struct linen_pipeline *self) {
  const struct linen_stack *stack = &self->layers;
  size_t stages = (size_t)self->schedule.stages, cells = stages * (size_t)stack->count;
  size_t input = linen_stack_input_bytes(stack), host = places[stack->inputs].host ? input : 0;
  int64_t length = self->schedule.iterations;
  bool scan = self->config->scan_pipeline_iterations;
  AB_TRY(linen_residuals_new(&self->inputs, self->exec, stages * (size_t)device_inputs(stack) * input, length, scan));
  AB_TRY(linen_residuals_new(&self->saved, self->exec, cells * linen_stack_saved_bytes(stack), length, scan));
  AB_TRY(linen_residuals_new(&self->host_inputs, self->exec, cells * host, length, scan));
  return linen_residuals_new(&self->host, self->exec, cells * linen_stack_host_bytes(stack), length, scan);
}

ab_status linen_pipeline_take_residuals(struct linen_pipeline *self) {
  AB_TRY(linen_residuals_take(&self->inputs, self->exec));
  AB_TRY(linen_residuals_take(&self->saved, self->exec));
  AB_TRY(linen_residuals_take(&self->host_inputs, self->exec));
  return linen_residuals_take(&self->host, self->exec);
}

ab_status linen_take_layer_inputs(struct linen_pipeline *self) {
  const struct linen_stack *stack = &self->layers;
  size_t cells = (size_t)(self->schedule.stages * stack->count);
  self->passing = NULL;
  if (device_inputs(stack) >= stack->count) return AB_OK;
  return ab_arena_take(self->exec->arena, &self->passing, cells, linen_stack_input_bytes(stack));
}

static void *place(const struct linen_residuals *residuals, int t, size_t offset) {
  return (unsigned char *)linen_residuals_at(residuals, t) + offset;
}

/* The inputs of layers: residuals of the iteration, or one buffer for all iterations. */
static void place_inputs(struct linen_pipeline *self, int t, int s) {
  const struct linen_stack *stack = &self->layers;
  struct linen_cell *cell = &self->cell[s];
  size_t bytes = linen_stack_input_bytes(stack), slot = (size_t)s * (size_t)stack->count * bytes;
  unsigned char *passing = self->passing;
  unsigned char *kept = place(&self->inputs, t, (size_t)(s * device_inputs(stack)) * bytes);
  bool host = places[stack->inputs].host, apart = places[stack->inputs].apart;
  cell->iteration_input = kept;
  cell->input = apart ? kept + bytes : kept;
  cell->inputs = (unsigned char *)cell->input + bytes;
  cell->host_inputs = host ? place(&self->host_inputs, t, slot) : NULL;
  if (!passing) return;
  cell->inputs = passing + slot + bytes;
  if (host) cell->iteration_input = cell->input = passing + slot;
}

void linen_place_residuals(struct linen_pipeline *self, int t, int s) {
  const struct linen_stack *stack = &self->layers;
  size_t slot = (size_t)s * (size_t)stack->count;
  place_inputs(self, t, s);
  self->cell[s].saved = place(&self->saved, t, slot * linen_stack_saved_bytes(stack));
  self->cell[s].host = place(&self->host, t, slot * linen_stack_host_bytes(stack));
}

static void count(const struct linen_cell *cell, const char *name, size_t bytes) {
  if (bytes > 0) ab_record_count(cell->recorder, name, &cell->id, &cell->at, (int64_t)bytes);
}

size_t linen_stage_weight_bytes(const struct linen_stack *stack) {
  size_t elements = 0;
  for (int p = 0; p < stack->leaves; p++) elements += stack->leaf_count[p];
  return elements * (size_t)stack->count * stack->exec->kernels->element;
}

/* Selected for one iteration and read again by its backward; with one repeat nothing is selected. */
static bool keeps_weights(const struct linen_pipeline *self) {
  const struct ab_config *config = self->config;
  return self->class->place == LINEN_REMAT_ITERATION && !config->set_remat_policy_on_pipeline_iterations &&
         !config->pipeline_fsdp_ag_once && self->schedule.repeats > 1;
}

void linen_count_residuals(const struct linen_pipeline *self, int s) {
  const struct linen_stack *stack = &self->layers;
  const struct linen_cell *cell = &self->cell[s];
  size_t a = stack->plan.tokens_count * self->exec->kernels->element;
  if (!cell->recorder) return;
  ab_layer_count_residuals(&stack->plan, cell->recorder, &cell->id, &cell->at, stack->count);
  count(cell, AB_COUNT_ITERATION_INPUT, (size_t)places[stack->inputs].iteration * a);
  count(cell, AB_COUNT_LAYER_INPUT, (size_t)layer_inputs(stack) * a);
  count(cell, AB_COUNT_HOST_LAYER_INPUT, cell->host_inputs ? (size_t)stack->count * a : 0);
  count(cell, AB_COUNT_WEIGHTS, keeps_weights(self) ? linen_stage_weight_bytes(stack) : 0);
}

ab_status linen_count_fetched(const struct linen_pipeline *self, const char *name, int repeat, int s) {
  struct ab_identity id = {.microbatch = -1, .layer = -1};
  struct ab_where at = {.iteration = -1, .stage = s, .repeat = repeat};
  return ab_probe_count(self->exec->probe, name, &id, &at, (int64_t)linen_stage_weight_bytes(&self->layers));
}
