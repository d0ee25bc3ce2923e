#include "metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "float_bits.h"
#include "metrics_chunk.h"
#include "number.h"
#include "vector.h"

static bool is_float(enum ab_dtype dtype) { return dtype == AB_F32 || dtype == AB_F64; }

bool ab_same_nonfinite(double a, double b) { return (isnan(a) && isnan(b)) || (isinf(a) && a == b); }

/* Distance on the line of representable numbers; +0 and -0 are one point. */
static uint64_t ulps(uint64_t a, uint64_t b, enum ab_dtype dtype) {
  uint64_t sign = dtype == AB_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
  uint64_t size_a = a & ~sign, size_b = b & ~sign;
  if ((a & sign) != (b & sign)) return size_a + size_b;
  return size_a > size_b ? size_a - size_b : size_b - size_a;
}

/* Element i of the two blocks. */
static struct ab_value_pair pair_at(const struct ab_difference_walk *w, const struct ab_cursor *a,
                                    const struct ab_cursor *b, size_t i) {
  return (struct ab_value_pair){w->at + i, a->value[i], b->value[i], a->bits[i], b->bits[i]};
}

static void differ(struct ab_difference *d, struct ab_value_pair pair) {
  if (!d->differing++) d->first = d->worst = pair;
}

static void nonfinite_element(struct ab_difference_walk *w, struct ab_value_pair pair) {
  w->d.nonfinite_a += !isfinite(pair.a);
  w->d.nonfinite_b += !isfinite(pair.b);
  w->d.nonfinite_alike += ab_same_nonfinite(pair.a, pair.b);
  differ(&w->d, pair);
  if (!w->bad_seen) w->d.worst = pair;
  w->bad_seen = true;
}

static void unequal_element(struct ab_difference_walk *w, const struct ab_cursor *a, const struct ab_cursor *b,
                            size_t i) {
  struct ab_difference *d = &w->d;
  double size = fabs(a->value[i] - b->value[i]);
  if (!d->differing++) d->first = d->worst = pair_at(w, a, b, i);
  if (size > d->max_abs) {
    d->max_abs = size;
    if (!w->bad_seen) d->worst = pair_at(w, a, b, i);
  }
  if (!d->has_ulp) return;
  uint64_t steps = ulps(a->bits[i], b->bits[i], d->dtype_a);
  d->max_ulp = steps > d->max_ulp ? steps : d->max_ulp;
}

/* One block. Equal elements add +0 to the squares of the differences, which changes no bit, and are not scaled: the
 * smallest difference may be far from the largest element. */
static void float_block(struct ab_difference_walk *w, const struct ab_cursor *a, const struct ab_cursor *b,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    double x = a->value[i], y = b->value[i], size = fabs(y);
    if (!isfinite(x) || !isfinite(y)) {
      nonfinite_element(w, pair_at(w, a, b, i));
      continue;
    }
    size_t lane = (w->at + i) % LANES;
    double difference = x == y ? 0 : x * w->scale_d - y * w->scale_d, scaled = y * w->scale_b;
    w->max_b = size > w->max_b ? size : w->max_b;
    w->squares_b[lane] += scaled * scaled;
    w->squares_d[lane] += difference * difference;
    if (x == y)
      w->d.sign_only += signbit(x) != signbit(y);
    else
      unequal_element(w, a, b, i);
  }
}

static void integer_block(struct ab_difference_walk *w, const struct ab_cursor *a, const struct ab_cursor *b,
                          size_t count) {
  for (size_t i = 0; i < count; i++)
    if (a->bits[i] != b->bits[i]) differ(&w->d, pair_at(w, a, b, i));
}

/* Any layout, any types. */
static void add_slowly(struct ab_difference_walk *w, const struct ab_view *a, const struct ab_view *b) {
  struct ab_cursor in_a, in_b;
  ab_cursor_start(&in_a, a);
  ab_cursor_start(&in_b, b);
  for (size_t n; (n = ab_cursor_next(&in_a)) && ab_cursor_next(&in_b) == n; w->at += n) {
    if (w->d.integers)
      integer_block(w, &in_a, &in_b, n);
    else
      float_block(w, &in_a, &in_b, n);
  }
}

/* The elements of a view that lie one behind the other; NULL for any other. */
static unsigned char *flat(const struct ab_view *view) {
  struct ab_walk walk;
  ab_walk_start(&walk, view);
  unsigned char *at = ab_walk_next(&walk);
  return at && walk.run == ab_view_count(view) && walk.run_stride == 1 ? at : NULL;
}

static double value_at(const struct ab_view *view, size_t i) {
  float narrow;
  double value;
  const unsigned char *at = (const unsigned char *)view->data + i * ab_dtype_size(view->dtype);
  memcpy(&narrow, at, sizeof narrow);
  if (view->dtype == AB_F32) return (double)narrow;
  memcpy(&value, at, sizeof value);
  return value;
}

