#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config_values.h"
#include "upstream.h"

enum { LARGEST = 2147483647 };

/* Derived values are written back; one that was given must be the same. */
static ab_status put_text(struct ab_config *config, const char *key, const char *text) {
  struct ab_config_values *values = config->values;
  size_t row = ab_key_find(key);
  const struct ab_value *given = &values->rows[row];
  if (strcmp(given->text, text) == 0) return AB_OK;
  bool checked = ab_keys[row].why == AB_WHY_DERIVED && given->node->type != AB_YAML_NULL;
  if (checked) {
    char expected[96];
    snprintf(expected, sizeof expected, "%s, which follows from other keys", text);
    return ab_value_refuse(values, row, expected);
  }
  return ab_values_set_text(values, row, "derived", text, AB_SOURCE_DERIVED);
}

static ab_status put(struct ab_config *config, const char *key, int64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)number);
  return put_text(config, key, text);
}

static ab_status refuse(const struct ab_config *config, const char *key, const char *expected) {
  return ab_value_refuse(config->values, ab_key_find(key), expected);
}

/* Dimensions (types.py: get_individual_scales) */

struct dimension {
  const char *base, *result;
  int64_t *field; /* NULL: kept in the values only */
  int exponent; /* 0 to 21 */
};

static ab_status scale_dimension(struct ab_config *config, const struct dimension *d) {
  int64_t base = ab_values_int(config->values, d->base), scaled = base;
  if (d->field || base >= 1) { /* base_moe_mlp_dim may be -1 */
    if (base < 1 || base > LARGEST) return refuse(config, d->base, "an integer from 1 to 2147483647");
    scaled = base << d->exponent;
    if (scaled > LARGEST)
      return refuse(config, d->base, "a value that is from 1 to 2147483647 after global_parameter_scale");
  }
  if (d->field) *d->field = scaled;
  return put(config, d->result, scaled);
}

static ab_status derive_dimensions(struct ab_config *c) {
  int64_t scale = ab_values_int(c->values, "global_parameter_scale");
  if (scale < 1 || (scale & (scale - 1)) != 0)
    return refuse(c, "global_parameter_scale", "a power of two, at least 1");
  int log2 = __builtin_ctzll((unsigned long long)scale), third = log2 / 3, rest = log2 % 3;
  int wide = third + (rest > 0), emb = third + (rest > 1);
  const struct dimension dimensions[] = {
      {"base_emb_dim", "emb_dim", &c->emb_dim, emb},
      {"base_num_query_heads", "num_query_heads", &c->num_query_heads, wide},
      {"base_num_kv_heads", "num_kv_heads", &c->num_kv_heads, wide},
      {"base_mlp_dim", "mlp_dim", &c->mlp_dim, wide},
      {"base_moe_mlp_dim", "moe_mlp_dim", NULL, wide},
      {"base_num_decoder_layers", "num_decoder_layers", &c->num_decoder_layers, third},
  };
  for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++) AB_TRY(scale_dimension(c, &dimensions[i]));
  return AB_OK;
}

static bool has_attention(const struct ab_config *c) { return strncmp(c->decoder_block, "simple", 6) != 0; }

static ab_status check_heads(const struct ab_config *c) {
  char expected[120];
  if (c->num_query_heads % c->num_kv_heads != 0) {
    snprintf(expected, sizeof expected, "a divisor of num_query_heads = %lld", (long long)c->num_query_heads);
    return refuse(c, "base_num_kv_heads", expected);
  }
  if (c->num_query_heads > LARGEST / c->head_dim)
    return refuse(c, "head_dim", "at most 2147483647 for num_query_heads x head_dim");
  if (has_attention(c) && c->head_dim % 2 != 0) return refuse(c, "head_dim", "an even number (RoPE turns pairs)");
  return AB_OK;
}

/* types.py, section I. */
static ab_status check_experts(const struct ab_config *c) {
  const struct ab_config_values *v = c->values;
  int64_t experts = ab_values_int(v, "num_experts"), width = ab_values_int(v, "base_moe_mlp_dim");
  if (experts < 1) return refuse(c, "num_experts", "a positive integer");
  if (experts == 1) return AB_OK;
  if (width < 1) return refuse(c, "base_moe_mlp_dim", "a positive integer, since num_experts > 1");
  bool every_layer = ab_values_int(v, "interleave_moe_layer_step") == 1 &&
                     ab_values_int(v, "first_num_dense_layers") == 0 &&
                     ab_values_int(v, "inhomogeneous_layer_cycle_interval") == 1;
  bool exempt = strcmp(c->decoder_block, "gemma4") == 0 || strcmp(c->decoder_block, "qwen3_moe") == 0;
  if (every_layer && !exempt && ab_values_int(v, "base_mlp_dim") != width)
    return refuse(c, "base_mlp_dim", "the value of base_moe_mlp_dim, since every layer has experts");
  return AB_OK;
}

