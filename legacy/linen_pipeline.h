/* Pipeline: MaxText's per-iteration engine as a Linen module; layers/pipeline.py before the migration (PipelineBase,
 * Pipeline). Variables of a stage lie under `layers` (or, scanned, under `layers_per_stage` of the module that owns the
 * pipeline), stacked as [circular_repeats, layers, ...], or [layers, ...] for one repeat.
 */
#pragma once

#include "linen_intermediates.h"
#include "linen_pipeline_utils.h"

/* What one iteration hands to the next, and in the same layout the cotangents that it hands back. A = rows L E. */
struct linen_loop_state {
  struct linen_buffer state_io;           /* [S, M/S, A] */
  struct linen_buffer shift;              /* [S, 1, A] */
  struct linen_buffer prev_outputs;       /* [S, 1, A] with delayed forwarding */
  struct linen_buffer circ_storage;       /* [S, M, A] with circular storage */
  struct linen_buffer circ_storage_mover; /* [S, 1, A] with circular storage */
};

struct linen_pipeline;
/* Where Pipeline and CircularPipeline (linen_circular.h) differ: in weights and their gradients, and in the loops. */
struct linen_pipeline_class {
  struct linen_module_ops module;
  enum linen_remat_place place;
  ab_status (*setup)(struct linen_pipeline *self);
  ab_status (*take_residuals)(struct linen_pipeline *self); /* what backward needs, in exec->arena */
  ab_status (*loop)(struct linen_pipeline *self);           /* all iterations, forward and backward */
  ab_status (*loop_vjp)(struct linen_pipeline *self);
  /* What stage s reads, and where it accumulates gradients, in iteration t. */
  ab_status (*weights)(struct linen_pipeline *self, int t, int s, bool backward);
  ab_status (*accumulators)(struct linen_pipeline *self, int t, int s);
};

struct linen_pipeline {
  struct linen_module base;
  const struct linen_pipeline_class *class;
  const struct ab_config *config;
  const struct ab_exec *exec;
  struct linen_schedule schedule;
  struct linen_axis repeats_axis, stages_axis;
  struct linen_stack layers;     /* one stage */
  struct linen_weights *weights; /* [S] */
  struct linen_cell *cell;       /* [S] what each stage does in the current iteration */
  size_t count;                  /* A, elements */
  const void **kept;             /* [T][S][fetches] weights kept for backward when iterations are not rematerialised;
                                  * [R][S][fetches] with pipeline_fsdp_ag_once */

  /* one pass */
  struct linen_scope layers_scope, layers_cotangents;
  const int32_t *positions, *segment_ids; /* [M, rows, L] */
  struct linen_residuals inputs;          /* [T][S] iteration_input and decoder_layer_input: enum ab_inputs */
  struct linen_residuals host_inputs;     /* [T][S][K] decoder_layer_input in host memory */
  struct linen_residuals saved;           /* [T][S][K] what the remat policy keeps */
  struct linen_residuals host;            /* [T][S][K] what it keeps in host memory */
  struct linen_loop_state state;          /* forward: loop state; backward: its cotangents */
  struct linen_buffer stages_out;         /* forward Y, backward its cotangent */
  struct linen_buffer d_stages_in;        /* backward */
  void *column, *moved;                   /* [S, A] on their way through a ring */
  void *passing;                          /* [S][K] inputs of layers that no iteration keeps; NULL: all are kept */
  void *accumulator[AB_MAX_PARAMS];       /* scanned stage: [R, S, K, leaf] gradients */
  struct linen_intermediates intermediates; /* forward, where layers sow */
};

extern const struct linen_pipeline_class linen_pipeline_per_iteration;
/* parent NULL: the pipeline is the root. */
ab_status linen_pipeline_new(struct linen_pipeline *self, const struct linen_pipeline_class *class,
                             struct linen_module *parent, const char *name, const struct ab_config *config,
                             const struct ab_exec *exec);
/* outputs [B, L, E]; what backward needs stays in exec->arena above the caller's mark. */
ab_status linen_pipeline_call(struct linen_pipeline *self, const struct linen_scope *root, void *outputs,
                              const void *inputs, const int32_t *positions, const int32_t *segment_ids);
/* d_inputs overwritten; cotangents of the params overwritten. Iterations in reverse order. */
ab_status linen_pipeline_vjp(struct linen_pipeline *self, const struct linen_scope *root,
                             const struct linen_scope *cotangents, void *d_inputs, const void *d_outputs);
/* The canonical leaves of the pipelined layers below either root scope. */
ab_status linen_pipeline_leaves(const struct linen_pipeline *self, const struct linen_scope *root, ab_leaf_fn fn,
                                void *ctx);

/* The loop's bodies. */
ab_status linen_run_one_iteration(struct linen_pipeline *self, int t);
ab_status linen_run_one_iteration_vjp(struct linen_pipeline *self, int t);
/* Shared by the classes and the two passes: linen_pipeline.c. */
ab_status linen_pipeline_lift(const struct linen_module *module, struct linen_scope *scope);
ab_status linen_pipeline_accumulators(struct linen_pipeline *self, int t, int s);
ab_status linen_pipeline_begin(struct linen_pipeline *self, const struct linen_scope *root);
ab_status linen_take_loop_state(struct linen_pipeline *self);
ab_status linen_take_buffer(const struct linen_pipeline *self, struct linen_buffer *out, int columns);
ab_status linen_take_work(struct linen_pipeline *self, bool backward);
/* Who does what in iteration t, and with which weights. */
ab_status linen_begin_iteration(struct linen_pipeline *self, int t, bool backward);
bool linen_cell_runs(const struct linen_pipeline *self, int s);
ab_status linen_end_iteration(struct linen_pipeline *self, bool count);
void linen_select_stage(const struct linen_pipeline *self, struct linen_scope *scope, int repeat, int stage);
ab_status linen_observe_whole(const struct linen_pipeline *self, const char *name, enum ab_phase phase,
                              const void *data);
/* linen_residuals.c: memory of all iterations, of one pass, of stage s in iteration t. */
ab_status linen_pipeline_new_residuals(struct linen_pipeline *self);
ab_status linen_pipeline_take_residuals(struct linen_pipeline *self);
ab_status linen_take_layer_inputs(struct linen_pipeline *self);
void linen_place_residuals(struct linen_pipeline *self, int t, int s);
/* Residual bytes of stage s in the current iteration; of fetched weights that stay, under the name given. */
void linen_count_residuals(const struct linen_pipeline *self, int s);
ab_status linen_count_fetched(const struct linen_pipeline *self, const char *name, int repeat, int s);
size_t linen_stage_weight_bytes(const struct linen_stack *stack);
/* linen_pipeline_sow.c: before the loop and after linen_take_work, after the stages of an iteration have run, and after
 * the loop, when every layer's numbers are reported. */
ab_status linen_sow_begin(struct linen_pipeline *self);
ab_status linen_sow_iteration(struct linen_pipeline *self, int t);
ab_status linen_sow_end(struct linen_pipeline *self);
