/* The usual part of a walk: whole lanes of finite elements of one float type, where they lie. */
#pragma once

#include "metrics.h"

/* What `count` elements (a multiple of eight, at most AB_CHUNK) add besides their sums of squares. */
struct ab_chunk {
  size_t differing, sign_only;
  uint64_t max_ulp;
  double max_abs, max_b;
};
enum { AB_CHUNK = 1024 };

/* Adds the squares to the walk's lanes; both sides are of `dtype`. False, and nothing added, unless every element is
 * finite. */
bool ab_chunk_add(struct ab_chunk *out, struct ab_difference_walk *walk, enum ab_dtype dtype, const void *a,
                  const void *b, size_t count);
