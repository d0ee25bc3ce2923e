#include "residuals.h"

#include "observed.h"

/* Inputs of a stage that count, by enum ab_inputs: its own, and those of its layers from `first` on. */
struct counted {
  bool iteration_input;
  const char *layers; /* NULL: none */
  int first;
};

static const struct counted counted_of[] = {[AB_INPUTS_ONCE] = {true, AB_COUNT_LAYER_INPUT, 1},
                                            [AB_INPUTS_TWICE] = {true, AB_COUNT_LAYER_INPUT, 0},
                                            [AB_INPUTS_BY_NAME] = {false, AB_COUNT_LAYER_INPUT, 0},
                                            [AB_INPUTS_OFFLOADED] = {false, AB_COUNT_HOST_LAYER_INPUT, 0},
                                            [AB_INPUTS_RECOMPUTED] = {true, NULL, 0}};

static int64_t stage_weights(const struct nnx_pipeline *p) {
  return (int64_t)((size_t)p->stack.count * nnx_stack_elements(&p->stack) * p->exec.kernels->element);
}

void nnx_count_residuals(const struct nnx_pipeline *p, struct ab_recorder *recorder, const struct ab_identity *id,
                         const struct ab_where *at) {
  const struct counted *counted = &counted_of[p->stack.inputs];
  int64_t input = (int64_t)(p->tokens * p->exec.kernels->element), layers = p->stack.count - counted->first;
  if (counted->iteration_input) ab_record_count(recorder, AB_COUNT_ITERATION_INPUT, id, at, input);
  if (counted->layers && layers) ab_record_count(recorder, counted->layers, id, at, layers * input);
  if (p->keeps_cell_weights) ab_record_count(recorder, AB_COUNT_WEIGHTS, id, at, stage_weights(p));
  ab_layer_count_residuals(&p->plan, recorder, id, at, p->stack.count);
}

ab_status nnx_count_weights(const struct nnx_pipeline *p, const char *name, int repeat) {
  struct ab_identity id = {.microbatch = -1, .layer = -1};
  struct ab_where at = {.iteration = -1, .repeat = repeat};
  for (at.stage = p->exec.mesh->stage_begin; at.stage < p->exec.mesh->stage_end; at.stage++)
    AB_TRY(ab_probe_count(p->exec.probe, name, &id, &at, stage_weights(p)));
  return AB_OK;
}
