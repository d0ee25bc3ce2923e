/* Bounds that were measured for one config: what its rounding amounts to when nothing that matters changes.
 *
 * Of every run and kind (quantity and name, layers and steps together) the largest error against float64 is taken,
 * so that N runs give N independent values. The largest of them is above the q-quantile with confidence 1 - q^N: 59
 * runs are the least for q = 0.95 with 95 %. The bound is that value times a factor. A further run is above the value,
 * before the factor, with a chance of at most 1/(N + 1) for one kind, kinds/(N + 1) for all of them.
 *
 * Ceiling: k C^(L + 1 - l) eps sqrt(n), of layer l of L (1 .. L; 0 in front of them, L + 1 behind), n the longest
 * reduction: the gradient of layer l has passed L + 1 - l layers backward (arXiv 2506.09280, theorem 5.3), each of
 * them a sum of n products whose roundings are as good as random (sqrt(n), not n). C: how much a layer may amplify,
 * 1.01 to 1.05 there. k: a layer has about ten operators in a row, forward and backward, whose errors add in squares;
 * TTrace's own adoption uses 4 to 5 and one flat layer. The smaller of both governs. */
#pragma once

#include "identity.h"
#include "json.h"

#define AB_CALIBRATION_QUANTILE 0.95
#define AB_CALIBRATION_FACTOR 2.0
#define AB_CALIBRATION_LEAST 0x1p-23 /* a bound is no less than one ulp of float32 */
/* A scalar is rounded once more, and to few values: its roundings at one set of parameters say little of another's. */
#define AB_CALIBRATION_LEAST_METRIC 1e-6
#define AB_CEILING_K 6.0
#define AB_CEILING_C 1.03
#define AB_CEILING_EPS 0x1p-24
enum { AB_CALIBRATION_VERSION = 1, AB_CALIBRATION_RUNS = 59, AB_KIND_TEXT = 128 };

struct ab_calibrated {
  char kind[AB_KIND_TEXT]; /* "weight gradient mlp/wo/kernel", "metric loss" */
  double largest, bound;
};

struct ab_calibration {
  char *config_digest, *created, *commit; /* owned, as are the lists "SkylakeX, Haswell" */
  char *numerics, *cores, *dropped;
  int64_t runs, seed, layers, reduction;
  struct ab_calibrated *kind; /* owned */
  size_t kinds;
};
/* Accepts NULL. */
void ab_calibration_free(struct ab_calibration *calibration);

void ab_calibration_kind(char kind[AB_KIND_TEXT], const struct ab_identity *id, enum ab_quantity quantity);
/* Takes in one error of a kind: the largest is kept, of all runs. AB_EMISMATCH for NaN, infinity and less than 0: no
 * bound follows from them. */
ab_status ab_calibration_add(struct ab_calibration *calibration, const char *kind, double error);
/* What `largest` makes of a kind's bound, ceiling aside. */
double ab_calibration_bound_of(const char *kind, double largest);
/* Sets every bound from what was taken in. */
void ab_calibration_conclude(struct ab_calibration *calibration);
/* Of a tensor of layer `layer` (0-based; -1 outside) or a metric. */
double ab_calibration_ceiling(const struct ab_calibration *calibration, const struct ab_identity *id,
                              enum ab_quantity quantity);
/* The smaller of bound and ceiling; negative when the kind was not measured. */
double ab_calibration_bound(const struct ab_calibration *calibration, const struct ab_identity *id,
                            enum ab_quantity quantity);
/* 1 - q^N, and kinds / (N + 1) or 1. */
double ab_calibration_confidence(const struct ab_calibration *calibration);
double ab_calibration_false_alarm(const struct ab_calibration *calibration);

/* As a member `calibration` of a golden. AB_EFORMAT for anything that is not what put writes, another version, or a
 * bound that is not that of its `largest`. */
void ab_calibration_put(struct ab_json_writer *writer, const struct ab_calibration *calibration);
ab_status ab_calibration_get(struct ab_calibration **out, const struct ab_json *object);
