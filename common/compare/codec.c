#define XXH_INLINE_ALL
#include "codec.h"

#include <string.h>
#include <xxhash.h>

#include "float_bits.h"

uint64_t ab_frame_checksum(const void *bytes, size_t count, uint64_t number) {
  return XXH3_64bits_withSeed(bytes, count, number);
}

static void put(struct ab_encoder *e, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) *e->at++ = (unsigned char)(value >> 8 * i);
}

void ab_put_u32(struct ab_encoder *e, uint32_t value) { put(e, value, 4); }
void ab_put_u64(struct ab_encoder *e, uint64_t value) { put(e, value, 8); }

void ab_put_f64(struct ab_encoder *e, double value) { put(e, ab_bits_of_double(value), 8); }

void ab_put_text(struct ab_encoder *e, const char *text, size_t length) {
  put(e, length, 4);
  memcpy(e->at, text, length);
  e->at += length;
}

static void put_int(struct ab_encoder *e, int value) { put(e, (uint32_t)value, 4); }

static void put_identity(struct ab_encoder *e, const struct ab_identity *id) {
  put_int(e, id->step);
  put_int(e, id->accumulation);
  put_int(e, id->microbatch);
  put_int(e, id->layer);
  put_int(e, (int)id->phase);
  ab_put_text(e, id->tensor, strnlen(id->tensor, AB_NAME_MAX - 1));
}

static void put_where(struct ab_encoder *e, const struct ab_where *at) {
  put_int(e, at->iteration);
  put_int(e, at->stage);
  put_int(e, at->repeat);
  put_int(e, at->bubble);
}

static void put_shape(struct ab_encoder *e, const struct ab_shape *shape) {
  put_int(e, shape->rank);
  for (int i = 0; i < shape->rank; i++) ab_put_u64(e, (uint64_t)shape->dim[i]);
}

static void put_summary(struct ab_encoder *e, const struct ab_summary *s) {
  const uint64_t words[] = {s->digest[0], s->digest[1], s->count, s->nonfinite, s->negative_zeros};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) ab_put_u64(e, words[i]);
  ab_put_f64(e, s->l2);
  ab_put_f64(e, s->sum);
  ab_put_f64(e, s->max_abs);
}

void ab_put_observation(struct ab_encoder *e, const struct ab_observation *o) {
  put_identity(e, &o->id);
  put_where(e, &o->at);
  put_int(e, (int)o->dtype);
  put_shape(e, &o->shape);
  put_summary(e, &o->summary);
}

void ab_put_counter(struct ab_encoder *e, const struct ab_counter *c) {
  put_identity(e, &c->id);
  put_where(e, &c->at);
  ab_put_u64(e, (uint64_t)c->amount);
}

void ab_put_metric(struct ab_encoder *e, const struct ab_metric *m) {
  put_int(e, m->step);
  put_int(e, m->f32);
  ab_put_f64(e, m->value);
  ab_put_text(e, m->name, strnlen(m->name, AB_NAME_MAX - 1));
}

void ab_put_fingerprint(struct ab_encoder *e, const struct ab_fingerprint *f) {
  put_identity(e, &f->id);
  put_int(e, (int)f->dtype);
  put_shape(e, &f->shape);
  put_summary(e, &f->summary);
  ab_put_u64(e, f->seed);
  for (int i = 0; i < AB_SAMPLES; i++) ab_put_f64(e, f->sample[i]);
  for (int i = 0; i < AB_PROJECTIONS; i++) ab_put_f64(e, f->projection[i]);
}

void ab_put_totals(struct ab_encoder *e, const struct ab_totals *t) {
  ab_put_u64(e, t->observations);
  ab_put_u64(e, t->counters);
  ab_put_u64(e, t->metrics);
  ab_put_u64(e, t->fingerprints);
}

static uint64_t get(struct ab_decoder *d, int bytes) {
  uint64_t value = 0;
  if (d->end - d->at < bytes) {
    d->bad = true;
    return 0;
  }
  for (int i = 0; i < bytes; i++) value |= (uint64_t)*d->at++ << 8 * i;
  return value;
}

uint32_t ab_get_u32(struct ab_decoder *d) { return (uint32_t)get(d, 4); }
uint64_t ab_get_u64(struct ab_decoder *d) { return get(d, 8); }

double ab_get_f64(struct ab_decoder *d) { return ab_double_of_bits(get(d, 8)); }

