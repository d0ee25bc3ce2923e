#include "observe.h"

#include <stdio.h>
#include <string.h>

#include "observed.h"

ab_status nnx_observe_batch(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *values,
                            const struct ab_layer_dims *batch, int64_t width) {
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = phase};
  struct ab_where at = {.iteration = -1, .stage = -1, .repeat = -1};
  struct ab_view view = {.dtype = exec->kernels->dtype, .shape = {3, {batch->rows, batch->length, width}}};
  if (exec->kernels->dry) return AB_OK;
  ab_view_contiguous(&view);
  memcpy(&view.data, &values, sizeof values);
  snprintf(id.tensor, sizeof id.tensor, "%s", name);
  return ab_probe_observe(exec->probe, &id, &at, &view);
}

static ab_status count_words(const struct ab_exec *exec, const char *name, const struct ab_view *value, int stages,
                             size_t width, size_t word) {
  const struct ab_identity id = {.microbatch = -1, .layer = -1};
  const uint32_t *words = value->data;
  for (size_t slot = 0; slot < ab_view_count(value) / width; slot++) {
    struct ab_where at = {.iteration = -1, .stage = (int)slot % stages, .repeat = (int)slot / stages};
    if (at.stage < exec->mesh->stage_begin || at.stage >= exec->mesh->stage_end) continue;
    AB_TRY(ab_probe_count(exec->probe, name, &id, &at, words[slot * width + word]));
  }
  return AB_OK;
}

ab_status nnx_count_rng_state(const struct ab_exec *exec, const struct nnx_state *rng, int stages) {
  for (size_t i = 0; i < rng->count; i++) {
    const struct nnx_variable *variable = &rng->leaf[i].variable;
    if (variable->type == NNX_RNG_COUNT)
      AB_TRY(count_words(exec, AB_COUNT_RNG_COUNT, &variable->value, stages, 1, 0));
    if (variable->type != NNX_RNG_KEY) continue;
    AB_TRY(count_words(exec, AB_COUNT_RNG_KEY_0, &variable->value, stages, 2, 0));
    AB_TRY(count_words(exec, AB_COUNT_RNG_KEY_1, &variable->value, stages, 2, 1));
  }
  return AB_OK;
}
