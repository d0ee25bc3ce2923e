/* As much of JSON Schema as docs/report.schema.json uses, strictly: an unknown keyword fails. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "json.h"

struct schema {
  const struct ab_json *root;
  char why[512]; /* the first violation */
};

static inline bool schema_fails(struct schema *s, const struct ab_json *value, const char *reason, const char *detail) {
  char where[256];
  ab_json_where(where, sizeof where, value);
  if (!s->why[0]) snprintf(s->why, sizeof s->why, "%.200s %.100s %.100s", where, reason, detail);
  return false;
}

static inline bool schema_type_is(const struct ab_json *value, const char *type) {
  static const char *const names[] = {"null", "boolean", "number", "string", "array", "object"};
  int64_t integer;
  if (strcmp(type, "integer") == 0) return ab_json_int64(&integer, value) == AB_OK;
  return strcmp(names[ab_json_type(value)], type) == 0;
}

static inline bool schema_type(struct schema *s, const struct ab_json *value, const struct ab_json *type) {
  const char *name;
  if (ab_json_string(&name, type) == AB_OK)
    return schema_type_is(value, name) || schema_fails(s, value, "is not of type", name);
  for (const struct ab_json *t = ab_json_first(type); t; t = ab_json_next(t))
    if (ab_json_string(&name, t) == AB_OK && schema_type_is(value, name)) return true;
  return schema_fails(s, value, "is of none of the types", "");
}

static inline bool schema_same_text(const struct ab_json *a, const struct ab_json *b) {
  const char *x, *y;
  return ab_json_string(&x, a) == AB_OK && ab_json_string(&y, b) == AB_OK && strcmp(x, y) == 0;
}

static inline bool schema_enum(struct schema *s, const struct ab_json *value, const struct ab_json *list) {
  int64_t number, other;
  for (const struct ab_json *e = ab_json_first(list); e; e = ab_json_next(e)) {
    if (schema_same_text(value, e)) return true;
    if (ab_json_int64(&number, value) == AB_OK && ab_json_int64(&other, e) == AB_OK && number == other) return true;
  }
  return schema_fails(s, value, "is not in the enum", "");
}

static inline bool schema_check(struct schema *s, const struct ab_json *value, const struct ab_json *schema);

static inline bool schema_properties(struct schema *s, const struct ab_json *value, const struct ab_json *schema) {
  const struct ab_json *properties = ab_json_find(schema, "properties"), *required = ab_json_find(schema, "required");
  const char *key;
  for (const struct ab_json *m = ab_json_first(value); m; m = ab_json_next(m)) {
    const struct ab_json *property = ab_json_find(properties, ab_json_key(m));
    if (!property) return schema_fails(s, m, "is not in the schema", "");
    if (!schema_check(s, m, property)) return false;
  }
  for (const struct ab_json *r = ab_json_first(required); r; r = ab_json_next(r))
    if (ab_json_string(&key, r) != AB_OK || !ab_json_find(value, key)) return schema_fails(s, value, "lacks", key);
  return true;
}

static inline bool schema_any(struct schema *s, const struct ab_json *value, const struct ab_json *list) {
  for (const struct ab_json *e = ab_json_first(list); e; e = ab_json_next(e)) {
    struct schema trial = {.root = s->root};
    if (schema_check(&trial, value, e)) return true;
    if (!ab_json_next(e)) return schema_fails(s, value, "fits no alternative:", trial.why);
  }
  return false;
}

static inline bool schema_reference(struct schema *s, const struct ab_json *value, const struct ab_json *ref) {
  const char *name = "";
  if (ab_json_string(&name, ref) != AB_OK || strncmp(name, "#/$defs/", 8) != 0)
    return schema_fails(s, value, "bad $ref", name);
  const struct ab_json *target = ab_json_find(ab_json_find(s->root, "$defs"), name + 8);
  return target ? schema_check(s, value, target) : schema_fails(s, value, "unknown $ref", name);
}

static inline bool schema_keyword(struct schema *s, const struct ab_json *value, const struct ab_json *schema,
                                  const struct ab_json *k) {
  const char *key = ab_json_key(k);
  int64_t number, least;
  if (strcmp(key, "$ref") == 0) return schema_reference(s, value, k);
  if (strcmp(key, "type") == 0) return schema_type(s, value, k);
  if (strcmp(key, "enum") == 0) return schema_enum(s, value, k);
  if (strcmp(key, "anyOf") == 0) return schema_any(s, value, k);
  if (strcmp(key, "properties") == 0) return schema_properties(s, value, schema);
  if (strcmp(key, "const") == 0)
    return schema_same_text(value, k) || schema_fails(s, value, "is not the const", "");
  if (strcmp(key, "minimum") == 0)
    return (ab_json_int64(&number, value) == AB_OK && ab_json_int64(&least, k) == AB_OK && number >= least) ||
           schema_fails(s, value, "is below the minimum", "");
  if (strcmp(key, "items") == 0)
    for (const struct ab_json *e = ab_json_first(value); e; e = ab_json_next(e))
      if (!schema_check(s, e, k)) return false;
  static const char *const known[] = {"items", "required", "additionalProperties", "description", "title",
                                      "$schema", "$id", "$defs"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(key, known[i]) == 0) return true;
  return schema_fails(s, value, "unknown keyword", key);
}

static inline bool schema_check(struct schema *s, const struct ab_json *value, const struct ab_json *schema) {
  for (const struct ab_json *k = ab_json_first(schema); k; k = ab_json_next(k))
    if (!schema_keyword(s, value, schema, k)) return false;
  return true;
}
