#include <math.h>
#include <string.h>

#include "controls_parts.h"
#include "mem.h"
#include "norm.h"

enum { LARGEST = 1 << 22 }; /* elements of a captured tensor */

static size_t bytes_of(const struct ab_observation *o) {
  return (size_t)o->summary.count * ab_dtype_size(o->dtype);
}

/* The first two steps of the reference. */
static void find_steps(struct ab_control_data *d) {
  const struct ab_recording *b = d->c->b;
  d->step = d->next = -1;
  for (size_t i = 0; i < b->observations + b->metrics; i++) {
    int step = i < b->observations ? b->observation[i].observation.id.step
                                   : b->metric[i - b->observations].metric.step;
    if (step < 0 || step == d->step || step == d->next) continue;
    if (d->step < 0 || step < d->step) {
      d->next = d->step;
      d->step = step;
    } else if (d->next < 0 || step < d->next) {
      d->next = step;
    }
  }
}

static bool of_step(const struct ab_control_data *d, int step) {
  return step >= 0 && (step == d->step || step == d->next);
}

static bool taken(const struct ab_control_data *d, const struct ab_observation *o, bool narrow) {
  int m = o->id.microbatch;
  if (narrow) return d->leaf.values && ab_identity_equal(&o->id, &d->leaf.observation.id);
  return of_step(d, o->id.step) && (m <= 0 || m == d->facts->microbatches - 1);
}

ab_status ab_control_copy(struct ab_recording *out, const struct ab_observation *o, const struct ab_recording *from) {
  const struct ab_fingerprint *fingerprint = ab_recording_fingerprint(from, &o->id);
  AB_TRY(ab_recording_observe(out, o));
  return fingerprint ? ab_recording_add_fingerprint(out, fingerprint) : AB_OK;
}

static ab_status copy(struct ab_recording **out, const struct ab_control_data *d, const struct ab_recording *from,
                      bool narrow) {
  AB_TRY(ab_recording_new(out, from->name));
  for (size_t i = 0; i < from->observations; i++) {
    const struct ab_observation *o = &from->observation[i].observation;
    if (taken(d, o, narrow)) AB_TRY(ab_control_copy(*out, o, from));
  }
  for (size_t i = 0; i < from->metrics; i++)
    if (of_step(d, from->metric[i].metric.step)) AB_TRY(ab_recording_add_metric(*out, &from->metric[i].metric));
  ab_recording_complete(*out);
  return AB_OK;
}

/* AB_OK with out->values NULL where they were not kept. */
static ab_status capture(struct ab_captured *out, bool *altered, const struct ab_comparison *c,
                         const struct ab_observation *o) {
  struct ab_view view;
  if (!c->values || o->summary.count == 0 || o->summary.count > LARGEST) return AB_OK;
  ab_status status = c->values(c->values_ctx, 0, o, &view);
  if (status == AB_ENOTFOUND) {
    ab_status_clear();
    return AB_OK;
  }
  AB_TRY(status);
  AB_TRY(ab_mem_new(&out->values, bytes_of(o), 1));
  out->observation = *o;
  ab_view_pack(out->values, &view);
  *altered = !ab_summary_holds(&o->summary, &view);
  return AB_OK;
}

/* One that is not itself the rounding of terms that cancel: a damage to it would be nothing. */
static bool fits_leaf(const struct ab_control_data *d, const struct ab_observation *o) {
  if (ab_norm_of(d->c->b, &o->id, o->summary.l2) != o->summary.l2) return false;
  return o->id.step == d->step && ab_quantity_of(&o->id) == AB_Q_WEIGHT_GRADIENT && o->shape.rank >= 2 &&
         o->summary.l2 > 0 && !o->summary.nonfinite;
}

static ab_status find_leaf(struct ab_control_data *d) {
  const struct ab_observation *best = NULL;
  for (size_t i = 0; i < d->c->b->observations; i++) {
    const struct ab_observation *o = &d->c->b->observation[i].observation;
    if (fits_leaf(d, o) && (!best || o->summary.count < best->summary.count)) best = o;
  }
  const struct ab_recorded *a = best ? ab_recording_find(d->c->a, &best->id) : NULL;
  return a ? capture(&d->leaf, &d->leaf_altered, d->c, &a->observation) : AB_OK;
}

static bool fits_rows(const struct ab_control_data *d, const struct ab_observation *o) {
  return o->id.step == d->step && ab_quantity_of(&o->id) == AB_Q_INPUT_GRADIENT && o->shape.rank >= 2 &&
         o->shape.dim[0] % d->facts->microbatches == 0 && o->summary.l2 > 0 && !o->summary.nonfinite;
}

static ab_status find_rows(struct ab_control_data *d) {
  for (size_t i = 0; i < d->c->a->observations && !d->rows.values; i++) {
    const struct ab_observation *o = &d->c->a->observation[i].observation;
    if (fits_rows(d, o)) AB_TRY(capture(&d->rows, &d->rows_altered, d->c, o));
  }
  return AB_OK;
}

static ab_status fill(struct ab_control_data *d, bool narrow) {
  find_steps(d);
  AB_TRY(find_leaf(d));
  if (!narrow) AB_TRY(find_rows(d));
  AB_TRY(copy(&d->a, d, d->c->a, narrow));
  return copy(&d->b, d, d->c->b, narrow);
}

ab_status ab_control_data_new(struct ab_control_data *out, const struct ab_comparison *c,
                              const struct ab_control_facts *facts, bool narrow) {
  *out = (struct ab_control_data){.c = c, .facts = facts};
  ab_status status = fill(out, narrow);
  if (status != AB_OK) ab_control_data_free(out);
  return status;
}

void ab_control_data_free(struct ab_control_data *data) {
  ab_recording_free(data->a);
  ab_recording_free(data->b);
  ab_mem_free(data->leaf.values);
  ab_mem_free(data->rows.values);
  *data = (struct ab_control_data){0};
}