static struct ab_value_pair flat_pair(const struct ab_difference_walk *w, const struct ab_view *a,
                                      const struct ab_view *b, size_t i) {
  double x = value_at(a, i), y = value_at(b, i);
  return (struct ab_value_pair){w->at + i, x, y, ab_bits_of(x, a->dtype == AB_F32), ab_bits_of(y, b->dtype == AB_F32)};
}

/* The first element that differs, and the first of the largest difference, if the chunk holds either. */
static void place_extremes(struct ab_difference_walk *w, const struct ab_chunk *chunk, const struct ab_view *a,
                           const struct ab_view *b) {
  struct ab_difference *d = &w->d;
  size_t i = 0;
  if (!d->differing) {
    while (value_at(a, i) == value_at(b, i)) i++;
    d->first = d->worst = flat_pair(w, a, b, i);
  }
  if (chunk->max_abs <= d->max_abs) return;
  d->max_abs = chunk->max_abs;
  if (w->bad_seen) return;
  while (fabs(value_at(a, i) - value_at(b, i)) != chunk->max_abs) i++;
  d->worst = flat_pair(w, a, b, i);
}

/* The elements as doubles: where they lie, or widened into `room`. */
static const void *widened(double room[AB_CHUNK], const struct ab_view *view) {
  if (view->dtype == AB_F64) return view->data;
  for (size_t i = 0, count = ab_view_count(view); i < count; i++) room[i] = value_at(view, i);
  return room;
}

static bool add_chunk(struct ab_chunk *chunk, struct ab_difference_walk *w, const struct ab_view *a,
                      const struct ab_view *b) {
  double room[AB_CHUNK];
  size_t count = ab_view_count(b);
  if (a->dtype == b->dtype) return ab_chunk_add(chunk, w, a->dtype, a->data, b->data, count);
  const void *wide_a = widened(room, a), *wide_b = widened(room, b);
  return ab_chunk_add(chunk, w, AB_F64, wide_a, wide_b, count);
}

/* Whole lanes; false if they hold what is not finite. */
static bool add_usual(struct ab_difference_walk *w, const struct ab_view *a, const struct ab_view *b) {
  struct ab_chunk chunk;
  size_t count = ab_view_count(b);
  if (!add_chunk(&chunk, w, a, b)) return false;
  if (chunk.differing) place_extremes(w, &chunk, a, b);
  w->max_b = chunk.max_b > w->max_b ? chunk.max_b : w->max_b;
  w->d.differing += chunk.differing;
  w->d.sign_only += chunk.sign_only;
  if (w->d.has_ulp && chunk.max_ulp > w->d.max_ulp) w->d.max_ulp = chunk.max_ulp;
  w->at += count;
  return true;
}

/* Up to the next multiple of the lanes, then by whole lanes. */
static size_t next_piece(const struct ab_difference_walk *w, size_t left) {
  size_t before = (LANES - w->at % LANES) % LANES;
  if (before) return before < left ? before : left;
  if (left >= AB_CHUNK) return AB_CHUNK;
  return left < LANES ? left : left - left % LANES;
}

static struct ab_view piece_of(const struct ab_view *view, unsigned char *at, size_t begin, size_t count) {
  return (struct ab_view){.dtype = view->dtype, .shape = {1, {(int64_t)count}}, .stride = {1},
                          .data = at + begin * ab_dtype_size(view->dtype)};
}

void ab_difference_add(struct ab_difference_walk *w, const struct ab_view *a, const struct ab_view *b) {
  unsigned char *at_a = flat(a), *at_b = flat(b);
  if (!at_a || !at_b || w->d.integers) {
    add_slowly(w, a, b);
    return;
  }
  for (size_t done = 0, count = ab_view_count(b), n; done < count; done += n) {
    n = next_piece(w, count - done);
    struct ab_view piece_a = piece_of(a, at_a, done, n), piece_b = piece_of(b, at_b, done, n);
    if (n % LANES != 0 || !add_usual(w, &piece_a, &piece_b)) add_slowly(w, &piece_a, &piece_b);
  }
}

/* A power of two that brings values of this size near 1; 1 where squares are safe anyway. */
static double scale_for(double size) {
  int exponent;
  if (size == 0 || (size > 1e-140 && size < 1e140)) return 1;
  if (!isfinite(size)) return ldexp(1, -1022);
  frexp(size, &exponent);
  return ldexp(1, exponent < -1000 ? 1000 : -exponent);
}

double ab_relative(double distance, double norm) { return distance == 0 ? 0 : norm == 0 ? INFINITY : distance / norm; }

