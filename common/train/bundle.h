/* Bundles: a folder with the inputs of a case and what came out, in the format of the data from the real MaxText code
 * (tests/fixtures/reference/README.md): meta.json, params.safetensors, batch.safetensors; expected.json,
 * grads.safetensors, outputs.safetensors, params_final.safetensors, params_step1.safetensors. config.yml is the config
 * library's. `--dump` writes the same.
 *
 * Two doors, because their failures mean different things: ab_bundle_open takes the inputs (a wrong one is a user's
 * mistake), ab_bundle_expect the results (missing or malformed ones are a bad golden, other names or shapes than the
 * run's are not comparable). Files, keys and batch tensors that nobody needs are ignored and counted; an unknown tensor
 * in params or grads is an error.
 */
#pragma once

#include "loss.h"
#include "trainer.h"

/* Inputs of a case. */
struct ab_bundle {
  char *folder;
  const struct ab_config *config; /* borrowed */
  bool train;                     /* kind train; else engine or engine_vjp: the pipeline module alone */
  enum ab_loss_kind loss_kind;
  bool maxtext; /* meta.json names MaxText's commit: the results are the real code's, not a dump's */
  struct ab_layout layout;
  struct ab_tree *params, *batch; /* stacked F32; F32 and I32 */
  size_t ignored;                 /* files and batch tensors */
};

/* config: of the bundle's own keys, borrowed for the bundle's life. AB_EFORMAT, AB_EIO or AB_ENOTFOUND for a file;
 * AB_ESHAPE for a shape that is not the config's, AB_EMISMATCH for a tensor that the config does not have or a wrong
 * dtype, AB_EFORMAT for NaN or infinity, a token outside the vocabulary, a negative position or segment id, each with
 * tensor and index. Nothing of a wrong size is ever allocated. */
ab_status ab_bundle_open(struct ab_bundle **out, const char *folder, const struct ab_config *config);
/* Accepts NULL. */
void ab_bundle_free(struct ab_bundle *bundle);

/* Kind engine: the pipeline module alone runs. false for a whole model, and for NULL (no bundle). */
bool ab_bundle_is_engine(const struct ab_bundle *bundle);
/* Whether it is a folder that holds a meta.json: what makes it a bundle. AB_EIO when that cannot be seen. */
ab_status ab_bundle_find(bool *out, const char *folder);

/* Steps in the batch (kind train); 1 otherwise. */
int64_t ab_bundle_steps(const struct ab_bundle *bundle);
/* Kind train: the arrays of one step, borrowed. AB_ESHAPE when the batch has no such step. */
ab_status ab_bundle_batch(struct ab_batch *out, const struct ab_bundle *bundle, int64_t step);

/* Kind engine: the inputs of the pipeline module. */
struct ab_activations {
  size_t count;                           /* B x L x E */
  const float *inputs, *other;            /* [B, L, E]; other: targets, or output_cotangent (AB_LOSS_GIVEN) */
  const int32_t *positions, *segment_ids; /* [B, L] */
};
struct ab_activations ab_bundle_activations(const struct ab_bundle *bundle);

/* Sets a side's parameters. Not during a step (allocates). */
ab_status ab_bundle_load(const struct ab_bundle *bundle, const struct ab_side *side, const struct ab_kernels *kernels);

/* Metrics of one step and which of them the file holds: bit i = ab_metric_fields[i]. */
struct ab_results_step {
  struct ab_metrics metrics;
  uint32_t present;
};

/* Results of a case; trees are stacked F32 in the bundle's layout, NULL when their file is not there. */
struct ab_results {
  struct ab_tree *grads, *params_final, *params_step1;
  struct ab_tree *outputs;                               /* `outputs` and `d_inputs` [B, L, E] */
  struct ab_tree *grads_sequential, *outputs_sequential; /* where the real engines are wrong: what was meant; both of
                                                          * them or none where there are outputs */
  double loss_sequential;                                /* kind engine, with grads_sequential */
  struct ab_results_step *step;                          /* kind train */
  size_t steps;
  double loss;    /* kind engine; 0 for AB_LOSS_GIVEN */
  size_t ignored; /* keys of expected.json */
};
/* AB_ENOTFOUND, AB_EIO, AB_EFORMAT: missing, unreadable, malformed or newer; AB_EMISMATCH, AB_ESHAPE: tensors with
 * other names, dtypes or shapes than the run's. */
ab_status ab_bundle_expect(struct ab_results *out, const struct ab_bundle *bundle);
void ab_results_free(struct ab_results *results);
/* Puts what was meant in the place of what the real engines gave; false, changing nothing, where the bundle holds no
 * such numbers. */
bool ab_results_as_meant(struct ab_results *results);

/* What a side produced, to be written as a bundle. Trees are borrowed and may be NULL; of the side's dtype, but initial
 * parameters are written as F32, which loses nothing. */
struct ab_dump {
  const struct ab_config *config;
  bool train;
  enum ab_loss_kind loss_kind;
  const char *produced_by; /* route, e.g. "linen" */
  const struct ab_tree *params, *batch, *grads, *outputs, *params_final, *params_step1;
  const struct ab_metrics *step; /* [steps] */
  size_t steps;
  double loss; /* kind engine */
  bool inputs_only; /* no expected.json */
};
/* Writes all files into a scratch folder beside `folder` and renames it: complete or not there at all. AB_EIO when
 * folder exists and is not empty. */
ab_status ab_dump_write(const struct ab_dump *dump, const char *folder);
/* config.yml of `folder`: every key that somebody gave. */
ab_status ab_dump_config(const struct ab_config *config, const char *folder);
/* A batch in the bundle's form: the same arrays for each of `steps` steps. *out is the caller's. */
ab_status ab_dump_batch(struct ab_tree **out, const struct ab_batch *batch, int64_t steps);
