/* The table of routes: which implementation runs a model or a pipeline, in which arithmetic, and which of them a
 * config's flags select. Nothing else in the program meets both engines.
 */
#pragma once

#include "model.h"

/* How a route computes. */
enum ab_arithmetic { AB_ARITHMETIC_F32, AB_ARITHMETIC_F64, AB_ARITHMETIC_EXACT };
/* Which float32 table serves a route: OpenBLAS, or the own gemm that gives the same bits everywhere. */
enum ab_numerics { AB_NUMERICS_FAST, AB_NUMERICS_PORTABLE };

/* Who implements a route, or its pipeline where several do; the table of tiers in compare/ goes by this. */
enum ab_family { AB_FAMILY_LINEN, AB_FAMILY_NNX, AB_FAMILY_SEQUENTIAL };

/* What becomes of the rng streams that a pipeline carries: there are none; the next step goes on where they are; every
 * step begins anew, for ToLinen stores no rng state. */
enum ab_rng { AB_RNG_NONE, AB_RNG_CARRIED, AB_RNG_REBUILT };

struct ab_route {
  const char *name;  /* "linen64" */
  const char *what;  /* one line for --list-routes */
  enum ab_family family;
  enum ab_rng rng;
  enum ab_arithmetic arithmetic;
  const struct ab_model_ops *model;
  const struct ab_pipeline_ops *pipeline;
};

/* Every route; a NULL name ends the table. */
extern const struct ab_route ab_routes[];
/* AB_ENOTFOUND with the known names. */
ab_status ab_route_find(const struct ab_route **out, const char *name);

/* The route that enable_nnx, pure_nnx_decoder and use_nnx_pipeline select, as MaxText's create_pipeline and
 * create_nnx_pipeline do: the NNX decoder has the NNX pipeline, the Linen decoder its own unless use_nnx_pipeline gives
 * it the NNX one. AB_ECONFIG names a wrapped route that does not exist here.
 * MaxText layers/pipeline.py: create_pipeline, models/models.py: Transformer. */
ab_status ab_route_select(const struct ab_route **out, const struct ab_config *config);

const struct ab_kernels *ab_route_kernels(const struct ab_route *route, enum ab_numerics numerics);
/* "fast", "portable". */
const char *ab_numerics_name(enum ab_numerics numerics);
ab_status ab_numerics_find(enum ab_numerics *out, const char *name);
