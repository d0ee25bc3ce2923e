#include "collect.h"

#include <stdio.h>
#include <string.h>

#include "init.h"
#include "mem.h"

/* The collection in progress. */
struct collecting {
  struct ab_artifact *a;
  struct ab_judgement *j;
  const struct ab_block *block;
  struct ab_layer_dims dims; /* of one row */
};

static ab_status add(struct ab_tree *tree, const char *path, enum ab_dtype dtype, const struct ab_shape *shape,
                     const void *data) {
  struct ab_tensor *tensor;
  AB_TRY(ab_tree_add(tree, path, dtype, shape, &tensor));
  memcpy(tensor->data, data, tensor->count * ab_dtype_size(dtype));
  return AB_OK;
}

/* Parameters before the step: initial ones, or A's after the step before, on which all sides agree. */
static ab_status read_param(const struct collecting *c, const struct ab_param *param, int layer, float *out) {
  const struct ab_case *opened = &c->j->opened;
  struct ab_view view;
  if (c->a->at.step == 0 && opened->bundle) {
    AB_TRY(ab_layout_view(&view, &opened->bundle->layout, opened->bundle->params, layer, param->name));
    ab_view_pack(out, &view);
    return AB_OK;
  }
  if (c->a->at.step == 0) {
    ab_init_draw(out, param, &c->dims, opened->config->init_weights_seed, layer);
    return AB_OK;
  }
  struct ab_identity id = {.step = c->a->at.step - 1, .microbatch = -1, .layer = layer, .phase = AB_UPDATE};
  snprintf(id.tensor, sizeof id.tensor, "%s", param->name);
  AB_TRY(ab_kept_read(c->j->side[AB_SIDE_A].values, &id, &view));
  if (view.dtype != AB_F32 || ab_view_count(&view) != ab_param_count(param, &c->dims))
    return AB_FAIL(AB_ESHAPE, "'%s' of layer %d has another shape or type", param->name, layer);
  ab_view_pack(out, &view);
  return AB_OK;
}

static ab_status add_params(const struct collecting *c, int layer, const char *prefix) {
  for (int p = 0; p < c->block->param_count; p++) {
    const struct ab_param *param = &c->block->param[p];
    struct ab_shape shape = ab_param_shape(param, &c->dims);
    struct ab_tensor *tensor;
    char path[AB_NAME_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", prefix, param->name);
    AB_TRY(ab_tree_add(c->a->inputs, path, AB_F32, &shape, &tensor));
    AB_TRY(read_param(c, param, layer, tensor->data));
  }
  return AB_OK;
}

static ab_status add_all_params(const struct collecting *c) {
  size_t layers = (size_t)c->a->config->num_decoder_layers, elements = 0;
  AB_TRY(add_params(c, c->a->at.layer, "params"));
  for (int p = 0; p < c->block->param_count; p++) elements += ab_param_count(&c->block->param[p], &c->dims);
  if (c->a->sum || layers * elements > AB_ARTIFACT_OTHERS / sizeof(float)) return AB_OK;
  for (int l = 0; l < (int)layers; l++) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "other/%d", l);
    if (l != c->a->at.layer) AB_TRY(add_params(c, l, prefix));
  }
  return AB_OK;
}

/* [B, L] arrays, part by part. */
static ab_status add_tokens(const struct collecting *c, const char *what, const int32_t *values, int64_t rows) {
  int64_t each = rows / c->a->parts, length = c->a->config->max_target_length;
  struct ab_shape shape = {2, {each, length}};
  for (int m = 0; m < c->a->parts; m++) {
    char path[64];
    snprintf(path, sizeof path, "%s/%d", what, m);
    AB_TRY(add(c->a->inputs, path, AB_I32, &shape, values + m * each * length));
  }
  return AB_OK;
}

