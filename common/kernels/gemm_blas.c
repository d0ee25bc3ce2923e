/* One output block by one single-thread OpenBLAS call. */
#include "instance.h"

#include <cblas.h>

#include "blas.h"

void KERNEL(gemm_block)(real *c, const real *a, const real *b, const struct ab_gemm *d) {
  ab_blas_one_thread();
  _Generic((real)0, float: cblas_sgemm, double: cblas_dgemm)(
      CblasRowMajor, d->trans_a ? CblasTrans : CblasNoTrans, d->trans_b ? CblasTrans : CblasNoTrans, (blasint)d->m,
      (blasint)d->n, (blasint)d->k, 1, a, (blasint)d->lda, b, (blasint)d->ldb, d->accumulate ? 1 : 0, c,
      (blasint)d->ldc);
}
