#include "expectation.h"

#include <stdio.h>

#include "optimizer.h"
#include "sown.h"
#include "upstream.h"

static void owe(struct ab_expected *e, enum ab_quantity quantity, size_t tensors, size_t elements) {
  e->tensors[quantity] = tensors;
  e->elements[quantity] = elements;
}

/* B x L x E of one whole-batch activation. */
static size_t batch_elements(const struct ab_config *c) {
  return (size_t)(c->micro_batch_size_to_train_on * c->max_target_length * c->emb_dim);
}

/* What dispatch/inputs.h reports: parameters, and the arrays of the batch. */
static void owe_inputs(struct ab_expected *e, const struct ab_case *c, const struct ab_inventory *inventory) {
  const struct ab_config *config = c->config;
  size_t arrays = 6;
  size_t elements = arrays * (size_t)(config->global_batch_size_to_train_on * config->max_target_length);
  if (c->bundle) {
    arrays = ab_tree_size(c->bundle->batch);
    elements = 0;
    for (size_t i = 0; i < arrays; i++) elements += ab_tree_at(c->bundle->batch, i)->count;
  }
  owe(e, AB_Q_INPUT, inventory->rows + arrays, inventory->elements + elements);
}

static ab_status owe_weights(struct ab_expected *e, const struct ab_case *c, size_t params_of_step) {
  struct ab_inventory inventory;
  size_t steps = (size_t)c->steps;
  AB_TRY(ab_inventory_new(&inventory, c->config, ab_bundle_is_engine(c->bundle)));
  owe(e, AB_Q_WEIGHT_GRADIENT, steps * inventory.rows, steps * inventory.elements);
  owe(e, AB_Q_PARAMETER, steps * params_of_step * inventory.rows, steps * params_of_step * inventory.elements);
  owe_inputs(e, c, &inventory);
  if (!ab_bundle_is_engine(c->bundle)) owe(e, AB_Q_STATE, 2 * steps, 2 * steps);
  ab_inventory_free(&inventory);
  return AB_OK;
}

/* Observed values of one layer on one call: its input and what its operators write, statistics and tables aside. */
static void observed_slots(const struct ab_block *block, const struct ab_layer_dims *dims, size_t *tensors,
                           size_t *elements) {
  *tensors = *elements = 0;
  for (int i = 0; i < block->slot_count; i++) {
    if (block->slot[i].internal) continue;
    ++*tensors;
    *elements += block->slot[i].count(dims);
  }
}

static void owe_activations(struct ab_expected *e, const struct ab_case *c) {
  const struct ab_config *config = c->config;
  struct ab_layer_dims whole = ab_layer_dims_of(config, config->micro_batch_size_to_train_on);
  size_t steps = (size_t)c->steps, tensors, elements;
  size_t inside = config->pipelined ? (size_t)config->pipeline_parallel_layers : 0;
  size_t outside = ab_bundle_is_engine(c->bundle) ? 0 : (size_t)config->num_decoder_layers - inside;
  size_t calls = inside * (size_t)(config->pipelined ? config->num_pipeline_microbatches : 0) + outside;
  observed_slots(ab_block_find(config->decoder_block), &whole, &tensors, &elements);
  owe(e, AB_Q_ACTIVATION, steps * calls * tensors, steps * (inside + outside) * elements);
}

/* The whole-batch values of observed.h. */
static void owe_outputs(struct ab_expected *e, const struct ab_case *c) {
  const struct ab_config *config = c->config;
  size_t ble = batch_elements(config), steps = (size_t)c->steps;
  size_t blv = ble / (size_t)config->emb_dim * (size_t)config->vocab_size;
  size_t ends = config->pipelined ? 2 : 0;
  if (ab_bundle_is_engine(c->bundle)) {
    owe(e, AB_Q_OUTPUT, ends, ends * ble);
    owe(e, AB_Q_INPUT_GRADIENT, ends, ends * ble);
    return;
  }
  owe(e, AB_Q_OUTPUT, steps * (ends + 3), steps * ((ends + 2) * ble + blv));
  owe(e, AB_Q_INPUT_GRADIENT, steps * (ends + 2), steps * ((ends + 1) * ble + blv));
}