static ab_status add_batch(const struct collecting *c) {
  const struct ab_case *opened = &c->j->opened;
  int64_t rows = opened->config->micro_batch_size_to_train_on;
  struct ab_synthetic *data = NULL;
  struct ab_batch batch;
  if (ab_bundle_is_engine(opened->bundle)) {
    struct ab_activations given = ab_bundle_activations(opened->bundle);
    AB_TRY(add_tokens(c, "positions", given.positions, rows));
    return add_tokens(c, "segment_ids", given.segment_ids, rows);
  }
  if (opened->bundle) AB_TRY(ab_bundle_batch(&batch, opened->bundle, c->a->at.step));
  else AB_TRY(ab_synthetic_new(&data, opened->config));
  if (data) batch = ab_synthetic_batch(data);
  ab_status status = add_tokens(c, "positions", batch.inputs_position, batch.rows);
  if (status == AB_OK) status = add_tokens(c, "segment_ids", batch.inputs_segmentation, batch.rows);
  ab_synthetic_free(data);
  return status;
}

static ab_status add_recorded(const struct collecting *c, int side, const struct ab_side_result *from,
                              const struct ab_identity *id) {
  enum ab_quantity quantity = ab_quantity_of(id);
  bool gradient = quantity == AB_Q_WEIGHT_GRADIENT;
  char path[AB_NAME_MAX + 64];
  struct ab_view view;
  if (!gradient && quantity != AB_Q_ACTIVATION && quantity != AB_Q_RECOMPUTE && quantity != AB_Q_COTANGENT)
    return AB_OK;
  ab_status status = ab_kept_read(from->values, id, &view);
  if (status == AB_ENOTFOUND) {
    ab_status_clear();
    return AB_OK;
  }
  AB_TRY(status);
  if (gradient) snprintf(path, sizeof path, "%s/gradient/%s", ab_artifact_keys[side], id->tensor);
  else
    snprintf(path, sizeof path, "%s/%d/%s/%s", ab_artifact_keys[side], id->microbatch < 0 ? 0 : id->microbatch,
             ab_phase_name(id->phase), id->tensor);
  return add(c->a->recorded, path, view.dtype, &view.shape, view.data);
}

static ab_status add_side(const struct collecting *c, int side, const struct ab_side_result *from) {
  snprintf(c->a->name[side], sizeof c->a->name[side], "%s", from->recording ? from->recording->name : "nobody");
  for (size_t i = 0; from->values && i < from->recording->observations; i++)
    AB_TRY(add_recorded(c, side, from, &from->recording->observation[i].observation.id));
  return AB_OK;
}

static ab_status add_input(const struct collecting *c, const char *what, int part, enum ab_phase phase, int slot) {
  char path[64];
  const struct ab_tensor *t =
      ab_artifact_recorded(c->a, AB_ARTIFACT_REFERENCE, part, phase, c->block->slot[slot].name);
  snprintf(path, sizeof path, "%s/%d", what, part);
  if (!t) return AB_FAIL(AB_ENOTFOUND, "the reference reports no '%s' of the cell", c->block->slot[slot].name);
  return add(c->a->inputs, path, t->dtype, &t->shape, t->data);
}

static ab_status collect(const struct collecting *c, const struct ab_side_result *const side[AB_ARTIFACT_SIDES]) {
  int first = c->a->sum ? 0 : ab_artifact_part(c->a), end = c->a->sum ? c->a->parts : first + 1;
  AB_TRY(ab_tree_new(&c->a->inputs));
  AB_TRY(ab_tree_new(&c->a->recorded));
  for (int s = 0; s < AB_ARTIFACT_SIDES; s++) AB_TRY(add_side(c, s, side[s]));
  for (int part = first; part < end; part++) {
    AB_TRY(add_input(c, "x", part, AB_FORWARD, 0));
    AB_TRY(add_input(c, "dy", part, AB_BACKWARD, c->block->output));
  }
  AB_TRY(add_all_params(c));
  return add_batch(c);
}

ab_status ab_collect(struct ab_artifact *artifact, struct ab_judgement *j,
                     const struct ab_side_result *const side[AB_ARTIFACT_SIDES]) {
  struct collecting c = {.a = artifact, .j = j, .block = ab_block_find(artifact->config->decoder_block),
                         .dims = ab_layer_dims_of(artifact->config, 1)};
  ab_status status = collect(&c, side);
  if (status != AB_OK) ab_artifact_free(artifact);
  return status;
}
