#include "kernels.h"

#if defined(__x86_64__)

/* OPENBLAS_CORETYPE names of OpenBLAS 0.3.21 (driver/others/dynamic.c) whose gemm kernels differ, the newest first. The
 * names of AMD's older cores ask for instructions (FMA4, 3DNow) that no current processor has, and are left out. */
size_t ab_blas_cores(const char *out[AB_BLAS_CORES_MAX]) {
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const struct {
    const char *name;
    bool runs;
  } cores[] = {{"SKYLAKEX", avx512},
               {"HASWELL", fma},
               {"ZEN", fma},
               {"SANDYBRIDGE", __builtin_cpu_supports("avx")},
               {"NEHALEM", __builtin_cpu_supports("sse4.2")},
               {"PENRYN", __builtin_cpu_supports("sse4.1")},
               {"CORE2", __builtin_cpu_supports("ssse3")},
               {"PRESCOTT", __builtin_cpu_supports("sse3")}};
  size_t count = 0;
  for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
    if (cores[i].runs) out[count++] = cores[i].name;
  return count;
}

#else

size_t ab_blas_cores(const char *out[AB_BLAS_CORES_MAX]) {
  (void)out;
  return 0;
}

#endif
