#include "config.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include <xxhash.h>

#include "config_values.h"
#include "mem.h"
#include "text.h"

static ab_status load(struct ab_config *config, const struct ab_config_request *request) {
  AB_TRY(ab_values_new(&config->values, request->defaults));
  AB_TRY(ab_config_merge(config->values, request));
  AB_TRY(ab_values_check_kinds(config->values));
  AB_TRY(ab_config_fill(config));
  AB_TRY(ab_config_fill_upstream(config));
  AB_TRY(ab_config_fill_remat(config));
  AB_TRY(ab_config_derive(config, request->devices));
  return request->inspect ? AB_OK : ab_config_check_support(config);
}

ab_status ab_config_defaults(struct ab_config_values **out) { return ab_values_new(out, NULL); }

void ab_config_defaults_free(struct ab_config_values *defaults) { ab_values_free(defaults); }

ab_status ab_config_load(struct ab_config **out, const struct ab_config_request *request) {
  struct ab_config *config = NULL;
  AB_TRY(ab_mem_new(&config, 1, sizeof *config));
  ab_status status = load(config, request);
  if (status != AB_OK) ab_config_free(config);
  AB_TRY(status == AB_EFORMAT || status == AB_ENOTFOUND ? AB_ECONFIG : status);
  *out = config;
  return AB_OK;
}

void ab_config_free(struct ab_config *config) {
  if (!config) return;
  ab_config_free_fields(config);
  ab_values_free(config->values);
  ab_mem_free(config);
}

const char *ab_config_value(const struct ab_config *config, const char *key) {
  size_t row = ab_key_find(key);
  return row < ab_key_count ? config->values->rows[row].text : NULL;
}

void ab_config_print(FILE *out, const struct ab_config *config) {
  for (size_t row = 0; row < ab_key_count; row++) {
    fprintf(out, "Config param %s: ", ab_keys[row].name);
    ab_text_print(out, config->values->rows[row].text);
    fputc('\n', out);
  }
}

void ab_config_each(const struct ab_config *config,
                    void (*fn)(void *ctx, const char *key, const char *value, const char *source), void *ctx) {
  for (size_t row = 0; row < ab_key_count; row++) {
    const struct ab_value *value = &config->values->rows[row];
    fn(ctx, ab_keys[row].name, value->text, ab_source_name(value->source));
  }
}

uint64_t ab_config_digest(const struct ab_config *config) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t row = 0; row < ab_key_count; row++) {
    const char *parts[] = {ab_keys[row].name, ": ", config->values->rows[row].text, "\n"};
    if (!ab_key_is_numeric(&ab_keys[row])) continue;
    for (size_t i = 0; i < 4; i++) XXH3_64bits_update(&state, parts[i], strlen(parts[i]));
  }
  return XXH3_64bits_digest(&state);
}
