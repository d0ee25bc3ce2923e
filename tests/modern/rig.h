/* A pipeline on a config built in place: parameters, activations and cotangents from counters. */
#pragma once

#include "reference.h"
#include "small.h"

/* S, M, R, K of a pipeline with delay 1 or 2: layer sizes of small_config, two rows per microbatch. */
struct ab_config rig_config(int stages, int microbatches, int repeats, int layers_per_stage, int delay);

struct rig {
  struct reference_side s;
  size_t elements, weights; /* of outputs and d_inputs; of all parameters */
  void *inputs, *outputs, *d_outputs, *d_inputs;
  int32_t *positions, *segment_ids; /* differing per row; two segments and padding */
};
/* Created, given parameters and data. */
void rig_new(struct rig *out, const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels,
             const struct ab_config *config, struct ab_probe *probe);
void rig_free(struct rig *rig);
ab_status rig_forward(struct rig *rig);
ab_status rig_backward(struct rig *rig);

/* What a run gave: outputs, d_inputs, then the gradients of all canonical leaves, in the kernels' dtype. */
struct rig_result {
  enum ab_dtype dtype;
  size_t count;
  void *values;
};
struct rig_result rig_result_of(const struct rig *rig, const struct ab_config *config);
struct rig_result rig_run(const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels,
                          const struct ab_config *config, struct ab_probe *probe);
/* Fails the test unless all are finite and equal bit for bit, -0 as +0. Frees both. */
void rig_check_same(const char *what, struct rig_result a, struct rig_result b);
/* Twice in one rig gives the same: accumulators start at zero, arenas return to their marks, nothing is allocated. */
void rig_check_repeats(const char *what, const struct ab_pipeline_ops *ops, const struct ab_config *config);
/* |a - b| / |b|. Frees both. */
double rig_distance(struct rig_result a, struct rig_result b);
/* Fails the test unless two runs of one case are equal bit for bit, -0 as +0. */
void rig_check_same_run(const char *name, const struct reference_run *a, const struct reference_run *b,
                        enum ab_dtype dtype);
