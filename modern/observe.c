#include "observe.h"

#include <stdio.h>
#include <string.h>

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
