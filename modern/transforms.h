/* Transforms of modules and of functions over them: stacked axes, vmap over stages, scan, vjp. flax/nnx/transforms.
 *
 * A differentiable function is two halves, as jax.vjp returns them: `forward`, which leaves residuals, and `pullback`,
 * which consumes them. Constructors make abstract variables (shapes and names only); nnx_materialize gives them storage
 * once all axes are there.
 */
#pragma once

#include "graph.h"
#include "kernels.h"

/* A stacked axis: of parameters at position `axis` (at the end of a variable of lower rank), of all else at 0. */
struct nnx_axis {
  int axis;
  int64_t size;
  const char *name; /* logical axis name that the metadata gains: "layers", "circular_repeats", "layers_per_stage" */
};

/* nnx.vmap of a constructor: every variable below module gains the axis. flax/nnx/spmd.py: add_axis. */
ab_status nnx_add_axis(struct nnx_node *module, struct ab_arena *book, const struct nnx_axis *axis);
/* Slice `index` of every variable, as views. AB_EMISMATCH when the metadata names another axis there: remove_axis. */
ab_status nnx_index_axis(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state,
                         const struct nnx_axis *axis, int64_t index);
/* Contiguous storage for every abstract variable, contents undefined. */
ab_status nnx_materialize(struct nnx_state *state, struct ab_arena *arena);
/* The abstract state of the same structure, for cotangents. */
ab_status nnx_abstract_like(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state);
/* Zeros in every variable (of a contiguous state). */
void nnx_zero(const struct nnx_state *state, const struct ab_kernels *kernels);
bool nnx_contiguous(const struct ab_view *view);

/* One body per stage of [begin, end), in parallel unless serial: stage s goes to worker s mod workers, so that the
 * neighbours which are alone at work in the first and last iterations are not one worker's. The body neither allocates
 * nor fails. */
void nnx_vmap_stages(int begin, int end, bool serial, void (*body)(void *ctx, int stage), void *ctx);

/* The two halves of one iteration of a scanned function; the carry and the residuals of iteration i belong to ctx. */
struct nnx_scan_body {
  ab_status (*forward)(void *ctx, int i);
  ab_status (*pullback)(void *ctx, int i);
};
/* Iterations 0 .. length-1, and length-1 .. 0. Bookkeeping of an iteration is released when it is over. */
ab_status nnx_scan(const struct nnx_scan_body *body, void *ctx, int length, struct ab_arena *book);
ab_status nnx_scan_pullback(const struct nnx_scan_body *body, void *ctx, int length, struct ab_arena *book);