size_t ab_expect_sown(const struct ab_case *c, enum ab_family family) {
  const struct ab_config *config = c->config;
  int64_t inside = config->pipelined ? config->pipeline_parallel_layers : 0;
  int64_t outside = ab_bundle_is_engine(c->bundle) ? 0 : config->num_decoder_layers - inside;
  bool kept = family == AB_FAMILY_NNX && !config->pipeline_fsdp_ag_per_repeat && config->num_pipeline_repeats == 1;
  if (config->record_internal_nn_metrics == 0) return 0;
  if (ab_faithful(config, AB_DEFECT_B20) && !kept) inside = 0;
  return (size_t)(inside + outside) * AB_SOWN;
}

static size_t metric_fields(void) {
  size_t n = 0;
  while (ab_metric_fields[n].name) n++;
  return n;
}

/* Metrics that exist without an update: all but grad_norm, lr and param_norm. */
enum { METRICS_OF_UPDATE = 3 };

static void owe_metrics(struct ab_expected *e, const struct ab_case *c, bool updated) {
  size_t steps = (size_t)c->steps, n = steps * (metric_fields() - (updated ? 0 : METRICS_OF_UPDATE));
  if (ab_bundle_is_engine(c->bundle)) n = c->bundle->loss_kind == AB_LOSS_GIVEN ? 0 : 1;
  n += steps * ab_expect_sown(c, AB_FAMILY_LINEN);
  e->steps = steps;
  owe(e, AB_Q_METRIC, n, n);
}

ab_status ab_expect_sides(struct ab_expected *out, const struct ab_case *c) {
  const struct ab_optimizer_rule *rule;
  *out = ab_expected_none();
  AB_TRY(ab_optimizer_find(&rule, c->config->opt_type));
  AB_TRY(owe_weights(out, c, ab_bundle_is_engine(c->bundle) ? 0 : 1 + (size_t)rule->moments));
  owe_activations(out, c);
  owe_outputs(out, c);
  owe_metrics(out, c, true);
  return AB_OK;
}

void ab_expect_exact(struct ab_expected *e, const struct ab_case *c) {
  size_t losses = c->bundle->loss_kind != AB_LOSS_GIVEN;
  e->tensors[AB_Q_OUTPUT] += losses;
  e->elements[AB_Q_OUTPUT] += losses;
  e->tensors[AB_Q_METRIC] -= (size_t)c->steps * ab_expect_sown(c, AB_FAMILY_LINEN);
}

/* float64 and recorded numbers say nothing of inputs and counts. */
static void owe_only_numbers(struct ab_expected *e) {
  const enum ab_quantity none[] = {AB_Q_INPUT, AB_Q_STATE};
  for (int i = 0; i < 2; i++) e->tensors[none[i]] = e->elements[none[i]] = AB_UNCOUNTED;
}

ab_status ab_expect_truth(struct ab_expected *out, const struct ab_case *c) {
  *out = ab_expected_none();
  AB_TRY(owe_weights(out, c, 0));
  owe_only_numbers(out);
  out->tensors[AB_Q_PARAMETER] = out->elements[AB_Q_PARAMETER] = AB_UNCOUNTED;
  owe_metrics(out, c, false);
  return AB_OK;
}

/* Only one step of each tensor that is kept of every step. */
static void owe_ends(struct ab_expected *e, const struct ab_case *c) {
  size_t steps = (size_t)c->steps;
  const enum ab_quantity kept[] = {AB_Q_WEIGHT_GRADIENT, AB_Q_PARAMETER, AB_Q_OUTPUT, AB_Q_INPUT_GRADIENT};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    e->tensors[kept[i]] /= steps;
    e->elements[kept[i]] /= steps;
  }
  e->tensors[AB_Q_METRIC] -= (steps - 1) * ab_expect_sown(c, AB_FAMILY_LINEN);
}

ab_status ab_expect_golden(struct ab_expected *out, const struct ab_case *c, enum ab_selection selection) {
  size_t steps = (size_t)c->steps, ends = c->config->pipelined ? 2 * steps : 0;
  size_t elements = ends * batch_elements(c->config);
  *out = ab_expected_none();
  AB_TRY(owe_weights(out, c, ab_bundle_is_engine(c->bundle) ? 0 : 1));
  owe_only_numbers(out);
  owe_metrics(out, c, true);
  owe(out, AB_Q_OUTPUT, ends, elements);
  owe(out, AB_Q_INPUT_GRADIENT, ends, elements);
  if (selection == AB_SELECT_ENDS) owe_ends(out, c);
  return AB_OK;
}
