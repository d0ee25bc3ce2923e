#include "bench_step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench_calls.h"
#include "bench_child.h"
#include "run.h"
#include "version.h"

/* Steps before the rounds: one touches the memory, one counts the calls, one notes them; after them one is clocked. */
enum { WARM, COUNTED, NOTED, FIRST_ROUND };

struct clocks {
  double wall, processor;
};

struct measured {
  struct bench_step *out;
  struct clocks begin; /* of the step under way */
};

static struct clocks clocks_now(void) {
  return (struct clocks){bench_clock(CLOCK_MONOTONIC), bench_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static struct clocks clocks_since(const struct clocks *begin) {
  struct clocks now = clocks_now();
  return (struct clocks){now.wall - begin->wall, now.processor - begin->processor};
}

/* Between two steps, while the memory of the step is still there: what the gemm calls overwrite, the next step writes
 * before it reads it. */
static void round_of(struct bench_step *out, const struct clocks *step) {
  struct clocks begin = clocks_now();
  bench_calls_replay();
  struct clocks gemm = clocks_since(&begin);
  out->step_seconds = fmin(out->step_seconds, step->wall);
  out->step_processor_seconds = fmin(out->step_processor_seconds, step->processor);
  out->gemm_seconds = fmin(out->gemm_seconds, gemm.wall);
  out->gemm_processor_seconds = fmin(out->gemm_processor_seconds, gemm.processor);
}

static ab_status after_step(struct bench_step *out, int step, const struct clocks *took) {
  if (step == WARM) bench_calls_mode(BENCH_COUNT);
  if (step == COUNTED) {
    AB_TRY(bench_calls_reserve());
    bench_calls_mode(BENCH_NOTE);
  }
  if (step == NOTED) {
    AB_TRY(bench_calls_check());
    bench_calls_mode(BENCH_OFF);
  }
  if (step >= FIRST_ROUND && step < FIRST_ROUND + out->rounds) round_of(out, took);
  if (step + 1 == FIRST_ROUND + out->rounds) bench_calls_mode(BENCH_CLOCK);
  if (step == FIRST_ROUND + out->rounds) out->gemm_share = bench_calls_seconds() / took->processor;
  return AB_OK;
}

/* The first metric of a step comes when the step is done. */
static ab_status metric(void *ctx, int step, const char *name, double value) {
  struct measured *m = ctx;
  (void)value;
  if (strcmp(name, ab_metric_fields[0].name) != 0) return AB_OK;
  struct clocks took = clocks_since(&m->begin);
  AB_TRY(after_step(m->out, step, &took));
  m->begin = clocks_now();
  return AB_OK;
}

static ab_status run(struct measured *m, const struct bench_case *c, const struct ab_case *opened) {
  struct ab_run_plan plan;
  struct ab_run run = {.config = opened->config, .metric = metric, .metric_ctx = m,
                       .steps = FIRST_ROUND + m->out->rounds + 1};
  AB_TRY(ab_route_find(&run.route, c->route));
  run.kernels = ab_route_kernels(run.route, AB_NUMERICS_FAST);
  AB_TRY(ab_run_plan(&plan, &run));
  AB_TRY(ab_run_check_memory(&plan));
  AB_TRY(ab_float_environment_workers());
  AB_TRY(ab_kernels_self_test(run.kernels));
  AB_TRY(ab_run_steps(&run, &plan));
  return AB_OK;
}

ab_status bench_step_measure(struct bench_step *out, const struct bench_case *c, int64_t rounds) {
  struct ab_case opened;
  struct measured m = {.out = out};
  *out = (struct bench_step){.rounds = rounds, .threads = ab_worker_threads(), .step_seconds = INFINITY,
                             .step_processor_seconds = INFINITY, .gemm_seconds = INFINITY,
                             .gemm_processor_seconds = INFINITY};
  AB_TRY(bench_case_open(&opened, c));
  ab_status status = run(&m, c, &opened);
  if (status == AB_OK) {
    out->calls = bench_calls_number();
    out->flop = bench_calls_flop();
    snprintf(out->core, sizeof out->core, "%s", ab_blas_core_running());
  }
  bench_calls_free();
  ab_case_close(&opened);
  return status;
}
