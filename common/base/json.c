#define XXH_INLINE_ALL
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "json_internal.h"
#include "mem.h"
#include "number.h"
#include "text.h"

static const char *const type_names[] = {
    [AB_JSON_NULL] = "null",       [AB_JSON_BOOL] = "true or false", [AB_JSON_NUMBER] = "a number",
    [AB_JSON_STRING] = "a string", [AB_JSON_ARRAY] = "an array",     [AB_JSON_OBJECT] = "an object",
};

void ab_json_free(struct ab_json *root) {
  if (!root) return;
  struct json_document *document =
      (struct json_document *)(void *)((char *)root - offsetof(struct json_document, values));
  ab_mem_free(document->text);
  ab_mem_free(document->what);
  ab_mem_free(document->slots);
  ab_mem_free(document);
}

enum ab_json_type ab_json_type(const struct ab_json *value) { return (enum ab_json_type)value->type; }

static bool is_container(const struct ab_json *value) {
  return value->type == AB_JSON_ARRAY || value->type == AB_JSON_OBJECT;
}

size_t ab_json_line(const struct ab_json *value) { return value->line; }

size_t ab_json_size(const struct ab_json *value) { return is_container(value) ? value->length : 0; }

const struct ab_json *ab_json_first(const struct ab_json *value) { return ab_json_size(value) ? value + 1 : NULL; }

const struct ab_json *ab_json_next(const struct ab_json *value) {
  JSON_STEPS(1);
  return value->last ? NULL : value + (value->next - value->self);
}

static const char *text_of(const struct ab_json *value) { return json_document_of(value)->text + value->text; }

const char *ab_json_key(const struct ab_json *member) {
  return member->key ? json_document_of(member)->text + member->key : "";
}

const struct ab_json *ab_json_at(const struct ab_json *array, size_t i) {
  if (array->type != AB_JSON_ARRAY || i >= array->length) return NULL;
  if (array->plain) return array + 1 + i;
  const struct ab_json *element = ab_json_first(array);
  while (i--) element = ab_json_next(element);
  return element;
}

uint64_t json_hash(const char *key) { return XXH3_64bits_withSeed(key, strlen(key), ab_hash_secret()); }

static const struct ab_json *look_through(const struct ab_json *object, const char *key) {
  const struct ab_json *member = ab_json_first(object);
  while (member && strcmp(ab_json_key(member), key)) member = ab_json_next(member);
  return member;
}

const struct ab_json *json_probe(const struct json_document *document, const struct ab_json *object, const char *key,
                                 uint32_t *slot) {
  if (!object->plain) return look_through(object, key);
  uint32_t mask = json_slot_count(object->length) - 1, at = (uint32_t)json_hash(key) & mask;
  const uint32_t *slots = document->slots + object->text;
  for (; slots[at] && strcmp(document->text + document->values[slots[at]].key, key); at = (at + 1) & mask)
    JSON_STEPS(1);
  JSON_STEPS(strlen(key) + 1);
  *slot = object->text + at;
  return slots[at] ? &document->values[slots[at]] : NULL;
}

const struct ab_json *ab_json_find(const struct ab_json *object, const char *key) {
  uint32_t slot;
  return object->type == AB_JSON_OBJECT ? json_probe(json_document_of(object), object, key, &slot) : NULL;
}

/* The child of `value` that holds `index`, and how many stand before it. */
static const struct ab_json *towards(const struct ab_json *value, uint32_t index, size_t *before) {
  *before = 0;
  const struct ab_json *child = ab_json_first(value);
  for (; index >= child->next; child = ab_json_next(child)) ++*before;
  return child;
}

static void print_path(char *text, size_t size, const struct ab_json *value) {
  size_t used = 0, before;
  text[0] = '\0';
  for (const struct ab_json *at = value - value->self; at != value && used + 1 < size;) {
    bool in_array = at->type == AB_JSON_ARRAY;
    at = towards(at, value->self, &before);
    int n = in_array ? snprintf(text + used, size - used, "[%zu]", before)
                     : snprintf(text + used, size - used, "%s%.128s", used ? "." : "", ab_json_key(at));
    used += (size_t)n;
  }
}

void ab_json_where(char *text, size_t size, const struct ab_json *value) {
  char path[256];
  print_path(path, sizeof path, value);
  const char *what = json_document_of(value)->what;
  if (*path)
    snprintf(text, size, "%s: '%s'", what, path);
  else
    snprintf(text, size, "%s", what);
}

ab_status ab_json_fail(const struct ab_json *value, const char *reason) {
  char where[512];
  ab_json_where(where, sizeof where, value);
  return AB_FAIL(AB_EFORMAT, "%s %s", where, reason);
}

static ab_status expect(const struct ab_json *value, enum ab_json_type type) {
  char reason[96];
  if (value->type == type) return AB_OK;
  snprintf(reason, sizeof reason, "is %s, expected %s", type_names[value->type], type_names[type]);
  return ab_json_fail(value, reason);
}

