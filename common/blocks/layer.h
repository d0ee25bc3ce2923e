/* The one runner: walks a block's operator table forward and backward under any remat policy.
 *
 * Memory of one layer: `saved` holds the kept slots from forward to backward, `work` holds everything else of one
 * pass and may be reused as soon as the pass is over. The layer's input x is kept by the caller. A plan is immutable
 * after ab_layer_plan and may be shared by all workers; a call belongs to one worker.
 */
#pragma once

#include "block.h"
#include "probe.h"

/* A set of slots that forward keeps for backward; bit i = slot i. AB_KEEP_NONE is remat_policy `full`: all is
 * recomputed from x. AB_KEEP_ALL recomputes nothing. */
typedef uint32_t ab_keep;
#define AB_KEEP_NONE ((ab_keep)0)
#define AB_KEEP_ALL (~(ab_keep)0)

struct ab_layer {
  const struct ab_block *block;
  const struct ab_kernels *kernels;
  struct ab_layer_dims dims;
  ab_keep keep;                       /* what is really saved: kept, and read by backward */
  uint32_t recompute;                 /* operators (bit i) that backward runs forward again: the closure it needs */
  size_t offset[AB_MAX_SLOTS];        /* elements into saved (kept) or work */
  size_t cotangent[AB_MAX_SLOTS];     /* elements into work */
  size_t contribution;                /* elements into work: a further cotangent before it is added */
  size_t scratch;                     /* elements into work */
  size_t saved_count, work_count;     /* elements */
  size_t tokens_count;                /* rows x length x emb: elements of x, y, dx, dy */
};

/* AB_ECONFIG for a block that needs more than the table has. */
ab_status ab_layer_plan(struct ab_layer *out, const struct ab_block *block, const struct ab_kernels *kernels,
                        const struct ab_layer_dims *dims, ab_keep keep);

/* One layer on one microbatch. id.tensor is filled by the runner; id.microbatch and id.layer, and `at`, by the
 * caller. */
struct ab_layer_call {
  const void *const *param;    /* [param_count] contiguous, in the block's order */
  void *const *dparam;         /* [param_count] live accumulators (backward) */
  const void *x;               /* [rows, length, emb] the layer's input */
  void *y;                     /* forward: output */
  const void *dy;              /* backward: cotangent of the output */
  void *dx;                    /* backward: cotangent of x, overwritten */
  const int32_t *positions;    /* [rows, length] */
  const int32_t *segment_ids;  /* [rows, length] */
  void *saved, *work;          /* saved_count and work_count elements, AB_ALIGN-aligned; NULL where the count is 0 */
  struct ab_recorder *recorder; /* NULL: unobserved */
  struct ab_identity id;
  struct ab_where at;
  int microbatches; /* > 1: the rows are so many microbatches, observed and counted apart from id.microbatch on */
};

/* Observations and counters that one forward (and one backward) of this layer records at most: for ab_probe_reserve. */
size_t ab_layer_forward_events(const struct ab_layer *layer);
size_t ab_layer_backward_events(const struct ab_layer *layer);

/* y = block(x); fills saved. Observes the input and each output slot in phase FORWARD. */
void ab_layer_forward(const struct ab_layer *layer, const struct ab_layer_call *call);
/* Backward is: recompute, then input (all cotangents, dx), then weight (dparam). ab_layer_backward does the three.
 * The parts share `work`, which must not be used for anything else in between. Observed: recomputed slots and the
 * input they start from in phase RECOMPUTE (their digests equal the forward ones), slot cotangents, dy and dx in
 * phase BACKWARD; recomputed operators are counted as "recompute/<op>". dx and dy never overlap. */
void ab_layer_recompute(const struct ab_layer *layer, const struct ab_layer_call *call);
void ab_layer_backward_input(const struct ab_layer *layer, const struct ab_layer_call *call);
void ab_layer_backward_weight(const struct ab_layer *layer, const struct ab_layer_call *call);
void ab_layer_backward(const struct ab_layer *layer, const struct ab_layer_call *call);

/* The set that a remat_policy keeps : "full" and "none" here mean what
 * get_remat_policy makes of them inside a pipeline iteration. iteration_remat:
 * set_remat_policy_on_pipeline_iterations; without it everything is kept. AB_ECONFIG names an unknown policy. */
ab_status ab_remat_keep(ab_keep *out, const struct ab_block *block, const char *remat_policy, bool iteration_remat);
/* The same from a config: of a layer inside the pipeline, and of a layer outside it (whole batch), where policy
 * `none` on unscanned layers means no checkpoint at all. Inside circular pipelines every iteration is rematerialised,
 * whatever set_remat_policy_on_pipeline_iterations says. */
ab_status ab_remat_keep_pipeline(ab_keep *out, const struct ab_block *block, const struct ab_config *config);
ab_status ab_remat_keep_outside(ab_keep *out, const struct ab_block *block, const struct ab_config *config);