/* Devices */

struct factors {
  int64_t product;
  int unset; /* factors of -1 in one network */
};

static ab_status multiply_factor(struct ab_config *c, size_t row, struct factors *f) {
  const struct ab_yaml_node *node = c->values->rows[row].node;
  int64_t factor = node->integer;
  if (factor < -1 || factor == 0) return ab_value_refuse(c->values, row, "a positive integer, or -1");
  if (factor == -1 && ++f->unset > 1)
    return ab_value_refuse(c->values, row, "a positive integer, since another factor of this network is already -1");
  if (factor == -1) return AB_OK;
  if (__builtin_mul_overflow(f->product, factor, &f->product) || f->product > LARGEST)
    return ab_value_refuse(c->values, row, "a product of mesh factors of at most 2147483647");
  return AB_OK;
}

static ab_status multiply_network(struct ab_config *c, const char *network, struct factors *f) {
  for (size_t row = 0; row < ab_key_count; row++)
    if (ab_keys[row].why == AB_WHY_MESH && strncmp(ab_keys[row].name, network, 4) == 0)
      AB_TRY(multiply_factor(c, row, f));
  return AB_OK;
}

static ab_status derive_devices(struct ab_config *c, int64_t devices) {
  struct factors ici = {.product = 1}, dcn = {.product = 1};
  AB_TRY(multiply_network(c, "ici_", &ici));
  dcn.product = ici.product;
  AB_TRY(multiply_network(c, "dcn_", &dcn));
  int64_t product = dcn.product;
  bool fits = devices == product || (ici.unset + dcn.unset > 0 && devices % product == 0);
  if (devices < 0 || devices > LARGEST || (devices > 0 && !fits))
    return AB_FAIL(AB_ECONFIG, "%lld devices, expected %s%lld, the product of the ici_* and dcn_* factors",
                   (long long)devices, ici.unset + dcn.unset > 0 ? "a multiple of " : "", (long long)product);
  c->devices = devices > 0 ? devices : product;
  return put(c, "num_target_devices", c->devices);
}

/* Batch (types.py: calculate_global_batch_sizes) */

static ab_status whole_rows(int64_t *out, const struct ab_config *c, double rows) {
  if (!(rows >= 1)) return refuse(c, "per_device_batch_size", "at least one row over all devices");
  if (rows > LARGEST) return refuse(c, "per_device_batch_size", "at most 2147483647 rows over all devices");
  *out = (int64_t)rows;
  return AB_OK;
}

static ab_status derive_batch(struct ab_config *c) {
  double n = (double)c->devices, p = c->per_device_batch_size,
         x = ab_values_number(c->values, "expansion_factor_real_data");
  int64_t to_load = 0;
  if (!(x > 0)) x = 1;
  AB_TRY(whole_rows(&c->micro_batch_size_to_train_on, c, n * p));
  AB_TRY(whole_rows(&to_load, c, p < 1 ? n * x : n * p * x));
  AB_TRY(whole_rows(&c->global_batch_size_to_load, c, (double)to_load * (double)c->gradient_accumulation_steps));
  AB_TRY(whole_rows(&c->global_batch_size_to_train_on, c,
                    (double)c->micro_batch_size_to_train_on * (double)c->gradient_accumulation_steps));
  if (c->global_batch_size_to_train_on > LARGEST / c->max_target_length)
    return refuse(c, "max_target_length", "at most 2147483647 tokens in a batch");
  AB_TRY(put(c, "micro_batch_size_to_train_on", c->micro_batch_size_to_train_on));
  AB_TRY(put(c, "global_batch_size_to_load", c->global_batch_size_to_load));
  AB_TRY(put(c, "global_batch_size_to_train_on", c->global_batch_size_to_train_on));
  if (ab_values_number(c->values, "eval_per_device_batch_size") != 0) return AB_OK;
  return put_text(c, "eval_per_device_batch_size", ab_values_at(c->values, "per_device_batch_size")->text);
}

/* Pipeline (types.py, section G): MaxText's asserts in MaxText's order */

static ab_status derive_pipeline_layers(struct ab_config *c) {
  if (c->pipeline_parallel_layers != -1) return AB_OK;
  bool deepseek = strcmp(c->decoder_block, "deepseek") == 0;
  int64_t dense = deepseek ? ab_values_int(c->values, "first_num_dense_layers") : 0;
  if (dense < 0 || dense >= c->num_decoder_layers)
    return refuse(c, "first_num_dense_layers", "at least 0 and fewer than num_decoder_layers");
  c->pipeline_parallel_layers = c->num_decoder_layers - dense;
  return put(c, "pipeline_parallel_layers", c->pipeline_parallel_layers);
}

