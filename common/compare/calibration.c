#include "calibration.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

void ab_calibration_free(struct ab_calibration *c) {
  if (!c) return;
  char *texts[] = {c->config_digest, c->created, c->commit, c->numerics, c->cores, c->dropped};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ab_mem_free(texts[i]);
  ab_mem_free(c->kind);
  ab_mem_free(c);
}

void ab_calibration_kind(char kind[AB_KIND_TEXT], const struct ab_identity *id, enum ab_quantity quantity) {
  snprintf(kind, AB_KIND_TEXT, "%s %s", ab_quantity_name(quantity), id->tensor);
}

static struct ab_calibrated *find(const struct ab_calibration *c, const char *kind) {
  for (size_t i = 0; i < c->kinds; i++)
    if (strcmp(c->kind[i].kind, kind) == 0) return &c->kind[i];
  return NULL;
}

ab_status ab_calibration_add(struct ab_calibration *c, const char *kind, double error) {
  struct ab_calibrated *row = find(c, kind);
  if (!(error >= 0 && isfinite(error)))
    return AB_FAIL(AB_EMISMATCH, "the error of '%.100s' is %g; expected a finite distance", kind, error);
  if (!row) {
    AB_TRY(ab_mem_resize(&c->kind, c->kinds + 1, sizeof *c->kind));
    row = &c->kind[c->kinds++];
    *row = (struct ab_calibrated){0};
    snprintf(row->kind, sizeof row->kind, "%s", kind);
  }
  row->largest = fmax(row->largest, error);
  return AB_OK;
}

double ab_calibration_bound_of(const char *kind, double largest) {
  bool metric = strncmp(kind, "metric ", strlen("metric ")) == 0;
  return fmax(metric ? AB_CALIBRATION_LEAST_METRIC : AB_CALIBRATION_LEAST, AB_CALIBRATION_FACTOR * largest);
}

void ab_calibration_conclude(struct ab_calibration *c) {
  for (size_t i = 0; i < c->kinds; i++) c->kind[i].bound = ab_calibration_bound_of(c->kind[i].kind, c->kind[i].largest);
}

/* What follows the layers has passed none backward; what precedes them, and a metric, is held to the loosest. */
static int64_t layer_of(const struct ab_calibration *c, const struct ab_identity *id, enum ab_quantity quantity) {
  if (quantity == AB_Q_METRIC) return 0;
  if (id->layer >= 0) return id->layer + 1;
  return strncmp(id->tensor, "decoder/", strlen("decoder/")) == 0 ? c->layers + 1 : 0;
}

double ab_calibration_ceiling(const struct ab_calibration *c, const struct ab_identity *id, enum ab_quantity quantity) {
  double passed = (double)(c->layers + 1 - layer_of(c, id, quantity));
  return AB_CEILING_K * pow(AB_CEILING_C, passed) * AB_CEILING_EPS * sqrt((double)c->reduction);
}

double ab_calibration_bound(const struct ab_calibration *c, const struct ab_identity *id, enum ab_quantity quantity) {
  char kind[AB_KIND_TEXT];
  ab_calibration_kind(kind, id, quantity);
  const struct ab_calibrated *row = find(c, kind);
  return row ? fmin(row->bound, ab_calibration_ceiling(c, id, quantity)) : -1;
}

/* By multiplication alone: what stands in goldens is the same on every machine. */
static double power(double base, int64_t exponent) {
  double product = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) product *= base;
  return product;
}

double ab_calibration_confidence(const struct ab_calibration *c) { return 1 - power(AB_CALIBRATION_QUANTILE, c->runs); }

double ab_calibration_false_alarm(const struct ab_calibration *c) {
  return fmin(1, (double)c->kinds / (double)(c->runs + 1));
}

