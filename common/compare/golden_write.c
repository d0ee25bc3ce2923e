#include <stdio.h>
#include <string.h>

#include "file.h"
#include "golden_internal.h"
#include "mem.h"

static void put_hex(struct ab_json_writer *w, const char *key, uint64_t bits, int digits) {
  char text[24];
  snprintf(text, sizeof text, "%0*llx", digits, (unsigned long long)bits);
  ab_json_put_string(w, key, text);
}

/* {"value": decimal, "bits": hex} on a line of its own. */
static void put_number(struct ab_json_writer *w, const char *key, double value, bool f32) {
  ab_json_put_object(w, key, true);
  if (f32)
    ab_json_put_float(w, "value", (float)value);
  else
    ab_json_put_double(w, "value", value);
  put_hex(w, "bits", ab_bits_of(value, f32), f32 ? 8 : 16);
  ab_json_put_end(w);
}

static void put_pairs(struct ab_json_writer *w, const char *key, const struct ab_pair_text *pairs, size_t count) {
  ab_json_put_object(w, key, false);
  for (size_t i = 0; i < count; i++) ab_json_put_string(w, pairs[i].key, pairs[i].value);
  ab_json_put_end(w);
}

static void put_metric(struct ab_json_writer *w, const struct ab_metric *m, size_t order) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_int64(w, "order", (int64_t)order);
  ab_json_put_int64(w, "step", m->step);
  ab_json_put_string(w, "name", m->name);
  ab_json_put_string(w, "dtype", ab_dtype_name(m->f32 ? AB_F32 : AB_F64));
  put_number(w, "number", m->value, m->f32);
  ab_json_put_end(w);
}

static void put_identity(struct ab_json_writer *w, const struct ab_identity *id) {
  ab_json_put_int64(w, "step", id->step);
  ab_json_put_int64(w, "accumulation", id->accumulation);
  ab_json_put_int64(w, "microbatch", id->microbatch);
  ab_json_put_int64(w, "layer", id->layer);
  ab_json_put_string(w, "tensor", id->tensor);
  ab_json_put_string(w, "phase", ab_phase_name(id->phase));
}

static void put_shape(struct ab_json_writer *w, const struct ab_shape *shape) {
  ab_json_put_array(w, "shape", true);
  for (int i = 0; i < shape->rank; i++) ab_json_put_int64(w, NULL, shape->dim[i]);
  ab_json_put_end(w);
}

static void put_numbers(struct ab_json_writer *w, const char *key, const double *values, int count, bool f32) {
  ab_json_put_array(w, key, false);
  for (int i = 0; i < count; i++) put_number(w, NULL, values[i], f32);
  ab_json_put_end(w);
}

static void put_leaf(struct ab_json_writer *w, const struct ab_fingerprint *f, size_t order) {
  char digest[33];
  snprintf(digest, sizeof digest, "%016llx%016llx", (unsigned long long)f->summary.digest[0],
           (unsigned long long)f->summary.digest[1]);
  ab_json_put_object(w, NULL, false);
  ab_json_put_int64(w, "order", (int64_t)order);
  put_identity(w, &f->id);
  ab_json_put_string(w, "dtype", ab_dtype_name(f->dtype));
  put_shape(w, &f->shape);
  ab_json_put_string(w, "digest", digest);
  ab_json_put_int64(w, "negative_zeros", (int64_t)f->summary.negative_zeros);
  put_number(w, "l2", f->summary.l2, false);
  put_number(w, "sum", f->summary.sum, false);
  put_number(w, "max_abs", f->summary.max_abs, false);
  put_numbers(w, "samples", f->sample, AB_SAMPLES, f->dtype == AB_F32);
  put_numbers(w, "projections", f->projection, AB_PROJECTIONS, false);
  ab_json_put_end(w);
}

/* What a comparison reads, but for the config. */
static void put_numbers_of(struct ab_json_writer *w, const struct ab_golden *g) {
  ab_json_put_string(w, "numerics", g->numerics);
  put_hex(w, "seed", g->seed, 16);
  if (g->selection != AB_SELECT_ALL) ab_json_put_string(w, "selection", ab_selection_name(g->selection));
  ab_json_put_array(w, "metrics", false);
  for (size_t i = 0; i < g->metrics; i++) put_metric(w, &g->metric[i], g->metric_order[i]);
  ab_json_put_end(w);
  ab_json_put_array(w, "leaves", false);
  for (size_t i = 0; i < g->leaves; i++) put_leaf(w, &g->leaf[i], g->leaf_order[i]);
  ab_json_put_end(w);
}

void ab_golden_put_content(struct ab_json_writer *w, const struct ab_golden *g) {
  ab_json_put_string(w, "config_digest", g->config_digest);
  put_numbers_of(w, g);
}

void ab_golden_put_members(struct ab_json_writer *w, const struct ab_golden *g) {
  ab_json_put_string(w, "schema", AB_GOLDEN_SCHEMA);
  ab_json_put_string(w, "config_digest", g->config_digest);
  put_pairs(w, "config", g->config, g->configs);
  put_pairs(w, "provenance", g->provenance, g->provenances);
  put_numbers_of(w, g);
  if (g->calibration) ab_calibration_put(w, g->calibration);
  ab_golden_put_changelog(w, g);
}

ab_status ab_golden_put(struct ab_json_writer *w, const char *key, const struct ab_golden *g) {
  char seal[33];
  AB_TRY(ab_golden_seal(seal, g));
  ab_json_put_object(w, key, false);
  ab_golden_put_members(w, g);
  ab_json_put_string(w, "seal", seal);
  ab_json_put_end(w);
  return AB_OK;
}

ab_status ab_golden_text(char **out, const struct ab_golden *golden) {
  struct ab_json_writer *w;
  AB_TRY(ab_json_writer_new(&w));
  ab_status status = ab_golden_put(w, NULL, golden);
  if (status == AB_OK) return ab_json_writer_text(out, w);
  ab_json_writer_free(w);
  return status;
}

ab_status ab_golden_write(const struct ab_golden *golden, const char *path) {
  char *text;
  AB_TRY(ab_golden_text(&text, golden));
  ab_status status = ab_file_replace(path, text, strlen(text));
  ab_mem_free(text);
  AB_TRY(status);
  return AB_OK;
}
