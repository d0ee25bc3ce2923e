/* One layer on one microbatch out of an artifact, run by the one runner with recorded values put in the place of every
 * operator's output as soon as it was compared: no difference reaches the next operator.
 */
#pragma once

#include "artifact.h"
#include "divergence.h"
#include "layer.h"

struct ab_slot_seen {
  bool seen, equal; /* a NaN equals a NaN here: what follows a NaN is no further fault */
  double distance;  /* relative L2 of what was recorded to what the operator gives */
};
enum { AB_CELL_PHASES = 3 }; /* forward, recompute, backward */
struct ab_cell_result {
  struct ab_slot_seen slot[AB_CELL_PHASES][AB_MAX_SLOTS];
};

/* What a phase runs with. */
struct ab_cell_feed {
  int weights;             /* the layer whose weights they are; -1: its own */
  int positions, segments; /* parts; -1 of segments: one segment everywhere */
};

/* Where recomputation runs with something else than forward, its operators get their inputs from recomputation too, and
 * backward what it left. Else what was recomputed must be as the forward operators give it. */
struct ab_cell_order {
  const struct ab_artifact *artifact;
  const struct ab_block *block;
  const struct ab_kernels *kernels;
  int side, part;         /* whose recorded values are put in */
  struct ab_cell_feed feed[AB_CELL_PHASES];
  void *const *dparam;    /* accumulators; NULL: own ones */
};

/* AB_EFORMAT for an artifact that lacks an input or holds one of a wrong size. Not in the process of a comparison:
 * computes. */
ab_status ab_cell_run(struct ab_cell_result *out, const struct ab_cell_order *order);
/* The operator that writes a slot; of a cotangent those that read the slot, "query/key/value". */
void ab_cell_operators(char text[AB_WRITER_NAME], const struct ab_block *block, enum ab_phase phase, int slot);
/* Elements of one row of a table, as the kernels' dtype; owned by the caller. */
ab_status ab_cell_elements(void **out, const struct ab_kernels *kernels, const struct ab_tensor *tensor);
/* Relative L2 of a recorded tensor to `count` elements of the kernels' dtype. */
ab_status ab_cell_distance(double *out, const struct ab_tensor *recorded, void *value,
                           const struct ab_kernels *kernels);
