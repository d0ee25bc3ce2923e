#include "metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "number.h"

enum { LANES = 8 };

/* One pass over both tensors. Squares are taken of elements scaled by powers of two. */
struct pass {
  struct ab_difference *d;
  size_t at; /* row-major index of the block */
  double scale_d, scale_b;
  double squares_d[LANES], squares_b[LANES];
  double max_b;
  bool bad_seen; /* a non-finite element: it stays the worst one */
};

static bool is_float(enum ab_dtype dtype) { return dtype == AB_F32 || dtype == AB_F64; }

/* Distance on the line of representable numbers; +0 and -0 are one point. */
static uint64_t ulps(uint64_t a, uint64_t b, enum ab_dtype dtype) {
  uint64_t sign = dtype == AB_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
  uint64_t size_a = a & ~sign, size_b = b & ~sign;
  if ((a & sign) != (b & sign)) return size_a + size_b;
  return size_a > size_b ? size_a - size_b : size_b - size_a;
}

/* Element i of the two blocks. */
static struct ab_value_pair pair_at(const struct pass *p, const struct ab_cursor *a, const struct ab_cursor *b,
                                    size_t i) {
  return (struct ab_value_pair){p->at + i, a->value[i], b->value[i], a->bits[i], b->bits[i]};
}

static void differ(struct ab_difference *d, struct ab_value_pair pair) {
  if (!d->differing++) d->first = d->worst = pair;
}

static void nonfinite_element(struct pass *p, struct ab_value_pair pair) {
  p->d->nonfinite_a += !isfinite(pair.a);
  p->d->nonfinite_b += !isfinite(pair.b);
  differ(p->d, pair);
  if (!p->bad_seen) p->d->worst = pair;
  p->bad_seen = true;
}

static void unequal_element(struct pass *p, const struct ab_cursor *a, const struct ab_cursor *b, size_t i) {
  struct ab_difference *d = p->d;
  double size = fabs(a->value[i] - b->value[i]);
  if (!d->differing++) d->first = d->worst = pair_at(p, a, b, i);
  if (size > d->max_abs) {
    d->max_abs = size;
    if (!p->bad_seen) d->worst = pair_at(p, a, b, i);
  }
  if (!d->has_ulp) return;
  uint64_t steps = ulps(a->bits[i], b->bits[i], d->dtype_a);
  d->max_ulp = steps > d->max_ulp ? steps : d->max_ulp;
}

/* One block. Equal elements add +0 to the squares of the differences, which changes no bit. */
static void float_block(struct pass *p, const struct ab_cursor *a, const struct ab_cursor *b, size_t count) {
  for (size_t i = 0; i < count; i++) {
    double x = a->value[i], y = b->value[i], size = fabs(y);
    if (!isfinite(x) || !isfinite(y)) {
      nonfinite_element(p, pair_at(p, a, b, i));
      continue;
    }
    size_t lane = (p->at + i) % LANES;
    double difference = x * p->scale_d - y * p->scale_d, scaled = y * p->scale_b;
    p->max_b = size > p->max_b ? size : p->max_b;
    p->squares_b[lane] += scaled * scaled;
    p->squares_d[lane] += difference * difference;
    if (x == y)
      p->d->sign_only += signbit(x) != signbit(y);
    else
      unequal_element(p, a, b, i);
  }
}

static void integer_block(struct pass *p, const struct ab_cursor *a, const struct ab_cursor *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (a->bits[i] != b->bits[i]) differ(p->d, pair_at(p, a, b, i));
}

static void walk(struct pass *p, const struct ab_view *a, const struct ab_view *b) {
  struct ab_cursor in_a, in_b;
  ab_cursor_start(&in_a, a);
  ab_cursor_start(&in_b, b);
  for (size_t n; (n = ab_cursor_next(&in_a)) && ab_cursor_next(&in_b) == n; p->at += n) {
    if (p->d->integers)
      integer_block(p, &in_a, &in_b, n);
    else
      float_block(p, &in_a, &in_b, n);
  }
}

