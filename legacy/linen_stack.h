/* Stacks of decoder layers: what a pipeline stage is made of, and what stands outside a pipeline.
 *
 * LINEN_BARE: one layer, itself the stage. LINEN_SEQUENTIAL: MaxText decoders.py: SequentialBlockDecoderLayers, one
 * tree per layer, layers_0 .. layers_<n-1>. LINEN_SCANNED: decoders.py: scan_decoder_layers, one tree with the layers
 * at param_scan_axis of every leaf; a layer's weights are then not contiguous, are lifted by copy, and its gradients
 * are collected in contiguous accumulators and placed once.
 */
#pragma once

#include "linen_layers.h"
#include "lift.h"

enum linen_stack_kind { LINEN_BARE, LINEN_SEQUENTIAL, LINEN_SCANNED };

struct linen_stack {
  struct linen_module base;
  enum linen_stack_kind kind;
  int count;                         /* layers */
  int leaves;                        /* params of one layer */
  struct linen_decoder_layer *layer; /* [count]; one when BARE or SCANNED */
  struct linen_axis scan;            /* SCANNED */
  struct ab_layer plan;              /* of every layer */
  enum ab_inputs inputs;             /* what becomes of their inputs */
  size_t leaf_count[AB_MAX_PARAMS];  /* elements of each param of one layer */
  const struct ab_exec *exec;
};

struct linen_stack_options {
  enum linen_stack_kind kind;
  const char *name; /* the tree's name, and that of the scanned axis */
  int count;
  int64_t rows; /* of one call */
  enum linen_remat_place place;
};
/* Layers from exec->book. */
ab_status linen_stack_new(struct linen_stack *self, struct linen_module *parent,
                          const struct linen_stack_options *options, const struct ab_config *config,
                          const struct ab_exec *exec);

/* Room in the probe for what all layers of the stack report between two flushes. */
ab_status linen_stack_reserve(const struct linen_stack *stack);

/* The params of all layers as one worker uses them; index k * leaves + p. */
struct linen_weights {
  const void **param; /* contiguous */
  void **dparam;      /* live accumulators */
  struct ab_view *slice;  /* SCANNED: where layer k's leaf lies in the stacked one */
  void **buffer;          /* SCANNED: contiguous copies, those of layer k at k mod buffers */
  const void **held;      /* SCANNED: the slice that a buffer holds a copy of */
  int buffers;
};
/* Tables from exec->book. buffers: how many layers' copies are held at once. */
ab_status linen_weights_new(struct linen_weights *weights, const struct linen_stack *stack, int buffers);
/* SCANNED: buffers from exec->arena for one pass, holding nothing yet. */
ab_status linen_weights_begin(struct linen_weights *weights, const struct linen_stack *stack);

/* The door that the weights of (repeat, stage) come through; NULL where a stack is part of no stage. What came through
 * may be kept from forward to backward, which then fetches nothing: linen_stack_fetches entries, one per param. */
struct linen_door {
  struct ab_mesh *mesh;
  int repeat, stage;
  const void **kept; /* NULL: nothing is kept */
  bool replay;       /* take what was kept */
};
size_t linen_stack_fetches(const struct linen_stack *stack);
/* Reads every param through the scope, whose outer axes have an index, and fetches it through the door. */
ab_status linen_stack_bind(struct linen_weights *weights, const struct linen_stack *stack,
                           const struct linen_scope *scope, const struct linen_door *door);
/* BARE, SEQUENTIAL: accumulators are the cotangents themselves. */
ab_status linen_stack_bind_cotangents(struct linen_weights *weights, const struct linen_stack *stack,
                                      const struct linen_scope *scope);
/* The scope of layer k, its own axis selected when `index` is not LINEN_WHOLE. */
ab_status linen_stack_layer_scope(struct linen_scope *out, const struct linen_stack *stack,
                                  const struct linen_scope *scope, int k, int64_t index);
/* The view of one param of layer k below the scope. */
ab_status linen_stack_leaf(struct linen_partitioned *out, const struct linen_stack *stack,
                           const struct linen_scope *scope, int k, int p);
/* Zeroes the whole cotangents, all axes of the scope included. */
ab_status linen_stack_zero_cotangents(const struct linen_stack *stack, const struct linen_scope *scope);

/* One call of the stack: what one stage does in one iteration. Bytes between layers: input_bytes, saved_bytes,
 * host_bytes. */
struct linen_cell {
  void *iteration_input; /* [rows, L, E] the first layer's input, as given */
  void *input;   /* what the first layer reads: the same, or its own copy */
  void *inputs;  /* [count - 1][rows, L, E] decoder_layer_input of the others */
  void *host_inputs; /* [count][rows, L, E] where the inputs of all go after forward; NULL: they stay */
  void *saved;   /* [count] saved values of every layer */
  void *host;    /* [count] what every layer keeps in host memory */
  void *y;       /* output */
  const void *dy;
  void *dx;
  void *between; /* [2][rows, L, E] cotangents between layers */
  void *work;    /* of one layer */
  void *sown;    /* [count][AB_SOWN] what every layer sows; NULL: nothing is recorded */
  const int32_t *positions, *segment_ids; /* [rows, L] */
  struct ab_recorder *recorder;
  struct ab_identity id; /* layer: that of the first, or -1 */
  struct ab_where at;
};
size_t linen_stack_input_bytes(const struct linen_stack *stack);
size_t linen_stack_saved_bytes(const struct linen_stack *stack);
size_t linen_stack_host_bytes(const struct linen_stack *stack);
size_t linen_stack_work_bytes(const struct linen_stack *stack);

void linen_stack_call(const struct linen_stack *stack, const struct linen_weights *weights,
                      const struct linen_cell *cell);
void linen_stack_vjp(const struct linen_stack *stack, const struct linen_weights *weights,
                     const struct linen_cell *cell);
/* The vjp of layer k alone. */
void linen_stack_layer_vjp(const struct linen_stack *stack, const struct linen_weights *weights,
                           const struct linen_cell *cell, int k);
