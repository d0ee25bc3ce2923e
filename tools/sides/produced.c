#include <stdio.h>
#include <string.h>

#include "m61.h"
#include "observed.h"
#include "reference.h"

/* What a bundle's float32 is compared with: itself, or of residues the integers that they stand for, as doubles. */
static enum ab_dtype shown_as(enum ab_dtype dtype) { return dtype == AB_M61 ? AB_F64 : dtype; }

static bool wide(const struct ab_side_result *side) {
  return side->recording->observations && side->recording->observation[0].observation.dtype != AB_F32;
}

static void show_integers(struct ab_view *view) {
  size_t count = view->dtype == AB_M61 ? ab_view_count(view) : 0;
  uint64_t *word = view->data;
  for (size_t i = 0; i < count; i++) {
    double integer = (double)ab_m61_integer(word[i]);
    memcpy(&word[i], &integer, sizeof integer);
  }
  view->dtype = shown_as(view->dtype);
}

/* Fills one stacked leaf from the side's kept values of every layer in it. */
static ab_status restack(struct ab_tree *tree, const struct ab_layout *layout, const struct ab_inventory_row *row,
                         const struct ab_side_result *side, int step, enum ab_phase phase) {
  struct ab_identity id = {.step = step, .microbatch = -1, .layer = row->layer, .phase = phase};
  struct ab_view from, to;
  snprintf(id.tensor, sizeof id.tensor, "%s", row->param->name);
  AB_TRY(ab_layout_view(&to, layout, tree, row->layer, row->param->name));
  AB_TRY(ab_kept_read(side->values, &id, &from));
  show_integers(&from);
  if (ab_view_count(&from) != ab_view_count(&to))
    return AB_FAIL(AB_ESHAPE, "'%s' of %s has %zu elements, expected %zu", id.tensor, side->name, ab_view_count(&from),
                   ab_view_count(&to));
  if (from.dtype != to.dtype)
    return AB_FAIL(AB_EMISMATCH, "'%s' of %s is %s, expected %s: a bundle holds float32", id.tensor, side->name,
                   ab_dtype_name(from.dtype), ab_dtype_name(to.dtype));
  ab_view_unpack(&to, from.data);
  return AB_OK;
}

static ab_status stacked(struct ab_tree **out, const struct ab_case *c, const struct ab_layout *layout,
                         const struct ab_side_result *side, int step, enum ab_phase phase) {
  struct ab_inventory inventory;
  AB_TRY(ab_inventory_new(&inventory, c->config, ab_bundle_is_engine(c->bundle)));
  ab_status status = ab_layout_tree(out, layout, wide(side) ? AB_F64 : AB_F32);
  for (size_t i = 0; i < inventory.rows && status == AB_OK; i++)
    status = restack(*out, layout, &inventory.row[i], side, step, phase);
  ab_inventory_free(&inventory);
  return status;
}

static ab_status put(struct ab_tree *tree, const char *path, const struct ab_side_result *side, const char *name,
                     enum ab_phase phase) {
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = phase};
  struct ab_tensor *tensor;
  struct ab_view from;
  snprintf(id.tensor, sizeof id.tensor, "%s", name);
  AB_TRY(ab_kept_read(side->values, &id, &from));
  show_integers(&from);
  AB_TRY(ab_tree_add(tree, path, from.dtype, &from.shape, &tensor));
  memcpy(tensor->data, from.data, tensor->count * ab_dtype_size(tensor->dtype));
  return AB_OK;
}

static ab_status fill(struct ab_produced *p, const struct ab_case *c, const struct ab_layout *layout,
                      const struct ab_side_result *side) {
  AB_TRY(stacked(&p->grads, c, layout, side, 0, AB_BACKWARD));
  if (ab_bundle_is_engine(c->bundle)) {
    AB_TRY(ab_tree_new(&p->outputs));
    AB_TRY(put(p->outputs, "outputs", side, AB_OBS_OUTPUTS, AB_FORWARD));
    AB_TRY(put(p->outputs, "d_inputs", side, AB_OBS_D_INPUTS, AB_BACKWARD));
    return AB_OK;
  }
  AB_TRY(stacked(&p->params_step1, c, layout, side, 0, AB_UPDATE));
  AB_TRY(stacked(&p->params_final, c, layout, side, (int)c->steps - 1, AB_UPDATE));
  return AB_OK;
}

ab_status ab_produced_new(struct ab_produced *out, const struct ab_case *c, const struct ab_layout *layout,
                          const struct ab_side_result *side) {
  struct ab_produced produced = {0};
  ab_status status = fill(&produced, c, layout, side);
  if (status == AB_OK) *out = produced;
  else ab_produced_free(&produced);
  return status;
}

void ab_produced_free(struct ab_produced *produced) {
  ab_tree_free(produced->grads);
  ab_tree_free(produced->params_final);
  ab_tree_free(produced->params_step1);
  ab_tree_free(produced->outputs);
  *produced = (struct ab_produced){0};
}
