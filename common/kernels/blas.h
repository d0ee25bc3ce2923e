/* What this library asks of OpenBLAS beyond gemm. */
#pragma once

#include <stdbool.h>

/* Threads are the callers'; every BLAS call runs on one. Cheap; true if OpenBLAS confirms it. */
bool ab_blas_one_thread(void);
