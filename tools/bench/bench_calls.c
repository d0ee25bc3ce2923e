#include "bench_calls.h"

#include <time.h>

#include "kernels.h"
#include "mem.h"
#include "version.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { WORKERS_MAX = 256 };

struct call {
  float *c;
  const float *a, *b;
  struct ab_gemm dims;
};

/* On cache lines of its own. */
struct worker {
  _Alignas(AB_ALIGN) int64_t counted;
  int64_t noted;
  struct call *call; /* into `calls` */
  double seconds;
};

static struct worker worker[WORKERS_MAX];
static enum bench_mode mode;
static struct call *calls; /* of worker 0, then of worker 1 ... */
static int64_t total;

void __real_ab_f32_gemm_block(float *c, const float *a, const float *b, const struct ab_gemm *block);
void __wrap_ab_f32_gemm_block(float *c, const float *a, const float *b, const struct ab_gemm *block);

/* Of the outermost team of more than one: stages and the gemm door open teams inside each other. */
static int worker_number(void) {
#ifdef _OPENMP
  for (int level = 1; level <= omp_get_level(); level++)
    if (omp_get_team_size(level) > 1) return omp_get_ancestor_thread_num(level) % WORKERS_MAX;
#endif
  return 0;
}

static double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void __wrap_ab_f32_gemm_block(float *c, const float *a, const float *b, const struct ab_gemm *block) {
  struct worker *self = &worker[worker_number()];
  double start = mode == BENCH_CLOCK ? processor_seconds() : 0;
  __real_ab_f32_gemm_block(c, a, b, block);
  if (mode == BENCH_CLOCK) self->seconds += processor_seconds() - start;
  if (mode == BENCH_COUNT) self->counted++;
  if (mode != BENCH_NOTE) return;
  if (self->noted < self->counted) self->call[self->noted] = (struct call){c, a, b, *block};
  self->noted++;
}

void bench_calls_mode(enum bench_mode wanted) {
  mode = wanted;
  for (int w = 0; w < WORKERS_MAX; w++) {
    if (wanted == BENCH_COUNT) worker[w].counted = 0;
    if (wanted == BENCH_NOTE) worker[w].noted = 0;
    if (wanted == BENCH_CLOCK) worker[w].seconds = 0;
  }
}

ab_status bench_calls_reserve(void) {
  total = 0;
  for (int w = 0; w < WORKERS_MAX; w++) total += worker[w].counted;
  AB_TRY(ab_mem_new(&calls, (size_t)total + 1, sizeof *calls));
  struct call *next = calls;
  for (int w = 0; w < WORKERS_MAX; w++) {
    worker[w].call = next;
    next += worker[w].counted;
  }
  return AB_OK;
}

ab_status bench_calls_check(void) {
  for (int w = 0; w < WORKERS_MAX; w++)
    if (worker[w].noted != worker[w].counted)
      return AB_FAIL(AB_EMISMATCH, "worker %d made %lld gemm calls in one step; expected the %lld of the step before",
                     w, (long long)worker[w].noted, (long long)worker[w].counted);
  return AB_OK;
}

void bench_calls_free(void) {
  ab_mem_free(calls);
  calls = NULL;
}

static double flop_of(const struct call *call) {
  return 2.0 * (double)call->dims.m * (double)call->dims.n * (double)call->dims.k;
}

int64_t bench_calls_number(void) { return total; }

double bench_calls_flop(void) {
  double sum = 0;
  for (int64_t i = 0; i < total; i++) sum += flop_of(&calls[i]);
  return sum;
}

double bench_calls_seconds(void) {
  double sum = 0;
  for (int w = 0; w < WORKERS_MAX; w++) sum += worker[w].seconds;
  return sum;
}

/* The calls whose FLOP begin in [from, to). */
static void run_share(double from, double to) {
  double at = 0;
  for (int64_t i = 0; i < total && at < to; i++) {
    struct call *call = &calls[i];
    if (at >= from) __real_ab_f32_gemm_block(call->c, call->a, call->b, &call->dims);
    at += flop_of(call);
  }
}

void bench_calls_replay(void) {
  int workers = ab_worker_threads();
  double flop = bench_calls_flop();
#pragma omp parallel for schedule(static, 1)
  for (int w = 0; w < workers; w++) run_share(flop * w / workers, flop * (w + 1) / workers);
}
