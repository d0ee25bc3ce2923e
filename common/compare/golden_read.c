#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "golden_internal.h"
#include "mem.h"

static ab_status parse_hex(uint64_t *out, const struct ab_json *value, const char *text, size_t offset, size_t digits) {
  uint64_t bits = 0;
  for (size_t i = offset; i < offset + digits; i++) {
    const char *hex = "0123456789abcdef", *found = text[i] ? strchr(hex, text[i]) : NULL;
    if (!found) return ab_json_fail(value, "is not made of lower-case hex digits");
    bits = bits << 4 | (uint64_t)(found - hex);
  }
  *out = bits;
  return AB_OK;
}

static ab_status get_hex(uint64_t *out, const struct ab_json *object, const char *key, size_t digits) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, object, key));
  const struct ab_json *value = ab_json_find(object, key);
  if (strlen(text) != digits) return ab_json_fail(value, "has the wrong number of hex digits");
  AB_TRY(parse_hex(out, value, text, 0, digits));
  return AB_OK;
}

/* A float32's shortest decimal may lie within a double's rounding of the middle between two floats. */
static bool decimal_agrees(double decimal, double value, bool f32) {
  if (!f32 || decimal == value) return decimal == value;
  double narrow = (double)(float)decimal, middle = (narrow + value) / 2;
  return narrow == value || fabs(decimal - middle) <= fabs(middle) * 0x1p-52;
}

static ab_status parse_number(double *out, const struct ab_json *object, bool f32) {
  static const char *const keys[] = {"value", "bits", NULL};
  double decimal;
  uint64_t bits;
  if (ab_json_type(object) != AB_JSON_OBJECT) return ab_json_fail(object, "is not an object of value and bits");
  AB_TRY(ab_json_only_keys(object, keys, AB_GOLDEN_SCHEMA));
  AB_TRY(ab_json_get_double(&decimal, object, "value"));
  AB_TRY(get_hex(&bits, object, "bits", f32 ? 8 : 16));
  double value = ab_value_of(bits, f32);
  if (!isfinite(value)) return ab_json_fail(object, "is not finite");
  if (!decimal_agrees(decimal, value, f32)) return ab_json_fail(object, "has bits that are not those of its value");
  *out = value;
  return AB_OK;
}

static ab_status get_number(double *out, const struct ab_json *object, const char *key, bool f32) {
  const struct ab_json *value;
  AB_TRY(ab_json_get(&value, object, key));
  AB_TRY(parse_number(out, value, f32));
  return AB_OK;
}

static ab_status get_numbers(double *out, const struct ab_json *object, const char *key, size_t count, bool f32) {
  const struct ab_json *array, *value;
  AB_TRY(ab_json_get_array(&array, object, key));
  if (ab_json_size(array) != count) return ab_json_fail(array, "has the wrong number of elements");
  size_t i = 0;
  for (value = ab_json_first(array); value; value = ab_json_next(value)) AB_TRY(parse_number(&out[i++], value, f32));
  return AB_OK;
}

/* An integer in [low, INT32_MAX]. */
static ab_status get_int(int *out, const struct ab_json *object, const char *key, int low) {
  int64_t value;
  AB_TRY(ab_json_get_int64(&value, object, key));
  if (value < low || value > INT32_MAX) return ab_json_fail(ab_json_find(object, key), "is out of range");
  *out = (int)value;
  return AB_OK;
}

/* Ranks ascend within each list. */
static ab_status get_order(size_t *order, size_t i, const struct ab_json *object) {
  int64_t value;
  AB_TRY(ab_json_get_int64(&value, object, "order"));
  if (value < 0 || (i && (size_t)value <= order[i - 1]))
    return ab_json_fail(ab_json_find(object, "order"), "does not ascend");
  order[i] = (size_t)value;
  return AB_OK;
}

static ab_status get_name(char *out, const struct ab_json *object, const char *key) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, object, key));
  if (!text[0] || strlen(text) >= AB_NAME_MAX)
    return ab_json_fail(ab_json_find(object, key), "is no name of 1 to 95 bytes");
  strcpy(out, text);
  return AB_OK;
}

static ab_status get_dtype(enum ab_dtype *out, const struct ab_json *object) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, object, "dtype"));
  for (int d = AB_F32; d <= AB_M61; d++)
    if (strcmp(text, ab_dtype_name((enum ab_dtype)d)) == 0) {
      *out = (enum ab_dtype)d;
      return AB_OK;
    }
  return ab_json_fail(ab_json_find(object, "dtype"), "is not a known dtype");
}

