/* What the pipeline needs beside its loop: schedule facts of a cell, remat policy, rng state. MaxText's
 * utils/pipeline_utils.py and the helpers of layers/pipeline.py: PipelineBase.
 */
#pragma once

#include "config.h"
#include "layer.h"
#include "transforms.h"

/* Sizes of the schedule. layers/pipeline.py: PipelineBase. depth is forwarding_delay x (num_stages - 1), iterations are
 * num_microbatches x num_repeats + depth. */
struct nnx_schedule {
  int num_stages, num_microbatches, num_repeats;
  int forwarding_delay, microbatches_per_stage, iterations, depth;
  bool use_circ_storage;
};
struct nnx_schedule nnx_schedule_of(const struct ab_config *config);

/* What stage s does in iteration t. layers/pipeline.py: get_microbatch_and_repeat_ids. */
struct nnx_cell_ids {
  int microbatch, repeat; /* repeat is num_repeats in drain bubbles */
  bool bubble;
};
struct nnx_cell_ids nnx_get_microbatch_and_repeat_ids(const struct nnx_schedule *schedule, int t, int s);
/* The repeat whose state a gather with this id reads: clamped, as dynamic_slice does. */
int nnx_clamp_repeat(const struct nnx_schedule *schedule, int repeat);
/* Column of circ_storage that iteration t writes. layers/pipeline.py: get_new_loop_state. */
int nnx_circ_write_index(const struct nnx_schedule *schedule, int t);

/* layers/pipeline.py: get_pipeline_remat_policy. Without remat_iterations fetched weights are residuals. The
 * circular pipeline's iterations are always rematerialised, and its windows too, with upstream_faithful=B13 only as
 * set_remat_policy_on_pipeline_iterations says: without remat_windows prefetched weights are residuals.
 * upstream_faithful=B15: set_remat_policy_on_layers_per_stage says nothing. */
struct nnx_remat_policy {
  bool remat_iterations, remat_windows;
  struct ab_remat layer; /* of each layer; without remat_iterations a checkpoint of its own, or all is residual */
};
ab_status nnx_get_pipeline_remat_policy(struct nnx_remat_policy *out, const struct ab_block *block,
                                        const struct ab_config *config);

/* One stream "dropout" of the stage module: variables rngs/dropout/key and count, before any axis. */
ab_status nnx_set_rng_stream(struct nnx_node *stage, struct ab_arena *book);
/* Counts 0 and keys split(stream key, slots) in slot order r S + s. PipelineBase.__init__. */
ab_status nnx_init_rng_state(const struct nnx_state *rng, struct ab_arena *book, int64_t seed);
/* Folds t into every key, cumulatively; counts stay. pipeline_utils.py: advance_rng_state. */
void nnx_advance_rng_state(const struct nnx_state *rng, int t);
/* A state with values of its own, and the way back: values of `from` into the storage of `to`, leaf by leaf. Never for
 * parameters. */
ab_status nnx_state_detach(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state);
void nnx_state_store(const struct nnx_state *to, const struct nnx_state *from);
