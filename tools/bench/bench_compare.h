/* The whole main comparison and the suite of MaxText's pipeline tests, as ab_compare runs them. */
#pragma once

#include "judgement.h"

enum { BENCH_ROUNDS_MAX = 64 };

struct bench_compare_side {
  char name[96];        /* "a (linen)"; "": did not run */
  double seconds;       /* the fewest */
  uint64_t peak_memory; /* bytes, the fewest: a process starts from its parent's peak, which grows with the rounds */
};

struct bench_compare {
  long rounds;
  int64_t steps;
  double seconds[BENCH_ROUNDS_MAX], processor_seconds[BENCH_ROUNDS_MAX]; /* ascending */
  struct bench_compare_side side[AB_SIDES];
};

/* Rounds of the comparison of configs/main.yml; AB_EMISMATCH when one of them is not equal: then there is nothing to
 * measure. */
ab_status bench_compare_measure(struct bench_compare *out, long rounds);

struct bench_suite {
  int64_t cases; /* that ran */
  double seconds, processor_seconds;
};

/* golden/maxtext_pipeline.yml once; AB_EMISMATCH when it is not equal. */
ab_status bench_suite_measure(struct bench_suite *out);
