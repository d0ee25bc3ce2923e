/* MaxText's stacked parameter layouts: which leaves a config's Linen tree has, and where in them each layer's
 * parameters stand. Bundles are in this layout; the leaves of sides are canonical (one per layer and parameter).
 *
 * | layers of                             | path prefix (kind train)             | shape of a leaf [a0, a1, ...]    |
 * |---------------------------------------|--------------------------------------|----------------------------------|
 * | a model without pipeline, scanned     | decoder/layers/                      | [a0, L, a1, ...]                 |
 * | the same, scan_layers=false           | decoder/layers_<i>/                  | [a0, a1, ...]                    |
 * | pipeline, K = 1                       | decoder/pipeline_module/layers/      | [R, S, a0, a1, ...]              |
 * | pipeline, K > 1                       | .../layers/layers_<q>/               | [R, S, a0, a1, ...]              |
 * | pipeline, K > 1, scan_layers_per_stage| decoder/layers_per_stage/            | [R, S, a0, K, a1, ...]           |
 * | after the pipeline                    | decoder/layers_outside_pipeline/     | [a0, rest, a1, ...]              |
 *
 * R = 1 has no repeat axis; the scan axis is param_scan_axis (1; last of a leaf of lower rank). In kind engine the
 * pipeline module is the root: layers/, layers/layers_<q>/, layers_per_stage/. MaxText layers/decoders.py,
 * layers/pipeline.py.
 */
#pragma once

#include "block.h"
#include "tree.h"

enum { AB_PATH_MAX = 160, AB_STACK_MAX = 3 };

/* An axis that stacks layers: `count` of them, each step `layers` layers further. */
struct ab_stack_axis {
  int axis; /* of the stacked shape */
  int64_t count, layers;
};

struct ab_layout_leaf {
  char path[AB_PATH_MAX];
  const struct ab_param *param;
  int64_t first; /* layer at index 0 of every stack axis; -1: outside the layers */
  int stacks;
  struct ab_stack_axis stack[AB_STACK_MAX]; /* by decreasing `layers` and increasing axis */
  struct ab_shape shape;
  const char *logical[AB_MAX_RANK]; /* logical axis names, MaxText's */
};

struct ab_layout {
  struct ab_layout_leaf *leaf;
  size_t leaves;
};

/* layers_only: the pipeline module alone (kind engine). AB_ECONFIG for an unknown block. */
ab_status ab_layout_new(struct ab_layout *out, const struct ab_config *config, bool layers_only);
void ab_layout_free(struct ab_layout *layout);

/* A tree with every leaf of the layout, zeroed. */
ab_status ab_layout_tree(struct ab_tree **out, const struct ab_layout *layout, enum ab_dtype dtype);
/* The tree has exactly the layout's paths, shapes and this dtype. AB_EMISMATCH names an unknown or missing tensor or a
 * wrong dtype, AB_ESHAPE a wrong shape; `what` is the file. */
ab_status ab_layout_check(const struct ab_layout *layout, const struct ab_tree *tree, enum ab_dtype dtype,
                          const char *what);
/* Window of (layer, name) into the stacked tensor of a tree that passed the check; its shape is the parameter's.
 * AB_ENOTFOUND when the layout has no such parameter. */
ab_status ab_layout_view(struct ab_view *out, const struct ab_layout *layout, const struct ab_tree *tree, int layer,
                         const char *name);
