#include <stddef.h>
#include <string.h>

#include "config_values.h"
#include "mem.h"

/* Values that go into the struct as they are, with the range each must keep. Dimensions end at 2^31 - 1 because BLAS
 * counts in 32 bits; derive.c sees to products. */
enum field_type { BOOL, INT, NUMBER, STRING };

struct field {
  const char *key;
  size_t offset;
  enum field_type type;
  double min, max;
  const char *expected; /* the range in words; of strings: the choices, separated by ", ", NULL for any text */
};

#define AT(name) offsetof(struct ab_config, name)
#define FLAG(key)                                                                                                    \
  { #key, AT(key), BOOL, 0, 0, NULL }
#define DIM(key)                                                                                                     \
  { #key, AT(key), INT, 1, DIM_MAX, "an integer from 1 to 2147483647" }
#define COUNT(key, min, words)                                                                                       \
  { #key, AT(key), INT, min, DIM_MAX, words }
#define FACTOR(key, min, max, words)                                                                                 \
  { #key, AT(key), NUMBER, min, max, words }
#define TEXT(key, choices)                                                                                           \
  { #key, AT(key), STRING, 0, 0, choices }
#define ABOVE_ZERO 4.9e-324
#define ANY_MAX 1.7976931348623157e308
#define DIM_MAX 2147483647.0
#define SEED_MAX 4294967295.0

static const char blocks[] = "default, llama2, mistral, mixtral, deepseek, deepseek4, gemma, gemma2, gemma3, gemma4, "
                             "gpt3, gpt_oss, qwen2, qwen3, "
                             "qwen3_moe, qwen3_custom_moe, qwen3_next, qwen3_5, simple, simple_mlp, llama4, olmo3";
static const char policies[] = "none, full, minimal, minimal_with_context, minimal_flash, minimal_with_quantization, "
                               "minimal_with_context_and_quantization, save_dot_with_context_except_mlp, "
                               "save_dot_except_mlpwi, save_dot_except_mlp, "
                               "save_qkv_proj, save_out_proj, qkv_proj_offloaded, minimal_offloaded, custom";

static const struct field fields[] = {
    TEXT(run_name, NULL),
    TEXT(model_name, NULL),
    TEXT(base_output_directory, NULL),
    TEXT(dataset_type, "synthetic, tfds, hf, grain, c4_mlperf, olmo_grain"),
    COUNT(steps, -1, "an integer from 1 to 2147483647, or -1 for learning_rate_schedule_steps"),
    FLAG(debug_sharding),
    TEXT(decoder_block, blocks),
    DIM(head_dim),
    DIM(vocab_size),
    DIM(max_target_length),
    FACTOR(normalization_layer_epsilon, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(rope_min_timescale, ABOVE_ZERO, ANY_MAX, "a positive number"),
    FACTOR(rope_max_timescale, ABOVE_ZERO, ANY_MAX, "a positive number"),
    FACTOR(rope_linear_scaling_factor, ABOVE_ZERO, ANY_MAX, "a positive number"),
    FACTOR(per_device_batch_size, ABOVE_ZERO, DIM_MAX, "a positive number"),
    DIM(gradient_accumulation_steps),
    FLAG(packing),
    COUNT(max_segments_per_seq, -1, "-1 or an integer from 1 to 2147483647"),
    COUNT(num_pipeline_microbatches, -1, "-1 or an integer from 1 to 2147483647"),
    COUNT(num_pipeline_repeats, -1, "-1 or an integer from 1 to 2147483647"),
    DIM(num_layers_per_pipeline_stage),
    COUNT(pipeline_parallel_layers, -1, "-1 or an integer from 1 to 2147483647"),
    FLAG(pipeline_delay_activation_forwarding),
    FLAG(pipeline_fsdp_ag_once),
    FLAG(pipeline_fsdp_ag_per_repeat),
    FLAG(scan_pipeline_iterations),
    FLAG(scan_pipeline_repeats),
    FLAG(scan_layers_per_stage),
    FLAG(scan_layers),
    {"param_scan_axis", AT(param_scan_axis), INT, 0, 1, "0 or 1"},
    FLAG(set_remat_policy_on_pipeline_iterations),
    FLAG(set_remat_policy_on_layers_per_stage),
    TEXT(remat_policy, policies),
    FLAG(enable_nnx),
    FLAG(pure_nnx),
    FLAG(pure_nnx_decoder),
    FLAG(use_nnx_pipeline),
    {"init_weights_seed", AT(init_weights_seed), INT, 0, SEED_MAX, "an integer from 0 to 4294967295"},
    {"data_shuffle_seed", AT(data_shuffle_seed), INT, 0, SEED_MAX, "an integer from 0 to 4294967295"},
    FACTOR(z_loss_multiplier, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(gradient_clipping_threshold, 0, ANY_MAX, "a number of at least 0"),
    TEXT(opt_type, "adamw, adam_pax, sgd, muon"),
    FACTOR(adam_b1, 0, 1, "a number from 0 to below 1"),
    FACTOR(adam_b2, 0, 1, "a number from 0 to below 1"),
    FACTOR(adam_eps, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(adam_eps_root, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(adam_weight_decay, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(learning_rate, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(learning_rate_final_fraction, 0, ANY_MAX, "a number of at least 0"),
    FACTOR(warmup_steps_fraction, 0, 1, "a number from 0 to 1"),
    FACTOR(wsd_decay_steps_fraction, 0, 1, "a number from 0 to 1"),
    TEXT(lr_schedule_type, "cosine, wsd"),
    TEXT(wsd_decay_style, "linear, cosine"),
    COUNT(learning_rate_schedule_steps, -1, "an integer from 1 to 2147483647, or -1 for steps"),
    COUNT(record_internal_nn_metrics, 0, "an integer from 0 to 2147483647"),
    {"ab_compute_bubbles", AT(compute_bubbles), BOOL, 0, 0, NULL},
};

static void *member(struct ab_config *config, const struct field *field) { return (char *)config + field->offset; }

/* Zero is between -1 and 1, but it is no count. */
static ab_status fill_int(struct ab_config *config, const struct field *field, size_t row) {
  const struct ab_yaml_node *node = config->values->rows[row].node;
  bool inside = node->number >= field->min && node->number <= field->max;
  if (!inside || (field->min < 0 && node->integer == 0)) return ab_value_refuse(config->values, row, field->expected);
  *(int64_t *)member(config, field) = node->integer;
  return AB_OK;
}

static ab_status fill_number(struct ab_config *config, const struct field *field, size_t row) {
  double number = config->values->rows[row].node->number;
  bool decay_rate = field->offset == AT(adam_b1) || field->offset == AT(adam_b2);
  if (number < field->min || number > field->max || (decay_rate && number == 1))
    return ab_value_refuse(config->values, row, field->expected);
  *(double *)member(config, field) = number;
  return AB_OK;
}

static bool is_choice(const char *choices, const char *text) {
  size_t length = strlen(text);
  for (const char *at = choices; at; at = strstr(at, ", ")) {
    if (*at == ',') at += 2;
    if (strcspn(at, ",") == length && strncmp(at, text, length) == 0) return true;
  }
  return false;
}

static ab_status fill_string(struct ab_config *config, const struct field *field, size_t row) {
  const struct ab_yaml_node *node = config->values->rows[row].node;
  const char *text = node->type == AB_YAML_NULL ? "none" : node->string;
  if (node->type == AB_YAML_LIST || node->type == AB_YAML_MAP)
    return ab_value_refuse(config->values, row, "a string");
  if (!field->expected && node->type == AB_YAML_NULL) text = "";
  if (field->expected && !is_choice(field->expected, text)) {
    char expected[600] = "one of ";
    strncat(expected, field->expected, sizeof expected - 8);
    return ab_value_refuse(config->values, row, expected);
  }
  return ab_mem_string(member(config, field), text);
}

static ab_status fill(struct ab_config *config, const struct field *field) {
  size_t row = ab_key_find(field->key);
  switch (field->type) {
  case BOOL: *(bool *)member(config, field) = config->values->rows[row].node->boolean; return AB_OK;
  case INT: return fill_int(config, field, row);
  case NUMBER: return fill_number(config, field, row);
  case STRING: return fill_string(config, field, row);
  }
  return AB_OK;
}

ab_status ab_config_fill(struct ab_config *config) {
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) AB_TRY(fill(config, &fields[i]));
  return AB_OK;
}

void ab_config_free_fields(struct ab_config *config) {
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].type == STRING) ab_mem_free(*(char **)member(config, &fields[i]));
}
