#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config_values.h"
#include "mem.h"
#include "text.h"

static const char *const kind_names[] = {
    [AB_KIND_BOOL] = "true or false",
    [AB_KIND_INT] = "a decimal integer of 64 bits without leading zeros",
    [AB_KIND_FLOAT] = "a finite number without leading zeros",
    [AB_KIND_STRING] = "a string",
    [AB_KIND_LIST] = "a list",
    [AB_KIND_MAP] = "a map",
    [AB_KIND_MAYBE_INT] = "a decimal integer or null",
    [AB_KIND_MAYBE_FLOAT] = "a finite number or null",
    [AB_KIND_ANY] = "anything",
};

const char *ab_source_name(enum ab_source source) {
  static const char *const names[] = {"default", "file", "model", "override", "environment", "derived"};
  return names[source];
}

ab_status ab_values_keep(struct ab_config_values *values, struct ab_yaml *document) {
  ab_status status = ab_mem_resize(&values->documents, values->document_count + 1, sizeof *values->documents);
  if (status != AB_OK) ab_yaml_free(document);
  AB_TRY(status);
  values->documents[values->document_count++] = document;
  return AB_OK;
}

void ab_values_set(struct ab_config_values *values, size_t row, const struct ab_yaml *document,
                   struct ab_yaml_node *node, enum ab_source source) {
  values->rows[row] = (struct ab_value){document, node, node->text, source, NULL};
}

ab_status ab_values_set_text(struct ab_config_values *values, size_t row, const char *name, const char *text,
                             enum ab_source source) {
  struct ab_yaml *document = NULL;
  AB_TRY(ab_yaml_parse(&document, name, text, strlen(text)));
  AB_TRY(ab_values_keep(values, document));
  ab_values_set(values, row, document, &document->nodes[0], source);
  return AB_OK;
}

