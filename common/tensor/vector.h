/* Eight elements at a time, for sums that are the same bits whatever the width of a vector register: element i is in
 * lane i % LANES, and the lanes are folded pairwise at the end. Vector types, because compilers keep such loops over
 * arrays scalar; AB_CLONES compiles HOT functions for wider registers too, and the loader picks by processor.
 */
#pragma once

#include <stdint.h>

enum { LANES = 8 };

#if AB_CLONES
#define HOT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HOT
#endif

typedef double lanes_f64 __attribute__((vector_size(8 * LANES)));
typedef uint64_t lanes_u64 __attribute__((vector_size(8 * LANES)));
typedef int64_t lanes_i64 __attribute__((vector_size(8 * LANES)));
typedef float lanes_f32 __attribute__((vector_size(4 * LANES)));
typedef uint32_t lanes_u32 __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_i32 __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_i32_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int64_t lanes_i64_anywhere __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

static inline double lanes_fold(const double lane[LANES]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}
