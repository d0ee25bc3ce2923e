/* How far two tensors are apart. b is the reference. */
#pragma once

#include "tensor.h"

/* Both values of one element, exactly. */
struct ab_value_pair {
  size_t index; /* flat, row-major */
  double a, b;
  uint64_t bits_a, bits_b; /* of the own dtype */
};

/* Formulas: rel_l2 = |a-b|_2 / |b|_2; max_abs_over_max = max |a-b| / max |b|; both in double over the elements where
 * both sides are finite, in fixed order, scaled so that nothing overflows; 0 against 0 is 0, anything else against 0
 * infinite. +0 equals -0. A non-finite value is equal to nothing, not even to itself. */
struct ab_difference {
  size_t count;
  size_t differing;      /* unequal elements, non-finite ones included */
  size_t sign_only;      /* +0 against -0: not in `differing` */
  size_t nonfinite_a, nonfinite_b;
  size_t nonfinite_alike; /* NaN in both, or the same infinity: they are in `differing` */
  double max_abs;        /* over finite pairs */
  double l2, l2_b;       /* |a-b|_2 and |b|_2; infinite only if the true value is not representable */
  double rel_l2;         /* infinite as soon as a non-finite value is there */
  double max_abs_over_max;
  uint64_t max_ulp;      /* float of equal dtypes only, else 0; steps on the line of representable numbers */
  bool has_ulp;
  bool integers;         /* distances are 0 then; only `differing` counts */
  struct ab_value_pair worst; /* first non-finite element, else the largest |a-b|; index 0 if all are equal */
  struct ab_value_pair first; /* first differing element in row-major order */
  enum ab_dtype dtype_a, dtype_b;
};

/* NaN in both, or the same infinity. */
bool ab_same_nonfinite(double a, double b);
/* A distance against the reference's norm: 0 against 0 is 0, anything else against 0 infinite. */
double ab_relative(double distance, double norm);

/* Views of equal shape, each AB_F32 or AB_F64, or both of one integer type. AB_ESHAPE otherwise. */
ab_status ab_difference(struct ab_difference *out, const struct ab_view *a, const struct ab_view *b);
/* The same piece by piece, for what is larger than memory: begin, pieces in row-major order whatever their sizes, end.
 * Read-only outside metrics.c. */
struct ab_difference_walk {
  struct ab_difference d;
  size_t at;              /* elements added */
  double scale_d, scale_b; /* squares are taken of elements scaled by powers of two */
  double squares_d[8], squares_b[8]; /* of element i in lane i mod 8 */
  double max_b;
  bool bad_seen; /* a non-finite element: it stays the worst one */
  bool again;
};
/* `count` elements will come. AB_ESHAPE for types that cannot be compared. */
ab_status ab_difference_begin(struct ab_difference_walk *walk, enum ab_dtype a, enum ab_dtype b, size_t count);
/* The next elements; views of equal shape. */
void ab_difference_add(struct ab_difference_walk *walk, const struct ab_view *a, const struct ab_view *b);
/* False where squares left the range of doubles: then the same pieces are to be added once more, and this second end is
 * the last. */
bool ab_difference_end(struct ab_difference *out, struct ab_difference_walk *walk);
/* The same for two scalars; `f32`: both are widened float32. */
struct ab_difference ab_difference_scalar(double a, double b, bool f32);
/* The bits of a value and back; f32: of the float32 that it is a widening of. */
uint64_t ab_bits_of(double value, bool f32);
double ab_value_of(uint64_t bits, bool f32);
/* Of an integer type, from its bits. */
int64_t ab_integer_of(uint64_t bits, enum ab_dtype dtype);
/* "0.1 (0x3dcccccd)": shortest decimal that reads back, and the bits. Locale-independent. */
void ab_value_print(char *text, size_t size, double value, uint64_t bits, enum ab_dtype dtype);
