/* CircularPipeline: MaxText's engine of pipeline_fsdp_ag_per_repeat as a Linen module, a Pipeline of one layer per
 * stage whose weights come by the buffer sliding window (BSW); layers/pipeline.py before the migration
 * (CircularPipeline), utils/pipeline_utils.py: create_pipeline_stage, create_gradient_accumulation_scan.
 *
 * Iterations run in windows k = 0 .. R-1 of M, one per repeat, and window R, the drain, of S-1. Every window, the drain
 * included, begins by gathering one repeat per stage over fsdp into w_next; w_curr is what the window before gathered,
 * zeros in window 0. A stage that still works on the repeat before that of stage 0 reads w_curr. Windows are
 * rematerialised: backward gathers w_next again, w_curr of windows 1 .. R is saved.
 *
 * Gradients: within a window cells accumulate onto H0, H1, the cotangents of w_curr and w_next. After it
 * V = H1 + cw, cw being H0 of the window after, is added onto the gradients of the weights that the window gathered.
 */
#pragma once

#include "linen_pipeline.h"

enum linen_bsw_slot { LINEN_W_CURR, LINEN_W_NEXT, LINEN_SLOTS };

/* Buffers are [S, P]: the leaves of one repeat, stage by stage. */
struct linen_circular_pipeline {
  struct linen_pipeline base;
  size_t leaf_at[AB_MAX_PARAMS]; /* elements before each leaf of a stage */
  size_t stage_count;            /* P, elements */
  bool prefetch_defect;          /* upstream_faithful=B1 */

  /* one pass */
  int window;                     /* the one that runs */
  struct linen_residuals carried; /* [R] w_next of windows 0 .. R-1, each w_curr of the window after; in backward
                                     window k gathers into the k-th again, which nobody reads any more */
  void *spare;                    /* zeros for window 0, w_next for the drain */
  void *d_buffer[LINEN_SLOTS];    /* backward: H0, H1 */
  void *d_carried;                /* backward: cw */
};

extern const struct linen_pipeline_class linen_pipeline_circular;
/* pipeline.py: create_pipeline. CircularPipeline iff pipeline_fsdp_ag_per_repeat. The module lives in exec->book. */
ab_status linen_create_pipeline(struct linen_pipeline **out, struct linen_module *parent, const char *name,
                                const struct ab_config *config, const struct ab_exec *exec);

/* Iterations first .. first + length - 1. */
struct linen_window {
  int first, length;
};
struct linen_window linen_window_of(const struct linen_schedule *schedule, int k);

/* linen_bsw.c. Offsets of the leaves. */
void linen_bsw_layout(struct linen_circular_pipeline *self);
ab_status linen_bsw_take(const struct linen_circular_pipeline *self, void *out);
/* Stage s's share of a buffer, and leaf p in it. */
void *linen_bsw_leaf(const struct linen_circular_pipeline *self, void *buffer, int s, int p);
/* The repeat whose weights window k gathers for stage s: k, in the drain the last one. With the defect that of
 * iteration k M + 1. */
int linen_prefetched_repeat(const struct linen_circular_pipeline *self, int k, int s);
/* Enters window k: w_next is gathered over fsdp, w_curr is what was w_next, or zeros. */
ab_status linen_bsw_begin_window(struct linen_circular_pipeline *self, int k);
/* Where stage s finds its weights in iteration t: w_next when it works on the repeat of stage 0.
 * pipeline.py: get_current_weights_from_bsw. */
enum linen_bsw_slot linen_bsw_slot_of(const struct linen_schedule *schedule, int t, int s);
void *linen_bsw_buffer(const struct linen_circular_pipeline *self, enum linen_bsw_slot slot);

/* linen_circular_vjp.c. */
ab_status linen_circular_loop_vjp(struct linen_pipeline *self);
ab_status linen_circular_accumulators(struct linen_pipeline *self, int t, int s);
