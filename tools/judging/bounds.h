/* How far a run may be from MaxText's numbers: the bounds of a bundle.
 *
 * A manifest.json beside the bundle's folder that has a row for it states them. Without one they follow from
 * expected.json by the manifest's own rule: relative L2 <= min(1e-5, max(2e-6, 4 x MaxText's own distance between
 * pipeline and sequential layers)) for gradients, outputs and metrics, max(1e-5, 4 x) for parameters.
 */
#pragma once

#include "json.h"

enum ab_bounded {
  AB_BOUND_GRADIENT,  /* by stacked path */
  AB_BOUND_PARAMETER, /* by stacked path */
  AB_BOUND_OUTPUT,    /* "outputs" or "d_inputs" */
  AB_BOUND_METRIC     /* "loss", "grad_norm", ... */
};

struct ab_bounds {
  struct ab_json *root;
  const struct ab_json *row; /* the manifest's `bounds`, or expected.json's root */
  bool manifest, train;
};

/* folder: the bundle's. train: its kind. AB_EFORMAT for a malformed manifest.json or expected.json. */
ab_status ab_bounds_open(struct ab_bounds *out, const char *folder, bool train);
void ab_bounds_close(struct ab_bounds *bounds);
/* The least bound of that rule: 2e-6, of parameters 1e-5. */
double ab_bounds_least(enum ab_bounded what);
/* Relative L2, or relative difference of a metric. */
double ab_bounds_find(const struct ab_bounds *bounds, enum ab_bounded what, const char *name);