void ab_get_text(struct ab_decoder *d, char *text, size_t size) {
  size_t length = ab_get_u32(d);
  text[0] = '\0';
  if (length >= size || length > (size_t)(d->end - d->at) || memchr(d->at, 0, length)) {
    d->bad = true;
    return;
  }
  memcpy(text, d->at, length);
  text[length] = '\0';
  d->at += length;
}

/* In [low, high). */
static int get_int(struct ab_decoder *d, int64_t low, int64_t high) {
  int32_t value = (int32_t)ab_get_u32(d);
  if (value < low || value >= high) d->bad = true;
  return d->bad ? 0 : value;
}

static int get_number(struct ab_decoder *d) { return get_int(d, -1, INT32_MAX); }

static void get_identity(struct ab_decoder *d, struct ab_identity *id) {
  id->step = get_number(d);
  id->accumulation = get_number(d);
  id->microbatch = get_number(d);
  id->layer = get_number(d);
  id->phase = (enum ab_phase)get_int(d, AB_FORWARD, AB_UPDATE + 1);
  ab_get_text(d, id->tensor, sizeof id->tensor);
  if (!id->tensor[0]) d->bad = true;
}

static void get_where(struct ab_decoder *d, struct ab_where *at) {
  at->iteration = get_number(d);
  at->stage = get_number(d);
  at->repeat = get_number(d);
  at->bubble = get_int(d, 0, 2) == 1;
}

static void get_shape(struct ab_decoder *d, struct ab_shape *shape) {
  *shape = (struct ab_shape){.rank = get_int(d, 0, AB_MAX_RANK + 1)};
  for (int i = 0; i < shape->rank; i++) {
    int64_t dim = (int64_t)ab_get_u64(d);
    shape->dim[i] = d->bad ? 0 : dim; /* a negative one has no count */
  }
}

static void get_summary(struct ab_decoder *d, struct ab_summary *s) {
  s->digest[0] = ab_get_u64(d);
  s->digest[1] = ab_get_u64(d);
  s->count = ab_get_u64(d);
  s->nonfinite = ab_get_u64(d);
  s->negative_zeros = ab_get_u64(d);
  s->l2 = ab_get_f64(d);
  s->sum = ab_get_f64(d);
  s->max_abs = ab_get_f64(d);
}

/* Dtype, shape and summary, which must agree on the number of elements. */
static void get_tensor(struct ab_decoder *d, enum ab_dtype *dtype, struct ab_shape *shape, struct ab_summary *summary) {
  size_t count;
  *dtype = (enum ab_dtype)get_int(d, AB_F32, AB_M61 + 1);
  get_shape(d, shape);
  get_summary(d, summary);
  if (d->bad) return;
  if (ab_shape_count(&count, shape) != AB_OK || count != summary->count) d->bad = true;
  if (summary->nonfinite > summary->count || summary->negative_zeros > summary->count) d->bad = true;
}

void ab_get_observation(struct ab_decoder *d, struct ab_observation *o) {
  get_identity(d, &o->id);
  get_where(d, &o->at);
  get_tensor(d, &o->dtype, &o->shape, &o->summary);
}

void ab_get_counter(struct ab_decoder *d, struct ab_counter *c) {
  get_identity(d, &c->id);
  get_where(d, &c->at);
  c->amount = (int64_t)ab_get_u64(d);
}

void ab_get_metric(struct ab_decoder *d, struct ab_metric *m) {
  m->step = get_number(d);
  m->f32 = get_int(d, 0, 2) == 1;
  m->value = ab_get_f64(d);
  ab_get_text(d, m->name, sizeof m->name);
  if (!m->name[0]) d->bad = true;
}

void ab_get_fingerprint(struct ab_decoder *d, struct ab_fingerprint *f) {
  get_identity(d, &f->id);
  get_tensor(d, &f->dtype, &f->shape, &f->summary);
  f->seed = ab_get_u64(d);
  for (int i = 0; i < AB_SAMPLES; i++) f->sample[i] = ab_get_f64(d);
  for (int i = 0; i < AB_PROJECTIONS; i++) f->projection[i] = ab_get_f64(d);
}

void ab_get_totals(struct ab_decoder *d, struct ab_totals *t) {
  t->observations = ab_get_u64(d);
  t->counters = ab_get_u64(d);
  t->metrics = ab_get_u64(d);
  t->fingerprints = ab_get_u64(d);
}
