/* Sides on hand-made configs: any schedule, without a config file. Weights, inputs and cotangents are fixed
 * pseudo-random numbers, the same for every side; segments and positions differ per row. Failures are Check
 * assertions.
 */
#pragma once

#include "leaves.h"
#include "model.h"

struct rig_shape {
  int stages, microbatches, repeats, layers_per_stage;
  bool delay, scanned_stage;
  bool circular;     /* pipeline_fsdp_ag_per_repeat */
  int outside;       /* layers after the pipeline */
  const char *block; /* NULL: "llama2" */
};
#define RIG(S, M, R, K, ...) \
  (struct rig_shape) { .stages = (S), .microbatches = (M), .repeats = (R), .layers_per_stage = (K), __VA_ARGS__ }
/* Two rows per microbatch of length 5, emb 8. Fields may be changed afterwards. */
struct ab_config rig_config(const struct rig_shape *shape);
/* "S2 M4 R2 K1 d1", for messages; a static buffer. */
const char *rig_name(const struct ab_config *config);

/* A side whose three arenas have exactly the size that a dry run of the same functions measured. */
struct rig_side {
  struct ab_exec exec;
  struct ab_arena slab, arena, book;
  size_t planned[3]; /* slab, arena, book */
  struct ab_mesh mesh;
  struct ab_side side;
};
void rig_new(struct rig_side *out, const struct ab_side *ops, const struct ab_kernels *kernels,
             const struct ab_config *config, struct ab_probe *probe);
void rig_free(struct rig_side *side);

/* What a side gives: of a pipeline outputs, d_inputs and gradients, of a model the loss and gradients. Gradients stand
 * packed in canonical order. */
struct rig_run {
  size_t elements, gradients, element; /* counts; bytes of one */
  void *outputs, *d_inputs, *grads;
  struct ab_loss_terms terms;
};
/* One pass on a new side. The whole of it is a measured plan's size. */
struct rig_run rig_run_pipeline(const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels,
                                const struct ab_config *config, struct ab_probe *probe);
struct rig_run rig_run_model(const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                             const struct ab_config *config, struct ab_probe *probe);
/* One pass on a side that exists, which must succeed. */
struct rig_run rig_pass(struct rig_side *side, const struct ab_config *config);
/* The same of a pipeline, the cotangent being zero outside one microbatch. */
struct rig_run rig_pass_one(struct rig_side *side, const struct ab_config *config, int microbatch);
void rig_run_free(struct rig_run *run);
/* Equal bit for bit, -0 taken as +0. */
void rig_same_bits(const struct rig_run *a, const struct rig_run *b, const struct ab_config *config, const char *what);
/* Relative L2 of outputs, d_inputs and gradients in float64. */
double rig_distance(const struct rig_run *a, const struct rig_run *b);

/* The batch that every pass gets; static memory. */
struct ab_batch rig_batch(const struct ab_config *config);
/* n pseudo-random numbers in [-1, 1) of the table's dtype; ab_mem_free. */
void *rig_numbers(size_t n, uint32_t seed, const struct ab_kernels *kernels);
