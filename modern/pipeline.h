/* NNXPipeline: MaxText layers/pipeline.py, class NNXPipeline, with its backward written out. What NNXCircularPipeline
 * (circular_pipeline.h) does in another way is a row of methods: where weights are read, and where their cotangents go.
 *
 * Sizes: S stages, M microbatches, R repeats, K layers per stage, q = M / S, A = rows x L x E of one microbatch.
 * Stage parameters are [R, S, ...] for R > 1, [S, ...] for R = 1.
 */
#pragma once

#include "intermediates.h"
#include "model.h"
#include "pipeline_utils.h"
#include "stack.h"

/* The carry of the scan over iterations, or its cotangents; tensors of the step arena. */
struct nnx_loop_state {
  void *state_io;           /* [S, q, A] */
  void *shift;              /* [S, A] */
  void *prev_outputs;       /* [S, A], forwarding delay 2 only */
  void *circ_storage;       /* [S, M, A], circular storage only */
  void *circ_storage_mover; /* [S, A], circular storage only */
};

/* [S, leaves of a stage] where the gather door found the weights. */
typedef const void **nnx_weight_buffer;

/* Residuals of one iteration. */
struct nnx_iteration {
  void *iteration_input;           /* [S, A], the checkpoint name of upstream */
  struct nnx_stack_residual *cell; /* [S] */
  nnx_weight_buffer weights;       /* when every cell fetches its own */
};

struct nnx_run;
struct nnx_pipeline;
struct nnx_pipeline_class {
  const char *name; /* of the module */
  /* Tables that live as long as the pipeline. */
  ab_status (*create)(struct nnx_pipeline *pipeline, const struct ab_config *config);
  /* All iterations, and back. */
  ab_status (*forward)(struct nnx_run *run);
  ab_status (*pullback)(struct nnx_run *run);
  /* Parameters of stage s in iteration t, where the gather door says, and their live accumulators. */
  ab_status (*params)(struct nnx_state *out, struct nnx_run *run, int t, int s);
  ab_status (*dparams)(struct nnx_state *out, struct nnx_run *run, int t, int s);
};
extern const struct nnx_pipeline_class nnx_pipeline_class, nnx_pipeline_ag_once_class, nnx_circular_pipeline_class;

/* What becomes of the metrics that layers sow. */
struct nnx_sowing {
  bool on;
  bool fresh_leaves_fail; /* upstream_faithful=B20, NNXPipeline with repeats */
  bool as_if_layers;      /* upstream_faithful=B21 */
};

struct nnx_pipeline {
  const struct nnx_pipeline_class *class;
  struct nnx_circular *circular; /* NULL in NNXPipeline */
  nnx_weight_buffer *gathered;   /* [R] of each repeat, when all are fetched once, or of each window */
  bool misplaced;                /* upstream_faithful=B7, when all are fetched once */
  bool keeps_cell_weights;       /* what every cell fetches is a residual of it */
  struct ab_exec exec;
  struct nnx_schedule schedule;
  struct nnx_remat_policy remat;
  bool compute_bubbles, scan_iterations;
  struct nnx_sowing sowing;
  struct nnx_axis repeat_axis, stage_axis;
  struct nnx_stack stack; /* the layers of one stage */
  struct ab_layer plan;
  size_t tokens;                   /* A */
  struct nnx_iteration *iteration; /* [T] */
  struct nnx_stack_work *work;     /* [S] */
  struct nnx_loop_state state;     /* forward: the carry; then its cotangents */
  void *outputs, *inputs_bar;      /* [S, A] outputs of the stages (or their cotangents); cotangents of the inputs */
  void *column[2];                 /* [S, A] one column of state_io or circ_storage on its way around the ring */
  const int32_t *positions, *segment_ids; /* [M, rows, L] of the forward call */
};

/* The module (abstract, child "layers" with all stacked axes) and its static part; both live in exec->book. The config
 * chooses the class. layers/pipeline.py: create_nnx_pipeline. */
ab_status nnx_pipeline_new(struct nnx_pipeline **out, struct nnx_node **module, const struct ab_config *config,
                           const struct ab_exec *exec);
/* outputs [B, L, E]. Rng state in the module's variables is advanced in place. Residuals stay in exec->arena. */
ab_status nnx_pipeline_forward(struct nnx_pipeline *pipeline, const struct nnx_node *module, void *outputs,
                               const void *inputs, const int32_t *positions, const int32_t *segment_ids);