static ab_status derive_stages(struct ab_config *c) {
  int64_t ici = ab_values_int(c->values, "ici_pipeline_parallelism"),
          dcn = ab_values_int(c->values, "dcn_pipeline_parallelism");
  c->pipelined = ici > 1 || dcn > 1;
  c->num_stages = (ici > 1 ? ici : 1) * (dcn > 1 ? dcn : 1); /* at most the product of all factors */
  return put_text(c, "using_pipeline_parallelism", c->pipelined ? "true" : "false");
}

static ab_status derive_repeats(struct ab_config *c) {
  int64_t round = 0, layers = c->pipeline_parallel_layers, K = c->num_layers_per_pipeline_stage;
  bool overflow = __builtin_mul_overflow(c->num_stages, K, &round);
  if (c->num_pipeline_repeats != -1) return AB_OK;
  if (overflow || layers % round != 0)
    return AB_FAIL(AB_ECONFIG,
                   "key 'pipeline_parallel_layers' is %lld, expected a multiple of %lld stages x "
                   "num_layers_per_pipeline_stage %lld",
                   (long long)layers, (long long)c->num_stages, (long long)K);
  c->num_pipeline_repeats = layers / round;
  return put(c, "num_pipeline_repeats", c->num_pipeline_repeats);
}

static ab_status derive_microbatches(struct ab_config *c) {
  if (c->num_pipeline_microbatches != -1) return AB_OK;
  c->num_pipeline_microbatches = ab_forwarding_delay(c) * c->num_stages;
  return put(c, "num_pipeline_microbatches", c->num_pipeline_microbatches);
}

static ab_status check_layers(const struct ab_config *c) {
  int64_t S = c->num_stages, R = c->num_pipeline_repeats, K = c->num_layers_per_pipeline_stage, product = 0;
  bool overflow = __builtin_mul_overflow(S, R, &product) || __builtin_mul_overflow(product, K, &product);
  if (overflow || product != c->pipeline_parallel_layers)
    return AB_FAIL(AB_ECONFIG,
                   "key 'pipeline_parallel_layers' is %lld, expected %lld stages x num_pipeline_repeats %lld x "
                   "num_layers_per_pipeline_stage %lld",
                   (long long)c->pipeline_parallel_layers, (long long)S, (long long)R, (long long)K);
  if (c->pipeline_parallel_layers > c->num_decoder_layers)
    return AB_FAIL(AB_ECONFIG, "key 'pipeline_parallel_layers' is %lld, expected at most num_decoder_layers = %lld",
                   (long long)c->pipeline_parallel_layers, (long long)c->num_decoder_layers);
  return AB_OK;
}

static ab_status check_microbatches(const struct ab_config *c) {
  int64_t S = c->num_stages, M = c->num_pipeline_microbatches, rows = c->micro_batch_size_to_train_on;
  char expected[160];
  snprintf(expected, sizeof expected, "a multiple of the %lld pipeline stages", (long long)S);
  if (M % S != 0) return refuse(c, "num_pipeline_microbatches", expected);
  snprintf(expected, sizeof expected, "a divisor of micro_batch_size_to_train_on = %lld", (long long)rows);
  if (rows % M != 0) return refuse(c, "num_pipeline_microbatches", expected);
  snprintf(expected, sizeof expected,
           "at least %lld, twice the stages, since pipeline_delay_activation_forwarding is true", (long long)(2 * S));
  if (c->pipeline_delay_activation_forwarding && M < 2 * S) return refuse(c, "num_pipeline_microbatches", expected);
  return AB_OK;
}

/* A step is planned by walking it. */
static ab_status check_walk(const struct ab_config *c) {
  char expected[200], why[80] = "";
  double iterations = 0, layers = (double)c->num_decoder_layers;
  if (c->pipelined) {
    iterations = (double)c->num_pipeline_microbatches * (double)c->num_pipeline_repeats + (double)ab_pipeline_depth(c);
    layers += iterations * (double)(c->num_stages * c->num_layers_per_pipeline_stage) -
              (double)c->pipeline_parallel_layers;
  }
  layers *= (double)c->gradient_accumulation_steps;
  if (layers <= AB_CONFIG_WALK_MAX) return AB_OK;
  if (c->pipelined) snprintf(why, sizeof why, "with %.0f iterations of the pipeline ", iterations);
  snprintf(expected, sizeof expected, "fewer: %sa step runs %.0f layers, of at most %d", why, layers,
           AB_CONFIG_WALK_MAX);
  return refuse(c, c->pipelined ? "num_pipeline_microbatches" : "num_decoder_layers", expected);
}

