/* Cases of the real MaxText code (tests/fixtures/reference/README.md), run on any side: the manifest's rows, a side
 * with arenas planned by a dry run, and comparison with the bundle's numbers inside the manifest's bounds. Failures
 * are Check assertions that name the case and the tensor.
 */
#pragma once

#include <cjson/cJSON.h>

#include "arena.h"
#include "leaves.h"
#include "model.h"
#include "safetensors.h"
#include "trainer.h"

/* One row of manifest.json with its config. */
struct reference_case {
  const char *name, *kind, *loss_kind; /* borrowed from the manifest */
  const cJSON *row;
  struct ab_config *config;
};

/* Rows of `issue` whose kind starts with `kind` ("engine" also matches "engine_vjp"); the number of them. */
int reference_count(const char *issue, const char *kind);
/* The i-th such row; config loaded from its folder, environment ignored. reference_close when done. */
struct reference_case reference_open(const char *issue, const char *kind, int i);
struct reference_case reference_open_named(const char *name);
/* The same case with upstream_faithful=B1: judged by grads, outputs and loss of the real code. Without, a row that has
 * `modes` is judged by its *_sequential numbers. */
struct reference_case reference_open_faithful(const char *name);
/* Whether the real code's own numbers differ from what was meant: the row has `modes`. */
bool reference_has_modes(const struct reference_case *c);
void reference_close(struct reference_case *c);

/* A file of a case, all tensors. The caller frees the tree. */
struct ab_tree *reference_tensors(const struct reference_case *c, const char *file);
/* expected.json of a case; cJSON_Delete. */
cJSON *reference_expected(const struct reference_case *c);

/* A side with its memory, at a fixed address. Arena sizes are those of a dry run of the same functions (for a model:
 * with its trainer). */
struct reference_side {
  struct ab_exec exec;
  struct ab_arena slab, arena, book;
  struct ab_mesh mesh;
  struct ab_side side;
};
void reference_pipeline_new(struct reference_side *out, const struct ab_pipeline_ops *ops,
                            const struct ab_kernels *kernels, const struct ab_config *config, struct ab_probe *probe);
void reference_model_new(struct reference_side *out, const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                         const struct ab_config *config, struct ab_probe *probe);
void reference_side_free(struct reference_side *side);
/* params.safetensors of the case into the side. */
void reference_load_params(const struct reference_case *c, struct reference_side *side, const struct ab_layout *layout);

/* What a pipeline gives on a bundle: values of the kernels' dtype; gradients in the bundle's stacked layout. */
struct reference_run {
  size_t elements; /* of outputs, d_inputs */
  void *outputs, *d_inputs;
  double loss;
  struct ab_tree *grads;
};
struct reference_run reference_run_pipeline(const struct reference_case *c, const struct ab_pipeline_ops *ops,
                                            const struct ab_kernels *kernels, struct ab_probe *probe);
void reference_run_free(struct reference_run *run);
/* Against the outputs, gradients and loss that judge the case's mode, inside the row's bounds. */
void reference_check_run(const struct reference_case *c, const struct reference_run *run,
                         const struct ab_kernels *kernels);

/* What a model gives when it is trained on a bundle's batches. */
struct reference_training {
  int steps;
  struct ab_metrics *metrics; /* [steps] */
  struct ab_tree *grads;      /* of step 0, before clipping */
  struct ab_tree *params;     /* after the last step */
};
struct reference_training reference_train(const struct reference_case *c, const struct ab_model_ops *ops,
                                          const struct ab_kernels *kernels);
void reference_training_free(struct reference_training *training);
/* Against grads.safetensors, params_final.safetensors and every metric of every step, inside the row's bounds. */
void reference_check_training(const struct reference_case *c, const struct reference_training *training);

/* |a - b|_2 / |b|_2 in double; b is F32, a of `dtype`. Non-finite values give infinity. */
double reference_distance(const void *a, enum ab_dtype dtype, const float *b, size_t n);
/* A bound of the row: bounds.<group>[.<name>].<measure>; fails the test when it is missing. */
double reference_bound(const struct reference_case *c, const char *group, const char *name, const char *measure);
/* Every leaf of `tree` against the file, bounds.<group>.<path>.rel_l2; the worst distance / bound. */
double reference_check_tree(const struct reference_case *c, const struct ab_tree *tree, const char *file,
                            const char *group);
/* A float32 number of expected.json: node.<name>.value. */
double reference_value(const cJSON *node, const char *name);
