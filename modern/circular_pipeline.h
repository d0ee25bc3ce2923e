/* NNXCircularPipeline: MaxText layers/pipeline.py, class NNXCircularPipeline (pipeline_fsdp_ag_per_repeat), with its
 * plain reverse mode written out.
 *
 * Iterations go in windows: window k < R covers t in [k M, (k + 1) M), the drain, window R, the S - 1 last ones. Every
 * window but the drain begins with a prefetch of its weights; a cell reads that buffer (w_next) or the one before it
 * (w_curr). Both together are the BSW, the buffer sliding window. One layer per stage, forwarding delay 1.
 */
#pragma once

#include "pipeline.h"

enum nnx_slot { NNX_W_CURR, NNX_W_NEXT, NNX_SLOTS };

/* The window at hand. */
struct nnx_bsw {
  int window;
  nnx_weight_buffer slot[NNX_SLOTS];
  /* Pullback: live accumulators of both slots, and the cotangent that the window after this one left for the buffer it
   * was handed; states of [S, ...] in the step arena. In the drain both slots are one buffer and have one. */
  struct nnx_state dslot[NNX_SLOTS], carried;
};

struct nnx_circular {
  bool prefetch_defect;      /* upstream_faithful=B1 */
  nnx_weight_buffer initial; /* zeros: w_curr of window 0 */
  struct nnx_bsw bsw;
};

/* bsw.c. The repeat that the prefetch of window k brings to stage s: k; with upstream_faithful=B1 that of
 * iteration k M + 1. */
int nnx_prefetch_repeat(const struct nnx_pipeline *pipeline, int window, int s);
/* Every own stage's weights of window k, through the gather door, into pipeline->gathered[k]. That is a residual as
 * w_curr of the next window; as w_next of its own only without remat. */
void nnx_bsw_all_gather(struct nnx_run *run, int window);
/* Points the BSW at the buffers of a window. */
void nnx_bsw_slide(struct nnx_run *run, int window);
/* Zeros for w_curr of window 0. */
ab_status nnx_bsw_take_initial(struct nnx_run *run);
/* Which slot stage s reads in iteration t: w_next if its repeat is the one that stage 0 is in. */
enum nnx_slot nnx_bsw_slot(const struct nnx_pipeline *pipeline, int t, int s);
/* The methods params and dparams: a stage's weights from its slot, and that slot's accumulator. */
ab_status nnx_get_current_weights_from_bsw(struct nnx_state *out, struct nnx_run *run, int t, int s);
ab_status nnx_get_current_cotangents_of_bsw(struct nnx_state *out, struct nnx_run *run, int t, int s);

/* circular_vjp.c. */
ab_status nnx_circular_pullback(struct nnx_run *run);

/* The iterations of one window, t = first .. first + length - 1, and back. */
ab_status nnx_scan_window(struct nnx_run *run, int first, int length);
ab_status nnx_scan_window_pullback(struct nnx_run *run, int first, int length);
