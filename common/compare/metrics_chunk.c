#include "metrics_chunk.h"

#include <string.h>

#include "vector.h"

/* Elements lie in bytes of any type. */
typedef int32_t word_i32 __attribute__((may_alias));
typedef int64_t word_i64 __attribute__((may_alias));

struct look {
  bool unlike;
  double max_b;
};

#define NAME(x) x##_f32
#define words lanes_i32
#define word word_i32
#define masks lanes_u32
#define words_anywhere lanes_i32_anywhere
#define reals lanes_f32
#define WORD_MAX INT32_MAX
#define WORD_INFINITE 0x7f800000
#include "metrics_lanes.h"
#undef NAME
#undef words
#undef word
#undef masks
#undef words_anywhere
#undef reals
#undef WORD_MAX
#undef WORD_INFINITE

#define NAME(x) x##_f64
#define words lanes_i64
#define word word_i64
#define masks lanes_u64
#define words_anywhere lanes_i64_anywhere
#define reals lanes_f64
#define WORD_MAX INT64_MAX
#define WORD_INFINITE (INT64_C(0x7ff) << 52)
#include "metrics_lanes.h"

bool ab_chunk_add(struct ab_chunk *out, struct ab_difference_walk *walk, enum ab_dtype dtype, const void *a,
                  const void *b, size_t count) {
  bool narrow = dtype == AB_F32;
  struct look seen = {0};
  *out = (struct ab_chunk){0};
  if (!(narrow ? look_f32 : look_f64)(&seen, a, b, count)) return false;
  out->max_b = seen.max_b;
  if (seen.unlike)
    (narrow ? measure_f32 : measure_f64)(out, walk, a, b, count);
  else
    (narrow ? square_f32 : square_f64)(walk->squares_b, walk->scale_b, b, count);
  return true;
}
