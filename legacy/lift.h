/* Lifted transforms: scan, vmap and remat over functions that read variables, each with its own backward. flax
 * core/lift.py, linen/transforms.py.
 *
 * What a transform does to variables is an axis of the scope (scope.h: linen_axis). What it does to the loop is here:
 * in which order bodies run forward and backward, what is kept between the two, and who runs in parallel.
 */
#pragma once

#include "layer.h"
#include "scope.h"

/* One pass of a loop body, forward or backward. */
typedef ab_status (*linen_body)(void *ctx, int64_t i);

/* nn.scan of `length` bodies over a carry that lives in ctx, and its transpose: the last body's first. */
ab_status linen_scan_call(linen_body body, void *ctx, int64_t length);
ab_status linen_scan_vjp(linen_body body, void *ctx, int64_t length);

/* What a loop keeps for its backward, one slot of `bytes` per iteration, in exec->arena. Scanned: one array stacked
 * along the iterations. Unrolled: one array per iteration. */
struct linen_residuals {
  size_t bytes;
  int64_t length;
  void *stacked;   /* scanned; NULL otherwise */
  void **unrolled; /* [length], exec->book; NULL when scanned */
};
ab_status linen_residuals_new(struct linen_residuals *residuals, const struct ab_exec *exec, size_t bytes,
                              int64_t length, bool scan);
/* The memory of one pass. */
ab_status linen_residuals_take(struct linen_residuals *residuals, const struct ab_exec *exec);
void *linen_residuals_at(const struct linen_residuals *residuals, int64_t i);

/* nn.vmap with spmd_axis_name "stage": body for every index, in one parallel region unless serial. Dealt in turn: while
 * a pipeline fills and drains, the stages that work are neighbours. The body neither allocates nor fails. */
void linen_vmap(void (*body)(void *ctx, int index), void *ctx, int begin, int end, bool serial);

/* nn.remat of a layer: which of its named values are kept, the rest being run again in backward. Inside an iteration of
 * Pipeline set_remat_policy_on_pipeline_iterations decides, a microbatch step of CircularPipeline is always
 * rematerialised; outside, layers are rematerialised unless unscanned under policy "none". decoders.py:
 * get_remat_policy, pipeline.py: get_pipeline_remat_policy. */
enum linen_remat_place { LINEN_REMAT_ITERATION, LINEN_REMAT_STEP, LINEN_REMAT_OUTSIDE };
ab_status linen_remat(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config,
                      enum linen_remat_place place);

/* variable_axes in: the slice of a stacked variable as a contiguous copy in `to`. */
void linen_lift_slice(const struct ab_kernels *kernels, void *to, const struct ab_view *slice);
/* variable_axes out: a contiguous value put into its slice. */
void linen_lift_place(const struct ab_kernels *kernels, const struct ab_view *slice, const void *from);