static ab_status get_phase(enum ab_phase *out, const struct ab_json *object) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, object, "phase"));
  for (int p = AB_FORWARD; p <= AB_UPDATE; p++)
    if (strcmp(text, ab_phase_name((enum ab_phase)p)) == 0) {
      *out = (enum ab_phase)p;
      return AB_OK;
    }
  return ab_json_fail(ab_json_find(object, "phase"), "is not a known phase");
}

static ab_status parse_metric(struct ab_golden *g, size_t i, const struct ab_json *object) {
  static const char *const keys[] = {"order", "step", "name", "dtype", "number", NULL};
  struct ab_metric *m = &g->metric[i];
  enum ab_dtype dtype = AB_F64;
  AB_TRY(ab_json_only_keys(object, keys, AB_GOLDEN_SCHEMA));
  AB_TRY(get_order(g->metric_order, i, object));
  AB_TRY(get_int(&m->step, object, "step", -1));
  AB_TRY(get_name(m->name, object, "name"));
  AB_TRY(get_dtype(&dtype, object));
  if (dtype != AB_F32 && dtype != AB_F64) return ab_json_fail(ab_json_find(object, "dtype"), "is not F32 or F64");
  m->f32 = dtype == AB_F32;
  AB_TRY(get_number(&m->value, object, "number", m->f32));
  return AB_OK;
}

static ab_status get_shape(struct ab_fingerprint *f, const struct ab_json *object) {
  const struct ab_json *array;
  size_t count;
  AB_TRY(ab_json_get_array(&array, object, "shape"));
  if (ab_json_size(array) > AB_MAX_RANK) return ab_json_fail(array, "has a rank above 8");
  for (const struct ab_json *d = ab_json_first(array); d; d = ab_json_next(d))
    AB_TRY(ab_json_int64(&f->shape.dim[f->shape.rank++], d));
  if (ab_shape_count(&count, &f->shape) != AB_OK) return ab_json_fail(array, "is not a shape");
  f->summary.count = count;
  return AB_OK;
}

static ab_status get_summary(struct ab_summary *s, const struct ab_json *object) {
  const char *digest;
  int64_t zeros;
  AB_TRY(ab_json_get_string(&digest, object, "digest"));
  const struct ab_json *value = ab_json_find(object, "digest");
  if (strlen(digest) != 32) return ab_json_fail(value, "has the wrong number of hex digits");
  AB_TRY(parse_hex(&s->digest[0], value, digest, 0, 16));
  AB_TRY(parse_hex(&s->digest[1], value, digest, 16, 16));
  AB_TRY(ab_json_get_int64(&zeros, object, "negative_zeros"));
  if (zeros < 0 || (uint64_t)zeros > s->count)
    return ab_json_fail(ab_json_find(object, "negative_zeros"), "is out of range");
  s->negative_zeros = (uint64_t)zeros;
  AB_TRY(get_number(&s->l2, object, "l2", false));
  AB_TRY(get_number(&s->sum, object, "sum", false));
  AB_TRY(get_number(&s->max_abs, object, "max_abs", false));
  return AB_OK;
}

static ab_status parse_leaf(struct ab_golden *g, size_t i, const struct ab_json *object) {
  static const char *const keys[] = {"order",  "step",   "accumulation",   "microbatch", "layer", "tensor",
                                     "phase",  "dtype",  "shape",          "digest",     "l2",    "sum",
                                     "max_abs", "samples", "negative_zeros", "projections", NULL};
  struct ab_fingerprint *f = &g->leaf[i];
  AB_TRY(ab_json_only_keys(object, keys, AB_GOLDEN_SCHEMA));
  AB_TRY(get_order(g->leaf_order, i, object));
  AB_TRY(get_int(&f->id.step, object, "step", -1));
  AB_TRY(get_int(&f->id.accumulation, object, "accumulation", -1));
  AB_TRY(get_int(&f->id.microbatch, object, "microbatch", -1));
  AB_TRY(get_int(&f->id.layer, object, "layer", -1));
  AB_TRY(get_name(f->id.tensor, object, "tensor"));
  AB_TRY(get_phase(&f->id.phase, object));
  AB_TRY(get_dtype(&f->dtype, object));
  AB_TRY(get_shape(f, object));
  AB_TRY(get_summary(&f->summary, object));
  AB_TRY(get_numbers(f->sample, object, "samples", AB_SAMPLES, f->dtype == AB_F32));
  AB_TRY(get_numbers(f->projection, object, "projections", AB_PROJECTIONS, false));
  f->seed = g->seed;
  return AB_OK;
}