void ab_calibration_put(struct ab_json_writer *w, const struct ab_calibration *c) {
  ab_json_put_object(w, "calibration", false);
  ab_json_put_int64(w, "version", AB_CALIBRATION_VERSION);
  ab_json_put_string(w, "config_digest", c->config_digest);
  ab_json_put_string(w, "created", c->created);
  ab_json_put_string(w, "commit", c->commit);
  ab_json_put_int64(w, "runs", c->runs);
  ab_json_put_int64(w, "seed", c->seed);
  ab_json_put_string(w, "numerics", c->numerics);
  ab_json_put_string(w, "cores", c->cores);
  ab_json_put_string(w, "dropped_cores", c->dropped);
  ab_json_put_double(w, "quantile", AB_CALIBRATION_QUANTILE);
  ab_json_put_double(w, "confidence", ab_calibration_confidence(c));
  ab_json_put_double(w, "factor", AB_CALIBRATION_FACTOR);
  ab_json_put_double(w, "family_false_alarm", ab_calibration_false_alarm(c));
  ab_json_put_int64(w, "layers", c->layers);
  ab_json_put_int64(w, "longest_reduction", c->reduction);
  ab_json_put_array(w, "bounds", false);
  for (size_t i = 0; i < c->kinds; i++) {
    ab_json_put_object(w, NULL, true);
    ab_json_put_string(w, "kind", c->kind[i].kind);
    ab_json_put_double(w, "largest", c->kind[i].largest);
    ab_json_put_double(w, "bound", c->kind[i].bound);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
  ab_json_put_end(w);
}

static ab_status get_positive(int64_t *out, const struct ab_json *object, const char *key) {
  AB_TRY(ab_json_get_int64(out, object, key));
  return *out > 0 && *out < INT32_MAX ? AB_OK : ab_json_fail(ab_json_find(object, key), "is out of range");
}

/* A number that follows from this program or from what was read. */
static ab_status check_stated(const struct ab_json *object, const char *key, double follows) {
  double stated;
  AB_TRY(ab_json_get_double(&stated, object, key));
  return stated == follows ? AB_OK : ab_json_fail(ab_json_find(object, key), "is not what follows from the rest");
}

static ab_status check_all_stated(const struct ab_calibration *c, const struct ab_json *object) {
  AB_TRY(check_stated(object, "quantile", AB_CALIBRATION_QUANTILE));
  AB_TRY(check_stated(object, "confidence", ab_calibration_confidence(c)));
  AB_TRY(check_stated(object, "factor", AB_CALIBRATION_FACTOR));
  AB_TRY(check_stated(object, "family_false_alarm", ab_calibration_false_alarm(c)));
  return AB_OK;
}

static ab_status get_bounds(struct ab_calibration *c, const struct ab_json *object) {
  const struct ab_json *array;
  AB_TRY(ab_json_get_array(&array, object, "bounds"));
  if (!ab_json_size(array)) return ab_json_fail(array, "is empty");
  for (const struct ab_json *row = ab_json_first(array); row; row = ab_json_next(row)) {
    static const char *const keys[] = {"kind", "largest", "bound", NULL};
    const char *kind;
    AB_TRY(ab_json_only_keys(row, keys, "a bound"));
    double largest, bound;
    AB_TRY(ab_json_get_string(&kind, row, "kind"));
    AB_TRY(ab_json_get_double(&largest, row, "largest"));
    AB_TRY(ab_json_get_double(&bound, row, "bound"));
    if (strlen(kind) >= AB_KIND_TEXT || find(c, kind) || largest < 0)
      return ab_json_fail(row, "is no bound of a kind of its own");
    if (bound != ab_calibration_bound_of(kind, largest))
      return ab_json_fail(row, "has a bound that does not follow from what was measured");
    AB_TRY(ab_calibration_add(c, kind, largest));
  }
  ab_calibration_conclude(c);
  return AB_OK;
}

static ab_status get_all(struct ab_calibration *c, const struct ab_json *object) {
  static const char *const keys[] = {"version", "config_digest", "created", "commit", "runs", "seed", "numerics",
                                     "cores", "dropped_cores", "quantile", "confidence", "factor",
                                     "family_false_alarm", "layers", "longest_reduction", "bounds", NULL};
  int64_t version;
  AB_TRY(ab_json_get_int64(&version, object, "version"));
  if (version != AB_CALIBRATION_VERSION)
    return ab_json_fail(ab_json_find(object, "version"), "is not the version that this program reads");
  AB_TRY(ab_json_only_keys(object, keys, "a calibration"));
  AB_TRY(ab_json_get_copy(&c->config_digest, object, "config_digest"));
  AB_TRY(ab_json_get_copy(&c->created, object, "created"));
  AB_TRY(ab_json_get_copy(&c->commit, object, "commit"));
  AB_TRY(ab_json_get_copy(&c->numerics, object, "numerics"));
  AB_TRY(ab_json_get_copy(&c->cores, object, "cores"));
  AB_TRY(ab_json_get_copy(&c->dropped, object, "dropped_cores"));
  AB_TRY(get_positive(&c->runs, object, "runs"));
  AB_TRY(ab_json_get_int64(&c->seed, object, "seed"));
  AB_TRY(get_positive(&c->layers, object, "layers"));
  AB_TRY(get_positive(&c->reduction, object, "longest_reduction"));
  AB_TRY(get_bounds(c, object));
  AB_TRY(check_all_stated(c, object));
  return AB_OK;
}

ab_status ab_calibration_get(struct ab_calibration **out, const struct ab_json *object) {
  struct ab_calibration *c;
  AB_TRY(ab_mem_new(&c, 1, sizeof *c));
  ab_status status = get_all(c, object);
  if (status == AB_OK) *out = c;
  else ab_calibration_free(c);
  return status;
}