static ab_status check_gather_per_repeat(const struct ab_config *c) {
  if (!c->pipeline_fsdp_ag_per_repeat) return AB_OK;
  if (c->num_pipeline_repeats <= 1)
    return refuse(c, "num_pipeline_repeats", "more than 1, since pipeline_fsdp_ag_per_repeat is true");
  if (c->num_layers_per_pipeline_stage != 1)
    return refuse(c, "num_layers_per_pipeline_stage", "1, since pipeline_fsdp_ag_per_repeat is true");
  if (c->pipeline_delay_activation_forwarding)
    return refuse(c, "pipeline_delay_activation_forwarding", "false, since pipeline_fsdp_ag_per_repeat is true");
  if (*ab_values_string(c->values, "quantization"))
    return refuse(c, "quantization", "none, since pipeline_fsdp_ag_per_repeat is true");
  if (c->scan_layers_per_stage)
    return refuse(c, "scan_layers_per_stage", "false, since pipeline_fsdp_ag_per_repeat is true");
  return AB_OK;
}

static ab_status derive_pipeline(struct ab_config *c) {
  AB_TRY(derive_stages(c));
  AB_TRY(derive_pipeline_layers(c));
  if (!c->pipelined) return check_walk(c);
  AB_TRY(derive_repeats(c));
  AB_TRY(derive_microbatches(c));
  AB_TRY(check_layers(c));
  AB_TRY(check_microbatches(c));
  AB_TRY(check_walk(c));
  return check_gather_per_repeat(c);
}

/* Training */

static ab_status derive_schedule(struct ab_config *c) {
  if (c->steps == -1 && c->learning_rate_schedule_steps == -1)
    return refuse(c, "steps", "a positive integer, since learning_rate_schedule_steps is -1 too");
  if (c->steps == -1) c->steps = c->learning_rate_schedule_steps;
  if (c->learning_rate_schedule_steps == -1) c->learning_rate_schedule_steps = c->steps;
  bool wsd = strcmp(c->lr_schedule_type, "wsd") == 0;
  if (wsd && c->warmup_steps_fraction + c->wsd_decay_steps_fraction > 1)
    return refuse(c, "wsd_decay_steps_fraction", "at most 1 together with warmup_steps_fraction");
  AB_TRY(put(c, "steps", c->steps));
  return put(c, "learning_rate_schedule_steps", c->learning_rate_schedule_steps);
}

static ab_status check_dropout(const struct ab_config *c) {
  double rate = ab_values_number(c->values, "dropout_rate");
  return rate >= 0 && rate < 1 ? AB_OK : refuse(c, "dropout_rate", "a number from 0 to below 1");
}

static ab_status check_accumulation(const struct ab_config *c) {
  static const char *const fp8[] = {"fp8", "nanoo_fp8", "fp8_gpu", "te_fp8_delayedscaling"};
  const char *quantization = ab_values_string(c->values, "quantization");
  for (size_t i = 0; i < sizeof fp8 / sizeof fp8[0]; i++)
    if (strcmp(quantization, fp8[i]) == 0 && c->gradient_accumulation_steps > 1)
      return refuse(c, "gradient_accumulation_steps", "1, since quantization is an fp8 variant");
  return AB_OK;
}

static ab_status put_defaults(struct ab_config *c) {
  if (!*ab_values_string(c->values, "mu_dtype"))
    AB_TRY(put_text(c, "mu_dtype", ab_values_at(c->values, "weight_dtype")->text));
  if (ab_values_number(c->values, "attn_logits_soft_cap") == 0) AB_TRY(put_text(c, "attn_logits_soft_cap", "null"));
  if (ab_values_number(c->values, "final_logits_soft_cap") == 0) AB_TRY(put_text(c, "final_logits_soft_cap", "null"));
  return AB_OK;
}

/* What B21 reports of bubbles must exist. */
static void derive_bubbles(struct ab_config *c) {
  if (c->record_internal_nn_metrics > 0 && ab_faithful(c, AB_DEFECT_B21)) c->compute_bubbles = true;
}

ab_status ab_config_derive(struct ab_config *config, int64_t devices) {
  AB_TRY(derive_dimensions(config));
  AB_TRY(check_heads(config));
  AB_TRY(check_experts(config));
  AB_TRY(derive_devices(config, devices));
  AB_TRY(derive_batch(config));
  AB_TRY(derive_schedule(config));
  AB_TRY(check_dropout(config));
  AB_TRY(check_accumulation(config));
  AB_TRY(derive_pipeline(config));
  derive_bubbles(config);
  return put_defaults(config);
}