static ab_status print_defaults(char **out, size_t *size) {
  char *text = NULL;
  size_t bytes = 1, used = 0;
  for (size_t i = 0; i < ab_key_count; i++) bytes += strlen(ab_keys[i].name) + strlen(ab_keys[i].initial) + 3;
  AB_TRY(ab_mem_new(&text, bytes, 1));
  for (size_t i = 0; i < ab_key_count; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s: %s\n", ab_keys[i].name, ab_keys[i].initial);
  *out = text;
  *size = used;
  return AB_OK;
}

static ab_status set_defaults(struct ab_config_values *values) {
  char *text = NULL;
  size_t size = 0;
  struct ab_yaml *document = NULL;
  AB_TRY(print_defaults(&text, &size));
  ab_status status = ab_yaml_parse(&document, "default", text, size);
  ab_mem_free(text);
  AB_TRY(status);
  AB_TRY(ab_values_keep(values, document));
  struct ab_yaml_node *key = &document->nodes[1];
  for (size_t row = 0; row < ab_key_count; row++, key += 1 + key[1].span)
    ab_values_set(values, row, document, key + 1, AB_SOURCE_DEFAULT);
  return AB_OK;
}

ab_status ab_values_new(struct ab_config_values **out, const struct ab_config_values *defaults) {
  struct ab_config_values *values = NULL;
  AB_TRY(ab_mem_new(&values, 1, sizeof *values));
  ab_status status = ab_mem_new(&values->rows, ab_key_count, sizeof *values->rows);
  if (status == AB_OK) status = ab_mem_new(&values->outranked, ab_key_count, sizeof *values->outranked);
  if (status == AB_OK && defaults) memcpy(values->rows, defaults->rows, ab_key_count * sizeof *values->rows);
  if (status == AB_OK && !defaults) status = set_defaults(values);
  if (status != AB_OK) ab_values_free(values);
  AB_TRY(status);
  *out = values;
  return AB_OK;
}

void ab_values_free(struct ab_config_values *values) {
  if (!values) return;
  for (size_t i = 0; i < values->document_count; i++) ab_yaml_free(values->documents[i]);
  ab_mem_free(values->documents);
  ab_mem_free(values->outranked);
  ab_mem_free(values->rows);
  ab_mem_free(values);
}

const char *ab_value_where(char buffer[AB_WHERE_SIZE], const struct ab_value *value) {
  if (value->source == AB_SOURCE_FILE || value->source == AB_SOURCE_MODEL)
    snprintf(buffer, AB_WHERE_SIZE, "%s:%d:%d", value->document->name, value->node->line, value->node->column);
  else snprintf(buffer, AB_WHERE_SIZE, "%s", value->document->name);
  return buffer;
}

const char *ab_value_shown(char buffer[AB_WHERE_SIZE], const struct ab_value *value) {
  char cut[100];
  bool written = value->node->string && *value->node->string;
  snprintf(cut, sizeof cut, "%s", written ? value->node->string : value->text);
  ab_text_escape(buffer, AB_WHERE_SIZE, cut);
  return buffer;
}

ab_status ab_value_refuse(const struct ab_config_values *values, size_t row, const char *expected) {
  char where[AB_WHERE_SIZE], shown[AB_WHERE_SIZE];
  const struct ab_value *value = &values->rows[row];
  return AB_FAIL(AB_ECONFIG, "%s: key '%s' is %s, expected %s", ab_value_where(where, value), ab_keys[row].name,
                 ab_value_shown(shown, value), expected);
}

/* Kinds */

static bool is_finite_number(const struct ab_yaml_node *node) {
  return (node->type == AB_YAML_INT || node->type == AB_YAML_FLOAT) && isfinite(node->number);
}

static bool fits_kind(const struct ab_key *key, const struct ab_yaml_node *node) {
  switch (key->kind) {
  case AB_KIND_BOOL: return node->type == AB_YAML_BOOL;
  case AB_KIND_INT: return node->type == AB_YAML_INT;
  case AB_KIND_FLOAT: return is_finite_number(node);
  case AB_KIND_MAYBE_INT: return node->type == AB_YAML_INT || node->type == AB_YAML_NULL;
  case AB_KIND_MAYBE_FLOAT: return is_finite_number(node) || node->type == AB_YAML_NULL;
  case AB_KIND_STRING: return node->type < AB_YAML_LIST || key->class == AB_KEY_NO_EFFECT;
  case AB_KIND_LIST: return node->type == AB_YAML_LIST;
  case AB_KIND_MAP: return node->type == AB_YAML_MAP;
  case AB_KIND_ANY: return true;
  }
  return false;
}

/* The text of an integer under a float key, as a float; the node stays. */
static ab_status spell_as_float(struct ab_config_values *values, struct ab_value *value) {
  struct ab_yaml *spelled = NULL;
  struct ab_yaml_node as_float = {.type = AB_YAML_FLOAT, .number = value->node->number};
  char text[64];
  size_t length = ab_yaml_spell(text, sizeof text, &as_float);
  AB_TRY(ab_yaml_parse(&spelled, "float", text, length));
  AB_TRY(ab_values_keep(values, spelled));
  value->text = spelled->nodes[0].text;
  return AB_OK;
}

static ab_status check_kind(struct ab_config_values *values, size_t row) {
  struct ab_value *value = &values->rows[row];
  const struct ab_key *key = &ab_keys[row];
  if (value->node->type == AB_YAML_STRING && strcasecmp(value->node->string, "none") == 0) {
    value->node->type = AB_YAML_NULL;
    value->text = "null";
  }
  if (!fits_kind(key, value->node)) return ab_value_refuse(values, row, kind_names[key->kind]);
  bool float_kind = key->kind == AB_KIND_FLOAT || key->kind == AB_KIND_MAYBE_FLOAT;
  if (float_kind && value->node->type == AB_YAML_INT) AB_TRY(spell_as_float(values, value));
  return AB_OK;
}

ab_status ab_values_check_kinds(struct ab_config_values *values) {
  for (size_t row = 0; row < ab_key_count; row++) AB_TRY(check_kind(values, row));
  return AB_OK;
}

/* Reading */

const struct ab_value *ab_values_at(const struct ab_config_values *values, const char *key) {
  size_t row = ab_key_find(key);
  assert(row < ab_key_count);
  return &values->rows[row];
}

int64_t ab_values_int(const struct ab_config_values *values, const char *key) {
  return ab_values_at(values, key)->node->integer;
}

double ab_values_number(const struct ab_config_values *values, const char *key) {
  return ab_values_at(values, key)->node->number;
}

bool ab_values_bool(const struct ab_config_values *values, const char *key) {
  return ab_values_at(values, key)->node->boolean;
}

bool ab_value_is_default(const struct ab_config_values *values, size_t row) {
  const struct ab_value *value = &values->rows[row];
  if (strcmp(value->text, ab_keys[row].initial) == 0) return true;
  return value->node->type == AB_YAML_NULL && strcmp(ab_keys[row].initial, "\"\"") == 0;
}

const char *ab_values_string(const struct ab_config_values *values, const char *key) {
  const struct ab_yaml_node *node = ab_values_at(values, key)->node;
  return node->type == AB_YAML_NULL ? "" : node->string;
}
