/* MaxText configuration: files + model file + key=value overrides + M_KEY environment -> one validated struct.
 *
 * Merge order and errors: MaxText pyconfig.py: _initialize_pydantic. Derived values: configs/types.py:
 * get_individual_scales, calculate_global_batch_sizes, set_derived_and_validate_values.
 *
 * Order, later wins: compiled-in defaults, the chain of base_config parents and the file itself,
 * models/<model_name>.yml, overrides, environment (which may not give the keys that decide this). Where a file itself
 * sets override_model_config: true, its own keys are taken as overrides are: they win over the model file (bundles have
 * no base file). A base_config is searched beside its child, then in configs/; a model file in models/ beside the file
 * that was named, in models/ one folder up, then in configs/models/. configs/ is $AB_DATADIR/configs, else the one of
 * the source tree (AB_CONFIG_DIR, compiled in).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "status.h"

/* Layers that a step may run, those of pipeline bubbles included: each costs the plan a few microseconds and the step
 * much more. */
enum { AB_CONFIG_WALK_MAX = 1 << 20 };

/* Validated and derived; names are MaxText's keys. Strings are owned by the struct. */
struct ab_config {
  /* run */
  char *run_name, *model_name, *base_output_directory;
  int64_t devices; /* product of the positive ici_* and dcn_* factors, or --devices */
  int64_t steps;
  bool debug_sharding;

  /* model */
  char *decoder_block; /* "llama2", "simple", "simple_mlp" */
  int64_t emb_dim, num_query_heads, num_kv_heads, head_dim, mlp_dim, num_decoder_layers, vocab_size;
  int64_t max_target_length;
  double normalization_layer_epsilon;
  double rope_min_timescale, rope_max_timescale, rope_linear_scaling_factor;

  /* batch: rows of one forward call */
  int64_t micro_batch_size_to_train_on, global_batch_size_to_train_on, global_batch_size_to_load;
  double per_device_batch_size;
  int64_t gradient_accumulation_steps;
  bool packing;
  int64_t max_segments_per_seq;
  char *dataset_type; /* "synthetic", "tfds" ...: a bundle's batch beats it; without one, training needs "synthetic" */

  /* pipeline; S == 1 with pipelining off: `pipelined` false and the other pipeline fields as given */
  bool pipelined;
  int64_t num_stages;                     /* S */
  int64_t num_pipeline_microbatches;      /* M */
  int64_t num_pipeline_repeats;           /* R */
  int64_t num_layers_per_pipeline_stage;  /* K */
  int64_t pipeline_parallel_layers;
  bool pipeline_delay_activation_forwarding, pipeline_fsdp_ag_once, pipeline_fsdp_ag_per_repeat;
  bool scan_pipeline_iterations, scan_pipeline_repeats, scan_layers_per_stage, scan_layers;
  int64_t param_scan_axis;
  bool set_remat_policy_on_pipeline_iterations, set_remat_policy_on_layers_per_stage;
  char *remat_policy; /* "none", "full", "minimal" ..., "custom" */
  uint32_t remat_device, remat_offload; /* read with remat_policy custom: ab_config_tensor_remat */

  /* dispatch */
  bool enable_nnx, pure_nnx, pure_nnx_decoder;
  bool use_nnx_pipeline; /* the pull request's flag; default false */

  /* training */
  int64_t init_weights_seed, data_shuffle_seed;
  double z_loss_multiplier;
  double gradient_clipping_threshold;
  char *opt_type; /* "adamw", "sgd" */
  double adam_b1, adam_b2, adam_eps, adam_eps_root, adam_weight_decay;
  double learning_rate, learning_rate_final_fraction, warmup_steps_fraction, wsd_decay_steps_fraction;
  char *lr_schedule_type, *wsd_decay_style; /* "cosine" or "wsd"; "linear" or "cosine" */
  int64_t learning_rate_schedule_steps; /* resolved: never -1 */

  int64_t record_internal_nn_metrics; /* > 0: layers sow metrics (blocks/sown.h) */

  /* ours: keys beyond MaxText's. ab_compute_bubbles: run the layers in bubble cells too (default false) */
  bool compute_bubbles;
  uint32_t upstream_faithful; /* bits by enum ab_defect: ask ab_faithful (upstream.h); default none */

  struct ab_config_values *values; /* every key with its final value and where it came from */
};

struct ab_config_request {
  const char *file;             /* a .yml; NULL: overrides[0] if it ends in .yml, else compiled-in defaults alone */
  const char *const *overrides; /* "key=value", later wins */
  size_t override_count;
  bool ignore_environment;      /* leave M_KEY variables alone (bundles, tests) */
  int64_t devices;              /* > 0: --devices */
  bool inspect;                 /* also accept what MaxText accepts and this build cannot run; all else is validated */
  const struct ab_config_values *defaults; /* of ab_config_defaults, outliving the config; NULL: made for this load */
};

/* The compiled-in defaults, read once for a program that loads many configurations. *out owned by the caller. */
ab_status ab_config_defaults(struct ab_config_values **out);
void ab_config_defaults_free(struct ab_config_values *defaults);

/* AB_ECONFIG or AB_EIO with one sentence naming file, key, value found and value expected. *out owned by the caller. */
ab_status ab_config_load(struct ab_config **out, const struct ab_config_request *request);
void ab_config_free(struct ab_config *config);

/* The final value of any key as YAML text ("true", "0.1", "[silu, linear]"); NULL for an unknown key. Borrowed. */
const char *ab_config_value(const struct ab_config *config, const char *key);
/* `Config param K: V` for every key, sorted, as MaxText prints it; escaped by ab_text_print. */
void ab_config_print(FILE *out, const struct ab_config *config);
/* One line per default in force that this build does not support, and per key without numeric effect that was given. */
void ab_config_print_notes(FILE *out, const struct ab_config *config);
/* Where remat_policy custom puts the tensor of a checkpoint name, by the key of that name; `remat`, computed again, for
 * a name without key. */
enum ab_tensor_remat { AB_TENSOR_REMAT, AB_TENSOR_DEVICE, AB_TENSOR_OFFLOAD };
enum ab_tensor_remat ab_config_tensor_remat(const struct ab_config *config, const char *name);
/* Calls fn for every key, sorted, with its final YAML text and source ("default", "file", "model", "override",
 * "environment", "derived"). */
void ab_config_each(const struct ab_config *config, void (*fn)(void *ctx, const char *key, const char *value,
                                                               const char *source), void *ctx);
/* XXH3-64 of the sorted "key: value\n" lines of all keys with numeric effect. */
uint64_t ab_config_digest(const struct ab_config *config);

/* Closed-form schedule facts (MaxText pipeline.py). d, D, T, circ. All of a pipelined config. */
static inline int64_t ab_forwarding_delay(const struct ab_config *c) {
  return c->pipeline_delay_activation_forwarding ? 2 : 1;
}
static inline int64_t ab_pipeline_depth(const struct ab_config *c) {
  return ab_forwarding_delay(c) * (c->num_stages - 1);
}
static inline int64_t ab_total_iterations(const struct ab_config *c) {
  return c->num_pipeline_microbatches * c->num_pipeline_repeats + ab_pipeline_depth(c);
}
static inline bool ab_use_circ_storage(const struct ab_config *c) {
  return c->num_pipeline_repeats > 1 && c->num_pipeline_microbatches > c->num_stages * ab_forwarding_delay(c);
}
