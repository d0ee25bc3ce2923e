/* XXH3 of a stream, by the widest vectors of this processor: one digest, whatever they are. */
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

/* hash.c, compiled once per instruction set. */
typedef void ab_hash_fn(XXH3_state_t *state, const void *bytes, size_t count);
ab_hash_fn ab_hash_update_plain, ab_hash_update_avx2, ab_hash_update_avx512;

static inline ab_hash_fn *ab_hash_update(void) {
#if AB_HASH_AVX512
  if (__builtin_cpu_supports("avx512f")) return ab_hash_update_avx512;
#endif
#if AB_HASH_AVX2
  if (__builtin_cpu_supports("avx2")) return ab_hash_update_avx2;
#endif
  return ab_hash_update_plain;
}
