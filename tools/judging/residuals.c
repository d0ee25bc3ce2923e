#include <stdio.h>
#include <string.h>

#include "expectation.h"
#include "layer.h"
#include "observed.h"
#include "upstream.h"

/* Counters by name: what is expected, from config and block table, and what a recording has. */
struct row {
  char name[AB_NAME_MAX];
  int64_t expected, found;
};
enum { ROWS = 5 * AB_MAX_SLOTS + AB_MAX_OPS + 8 };
struct table {
  struct row row[ROWS];
  size_t rows;
};

/* The row of a name; the one behind the last if there is none. */
static struct row *row_of(struct table *table, const char *name) {
  struct row *row = table->row;
  while (row < table->row + table->rows && strcmp(row->name, name) != 0) row++;
  return row;
}

static void owe(struct table *table, const char *prefix, const char *name, int64_t amount) {
  char full[AB_NAME_MAX];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  struct row *row = row_of(table, full);
  if (row == table->row + table->rows) {
    *row = (struct row){.expected = 0};
    strcpy(row->name, full);
    table->rows++;
  }
  row->expected += amount;
}

/* A run in numbers: cells, of all steps, and the layers outside the pipeline. */
struct counted {
  const struct ab_config *config;
  enum ab_family family;
  struct ab_remat remat;
  struct ab_layer inside, outside; /* of one microbatch; of the whole batch */
  int64_t cells, run, layers;      /* all T S; those that run; K */
  int64_t fetches, outer;          /* R S; layers outside */
  int64_t a, p;                    /* bytes of an activation, and of the weights of a stage and repeat */
};

/* What the family makes of the remat keys. B15: NNX ignores the flag for layers. */
static ab_status remat_of(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config,
                          enum ab_family family) {
  struct ab_config read = *config;
  if (family == AB_FAMILY_NNX && ab_faithful(config, AB_DEFECT_B15)) read.set_remat_policy_on_layers_per_stage = false;
  return ab_remat_pipeline(out, block, &read);
}

bool ab_remat_differs(const struct ab_config *config) {
  return ab_faithful(config, AB_DEFECT_B15) && ab_defect_can_show(config, AB_DEFECT_B15);
}

static ab_status count_outside(struct counted *n, const struct ab_case *c, const struct ab_block *block,
                               const struct ab_kernels *kernels) {
  const struct ab_config *config = c->config;
  struct ab_layer_dims whole = ab_layer_dims_of(config, config->micro_batch_size_to_train_on);
  struct ab_remat remat;
  int64_t layers = config->num_decoder_layers - (config->pipelined ? config->pipeline_parallel_layers : 0);
  n->outer = ab_bundle_is_engine(c->bundle) ? 0 : c->steps * layers;
  AB_TRY(ab_remat_outside(&remat, block, config));
  return ab_layer_plan(&n->outside, block, kernels, &whole, &remat);
}

static ab_status count_inside(struct counted *n, const struct ab_case *c, const struct ab_block *block,
                              const struct ab_kernels *kernels) {
  const struct ab_config *config = c->config;
  int64_t m = config->num_pipeline_microbatches, stages = config->num_stages, repeats = config->num_pipeline_repeats;
  struct ab_layer_dims dims = ab_layer_dims_of(config, config->micro_batch_size_to_train_on / m);
  AB_TRY(remat_of(&n->remat, block, config, n->family));
  AB_TRY(ab_layer_plan(&n->inside, block, kernels, &dims, &n->remat));
  n->layers = config->num_layers_per_pipeline_stage;
  n->fetches = c->steps * repeats * stages;
  n->cells = c->steps * ab_total_iterations(config) * stages;
  n->run = config->compute_bubbles ? n->cells : n->fetches * m;
  n->a = (int64_t)(n->inside.tokens_count * kernels->element);
  for (int i = 0; i < block->param_count; i++)
    n->p += n->layers * (int64_t)(ab_param_count(&block->param[i], &dims) * kernels->element);
  return AB_OK;
}

static ab_status count_all(struct counted *n, const struct ab_case *c, const struct ab_route *route) {
  const struct ab_kernels *kernels = ab_route_kernels(route, c->numerics);
  const struct ab_block *block = ab_block_find(c->config->decoder_block);
  *n = (struct counted){.config = c->config, .family = route->family};
  AB_TRY(count_outside(n, c, block, kernels));
  if (c->config->pipelined) AB_TRY(count_inside(n, c, block, kernels));
  return AB_OK;
}

/* remat.h: enum ab_inputs. */
static void owe_inputs(struct table *table, const struct counted *n) {
  int64_t k = n->layers, iteration = 0, layers = 0, host = 0;
  switch (n->remat.inputs) {
    case AB_INPUTS_ONCE: iteration = 1, layers = k - 1; break;
    case AB_INPUTS_TWICE: iteration = 1, layers = k; break;
    case AB_INPUTS_BY_NAME: layers = k; break;
    case AB_INPUTS_OFFLOADED: host = k; break;
    case AB_INPUTS_RECOMPUTED: iteration = 1; break;
  }
  owe(table, AB_COUNT_ITERATION_INPUT, "", n->cells * iteration * n->a);
  owe(table, AB_COUNT_LAYER_INPUT, "", n->cells * layers * n->a);
  owe(table, AB_COUNT_HOST_LAYER_INPUT, "", n->cells * host * n->a);
  owe(table, AB_COUNT_LAYER_INPUT_OUT, "", n->run * host * n->a);
  owe(table, AB_COUNT_LAYER_INPUT_BACK, "", n->run * host * n->a);
}

