/* The leaves of a side in canonical order (block.h: inventory), and moving values into and out of them. */
#pragma once

#include "layout.h"
#include "model.h"

/* A model, or (model_ops NULL) a pipeline module. Borrowed. */
struct ab_side {
  const struct ab_model_ops *model_ops;
  struct ab_model *model;
  const struct ab_pipeline_ops *pipeline_ops;
  struct ab_pipeline *pipeline;
};

struct ab_leaf {
  int layer; /* -1: outside the layers */
  const struct ab_param *param;
  size_t count;
  struct ab_view view; /* the side's own storage; data NULL until the side has reported it */
};

/* Room for every leaf that the config has; filled again and again without allocating. */
struct ab_leaf_table {
  struct ab_leaf *leaf;
  size_t leaves, largest; /* largest: elements of the largest leaf */
  struct ab_layer_dims dims;
  enum ab_dtype dtype;
};
/* layers_only: of a pipeline module. */
ab_status ab_leaf_table_new(struct ab_leaf_table *out, const struct ab_config *config, const struct ab_kernels *kernels,
                            bool layers_only);
void ab_leaf_table_free(struct ab_leaf_table *table);
/* Asks the side for its leaves. AB_EMISMATCH names the canonical path of a missing, repeated, unknown, misshaped or
 * wrongly typed one. */
ab_status ab_leaf_table_fill(struct ab_leaf_table *table, const struct ab_side *side, enum ab_leaf_kind kind);

/* The leaf's elements in row-major order: its own storage when that is contiguous, else scratch [count], filled. */
void *ab_leaf_pack(const struct ab_leaf *leaf, void *scratch, const struct ab_kernels *kernels);
/* Writes `packed` into the leaf; nothing when it is the leaf's own storage. */
void ab_leaf_unpack(const struct ab_leaf *leaf, void *packed, const struct ab_kernels *kernels);

/* Row-major float32 values on their way into leaves of the table's dtype. */
struct ab_leaf_values {
  float *values;  /* [largest] */
  void *elements; /* [largest] of the table's dtype */
};
ab_status ab_leaf_values_new(struct ab_leaf_values *out, const struct ab_leaf_table *table);
void ab_leaf_values_free(struct ab_leaf_values *buffer);
/* Writes the first leaf->count values into the leaf. AB_EFORMAT names the parameter and the index of a value that the
 * dtype cannot hold: residues are integers. */
ab_status ab_leaf_set(const struct ab_leaf *leaf, const struct ab_leaf_values *buffer,
                      const struct ab_kernels *kernels);

/* Sets a side's parameters from a stacked F32 tree that passed ab_layout_check. Not during a step (allocates). */
ab_status ab_leaves_load(const struct ab_side *side, const struct ab_config *config, const struct ab_kernels *kernels,
                         const struct ab_layout *layout, const struct ab_tree *tree);
/* Copies a side's parameters or gradients into a new stacked tree of the table's dtype, owned by the caller. */
ab_status ab_leaves_store(struct ab_tree **out, const struct ab_side *side, enum ab_leaf_kind kind,
                          const struct ab_config *config, const struct ab_kernels *kernels,
                          const struct ab_layout *layout);
