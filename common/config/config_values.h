/* Private to the configuration: every key's value as a typed YAML node, with its source; the documents they live in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "config_keys.h"
#include "status.h"
#include "yaml_door.h"

enum ab_source {
  AB_SOURCE_DEFAULT,
  AB_SOURCE_FILE,
  AB_SOURCE_MODEL,
  AB_SOURCE_OVERRIDE,
  AB_SOURCE_ENVIRONMENT,
  AB_SOURCE_DERIVED
};

enum { AB_WHERE_SIZE = 512 };

struct ab_value {
  const struct ab_yaml *document;
  struct ab_yaml_node *node; /* in one of the documents */
  const char *text; /* canonical YAML; of a float key always spelled as a float */
  enum ab_source source;
  const struct ab_value *outranked; /* a file's value that the model file replaced, for the notes; NULL otherwise */
};

struct ab_config_values {
  struct ab_value *rows;      /* one per row of ab_keys */
  struct ab_value *outranked; /* of the same shape */
  struct ab_yaml **documents; /* owned */
  size_t document_count;
};

/* All keys at their defaults: those of `defaults`, which outlives the values, or with NULL their own. */
ab_status ab_values_new(struct ab_config_values **out, const struct ab_config_values *defaults);
void ab_values_free(struct ab_config_values *values);
/* Takes ownership of the document, also on failure. */
ab_status ab_values_keep(struct ab_config_values *values, struct ab_yaml *document);
void ab_values_set(struct ab_config_values *values, size_t row, const struct ab_yaml *document,
                   struct ab_yaml_node *node, enum ab_source source);
/* A value from outside the documents: canonical YAML text. */
ab_status ab_values_set_text(struct ab_config_values *values, size_t row, const char *name, const char *text,
                             enum ab_source source);
/* Turns the string "none" into null and checks every value against its key's kind. */
ab_status ab_values_check_kinds(struct ab_config_values *values);

/* "file:line:column", "override 'k=v'", "environment variable M_K", "default". Returns buffer. */
const char *ab_value_where(char buffer[AB_WHERE_SIZE], const struct ab_value *value);
const char *ab_source_name(enum ab_source source);
/* The value found, as written, escaped and cut for a sentence. */
const char *ab_value_shown(char buffer[AB_WHERE_SIZE], const struct ab_value *value);

/* Fails with "<where>: key '<key>' is <value>, expected <expected>". */
ab_status ab_value_refuse(const struct ab_config_values *values, size_t row, const char *expected)
    __attribute__((warn_unused_result));

/* By a key name that must exist (a programming error otherwise). After the kinds are checked. */
const struct ab_value *ab_values_at(const struct ab_config_values *values, const char *key);
int64_t ab_values_int(const struct ab_config_values *values, const char *key);
double ab_values_number(const struct ab_config_values *values, const char *key);
bool ab_values_bool(const struct ab_config_values *values, const char *key);
/* The default, or null for a default of "". */
bool ab_value_is_default(const struct ab_config_values *values, size_t row);
/* "" for null. */
const char *ab_values_string(const struct ab_config_values *values, const char *key);

/* merge.c: files, model file, overrides and environment, in MaxText's order (pyconfig.py: _initialize_pydantic). */
ab_status ab_config_merge(struct ab_config_values *values, const struct ab_config_request *request);
/* fields.c: values -> fields of the struct with one range each. */
ab_status ab_config_fill(struct ab_config *config);
void ab_config_free_fields(struct ab_config *config);
/* upstream.c: the defects that upstream_faithful names, and which of them cannot be switched on. */
ab_status ab_config_fill_upstream(struct ab_config *config);
ab_status ab_config_fill_remat(struct ab_config *config);
ab_status ab_config_check_upstream(const struct ab_config *config);
/* derive.c: types.py: set_derived_and_validate_values, in MaxText's order; writes derived values back. */
ab_status ab_config_derive(struct ab_config *config, int64_t devices);
/* support.c: what this build does not do, judged per key and value; the last of all checks. */
ab_status ab_config_check_support(const struct ab_config *config);
