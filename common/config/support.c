#include <stdio.h>
#include <string.h>

#include "config_values.h"
#include "text.h"

/* Keys that are read, but not with every value that MaxText knows: canonical YAML, NULL at the end. */
struct support {
  const char *key, *hint; /* hint: what to give instead; NULL: the values */
  const char *values[4];
};

static const struct support supported[] = {
    {"ab_compute_bubbles", NULL, {"true", "false"}},
    {"attention", NULL, {"autoselected", "dot_product"}},
    {"attention_type", NULL, {"global"}},
    {"attn_logits_soft_cap", "0.0 or none", {"null", "0.0"}},
    {"decoder_block", NULL, {"llama2", "simple", "simple_mlp"}},
    {"dtype", "float32, give dtype=float32", {"float32"}},
    {"final_logits_soft_cap", "0.0 or none", {"null", "0.0"}},
    {"grad_dtype", "float32, give grad_dtype=float32", {"float32"}},
    {"gradient_accumulation_steps", NULL, {"1"}},
    {"mlp_activations", NULL, {"[silu, linear]"}},
    {"weight_dtype", "float32, give weight_dtype=float32", {"float32"}},
    {"mu_dtype", "float32, give mu_dtype=float32", {"float32"}},
    {"num_experts", NULL, {"1"}},
    {"opt_type", NULL, {"adamw", "sgd"}},
    {"quantization", "no quantization", {"\"\"", "null"}},
};

static void list_values(char *out, size_t size, const struct support *s) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < 4 && s->values[i] && used < size; i++)
    used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " or " : "", s->values[i]);
}

static bool supports(const struct support *s, const char *text) {
  for (size_t i = 0; i < 4 && s->values[i]; i++)
    if (strcmp(s->values[i], text) == 0) return true;
  return false;
}

static ab_status check_supported(const struct ab_config *config, const struct support *s) {
  size_t row = ab_key_find(s->key);
  char values[200], expected[300];
  if (supports(s, config->values->rows[row].text)) return AB_OK;
  list_values(values, sizeof values, s);
  snprintf(expected, sizeof expected, "%s (other values are not supported by this build)",
           s->hint ? s->hint : values);
  return ab_value_refuse(config->values, row, expected);
}

static bool is_narrowed(const char *key) {
  for (size_t i = 0; i < sizeof supported / sizeof supported[0]; i++)
    if (strcmp(supported[i].key, key) == 0) return true;
  return false;
}

static ab_status check_default(const struct ab_config *config, size_t row) {
  const struct ab_key *key = &ab_keys[row];
  char expected[300];
  if (key->class != AB_KEY_UNSUPPORTED || is_narrowed(key->name)) return AB_OK;
  if (ab_value_is_default(config->values, row)) return AB_OK;
  snprintf(expected, sizeof expected, "%s (other values are not supported by this build: %s)", key->initial,
           ab_key_why_text(key->why));
  return ab_value_refuse(config->values, row, expected);
}

static ab_status check_dropout(const struct ab_config *config) {
  size_t row = ab_key_find("dropout_rate");
  if (config->values->rows[row].node->number == 0 || !ab_values_bool(config->values, "enable_dropout")) return AB_OK;
  return ab_value_refuse(config->values, row,
                         "0.0, or enable_dropout=false (dropout is not supported by this build)");
}

ab_status ab_config_check_support(const struct ab_config *config) {
  for (size_t i = 0; i < sizeof supported / sizeof supported[0]; i++) AB_TRY(check_supported(config, &supported[i]));
  AB_TRY(check_dropout(config));
  AB_TRY(ab_config_check_upstream(config));
  for (size_t row = 0; row < ab_key_count; row++) AB_TRY(check_default(config, row));
  return AB_OK;
}

/* Defaults in force whose meaning is not that of MaxText here. */
static const struct {
  const char *key, *value, *note;
} notes[] = {
    {"dataset_type", "tfds", "no data set is read: give dataset_type=synthetic or a bundle's batch"},
    {"enable_checkpointing", "true", "no checkpoint is written"},
    {"attention", "autoselected", "dot_product is used"},
    {"enable_tensorboard", "true", "no tensorboard log is written"},
};

static void print_given_without_effect(FILE *out, const struct ab_config *config, size_t row) {
  const struct ab_value *value = &config->values->rows[row];
  char shown[AB_WHERE_SIZE];
  bool given = value->source == AB_SOURCE_FILE || value->source == AB_SOURCE_OVERRIDE ||
               value->source == AB_SOURCE_ENVIRONMENT;
  bool unread = ab_keys[row].class == AB_KEY_NO_EFFECT ||
                (ab_keys[row].why == AB_WHY_REMAT && strcmp(config->remat_policy, "custom") != 0);
  if (!given || !unread || ab_value_is_default(config->values, row)) return;
  fprintf(out, "%s: %s has no effect here: %s\n", ab_keys[row].name, ab_value_shown(shown, value),
          ab_key_why_text(ab_keys[row].why));
}

static void print_outranked(FILE *out, const struct ab_value *value, const char *key) {
  char where[AB_WHERE_SIZE], place[AB_WHERE_SIZE], lost[AB_WHERE_SIZE], won[AB_WHERE_SIZE];
  if (!value->outranked || value->source != AB_SOURCE_MODEL) return;
  ab_text_escape(place, sizeof place, ab_value_where(where, value->outranked));
  fprintf(out,
          "%s: %s of %s gives way to %s of the model file (override_model_config: true in that file reverses it)\n",
          key, ab_value_shown(lost, value->outranked), place, ab_value_shown(won, value));
}

void ab_config_print_notes(FILE *out, const struct ab_config *config) {
  for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
    const struct ab_value *value = ab_values_at(config->values, notes[i].key);
    if (value->source == AB_SOURCE_DEFAULT && strcmp(value->text, notes[i].value) == 0)
      fprintf(out, "%s: by default %s: %s\n", notes[i].key, notes[i].value, notes[i].note);
  }
  for (size_t row = 0; row < ab_key_count; row++) {
    print_given_without_effect(out, config, row);
    print_outranked(out, &config->values->rows[row], ab_keys[row].name);
  }
}
