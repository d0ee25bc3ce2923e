/* Damages of values: the tensor is taken from where the side kept it, changed, and observed again. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controls_parts.h"
#include "mem.h"
#include "norm.h"

static const uint64_t M61 = (UINT64_C(1) << 61) - 1;

static size_t count_of(const struct ab_observation *o) { return (size_t)o->summary.count; }

static bool put_tensor(const struct ab_trial *t, struct ab_observation *o) {
  if (ab_identity_equal(&o->id, &t->with.id)) *o = t->with;
  return true;
}

static ab_status take(struct ab_trial *t, const struct ab_captured *from) {
  size_t bytes = count_of(&from->observation) * ab_dtype_size(from->observation.dtype);
  AB_TRY(ab_mem_new(&t->values, bytes, 1));
  memcpy(t->values, from->values, bytes);
  t->with = from->observation;
  ab_identity_print(t->on, &t->with.id);
  return AB_OK;
}

/* Not applicable when the damage left every byte as it was. */
static void put_back(struct ab_trial *t, const struct ab_captured *from) {
  struct ab_view view = {.dtype = t->with.dtype, .shape = t->with.shape, .data = t->values};
  size_t bytes = count_of(&t->with) * ab_dtype_size(t->with.dtype);
  if (memcmp(t->values, from->values, bytes) == 0 && ab_shape_equal(&t->with.shape, &from->observation.shape)) {
    ab_trial_na(t, "these values stay the same by it");
    return;
  }
  ab_view_contiguous(&view);
  ab_summarize(&t->with.summary, &view);
  t->observation = put_tensor;
}

/* True when the leaf can be damaged: t->values holds its values then. */
static ab_status take_leaf(bool *taken, struct ab_trial *t) {
  const struct ab_control_data *d = t->data;
  *taken = d->leaf.values && !d->leaf_altered;
  if (!d->leaf.values) ab_trial_na(t, "no weight gradient with values");
  else if (d->leaf_altered) snprintf(t->why, sizeof t->why, "the values kept do not have the digest that was recorded");
  if (*taken) AB_TRY(take(t, &d->leaf));
  return AB_OK;
}

static bool is_float(const struct ab_observation *o) { return o->dtype == AB_F32 || o->dtype == AB_F64; }

/* Elements [begin, end) times `factor`; residues and integers are doubled for any other factor than 0. */
static void scale(struct ab_trial *t, size_t begin, size_t end, double factor) {
  for (size_t i = begin; i < end; i++) {
    if (t->with.dtype == AB_F32) {
      ((float *)(void *)t->values)[i] *= (float)factor;
    } else if (t->with.dtype == AB_F64) {
      ((double *)(void *)t->values)[i] *= factor;
    } else {
      uint64_t *word = &((uint64_t *)(void *)t->values)[i];
      *word = factor == 0 ? 0 : 2 * *word % M61;
    }
  }
}

ab_status ab_damage_one_ulp(struct ab_trial *t) {
  bool taken;
  AB_TRY(take_leaf(&taken, t));
  if (!taken) return AB_OK;
  size_t size = ab_dtype_size(t->with.dtype), at = count_of(&t->with) / 2 * size;
  t->values[at] ^= 1; /* little endian, as everything here: the last bit of an element */
  put_back(t, &t->data->leaf);
  return AB_OK;
}

ab_status ab_damage_scaled_gradient(struct ab_trial *t) {
  bool taken;
  int m = t->data->facts->microbatches;
  AB_TRY(take_leaf(&taken, t));
  if (!taken) return AB_OK;
  scale(t, 0, count_of(&t->with), m > 1 ? (double)(m - 1) / m : 2);
  put_back(t, &t->data->leaf);
  return AB_OK;
}

ab_status ab_damage_nan(struct ab_trial *t) {
  bool taken;
  AB_TRY(take_leaf(&taken, t));
  if (!taken) return AB_OK;
  if (!is_float(&t->with)) {
    ab_trial_na(t, "residues have no NaN");
    return AB_OK;
  }
  if (t->with.dtype == AB_F32) ((float *)(void *)t->values)[count_of(&t->with) - 1] = NAN;
  else ((double *)(void *)t->values)[count_of(&t->with) - 1] = NAN;
  put_back(t, &t->data->leaf);
  return AB_OK;
}

ab_status ab_damage_nan_both(struct ab_trial *t) {
  t->both_sides = true;
  return ab_damage_nan(t);
}

