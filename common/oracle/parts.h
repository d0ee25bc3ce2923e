/* Parts that the oracle's two tables share: parameter storage, and a span of layers run one after another. */
#pragma once

#include "layer.h"
#include "model.h"
#include "sown.h"

enum oracle_order { ORACLE_BY_DTYPE, ORACLE_BY_MICROBATCH, ORACLE_WHOLE_BATCH };

/* One contiguous region per collection, leaves in canonical order; a leaf is addressed by (layer, parameter). */
struct oracle_store {
  struct ab_inventory_row *row; /* [rows] copy of the inventory, in book */
  size_t rows;
  struct ab_layer_dims dims;
  enum ab_dtype dtype;
  const struct ab_kernels *kernels;
  void **leaf[2];               /* by ab_leaf_kind, [rows] */
  size_t outer;                 /* rows before layer 0: 0 or 1 */
  int params;                   /* per layer */
};

ab_status oracle_store_create(struct oracle_store *out, const struct ab_config *config, const struct ab_exec *exec,
                              bool layers_only);
void oracle_store_zero_grads(const struct oracle_store *store);
ab_status oracle_store_leaves(const struct oracle_store *store, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx);
/* The leaves of one layer in the block's order; of what is outside the layers, by index into ab_outer_params. */
void **oracle_store_layer(const struct oracle_store *store, enum ab_leaf_kind kind, int layer);
void *oracle_store_outer(const struct oracle_store *store, enum ab_leaf_kind kind, int index);

/* What the circular engines do otherwise (pipeline_fsdp_ag_per_repeat, one layer per stage): the order of a weight
 * gradient's terms, and under upstream_faithful=B1 the weights that stages >= 2 run with. */
enum oracle_chain { ORACLE_OWN_WINDOW, ORACLE_NEXT_WINDOW, ORACLE_CHAINS };
struct oracle_circular {
  int stages; /* S; 0: not circular */
  bool prefetch_defect;
  void **chain[ORACLE_CHAINS]; /* [layers x params] partial sums of one backward */
};

/* Metrics that the layers of a span sow. */
struct oracle_sown {
  bool on;
  bool by_cell; /* upstream_faithful=B21 */
  int stages, layers_per_stage, delay;
  void *numbers;  /* [layers, microbatches, AB_SOWN]; one microbatch outside the pipeline */
  void *reported; /* [AB_SOWN] of one layer */
  struct ab_layer bubble; /* by_cell: one microbatch, and the memory of its run */
  void *work, *flow[2];
};

/* Layers [begin, end) on a batch cut into `chunks` contiguous parts of rows, each run by itself. */
struct oracle_span {
  const struct oracle_store *store;
  const struct ab_exec *exec;
  struct ab_layer layer;
  int begin, end, chunks;
  int microbatches; /* of the batch; 0: outside the pipeline, observed as microbatch -1 */
  void **act;       /* [end - begin + 1] whole-batch activations; act[0] is the caller's */
  void **saved;     /* [(end - begin) x chunks]; and what is offloaded */
  void **offloaded;
  void *work, *cotangent[2];
  struct oracle_circular circular;
  struct oracle_sown sown;
  const int32_t *positions, *segment_ids;
};

/* The span that the pipeline covers, and the layers after it (all layers when there is no pipeline). Reserves the
 * probe. */
ab_status oracle_span_inside(struct oracle_span *out, const struct ab_config *config, const struct ab_exec *exec,
                             const struct oracle_store *store, enum oracle_order order);
ab_status oracle_span_outside(struct oracle_span *out, const struct ab_config *config, const struct ab_exec *exec,
                              const struct oracle_store *store);
/* Takes from exec->arena and exec->book what backward needs. *outputs [B, L, E] lives there; inputs stays until
 * backward. */
ab_status oracle_span_forward(struct oracle_span *span, void **outputs, void *inputs, const int32_t *positions,
                              const int32_t *segment_ids);
/* d_inputs [B, L, E] overwritten; weight gradients accumulated. They do not overlap unless the span is empty. */
ab_status oracle_span_backward(struct oracle_span *span, void *d_inputs, const void *d_outputs);

/* circular.c. The gradient of (repeat, stage) is the sum of two chains, each from +0 and last microbatch first: the
 * microbatches that run in the repeat's own window, M-1-stage .. 0, and the `stage` last ones, which run in the next
 * window or the drain. Sums are placed from the last repeat to the first (the transpose of MaxText's
 * CircularPipeline scan). */

/* The layer whose weights `layer` runs with, and whose gradient it adds to. B1: that of the repeat before for stages
 * >= 2 and repeats >= 1, rho(k M + 1, s) instead of k. */
int oracle_weights_layer(const struct oracle_span *span, int layer);
/* Where the weight gradient of a layer's microbatch is accumulated. */
void **oracle_accumulators(const struct oracle_span *span, int layer, int microbatch);
/* Around a backward pass: zeroed partial sums from exec->arena; their sums onto the gradients. */
ab_status oracle_chains_begin(struct oracle_span *span);
void oracle_chains_end(const struct oracle_span *span);

/* sown.c. inside: of the pipeline, whose schedule B20 and B21 ask about. */
void oracle_sown_of(struct oracle_sown *out, const struct ab_config *config, const struct ab_exec *exec, bool inside);
/* Memory of one forward pass; a chunk's numbers as soon as the layer has run; and the report when all have. */
ab_status oracle_sown_take(struct oracle_span *span);
void oracle_sow(const struct oracle_span *span, int layer, int chunk, const void *y);
ab_status oracle_sown_report(struct oracle_span *span);

/* A whole-batch value [rows, length, width] under one of observed.h's names. */
ab_status oracle_observe(const struct ab_exec *exec, const char *name, enum ab_phase phase, const void *value,
                         const struct ab_layer_dims *batch, int64_t width);
