/* One side in this process: plans its memory by a dry run, builds it, loads its weights, and runs its steps.
 *
 * The hooks (mesh doors, loaded, a kernel table of the caller's) are how a test puts a fault into a run without
 * touching an engine.
 */
#pragma once

#include "arena_ledger.h"
#include "bundle.h"
#include "dispatch.h"
#include "trainer.h"

/* What one pass is given, for a caller who changes it. */
struct ab_pass_inputs {
  struct ab_batch batch;       /* kind train */
  struct ab_activations given; /* kind engine */
  int64_t part, parts;         /* kind engine: equal part of the rows whose cotangent is kept; parts 0: all */
};

struct ab_run {
  const struct ab_route *route;
  const struct ab_kernels *kernels;
  const struct ab_config *config;
  const struct ab_bundle *bundle;   /* NULL: synthetic data, initial weights from init_weights_seed */
  int64_t steps;                    /* of the config's schedule, at least 1; ignored for kind engine */
  int64_t cotangent_parts;          /* kind engine, > 0: one pass per equal part of the batch's rows, as steps 0, 1 ...,
                                       each with the cotangent of that part alone: the terms of every gradient */
  int64_t passes;                   /* > 0: instead of steps so many passes over the batch of step `of_step`, none of
                                       which updates, reported as steps 0, 1 ... */
  int64_t of_step;
  /* passes > 0: changes what pass `pass` is given. NULL: nothing. */
  ab_status (*doctor)(void *ctx, struct ab_pass_inputs *inputs, int pass);
  const struct ab_mesh_ops *mesh;   /* NULL: all stages here */
  enum ab_level level;
  bool (*want)(void *ctx, const struct ab_identity *id); /* whose values are delivered (level VALUES); NULL: all */

  /* Called once when the weights are in place and reported as inputs. NULL: nothing. */
  ab_status (*loaded)(void *ctx, const struct ab_side *side, const struct ab_kernels *kernels);
  /* Sets the parameters of `step` (or pass); the run then differentiates every step and never updates. NULL: train. */
  ab_status (*parameters)(void *ctx, const struct ab_side *side, const struct ab_kernels *kernels, int step);
  /* May put other arrays in the place of a step's token batch. NULL: nothing. */
  ab_status (*batch)(void *ctx, struct ab_batch *batch);
  void *ctx;

  /* Receives observations, counters and metrics. */
  const struct ab_probe_ops *probe;
  void *probe_ctx;
  ab_status (*metric)(void *ctx, int step, const char *name, double value);
  void *metric_ctx;
};

/* Bytes of one side, measured by the dry run; the same numbers then size the real one. */
struct ab_run_plan {
  size_t slab, arena, book;
};
size_t ab_run_plan_bytes(const struct ab_run_plan *plan);

/* The dry run: every allocation of one step, no arithmetic, no tensor memory. */
ab_status ab_run_plan(struct ab_run_plan *out, const struct ab_run *run);
/* The plan with names: whose bytes make the two peaks. run->probe, if any, receives the counters that the engine and
 * the runner of layers keep (not those of the doors). Freed by ab_run_account_free; zero-initialised on failure. */
struct ab_run_account {
  struct ab_run_plan plan;
  struct ab_arena_ledger slab, arena;
};
ab_status ab_run_account(struct ab_run_account *out, const struct ab_run *run);
void ab_run_account_free(struct ab_run_account *account);
/* AB_ECONFIG with both numbers when the plan needs more than this process may have. */
ab_status ab_run_check_memory(const struct ab_run_plan *plan);
/* All steps. The plan is ab_run_plan's. */
ab_status ab_run_steps(const struct ab_run *run, const struct ab_run_plan *plan);
