/* A stack of decoder layers in any of its layouts, and the two halves of running it.
 *
 * | layout     | modules                                   | used for                                              |
 * |------------|-------------------------------------------|-------------------------------------------------------|
 * | bare       | the parent is the layer                   | a stage of one layer                                  |
 * | sequential | <name>_0 .. <name>_{n-1}                  | NNXSequentialPipelineStage; scan_layers=false         |
 * | scanned    | <name>, stacked at param_scan_axis        | NNXScannedPipelineStage; create_scanned_layers        |
 *
 * nnx_decoders.py: NNXSequentialPipelineStage, NNXScannedPipelineStage; nnx_scan.py: create_scanned_layers.
 */
#pragma once

#include "layer.h"
#include "sown.h"
#include "transforms.h"

enum nnx_layout { NNX_BARE, NNX_SEQUENTIAL, NNX_SCANNED };

struct nnx_stack {
  enum nnx_layout layout;
  const char *name;     /* of the child or children; NULL when bare */
  int count;            /* layers */
  struct nnx_axis axis; /* scanned: size == count */
  const struct ab_block *block;
  struct ab_layer_dims dims;
  enum ab_dtype dtype;
  enum ab_inputs inputs; /* of its layers: remat.h */
};

/* One layer's parameters, read from merged modules. Where a slice of a stacked layout is not contiguous, param and
 * dparam are NULL until nnx_fetch and nnx_accumulate_at give them contiguous memory: copying keeps bits. */
struct nnx_layer_binding {
  const void *param[AB_MAX_PARAMS];
  void *dparam[AB_MAX_PARAMS];
  struct ab_view slice[AB_MAX_PARAMS], dslice[AB_MAX_PARAMS];
};

/* Abstract children under parent; bare: *parent becomes the layer, else an empty module must be there. */
ab_status nnx_stack_new(struct nnx_node **parent, struct ab_arena *book, const struct nnx_stack *stack);
/* out[count]; dparent NULL: no cotangents. Scanned: split, slice and merge per layer. */
ab_status nnx_stack_bind(struct nnx_layer_binding *out, struct ab_arena *book, const struct nnx_stack *stack,
                         const struct nnx_node *parent, const struct nnx_node *dparent);
/* "self_attention/query/kernel" of layer i, as the state of the parent names it. */
void nnx_stack_path(char *text, size_t size, const struct nnx_stack *stack, int i, const char *param);
/* Layer i's own window of a stacked leaf. */
struct ab_view nnx_stack_slice(const struct nnx_stack *stack, const struct ab_view *leaf, int i);

/* Elements of one layer's parameters, laid out contiguously one after another. */
size_t nnx_stack_elements(const struct nnx_stack *stack);
/* Whether slices must be brought together at all. */
bool nnx_stack_strided(const struct nnx_stack *stack);
/* Strided cotangents go to accumulators at base [nnx_stack_elements] until nnx_place copies them home. */
void nnx_accumulate_at(struct nnx_layer_binding *layer, const struct nnx_stack *stack, void *base);
void nnx_place(const struct nnx_layer_binding *layer, const struct nnx_stack *stack, const void *base,
               const struct ab_kernels *kernels);

/* Memory for one run at a time: work of one layer, strided weights brought together, two cotangents between layers, and
 * inputs of layers that backward fetches from the host or computes again. */
struct nnx_stack_work {
  void *work, *weights, *cotangent[2], *layer_input;
};
ab_status nnx_stack_work_take(struct nnx_stack_work *out, struct ab_arena *arena, const struct nnx_stack *stack,
                              const struct ab_layer *plan);

/* Residuals on the device: inputs of layers (decoder_layer_input) and what the plan saves of each layer. On the host,
 * which is a buffer of its own that kernels only copy to and from: what a policy offloads of both. */
struct nnx_stack_residual {
  void *layer_input, **saved;
  void *host_input, **offloaded;
};
/* Room for the tensors of every layer, in book. */
ab_status nnx_stack_residual_new(struct nnx_stack_residual *out, struct ab_arena *book, const struct nnx_stack *stack);
ab_status nnx_stack_residual_take(struct nnx_stack_residual *out, struct ab_arena *arena,
                                  const struct nnx_stack *stack, const struct ab_layer *plan);

/* Where one layer sows its metrics (intermediates.h). */
typedef void *nnx_sown_target[AB_SOWN];

/* One run: layers are numbered from first_layer, or first_layer + i. */
struct nnx_stack_call {
  const struct nnx_stack *stack;
  const struct ab_layer *plan;
  struct nnx_layer_binding *layer; /* [count] */
  struct nnx_stack_residual *residual;
  struct nnx_stack_work *work;
  const int32_t *positions, *segment_ids;
  struct ab_recorder *recorder;
  int microbatch, first_layer;
  struct ab_where at;
  nnx_sown_target *sown; /* [count]; NULL: layers do not sow */
};
/* Where the input of layer i is while the layer runs; NULL: it is x itself. */
void *nnx_stack_input(const struct nnx_stack_call *call, int i);
/* A place within a buffer of the stack's dtype. */
void *nnx_stack_step(const struct nnx_stack *stack, const void *base, size_t elements);
/* Layer i of y = stack(x): x and y are those of the whole stack. Called in order. Neither allocates nor fails. */
void nnx_stack_layer(const struct nnx_stack_call *call, int i, void *y, const void *x);
/* Layer i of the pullback, called in falling order; x as in forward, not read where the host has it. */
void nnx_stack_layer_pullback(const struct nnx_stack_call *call, int i, void *dx, const void *dy, const void *x);