static double fold(const double lane[LANES]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* A power of two that brings values of this size near 1; 1 where squares are safe anyway. */
static double scale_for(double size) {
  int exponent;
  if (size == 0 || (size > 1e-140 && size < 1e140)) return 1;
  if (!isfinite(size)) return ldexp(1, -1022);
  frexp(size, &exponent);
  return ldexp(1, exponent < -1000 ? 1000 : -exponent);
}

/* d against b where 0 against 0 is 0. */
static double ratio(double d, double b) { return d == 0 ? 0 : b == 0 ? INFINITY : d / b; }

static void conclude(struct ab_difference *d, const struct pass *p) {
  double l2 = sqrt(fold(p->squares_d)), l2_b = sqrt(fold(p->squares_b));
  d->l2 = l2 / p->scale_d;
  d->l2_b = l2_b / p->scale_b;
  d->rel_l2 = ratio(l2, l2_b) * (p->scale_b / p->scale_d);
  d->max_abs_over_max = ratio(d->max_abs, p->max_b);
  if (d->nonfinite_a + d->nonfinite_b) d->rel_l2 = d->max_abs_over_max = INFINITY;
}

static ab_status check(const struct ab_view *a, const struct ab_view *b) {
  char shape_a[160], shape_b[160];
  ab_shape_print(shape_a, sizeof shape_a, &a->shape);
  ab_shape_print(shape_b, sizeof shape_b, &b->shape);
  if (!ab_shape_equal(&a->shape, &b->shape))
    return AB_FAIL(AB_ESHAPE, "tensors of shapes %s and %s cannot be compared", shape_a, shape_b);
  if (a->dtype != b->dtype && !(is_float(a->dtype) && is_float(b->dtype)))
    return AB_FAIL(AB_ESHAPE, "tensors of %s and %s cannot be compared", ab_dtype_name(a->dtype),
                   ab_dtype_name(b->dtype));
  return AB_OK;
}

ab_status ab_difference(struct ab_difference *out, const struct ab_view *a, const struct ab_view *b) {
  AB_TRY(check(a, b));
  struct ab_difference start = {.count = ab_view_count(a),
                                .dtype_a = a->dtype,
                                .dtype_b = b->dtype,
                                .integers = !is_float(a->dtype),
                                .has_ulp = is_float(a->dtype) && a->dtype == b->dtype};
  *out = start;
  struct pass first = {.d = out, .scale_d = 1, .scale_b = 1};
  walk(&first, a, b);
  struct pass again = {.d = out, .scale_d = scale_for(out->max_abs), .scale_b = scale_for(first.max_b)};
  bool rescale = again.scale_d != 1 || again.scale_b != 1;
  if (rescale) {
    *out = start;
    walk(&again, a, b);
  }
  conclude(out, rescale ? &again : &first);
  return AB_OK;
}

struct ab_difference ab_difference_scalar(double a, double b, bool f32) {
  struct ab_difference d;
  float narrow_a = (float)a, narrow_b = (float)b;
  enum ab_dtype dtype = f32 ? AB_F32 : AB_F64;
  struct ab_view view_a = {.dtype = dtype, .data = f32 ? (void *)&narrow_a : (void *)&a};
  struct ab_view view_b = {.dtype = dtype, .data = f32 ? (void *)&narrow_b : (void *)&b};
  if (ab_difference(&d, &view_a, &view_b) != AB_OK) return (struct ab_difference){.rel_l2 = INFINITY, .differing = 1};
  return d;
}

uint64_t ab_bits_of(double value, bool f32) {
  uint64_t bits;
  uint32_t word;
  float narrow = (float)value;
  memcpy(&bits, &value, sizeof bits);
  memcpy(&word, &narrow, sizeof word);
  return f32 ? word : bits;
}

double ab_value_of(uint64_t bits, bool f32) {
  double value;
  float narrow;
  uint32_t word = (uint32_t)bits;
  memcpy(&value, &bits, sizeof value);
  memcpy(&narrow, &word, sizeof narrow);
  return f32 ? (double)narrow : value;
}

void ab_value_print(char *text, size_t size, double value, uint64_t bits, enum ab_dtype dtype) {
  char decimal[AB_NUMBER_MAX];
  if (dtype == AB_F32)
    ab_number_print_float(decimal, (float)value);
  else
    ab_number_print(decimal, value);
  snprintf(text, size, "%s (0x%0*llx)", decimal, 2 * (int)ab_dtype_size(dtype), (unsigned long long)bits);
}
