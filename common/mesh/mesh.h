/* The doors between stages: every move of an activation to a neighbour and every fetch of a weight passes here and is
 * entered in the ledger, so that the same engine code later runs with stages in other processes, and so that a fault
 * can be put into the door instead of the engine.
 *
 * What the gather door counts. One call fetches one leaf of one (repeat, stage), unsharded; a fetch of a (repeat,
 * stage) is one call per leaf of a stage (a scanned stage has one leaf per parameter, a sequential one K). Fetches per
 * stage, as the real programs were measured to execute:
 *
 * | mode                                | forward                              | backward                            |
 * |-------------------------------------|--------------------------------------|-------------------------------------|
 * | per iteration, both engines         | one per cell that runs: M R, or T    | the same again; 0 without           |
 * |                                     | with ab_compute_bubbles              | set_remat_policy_on_pipeline_iter.  |
 * | pipeline_fsdp_ag_once, both engines | R, all before the loop               | 0: the fetched weights stay         |
 * | pipeline_fsdp_ag_per_repeat, Linen  | R + 1: at the start of every window, | R + 1: windows are always           |
 * |                                     | the drain included                   | rematerialised                      |
 * | pipeline_fsdp_ag_per_repeat, NNX    | R: none for the drain                | R; with upstream_faithful=B13 and   |
 * |                                     |                                      | no iteration remat 0                |
 *
 * upstream_faithful=B7 (NNX, pipeline_fsdp_ag_once, R > 1): weights are asked for with their repeats spread over the
 * stages, ceil(R / S) on each, and used with stages spread over them: (S - 1) ceil(R / S) P reach each stage on the way
 * there and again on the way back, in forward and in backward. In all this is what the real programs were measured to
 * move without fsdp (ledger.json: weight_reshard_bytes).
 *
 * A fetch at the start of window k names the repeat whose weights it brings, k for all stages (at most R - 1), or with
 * upstream_faithful=B1 the repeat of iteration k M + 1: that of stage s, max(k M + 1 - s, 0) div M, at most R - 1.
 */
#pragma once

#include "kernels.h"

/* What went through the doors since ab_mesh_reset. Bytes are those of the stages' own data (no headers). */
struct ab_ledger {
  int64_t ring_messages, ring_bytes;
  int64_t gathers, gather_bytes; /* weight fetches */
  int64_t reshard_bytes;         /* weights and their gradients on other stages than those that use them */
};

struct ab_mesh;

struct ab_mesh_ops {
  /* Collective over the stages. dst[(s + shift) mod S] = src[s] for stage buffers of `count` elements, [S, count]
   * contiguous; shift is +1 (forward) or -1 (backward). dst and src do not overlap. */
  void (*ring)(struct ab_mesh *mesh, void *dst, const void *src, size_t count, int shift);
  /* Local to a stage; may be called inside a parallel region. Where `count` weight elements of (repeat, stage) at src
   * can be read: src itself when they are local. */
  const void *(*gather)(struct ab_mesh *mesh, const void *src, size_t count, int repeat, int stage);
  /* Local to a stage: it receives `count` elements of weights or their gradients from other stages because a sharding
   * puts them elsewhere than they are used. Moves nothing here: entered in the ledger only. */
  void (*reshard)(struct ab_mesh *mesh, size_t count, int stage);
};

/* Axes of the device mesh that matter here, and the stages this process owns: [stage_begin, stage_end). */
struct ab_mesh {
  const struct ab_mesh_ops *ops;
  const struct ab_kernels *kernels;
  int stages, stage_begin, stage_end;
  struct ab_ledger ledger;    /* ring part */
  struct ab_ledger *by_stage; /* gather part, one row per stage, written by that stage's worker only */
};

/* All stages in this process: rings copy, gathers return their source. */
ab_status ab_mesh_init_local(struct ab_mesh *mesh, const struct ab_kernels *kernels, int stages);
void ab_mesh_free(struct ab_mesh *mesh);
void ab_mesh_reset(struct ab_mesh *mesh);
/* The sum over stages. */
struct ab_ledger ab_mesh_ledger(const struct ab_mesh *mesh);
