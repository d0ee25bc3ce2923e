/* The one runner: walks a block's operator table forward and backward under any remat policy.
 *
 * Memory of one layer: `saved` holds the kept slots from forward to backward, `offloaded` those that a policy keeps on
 * the host, `work` holds everything else of one pass and may be reused as soon as the pass is over. An offloaded slot
 * is computed in work, copied out at the end of forward and copied back into work before anything of backward reads it.
 * The layer's input x is kept, offloaded or computed again by the caller: enum ab_inputs. A plan is immutable
 * after ab_layer_plan and may be shared by all workers; a call belongs to one worker.
 */
#pragma once

#include "probe.h"
#include "remat.h"

struct ab_layer {
  const struct ab_block *block;
  const struct ab_kernels *kernels;
  struct ab_layer_dims dims;
  ab_keep keep;                       /* what really stays on the device: kept, and read by backward */
  ab_keep offload;                    /* what stays on the host instead: offloaded, and read by backward */
  uint32_t recompute;                 /* operators (bit i) that backward runs forward again: the closure it needs */
  uint32_t replay;                    /* operators that compute the output again from x and what is kept */
  size_t offset[AB_MAX_SLOTS];        /* elements into saved (kept) or work */
  size_t offloaded[AB_MAX_SLOTS];     /* elements into offloaded */
  size_t cotangent[AB_MAX_SLOTS];     /* elements into work */
  size_t contribution;                /* elements into work: a further cotangent before it is added */
  size_t scratch;                     /* elements into work */
  size_t saved_count, offloaded_count, work_count; /* elements */
  size_t tokens_count;                /* rows x length x emb: elements of x, y, dx, dy */
};

/* AB_ECONFIG for a block that needs more than the table has. */
ab_status ab_layer_plan(struct ab_layer *out, const struct ab_block *block, const struct ab_kernels *kernels,
                        const struct ab_layer_dims *dims, const struct ab_remat *remat);

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
  void *offloaded;             /* offloaded_count elements of host memory, likewise */
  struct ab_recorder *recorder; /* NULL: unobserved */
  struct ab_identity id;
  struct ab_where at;
  int microbatches; /* > 1: the rows are so many microbatches, observed and counted apart from id.microbatch on */
  /* Sees every value where the recorder would, all rows at once, and may put another in its place before anything
   * reads it - but for x and dy, which are the caller's. For replays of one cell; NULL: nothing. */
  void (*rewrite)(void *ctx, enum ab_phase phase, int slot, void *value);
  void *rewrite_ctx;
};

/* Observations and counters that one forward (and one backward, with a replay) of this layer records at most, those of
 * its cell included: for ab_probe_reserve. */
size_t ab_layer_forward_events(const struct ab_layer *layer);
size_t ab_layer_backward_events(const struct ab_layer *layer);

/* The bytes that one execution of a stage of `layers` such layers leaves, by slot: residual/ and host/ of observed.h,
 * one counter per slot, under the call's identity. For engines, once per cell; at most slot_count counters, for which
 * ab_layer_forward_events has room together with those of an engine's own. */
void ab_layer_count_residuals(const struct ab_layer *layer, struct ab_recorder *recorder, const struct ab_identity *id,
                              const struct ab_where *at, int layers);

/* y = block(x); fills saved and offloaded. Observes the input and each output slot in phase FORWARD. */
void ab_layer_forward(const struct ab_layer *layer, const struct ab_layer_call *call);
/* y = block(x) once more, from x and what was kept, for a next layer whose input was not kept. Operators that run are
 * counted as recomputed; nothing is observed, the next layer reports its input. Reads saved and offloaded. */
void ab_layer_replay(const struct ab_layer *layer, const struct ab_layer_call *call);
/* Backward is: recompute, then input (all cotangents, dx), then weight (dparam). ab_layer_backward does the three.
 * The parts share `work`, which must not be used for anything else in between. Observed: slots that came back from the
 * host, recomputed slots and the input they start from in phase RECOMPUTE (their digests equal the forward ones), slot
 * cotangents, dy and dx in phase BACKWARD; recomputed operators are counted as "recompute/<op>". dx and dy never
 * overlap. */
void ab_layer_recompute(const struct ab_layer *layer, const struct ab_layer_call *call);
void ab_layer_backward_input(const struct ab_layer *layer, const struct ab_layer_call *call);
void ab_layer_backward_weight(const struct ab_layer *layer, const struct ab_layer_call *call);
void ab_layer_backward(const struct ab_layer *layer, const struct ab_layer_call *call);
