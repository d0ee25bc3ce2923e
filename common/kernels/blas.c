#include "blas.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>

#include "kernels.h"

bool ab_blas_one_thread(void) {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  return openblas_get_num_threads() == 1;
}

/* Stands before OpenBLAS's own function of this name, which starts its threads when the library is loaded, before any
 * main, and raises SIGINT where that fails. Ours are the callers' threads. */
int blas_thread_init(void);
int blas_thread_init(void) { return 0; }

static char running[256];

static void describe(void) {
  snprintf(running, sizeof running, "%s (%s)", openblas_get_corename(), openblas_get_config());
}

const char *ab_blas_core_running(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, describe);
  return running;
}