static ab_status list_pairs(struct ab_pair_text *list, const struct ab_json *pairs) {
  const char *before = "";
  for (const struct ab_json *m = ab_json_first(pairs); m; m = ab_json_next(m), list++) {
    list->key = ab_json_key(m);
    AB_TRY(ab_json_string(&list->value, m));
    if (m != ab_json_first(pairs) && strcmp(before, list->key) >= 0) return ab_json_fail(m, "is not in key order");
    before = list->key;
  }
  return AB_OK;
}

static ab_status get_pairs(struct ab_pair_text **out, size_t *count, const struct ab_json *object, const char *key) {
  const struct ab_json *pairs;
  struct ab_pair_text *list;
  AB_TRY(ab_json_get_object(&pairs, object, key));
  AB_TRY(ab_mem_new(&list, ab_json_size(pairs), sizeof *list));
  ab_status status = list_pairs(list, pairs);
  if (status == AB_OK) status = ab_pairs_copy(out, list, ab_json_size(pairs));
  if (status == AB_OK) *count = ab_json_size(pairs);
  ab_mem_free(list);
  return status;
}

static ab_status get_config(struct ab_golden *g, const struct ab_json *root) {
  char digest[33];
  const char *stated;
  AB_TRY(get_pairs(&g->config, &g->configs, root, "config"));
  AB_TRY(ab_golden_digest(digest, g->config, g->configs));
  AB_TRY(ab_json_get_string(&stated, root, "config_digest"));
  if (strcmp(digest, stated) != 0)
    return ab_json_fail(ab_json_find(root, "config_digest"), "is not the digest of its config: it was edited by hand");
  AB_TRY(ab_mem_string(&g->config_digest, stated));
  return AB_OK;
}

static ab_status get_metrics(struct ab_golden *g, const struct ab_json *root) {
  const struct ab_json *array, *m;
  AB_TRY(ab_json_get_array(&array, root, "metrics"));
  size_t count = ab_json_size(array);
  if (!count) return ab_json_fail(array, "is empty");
  AB_TRY(ab_mem_new(&g->metric, count, sizeof *g->metric));
  AB_TRY(ab_mem_new(&g->metric_order, count, sizeof *g->metric_order));
  for (m = ab_json_first(array); m; m = ab_json_next(m), g->metrics++) AB_TRY(parse_metric(g, g->metrics, m));
  return AB_OK;
}

static ab_status get_leaves(struct ab_golden *g, const struct ab_json *root) {
  const struct ab_json *array, *m;
  AB_TRY(ab_json_get_array(&array, root, "leaves"));
  size_t count = ab_json_size(array);
  if (!count) return ab_json_fail(array, "is empty");
  AB_TRY(ab_mem_new(&g->leaf, count, sizeof *g->leaf));
  AB_TRY(ab_mem_new(&g->leaf_order, count, sizeof *g->leaf_order));
  for (m = ab_json_first(array); m; m = ab_json_next(m), g->leaves++) AB_TRY(parse_leaf(g, g->leaves, m));
  return AB_OK;
}

/* Of this config, or of none. */
static ab_status get_calibration(struct ab_golden *g, const struct ab_json *root) {
  const struct ab_json *object = ab_json_find(root, "calibration");
  if (!object) return AB_OK;
  AB_TRY(ab_calibration_get(&g->calibration, object));
  if (strcmp(g->calibration->config_digest, g->config_digest) == 0) return AB_OK;
  return ab_json_fail(ab_json_find(object, "config_digest"), "is of another config: bounds are never borrowed");
}

/* Absent: all. A file that states "all" would not be the canonical text. */
static ab_status get_selection(struct ab_golden *g, const struct ab_json *root) {
  const struct ab_json *value = ab_json_find(root, "selection");
  const char *name;
  if (!value) return AB_OK;
  AB_TRY(ab_json_string(&name, value));
  if (ab_selection_find(&g->selection, name) == AB_OK && g->selection != AB_SELECT_ALL) return AB_OK;
  ab_status_clear();
  return ab_json_fail(value, "is not 'ends'");
}

static ab_status check_schema(const struct ab_json *root) {
  const char *schema, *family = "abpipe-golden/";
  AB_TRY(ab_json_get_string(&schema, root, "schema"));
  if (strcmp(schema, AB_GOLDEN_SCHEMA) == 0) return AB_OK;
  const struct ab_json *value = ab_json_find(root, "schema");
  if (strncmp(schema, family, strlen(family)) != 0) return ab_json_fail(value, "is not that of a golden");
  char reason[192];
  bool older = strverscmp(schema, AB_GOLDEN_SCHEMA) < 0; /* 10 is newer than 2 */
  snprintf(reason, sizeof reason, "is '%.40s', this program reads " AB_GOLDEN_SCHEMA "%s", schema,
           older ? "; record the case anew: ab_golden record CASE --reason TEXT (its changelog begins anew)"
                 : ": a newer abpipe wrote it");
  return ab_json_fail(value, reason);
}

