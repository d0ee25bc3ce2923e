#include <errno.h>
#include "bounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "mem.h"

static const double LEAST = 2e-6, MOST = 1e-5, LEAST_PARAMETER = 1e-5, FACTOR = 4;

/* Last component of a folder path that the file system knows by its real name. */
static ab_status real_folder(char **out, const char *folder) {
  char *path = realpath(folder, NULL);
  if (!path) return AB_FAIL(AB_EIO, "cannot resolve '%s': %s", folder, strerror(errno));
  ab_status status = ab_mem_string(out, path);
  free(path);
  return status;
}

static const struct ab_json *row_of(const struct ab_json *root, const char *name) {
  const struct ab_json *cases = ab_json_find(root, "cases");
  for (const struct ab_json *row = cases ? ab_json_first(cases) : NULL; row; row = ab_json_next(row)) {
    const struct ab_json *id = ab_json_find(row, "case");
    const char *text;
    if (!id || ab_json_string(&text, id) != AB_OK || strcmp(text, name) != 0) continue;
    return ab_json_find(row, "bounds");
  }
  return NULL;
}

/* *out stays NULL when there is no manifest or no row in it. */
static ab_status read_manifest(struct ab_bounds *out, const char *folder) {
  char *real, *path = NULL;
  AB_TRY(real_folder(&real, folder));
  char *slash = strrchr(real, '/');
  *slash = '\0'; /* the parent, and behind it the bundle's own name */
  ab_status status = ab_path_join(&path, real, "manifest.json");
  if (status == AB_OK) status = ab_json_read(&out->root, path, NULL);
  if (status == AB_OK) out->row = row_of(out->root, slash + 1);
  out->manifest = out->row != NULL;
  ab_mem_free(path);
  ab_mem_free(real);
  if (status != AB_ENOTFOUND) return status;
  ab_status_clear();
  return AB_OK;
}

ab_status ab_bounds_open(struct ab_bounds *out, const char *folder, bool train) {
  char *path;
  *out = (struct ab_bounds){.train = train};
  AB_TRY(read_manifest(out, folder));
  if (out->row) return AB_OK;
  ab_bounds_close(out);
  out->train = train;
  AB_TRY(ab_path_join(&path, folder, "expected.json"));
  ab_status status = ab_json_read(&out->root, path, NULL);
  ab_mem_free(path);
  out->row = out->root;
  return status;
}

void ab_bounds_close(struct ab_bounds *bounds) {
  ab_json_free(bounds->root);
  *bounds = (struct ab_bounds){0};
}

/* Follows keys down; NAN where the way ends. */
static double number_at(const struct ab_json *at, const char *const *key) {
  double value;
  for (; at && *key; key++) at = ab_json_find(at, *key);
  if (at && ab_json_double(&value, at) == AB_OK) return value;
  ab_status_clear();
  return NAN;
}

/* The manifest bounds the loss alone, not what follows from it: lm_loss is the loss, and a relative error of
 * perplexity, its exponential, is the loss times larger. */
static double from_manifest(const struct ab_bounds *b, enum ab_bounded what, const char *name) {
  if (what == AB_BOUND_METRIC && strcmp(name, "perplexity") == 0) return MOST;
  if (what == AB_BOUND_METRIC && strcmp(name, "lm_loss") == 0) name = "loss";
  const char *const keys[][4] = {[AB_BOUND_GRADIENT] = {"gradients", name, "rel_l2", NULL},
                                 [AB_BOUND_PARAMETER] = {"params_final", name, "rel_l2", NULL},
                                 [AB_BOUND_OUTPUT] = {name, "rel_l2", NULL, NULL},
                                 [AB_BOUND_METRIC] = {"metrics", name, "rel", NULL}};
  const char *const loss[] = {"loss", "rel", NULL};
  return number_at(b->row, !b->train && what == AB_BOUND_METRIC ? loss : keys[what]);
}

/* MaxText's own distance between its pipeline and its sequential layers. */
static double own_distance(const struct ab_bounds *b, enum ab_bounded what, const char *name) {
  const char *const trained[][5] = {[AB_BOUND_GRADIENT] = {"grads", name, "rel_l2", NULL, NULL},
                                    [AB_BOUND_PARAMETER] = {"params_final", name, "rel_l2", NULL, NULL},
                                    [AB_BOUND_OUTPUT] = {"outputs", name, "rel_l2", NULL, NULL},
                                    [AB_BOUND_METRIC] = {"metrics", name, "max_rel", NULL, NULL}};
  const char *const passed[] = {name, "rel_l2", NULL}, *const value[] = {"loss", "value", NULL},
                    *const sequential[] = {"loss_sequential", "value", NULL};
  const struct ab_json *compare = ab_json_find(b->row, "compare");
  if (b->train) return number_at(compare ? ab_json_find(compare, "sequential_vs_nnx") : NULL, trained[what]);
  if (what != AB_BOUND_METRIC)
    return number_at(compare ? ab_json_find(compare, "nnx_vs_sequential") : NULL, passed);
  double loss = number_at(b->row, value);
  return fabs(loss - number_at(b->row, sequential)) / fabs(loss);
}

double ab_bounds_least(enum ab_bounded what) { return what == AB_BOUND_PARAMETER ? LEAST_PARAMETER : LEAST; }

double ab_bounds_find(const struct ab_bounds *bounds, enum ab_bounded what, const char *name) {
  double least = ab_bounds_least(what);
  if (bounds->manifest) {
    double given = from_manifest(bounds, what, name);
    return isnan(given) ? least : given;
  }
  double own = own_distance(bounds, what, name), bound = isnan(own) ? least : fmax(least, FACTOR * own);
  return what == AB_BOUND_PARAMETER ? bound : fmin(MOST, bound);
}
