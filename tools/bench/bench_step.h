/* One case in this process: steps of its route, and between them the gemm calls of a step alone. */
#pragma once

#include "bench_cases.h"

enum { BENCH_CORE_NAME = 128 };

/* What the child sends. Minima over the rounds; processor time is of all threads. */
struct bench_step {
  int64_t rounds, calls, threads;
  double flop; /* of the gemm calls */
  double step_seconds, step_processor_seconds;
  double gemm_seconds, gemm_processor_seconds;
  double gemm_share; /* of the processor time of one step, inside gemm */
  char core[BENCH_CORE_NAME];
};

/* At least one round. The parent sees to the environment (one-thread BLAS). */
ab_status bench_step_measure(struct bench_step *out, const struct bench_case *c, int64_t rounds);
