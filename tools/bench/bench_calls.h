/* The gemm calls of a step, noted and run again without the rest of the step.
 *
 * The linker puts us between the gemm door of table f32 and its block calls (--wrap), so that every single BLAS call
 * is seen, those inside attention too, with its worker. The same calls on the same memory, dealt to as many workers
 * in equal shares of FLOP and without any order between workers, are the floor of what a step on this BLAS can take.
 */
#pragma once

#include <stdint.h>

#include "status.h"

enum bench_mode {
  BENCH_OFF,   /* pass on */
  BENCH_COUNT, /* count calls per worker */
  BENCH_NOTE,  /* keep them; needs bench_calls_reserve after a counted step */
  BENCH_CLOCK  /* sum the processor time inside */
};
/* Outside parallel regions only. COUNT, NOTE and CLOCK start from nothing. */
void bench_calls_mode(enum bench_mode mode);
/* Room for what was counted. */
ab_status bench_calls_reserve(void);
/* AB_EMISMATCH unless as many calls were noted as counted: a step must repeat itself. */
ab_status bench_calls_check(void);
void bench_calls_free(void);

int64_t bench_calls_number(void);
double bench_calls_flop(void);    /* 2 m n k of all noted */
double bench_calls_seconds(void); /* processor time of the last clocked step, all workers */
/* Runs what was noted. Overwrites the results of the calls with numbers without meaning. */
void bench_calls_replay(void);
