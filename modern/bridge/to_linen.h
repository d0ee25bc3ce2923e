/* ToLinen: an NNX pipeline, of either class, as a module of the Linen decoder; what use_nnx_pipeline=true makes
 * create_pipeline return. MaxText layers/nnx_wrappers.py: ToLinen.
 *
 * | NNX variable       | Linen variable                                                                  |
 * |--------------------|---------------------------------------------------------------------------------|
 * | Param              | collection "params", the NNX path below the wrapper's scope, boxed axis names   |
 * | Intermediate       | collection "intermediates", likewise                                            |
 * | RngKey, RngCount   | none: rebuilt from init_weights_seed by every apply                             |
 *
 * So the tree is decoder/pipeline_module/layers/...; layers of a scanned stage keep their NNX name there,
 * layers/scanned_layers, where Linen's own pipeline has layers_per_stage in the decoder's scope.
 *
 * Every apply makes a fresh NNX module and overwrites its state with the stored values, which are views: no tensor is
 * copied. The vjp of an apply runs that module's pullback, its cotangents accumulating in the Linen cotangent dict.
 * A stored variable that the module lacks and one that it has and nobody stored are AB_ENOTFOUND by their full path;
 * AB_EMISMATCH: another collection, dtype or axis name; AB_ESHAPE.
 */
#pragma once

#include "model.h"

extern const struct ab_model_ops to_linen_model_ops;
extern const struct ab_pipeline_ops to_linen_pipeline_ops;
