/* OpenMP in tests; a build without it has one thread, whatever is asked for. */
#pragma once

#ifdef _OPENMP
#include <omp.h>
/* How many threads the next parallel region has. */
static inline int use_threads(int asked) {
  omp_set_num_threads(asked);
  return asked;
}
static inline int team_size(void) { return omp_get_num_threads(); }
static inline int team_place(void) { return omp_get_thread_num(); }
#else
static inline int use_threads(int asked) { return (void)asked, 1; }
static inline int team_size(void) { return 1; }
static inline int team_place(void) { return 0; }
#endif