/* d_inputs [B, L, E] overwritten; accumulates into the variables of dmodule, which hold zeros. */
ab_status nnx_pipeline_pullback(struct nnx_pipeline *pipeline, const struct nnx_node *module,
                                const struct nnx_node *dmodule, void *d_inputs, const void *d_outputs);
/* Calls fn for every layer's window of every leaf; `prefix` leads to the pipeline module ("" or "decoder/..../"). */
ab_status nnx_pipeline_leaves(const struct nnx_pipeline *pipeline, const struct nnx_state *params, const char *prefix,
                              ab_leaf_fn fn, void *ctx);

/* The parts of one iteration, named as upstream's; t is the iteration. */
ab_status nnx_pipeline_take_buffers(struct nnx_pipeline *pipeline);
void nnx_init_states(struct nnx_pipeline *pipeline, const void *inputs);
void nnx_get_iteration_inputs(struct nnx_pipeline *pipeline, int t, void *stages_in);
void nnx_get_new_loop_state(struct nnx_pipeline *pipeline, int t);
void nnx_permute_output(const struct nnx_pipeline *pipeline, void *outputs);
/* Their transposes, for cotangents of the state. */
void nnx_permute_output_transpose(struct nnx_pipeline *pipeline, const void *d_outputs);
void nnx_get_new_loop_state_transpose(struct nnx_pipeline *pipeline, int t);
void nnx_get_iteration_inputs_transpose(struct nnx_pipeline *pipeline, int t);
void nnx_init_states_transpose(const struct nnx_pipeline *pipeline, void *d_inputs);
/* loop/... of iteration t, at level FULL only. */
ab_status nnx_observe_loop_state(const struct nnx_pipeline *pipeline, int t);

/* What one stage runs in the iteration at hand. */
struct nnx_stage_run {
  struct nnx_cell_ids ids;
  struct nnx_node *module;    /* merged from this cell's state; NULL: nothing to run */
  struct nnx_state slice;     /* its rng state, as windows of the carry */
  struct nnx_stack_call call;
};

/* A run over the iterations: what the scan closes over (parameters, their cotangents) and carries (rng state). */
struct nnx_run {
  struct nnx_pipeline *pipeline;
  struct nnx_graphdef *graphdef; /* of `layers` */
  struct nnx_state params, carry, dparams;
  bool pullback;
  void *accumulators;         /* strided cotangents: [R, S, K, elements of a layer]; NULL if none */
  struct nnx_stage_run *stage; /* [S] of the iteration at hand */
  struct nnx_state sown;       /* forward, where layers sow: outputs of the scan, [T, S], [T, S, K] of scanned layers */
  void *metric;                /* one element of it on its way out */
};
/* Bodies of the scan over iterations; ctx is the run. */
extern const struct nnx_scan_body nnx_pipeline_iteration;
/* The state of (repeat, stage): leading axes removed. layers/pipeline.py: get_current_repeat_from_stages. */
ab_status nnx_gather_stage(struct nnx_state *out, const struct nnx_pipeline *pipeline, const struct nnx_state *state,
                           int repeat, int stage);
/* Leaves of one stage's parameters. */
size_t nnx_weight_leaves(const struct nnx_pipeline *pipeline);
/* Zeroed, in exec->book; and pipeline->gathered. */
ab_status nnx_take_weight_buffers(struct nnx_pipeline *pipeline, nnx_weight_buffer *out, int count);
ab_status nnx_take_gathered(struct nnx_pipeline *pipeline);
/* Weights of (repeat, s) through the gather door into row s of the buffer; and parameters that read there. */
void nnx_all_gather_stage(nnx_weight_buffer buffer, const struct nnx_run *run, int repeat, int s);
ab_status nnx_read_weights(struct nnx_state *out, const struct nnx_run *run, nnx_weight_buffer buffer, int s);
/* The repeat whose state cell (t, s) reads, clamped in drain bubbles. */
int nnx_repeat_of_cell(const struct nnx_pipeline *pipeline, int t, int s);
/* Zeroed room for strided cotangents, and their way home. */
ab_status nnx_start_accumulators(struct nnx_run *run);
ab_status nnx_place_accumulators(struct nnx_run *run);

/* pipeline_sow.c: the state that layers sow into, before the loop; the slice of the cell that is about to run; and what
 * came of it, per layer, after the loop. AB_EMISMATCH where upstream_faithful=B20 fails. */
void nnx_describe_sowing(struct nnx_sowing *out, const struct nnx_pipeline *pipeline, const struct ab_config *config);
ab_status nnx_start_sowing(struct nnx_run *run);
ab_status nnx_sow_in_cell(struct nnx_run *run, int t, int s);
ab_status nnx_report_sown(struct nnx_run *run);