/* The first two axes of the leaf change places; of equal extents the shape cannot tell, the values must. */
ab_status ab_damage_transposed(struct ab_trial *t) {
  bool taken;
  AB_TRY(take_leaf(&taken, t));
  if (!taken) return AB_OK;
  const struct ab_shape *shape = &t->data->leaf.observation.shape;
  size_t rows = (size_t)shape->dim[0], columns = (size_t)shape->dim[1];
  size_t block = count_of(&t->with) / (rows * columns) * ab_dtype_size(t->with.dtype);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++)
      memcpy(t->values + (j * rows + i) * block, t->data->leaf.values + (i * columns + j) * block, block);
  t->with.shape.dim[0] = shape->dim[1];
  t->with.shape.dim[1] = shape->dim[0];
  t->expected = rows == columns ? AB_EXIT_DIFFERENT : AB_EXIT_INCOMPARABLE;
  put_back(t, &t->data->leaf);
  return AB_OK;
}

/* The rows of the last microbatch in the cotangent of the whole batch. */
static ab_status scale_rows(struct ab_trial *t, double factor) {
  const struct ab_control_data *d = t->data;
  size_t m = (size_t)d->facts->microbatches;
  if (m < 2) ab_trial_na(t, "one microbatch");
  else if (!d->rows.values) ab_trial_na(t, "no cotangent of the whole batch with values");
  else if (d->rows_altered) snprintf(t->why, sizeof t->why, "the values kept do not have the digest that was recorded");
  if (t->na || t->why[0]) return AB_OK;
  AB_TRY(take(t, &d->rows));
  size_t count = count_of(&t->with);
  scale(t, count / m * (m - 1), count, factor);
  put_back(t, &d->rows);
  return AB_OK;
}

ab_status ab_damage_dropped_rows(struct ab_trial *t) { return scale_rows(t, 0); }
ab_status ab_damage_doubled_rows(struct ab_trial *t) { return scale_rows(t, 2); }

static double element(const struct ab_view *view, size_t i) {
  return view->dtype == AB_F32 ? (double)((const float *)view->data)[i] : ((const double *)view->data)[i];
}

/* |a - b| against the norm of b, summed the plain way: what the verdict's own distance must come near to. */
static double plain_distance(const struct ab_view *a, const struct ab_view *b, const struct ab_comparison *c,
                             const struct ab_identity *id) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < ab_view_count(b); i++) {
    double d = element(a, i) - element(b, i);
    apart += d * d;
    size += element(b, i) * element(b, i);
  }
  return sqrt(apart) / ab_norm_of(c->b, id, sqrt(size));
}

static ab_status measure(struct ab_trial *t, double *own, double *plain) {
  const struct ab_comparison *c = t->data->c;
  const struct ab_observation *o = &t->data->leaf.observation;
  struct ab_view a = {.dtype = o->dtype, .shape = o->shape, .data = t->values}, b;
  struct ab_difference difference;
  const struct ab_recorded *other = ab_recording_find(c->b, &o->id);
  ab_view_contiguous(&a);
  AB_TRY(c->values(c->values_ctx, 1, &other->observation, &b));
  AB_TRY(ab_difference(&difference, &a, &b));
  *own = ab_distance_of(&difference, c->b, &o->id);
  *plain = plain_distance(&a, &b, c, &o->id);
  return AB_OK;
}

/* The tensor as it is, under a bound that is its own distance, or the next smaller number. */
static ab_status tensor_bound(struct ab_trial *t, bool above) {
  bool taken;
  double own, plain;
  AB_TRY(take_leaf(&taken, t));
  if (!taken) return AB_OK;
  if (!is_float(&t->with)) {
    ab_trial_na(t, "residues have no distance");
    return AB_OK;
  }
  AB_TRY(measure(t, &own, &plain));
  t->given = above ? nextafter(own, 0) : own;
  struct ab_bound bound = ab_trial_bound(t, &t->with.id);
  if (own == 0 && plain == 0) ab_trial_na(t, "no difference to measure");
  else if (!(fabs(own - plain) <= 1e-6 * plain))
    snprintf(t->why, sizeof t->why, "its distance is %g by the verdict's sum, %g by a plain one", own, plain);
  else if (bound.tier == AB_TIER_BITWISE || bound.limit != t->given) ab_trial_na(t, "its bound is a fixed number");
  return AB_OK;
}

ab_status ab_damage_tensor_at(struct ab_trial *t) { return tensor_bound(t, false); }
ab_status ab_damage_tensor_above(struct ab_trial *t) { return tensor_bound(t, true); }