static void owe_weights(struct table *table, const struct counted *n) {
  const struct ab_config *config = n->config;
  bool circular = config->pipeline_fsdp_ag_per_repeat, iterations = config->set_remat_policy_on_pipeline_iterations;
  bool next = circular && n->family == AB_FAMILY_NNX && !iterations && ab_faithful(config, AB_DEFECT_B13);
  int64_t kept = iterations || config->num_pipeline_repeats == 1 ? 0 : n->cells;
  if (config->pipeline_fsdp_ag_once) kept = n->fetches;
  owe(table, AB_COUNT_WEIGHTS, "", circular ? 0 : kept * n->p);
  owe(table, AB_COUNT_W_CURR, "", circular ? n->fetches * n->p : 0);
  owe(table, AB_COUNT_W_NEXT, "", next ? n->fetches * n->p : 0);
}

static int64_t slot_bytes(const struct ab_layer *layer, int slot) {
  return (int64_t)(layer->block->slot[slot].count(&layer->dims) * layer->kernels->element);
}

/* Layers that are run once more for the input of the next one. */
static int64_t replays(const struct counted *n) {
  return n->remat.inputs == AB_INPUTS_RECOMPUTED ? n->run * (n->layers - 1) : 0;
}

static void owe_slots(struct table *table, const struct counted *n) {
  const struct ab_block *block = n->outside.block;
  for (int i = 1; i < block->slot_count; i++) {
    int64_t moved = n->outside.offload >> i & 1 ? n->outer * slot_bytes(&n->outside, i) : 0;
    int64_t here = n->layers && n->inside.keep >> i & 1 ? slot_bytes(&n->inside, i) : 0;
    int64_t there = n->layers && n->inside.offload >> i & 1 ? slot_bytes(&n->inside, i) : 0;
    owe(table, AB_COUNT_RESIDUAL, block->slot[i].name, n->cells * n->layers * here);
    owe(table, AB_COUNT_HOST, block->slot[i].name, n->cells * n->layers * there);
    owe(table, AB_COUNT_OFFLOAD_OUT, block->slot[i].name, n->run * n->layers * there + moved);
    owe(table, AB_COUNT_OFFLOAD_BACK, block->slot[i].name, (n->run * n->layers + replays(n)) * there + moved);
  }
}

/* What is kept is not computed again: only the closure of what is not. */
static void owe_recomputes(struct table *table, const struct counted *n) {
  const struct ab_block *block = n->outside.block;
  for (int i = 0; i < block->op_count; i++) {
    int64_t again = n->outside.recompute >> i & 1 ? n->outer : 0;
    if (n->layers && n->inside.recompute >> i & 1) again += n->run * n->layers;
    if (n->layers && n->inside.replay >> i & 1) again += replays(n);
    owe(table, AB_COUNT_RECOMPUTE, block->op[i].name, again);
  }
}

static bool counts_remat(const char *name) {
  static const char *const prefixes[] = {AB_COUNT_RESIDUAL, AB_COUNT_HOST, AB_COUNT_OFFLOAD_OUT, AB_COUNT_OFFLOAD_BACK,
                                         AB_COUNT_RECOMPUTE};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

/* Adds up what the recording has; returns the first counter that no row knows, or NULL. */
static const char *find(struct table *table, const struct ab_recording *recording) {
  const char *unknown = NULL;
  for (size_t i = 0; i < recording->counters; i++) {
    const struct ab_counter *counter = &recording->counter[i];
    if (!counts_remat(counter->id.tensor)) continue;
    struct row *row = row_of(table, counter->id.tensor);
    if (row < table->row + table->rows) row->found += counter->amount;
    else if (!unknown) unknown = counter->id.tensor;
  }
  return unknown;
}

ab_status ab_check_remat(const struct ab_recording *recording, const struct ab_case *c, const struct ab_route *route) {
  struct table table = {.rows = 0};
  struct counted n;
  AB_TRY(count_all(&n, c, route));
  if (n.layers) owe_inputs(&table, &n);
  if (n.layers) owe_weights(&table, &n);
  owe_slots(&table, &n);
  owe_recomputes(&table, &n);
  const char *unknown = find(&table, recording);
  for (size_t i = 0; i < table.rows; i++)
    if (table.row[i].found != table.row[i].expected)
      return AB_FAIL(AB_EMISMATCH, "%s counted %lld of '%s', expected %lld", recording->name,
                     (long long)table.row[i].found, table.row[i].name, (long long)table.row[i].expected);
  if (unknown) return AB_FAIL(AB_EMISMATCH, "%s has a counter '%s', which nothing expects", recording->name, unknown);
  return AB_OK;
}
