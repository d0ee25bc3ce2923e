/* One kernel call over fixed pieces of its output: on all workers when it is called outside a parallel region, one
 * piece after the other inside one. Pieces never share a reduction, so the bits are those of one worker.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* What is worth handing to another worker: elements of a vector, tokens of a few hundred elements. */
enum { SPREAD_ELEMENTS = 1 << 15, SPREAD_TOKENS = 64 };

static inline bool may_spread(int64_t pieces) {
#ifdef _OPENMP
  return pieces > 1 && !omp_in_parallel() && omp_get_max_threads() > 1;
#else
  (void)pieces;
  return false;
#endif
}

static inline int64_t pieces_of(size_t n, size_t piece) { return (int64_t)((n + piece - 1) / piece); }

/* Of piece i. */
static inline size_t piece_length(size_t n, size_t piece, int64_t i) {
  size_t left = n - (size_t)i * piece;
  return left < piece ? left : piece;
}

/* Runs `statement` once per piece, with `at` its first of n elements and `count` its length. */
#define FOR_PIECES(n, piece, statement)                                                  \
  do {                                                                                   \
    int64_t spread_pieces = pieces_of((n), (piece));                                     \
    _Pragma("omp parallel for schedule(static) if (may_spread(spread_pieces))")          \
    for (int64_t spread_i = 0; spread_i < spread_pieces; spread_i++) {                   \
      size_t at = (size_t)spread_i * (piece), count = piece_length((n), (piece), spread_i); \
      statement;                                                                         \
    }                                                                                    \
  } while (0)