static void conclude(struct ab_difference *d, const struct ab_difference_walk *w) {
  double l2 = sqrt(lanes_fold(w->squares_d)), l2_b = sqrt(lanes_fold(w->squares_b));
  d->l2 = l2 / w->scale_d;
  d->l2_b = l2_b / w->scale_b;
  d->rel_l2 = ab_relative(l2, l2_b) * (w->scale_b / w->scale_d);
  d->max_abs_over_max = ab_relative(d->max_abs, w->max_b);
  if (d->nonfinite_a + d->nonfinite_b) d->rel_l2 = d->max_abs_over_max = INFINITY;
}

static struct ab_difference_walk start(enum ab_dtype a, enum ab_dtype b, size_t count) {
  return (struct ab_difference_walk){.d = {.count = count,
                                           .dtype_a = a,
                                           .dtype_b = b,
                                           .integers = !is_float(a),
                                           .has_ulp = is_float(a) && a == b},
                                     .scale_d = 1,
                                     .scale_b = 1};
}

ab_status ab_difference_begin(struct ab_difference_walk *walk, enum ab_dtype a, enum ab_dtype b, size_t count) {
  if (a != b && !(is_float(a) && is_float(b)))
    return AB_FAIL(AB_ESHAPE, "tensors of %s and %s cannot be compared", ab_dtype_name(a), ab_dtype_name(b));
  *walk = start(a, b, count);
  return AB_OK;
}

bool ab_difference_end(struct ab_difference *out, struct ab_difference_walk *w) {
  double scale_d = scale_for(w->d.max_abs), scale_b = scale_for(w->max_b);
  if (!w->again && (scale_d != 1 || scale_b != 1)) {
    *w = start(w->d.dtype_a, w->d.dtype_b, w->d.count);
    w->scale_d = scale_d;
    w->scale_b = scale_b;
    w->again = true;
    return false;
  }
  *out = w->d;
  conclude(out, w);
  return true;
}

static ab_status check_shapes(const struct ab_view *a, const struct ab_view *b) {
  char shape_a[160], shape_b[160];
  if (ab_shape_equal(&a->shape, &b->shape)) return AB_OK;
  ab_shape_print(shape_a, sizeof shape_a, &a->shape);
  ab_shape_print(shape_b, sizeof shape_b, &b->shape);
  return AB_FAIL(AB_ESHAPE, "tensors of shapes %s and %s cannot be compared", shape_a, shape_b);
}

static void measure(struct ab_difference *out, struct ab_difference_walk *walk, const struct ab_view *a,
                    const struct ab_view *b) {
  do
    ab_difference_add(walk, a, b);
  while (!ab_difference_end(out, walk));
}

ab_status ab_difference(struct ab_difference *out, const struct ab_view *a, const struct ab_view *b) {
  struct ab_difference_walk walk;
  AB_TRY(check_shapes(a, b));
  AB_TRY(ab_difference_begin(&walk, a->dtype, b->dtype, ab_view_count(a)));
  measure(out, &walk, a, b);
  return AB_OK;
}

struct ab_difference ab_difference_scalar(double a, double b, bool f32) {
  struct ab_difference d;
  float narrow_a = (float)a, narrow_b = (float)b;
  enum ab_dtype dtype = f32 ? AB_F32 : AB_F64;
  struct ab_view view_a = {.dtype = dtype, .data = f32 ? (void *)&narrow_a : (void *)&a};
  struct ab_view view_b = {.dtype = dtype, .data = f32 ? (void *)&narrow_b : (void *)&b};
  struct ab_difference_walk walk = start(dtype, dtype, 1);
  measure(&d, &walk, &view_a, &view_b);
  return d;
}

uint64_t ab_bits_of(double value, bool f32) {
  return f32 ? ab_bits_of_float((float)value) : ab_bits_of_double(value);
}

double ab_value_of(uint64_t bits, bool f32) {
  return f32 ? (double)ab_float_of_bits((uint32_t)bits) : ab_double_of_bits(bits);
}

int64_t ab_integer_of(uint64_t bits, enum ab_dtype dtype) {
  return dtype == AB_I32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
}

void ab_value_print(char *text, size_t size, double value, uint64_t bits, enum ab_dtype dtype) {
  char decimal[AB_NUMBER_MAX];
  if (dtype == AB_F32)
    ab_number_print_float(decimal, (float)value);
  else if (dtype == AB_F64)
    ab_number_print(decimal, value);
  else
    snprintf(decimal, sizeof decimal, "%lld", (long long)ab_integer_of(bits, dtype));
  snprintf(text, size, "%s (0x%0*llx)", decimal, 2 * (int)ab_dtype_size(dtype), (unsigned long long)bits);
}
