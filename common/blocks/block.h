/* Decoder layers as operator tables, and the inventory of a model's parameters.
 *
 * A block is a table of operators over named slots and a table of parameters. Everything else - forward, both halves of
 * backward, what a remat policy must recompute, probe names, counters - is read from these tables by the one runner
 * (layer.h). Adding a block is one file with one table and one row in ab_blocks.
 */
#pragma once

#include "config.h"
#include "kernels.h"

enum { AB_MAX_SLOTS = 24, AB_MAX_PARAMS = 12, AB_MAX_OPS = 24, AB_PARAM_RANK = 4 };

/* Symbolic extents, so that one table serves every size. */
enum ab_axis {
  AB_AXIS_NONE,
  AB_AXIS_EMB,
  AB_AXIS_HEADS,
  AB_AXIS_KV_HEADS,
  AB_AXIS_HEAD_DIM,
  AB_AXIS_MLP,
  AB_AXIS_VOCAB
};

/* Sizes of one call of a layer: rows x length tokens. */
struct ab_layer_dims {
  int64_t rows, length;
  int64_t emb, heads, kv_heads, head_dim, mlp, vocab;
  double epsilon, rope_min, rope_max, rope_linear;
};
struct ab_layer_dims ab_layer_dims_of(const struct ab_config *config, int64_t rows);
int64_t ab_axis_size(enum ab_axis axis, const struct ab_layer_dims *dims);

enum ab_init_kind { AB_INIT_ONES, AB_INIT_ZEROS, AB_INIT_NORMAL, AB_INIT_TRUNCATED, AB_INIT_UNIT_NORMAL };

/* One parameter: "/"-joined path within its module, axes outermost first, logical axis names (MaxText's), and how it is
 * initialised. fan_in is the product of the first `fan_in_axes` axes; `query_scale` divides by sqrt(head_dim). */
struct ab_param {
  const char *name;
  enum ab_axis axis[AB_PARAM_RANK]; /* AB_AXIS_NONE ends the list */
  const char *logical[AB_PARAM_RANK];
  enum ab_init_kind init;
  int fan_in_axes;
  bool query_scale;
};
struct ab_shape ab_param_shape(const struct ab_param *param, const struct ab_layer_dims *dims);
/* Elements. */
size_t ab_param_count(const struct ab_param *param, const struct ab_layer_dims *dims);

struct ab_op_call; /* layer.h's runner hands it to the operators; see block_ops.h */

/* One operator: which slots and parameters it reads and writes, and its three arithmetic parts. NULL parts do not exist
 * (an operator without parameters has no weight part). */
struct ab_op {
  const char *name; /* counter name of its recomputation, e.g. "attention" */
  void (*forward)(struct ab_op_call *call);
  void (*input)(struct ab_op_call *call);  /* cotangents of `in` from those of `out` */
  void (*weight)(struct ab_op_call *call); /* accumulates parameter gradients */
  int8_t in[4], out[4], param[2];          /* slot and parameter indices; -1 ends a list */
  uint32_t input_needs, weight_needs;      /* slots whose forward values the parts read: bit i = slot i */
  bool adds;                               /* the input part can add onto a cotangent that is there (call->add) */
};

/* An intermediate value. Slot 0 is the layer's input, the block's `output` slot its result. */
struct ab_slot {
  const char *name;       /* MaxText's checkpoint name ("query_proj") or an internal one ("pre_norm") */
  bool checkpoint;        /* the name is one that a remat policy can keep */
  bool internal;          /* row statistics and tables: not observed by the probe */
  size_t (*count)(const struct ab_layer_dims *dims); /* elements */
};

struct ab_block {
  const char *name; /* decoder_block: "llama2" */
  bool polynomial;  /* sums and products only: runs on tables that have nothing else */
  int slot_count, param_count, op_count, output;
  const struct ab_slot *slot;
  const struct ab_param *param;
  const struct ab_op *op;
  size_t (*scratch)(const struct ab_layer_dims *dims, const struct ab_kernels *k); /* elements of kernel work memory */
};

/* Every block there is; NULL ends the table. */
extern const struct ab_block *const ab_blocks[];
/* NULL when there is no such block. */
const struct ab_block *ab_block_find(const char *name);

/* Inventory: the canonical parameters of a whole model, in canonical order - token_embedder/embedding, then layer
 * 0..L-1 with the leaves in the block's order, then decoder/decoder_norm/scale and decoder/logits_dense/kernel.
 * Expected counts come from here, never from a stream. Layer -1 marks what is outside the layers. */
struct ab_inventory_row {
  int layer;
  const struct ab_param *param; /* names as above; leaf name within the layer otherwise */
  size_t count;
};
struct ab_inventory {
  struct ab_inventory_row *row;
  size_t rows, elements;
};
/* layers_only: the pipeline module alone (bundles of kind engine). */
ab_status ab_inventory_new(struct ab_inventory *out, const struct ab_config *config, bool layers_only);
void ab_inventory_free(struct ab_inventory *inventory);
/* "layers/7/self_attention/query/kernel" or "token_embedder/embedding". */
void ab_canonical_path(char *text, size_t size, int layer, const char *name);

/* The three parameters outside the layers, in the order embedding, norm, logits. */
extern const struct ab_param ab_outer_params[3];
