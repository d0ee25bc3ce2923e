/* The frame of a sweep: a numbered list of cases, all of them with AB_SWEEP=full, else a sample spread evenly over it.
 * `<program> <seed> key=value ...`, which every failure prints, runs one case alone.
 */
#pragma once

#include "routes.h"

enum sweep_route { SWEEP_LINEN, SWEEP_NNX, SWEEP_WRAPPED, SWEEP_ORACLE, SWEEP_ROUTES };

struct sweep {
  const char *name;
  int all, sample;
  void (*choose)(struct sweep_case *c, int index); /* seed and keys */
  void (*check)(struct sweep_case *c);             /* opens, runs, compares, closes */
};
int sweep_main(const struct sweep *sweep, int argc, char **argv);

/* Fails the test unless the status is AB_OK and the sentence empty. */
void sweep_expect(const struct sweep_case *c, ab_status status, const char *sentence);

/* Runs all routes; frees them. */
ab_status sweep_run_all(struct sweep_side side[SWEEP_ROUTES], const struct sweep_case *c,
                        const char *const route[SWEEP_ROUTES], enum ab_numerics numerics, enum ab_level level);
void sweep_free_all(struct sweep_side side[SWEEP_ROUTES]);
/* Every engine against the first bit for bit, and against the oracle as `pair` says. */
ab_status sweep_compare_all(char sentence[SWEEP_SENTENCE], const struct sweep_case *c,
                            const struct sweep_side side[SWEEP_ROUTES], enum ab_pair pair);

/* Whether this build can run the case; says so once when it cannot. */
bool sweep_supports_per_repeat(void);