ab_status ab_json_string(const char **out, const struct ab_json *value) {
  AB_TRY(expect(value, AB_JSON_STRING));
  if (strlen(text_of(value)) != value->length) return ab_json_fail(value, "holds a NUL character");
  *out = text_of(value);
  return AB_OK;
}

static ab_status bad_number(const struct ab_json *value, const char *wanted) {
  char reason[128];
  snprintf(reason, sizeof reason, "is %.60s, expected %s", text_of(value), wanted);
  return ab_json_fail(value, reason);
}

ab_status ab_json_int64(int64_t *out, const struct ab_json *value) {
  AB_TRY(expect(value, AB_JSON_NUMBER));
  if (ab_number_int64(out, text_of(value)) != AB_OK) return bad_number(value, "an integer of 64 bits");
  return AB_OK;
}

ab_status ab_json_double(double *out, const struct ab_json *value) {
  AB_TRY(expect(value, AB_JSON_NUMBER));
  AB_TRY(ab_number_double(out, text_of(value)));
  return AB_OK;
}

ab_status ab_json_bool(bool *out, const struct ab_json *value) {
  AB_TRY(expect(value, AB_JSON_BOOL));
  *out = value->plain;
  return AB_OK;
}

ab_status ab_json_double_or_nonfinite(double *out, const struct ab_json *value) {
  static const struct {
    const char *name;
    double value;
  } tags[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
  const struct ab_json *tag = ab_json_find(value, "nonfinite");
  if (!tag || value->length != 1) return ab_json_double(out, value);
  const char *name = NULL;
  AB_TRY(ab_json_string(&name, tag));
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    if (strcmp(name, tags[i].name)) continue;
    *out = tags[i].value;
    return AB_OK;
  }
  return ab_json_fail(tag, "is not one of nan, inf, -inf");
}

ab_status ab_json_get(const struct ab_json **out, const struct ab_json *object, const char *key) {
  char reason[192];
  AB_TRY(expect(object, AB_JSON_OBJECT));
  const struct ab_json *member = ab_json_find(object, key);
  if (!member) {
    snprintf(reason, sizeof reason, "lacks the key '%s'", key);
    return ab_json_fail(object, reason);
  }
  *out = member;
  return AB_OK;
}

static ab_status get_typed(const struct ab_json **out, const struct ab_json *object, const char *key,
                           enum ab_json_type type) {
  const struct ab_json *member = NULL;
  AB_TRY(ab_json_get(&member, object, key));
  AB_TRY(expect(member, type));
  *out = member;
  return AB_OK;
}

static bool is_listed(const char *key, const char *const *keys) {
  size_t i = 0;
  while (keys[i] && strcmp(keys[i] + (keys[i][0] == '?'), key) != 0) i++;
  return keys[i] != NULL;
}

ab_status ab_json_only_keys(const struct ab_json *object, const char *const *keys, const char *of) {
  const struct ab_json *value;
  char reason[96];
  for (size_t i = 0; keys[i]; i++)
    if (keys[i][0] != '?') AB_TRY(ab_json_get(&value, object, keys[i]));
  for (const struct ab_json *m = ab_json_first(object); m; m = ab_json_next(m)) {
    if (is_listed(ab_json_key(m), keys)) continue;
    snprintf(reason, sizeof reason, "is not a key of %s", of);
    return ab_json_fail(m, reason);
  }
  return AB_OK;
}

ab_status ab_json_get_object(const struct ab_json **out, const struct ab_json *object, const char *key) {
  return get_typed(out, object, key, AB_JSON_OBJECT);
}

ab_status ab_json_get_array(const struct ab_json **out, const struct ab_json *object, const char *key) {
  return get_typed(out, object, key, AB_JSON_ARRAY);
}

ab_status ab_json_get_string(const char **out, const struct ab_json *object, const char *key) {
  const struct ab_json *member = NULL;
  AB_TRY(ab_json_get(&member, object, key));
  return ab_json_string(out, member);
}

ab_status ab_json_get_copy(char **out, const struct ab_json *object, const char *key) {
  const char *text = NULL;
  AB_TRY(ab_json_get_string(&text, object, key));
  return ab_mem_string(out, text);
}

ab_status ab_json_get_int64(int64_t *out, const struct ab_json *object, const char *key) {
  const struct ab_json *member = NULL;
  AB_TRY(ab_json_get(&member, object, key));
  return ab_json_int64(out, member);
}

ab_status ab_json_get_double(double *out, const struct ab_json *object, const char *key) {
  const struct ab_json *member = NULL;
  AB_TRY(ab_json_get(&member, object, key));
  return ab_json_double(out, member);
}

ab_status ab_json_get_bool(bool *out, const struct ab_json *object, const char *key) {
  const struct ab_json *member = NULL;
  AB_TRY(ab_json_get(&member, object, key));
  return ab_json_bool(out, member);
}
