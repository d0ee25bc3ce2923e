#include "inputs.h"

#include <stdint.h>
#include <stdio.h>

#include "observed.h"

static ab_status observe(const struct ab_exec *exec, const char *family, const char *name, int layer,
                         const struct ab_view *view) {
  const struct ab_where nowhere = {.iteration = -1, .stage = -1, .repeat = -1};
  struct ab_identity id = {.microbatch = -1, .layer = layer, .phase = AB_FORWARD};
  snprintf(id.tensor, sizeof id.tensor, "%s%s", family, name);
  return ab_probe_observe(exec->probe, &id, &nowhere, view);
}

static ab_status observe_params(const struct ab_run *run, const struct ab_side *side, const struct ab_exec *exec) {
  struct ab_leaf_table table;
  AB_TRY(ab_leaf_table_new(&table, run->config, exec->kernels, ab_bundle_is_engine(run->bundle)));
  ab_status status = ab_leaf_table_fill(&table, side, AB_PARAMS);
  for (size_t i = 0; i < table.leaves && status == AB_OK; i++)
    status = observe(exec, AB_OBS_INPUT_PARAMS, table.leaf[i].param->name, table.leaf[i].layer, &table.leaf[i].view);
  ab_leaf_table_free(&table);
  return status;
}

static ab_status observe_synthetic(const struct ab_exec *exec, const struct ab_batch *batch) {
  const struct {
    const char *name;
    const int32_t *values;
  } arrays[] = {{"inputs", batch->inputs},   {"inputs_position", batch->inputs_position},
                {"inputs_segmentation", batch->inputs_segmentation},
                {"targets", batch->targets}, {"targets_position", batch->targets_position},
                {"targets_segmentation", batch->targets_segmentation}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    struct ab_view view = {.dtype = AB_I32, .shape = {2, {batch->rows, batch->length}},
                           .data = (void *)(uintptr_t)arrays[i].values};
    ab_view_contiguous(&view);
    AB_TRY(observe(exec, AB_OBS_INPUT_BATCH, arrays[i].name, -1, &view));
  }
  return AB_OK;
}

static ab_status observe_tree(const struct ab_exec *exec, const struct ab_tree *batch) {
  for (size_t i = 0; i < ab_tree_size(batch); i++) {
    const struct ab_tensor *tensor = ab_tree_at(batch, i);
    struct ab_view view = ab_view_of(tensor);
    AB_TRY(observe(exec, AB_OBS_INPUT_BATCH, tensor->name, -1, &view));
  }
  return AB_OK;
}

ab_status ab_observe_inputs(const struct ab_run *run, const struct ab_side *side, const struct ab_exec *exec,
                            const struct ab_synthetic *data) {
  if (!exec->probe || exec->kernels->dry || ab_probe_level(exec->probe) == AB_LEVEL_OFF) return AB_OK;
  ab_probe_step(exec->probe, -1, 0);
  AB_TRY(observe_params(run, side, exec));
  if (run->bundle) return observe_tree(exec, run->bundle->batch);
  struct ab_batch batch = ab_synthetic_batch(data);
  return observe_synthetic(exec, &batch);
}