static ab_status fill(struct ab_golden *g, const struct ab_json *root) {
  static const char *const keys[] = {"schema", "config_digest", "config",  "provenance", "numerics",   "seed",
                                     "metrics", "leaves",      "seal",    "changelog",  "?selection", "?calibration",
                                     NULL};
  const char *numerics;
  if (ab_json_type(root) != AB_JSON_OBJECT) return ab_json_fail(root, "is not an object");
  AB_TRY(check_schema(root));
  AB_TRY(ab_json_only_keys(root, keys, AB_GOLDEN_SCHEMA));
  AB_TRY(get_config(g, root));
  AB_TRY(get_pairs(&g->provenance, &g->provenances, root, "provenance"));
  AB_TRY(ab_json_get_string(&numerics, root, "numerics"));
  if (strcmp(numerics, "portable") != 0 && strcmp(numerics, "fast") != 0)
    return ab_json_fail(ab_json_find(root, "numerics"), "is neither 'portable' nor 'fast'");
  AB_TRY(ab_mem_string(&g->numerics, numerics));
  AB_TRY(get_hex(&g->seed, root, "seed", 16));
  AB_TRY(get_selection(g, root));
  AB_TRY(get_metrics(g, root));
  AB_TRY(get_leaves(g, root));
  AB_TRY(get_calibration(g, root));
  AB_TRY(ab_golden_get_changelog(g, root));
  AB_TRY(ab_golden_check_seal(g, root));
  return AB_OK;
}

/* git's markers at the start of a line; no JSON has such a line. */
static bool merge_conflict(const char *text, size_t size) {
  static const char *const markers[] = {"<<<<<<<", "=======", ">>>>>>>"};
  for (const char *line = text, *end = text + size; line && end - line >= 7;) {
    for (int m = 0; m < 3; m++)
      if (memcmp(line, markers[m], 7) == 0) return true;
    line = memchr(line, '\n', (size_t)(end - line));
    line = line ? line + 1 : NULL;
  }
  return false;
}

ab_status ab_golden_from(struct ab_golden **out, const struct ab_json *root) {
  struct ab_golden *golden;
  AB_TRY(ab_mem_new(&golden, 1, sizeof *golden));
  ab_status status = fill(golden, root);
  if (status != AB_OK) ab_golden_free(golden);
  AB_TRY(status);
  *out = golden;
  return AB_OK;
}

ab_status ab_golden_check_merged(const char *text, size_t size, const char *what) {
  if (!merge_conflict(text, size)) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "%s holds the markers of a merge conflict: resolve it and record the golden again", what);
}

ab_status ab_golden_parse(struct ab_golden **out, const char *text, size_t size, const char *what) {
  struct ab_json *root;
  AB_TRY(ab_golden_check_merged(text, size, what));
  AB_TRY(ab_json_parse(&root, text, size, what, NULL));
  ab_status status = ab_golden_from(out, root);
  ab_json_free(root);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_golden_read(struct ab_golden **out, const char *path) {
  char *text;
  size_t size;
  AB_TRY(ab_file_read(&text, &size, path, ab_json_default_limits.bytes));
  ab_status status = ab_golden_parse(out, text, size, path);
  ab_mem_free(text);
  AB_TRY(status);
  return AB_OK;
}

/* Of the name, by which people look for it. */
static size_t line_of(const struct ab_json *root, bool metric, size_t order) {
  const struct ab_json *array;
  int64_t rank;
  if (ab_json_get_array(&array, root, metric ? "metrics" : "leaves") != AB_OK) return 1;
  for (const struct ab_json *item = ab_json_first(array); item; item = ab_json_next(item)) {
    const struct ab_json *name = ab_json_find(item, metric ? "name" : "tensor");
    if (name && ab_json_get_int64(&rank, item, "order") == AB_OK && (size_t)rank == order) return ab_json_line(name);
  }
  return 1;
}

ab_status ab_golden_line(size_t *out, const char *path, bool metric, size_t order) {
  struct ab_json *root = NULL;
  ab_status status = ab_json_read(&root, path, NULL);
  *out = 1;
  if (status == AB_ENOMEM) return status;
  if (status == AB_OK) *out = line_of(root, metric, order);
  ab_json_free(root);
  ab_status_clear();
  return AB_OK;
}
