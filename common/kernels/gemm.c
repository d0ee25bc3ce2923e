/* The gemm door: fixed output blocks, one block call each, spread over threads outside parallel regions. */
#include "instance.h"

#include "spread.h"

static void block_at(real *c, const real *a, const real *b, const struct ab_gemm *d, int64_t row, int64_t col) {
  struct ab_gemm block = *d;
  block.m = d->m - row < ab_gemm_blocks.rows ? d->m - row : ab_gemm_blocks.rows;
  block.n = d->n - col < ab_gemm_blocks.cols ? d->n - col : ab_gemm_blocks.cols;
  KERNEL(gemm_block)(c + row * d->ldc + col, a + (d->trans_a ? row : row * d->lda),
                     b + (d->trans_b ? col * d->ldb : col), &block);
}

/* An empty sum is zero. BLAS is not asked: some versions leave C as it was. */
static void clear(real *c, const struct ab_gemm *d) {
  for (int64_t row = 0; row < d->m; row++) KERNEL(zero)(c + row * d->ldc, (size_t)d->n);
}

void KERNEL(gemm)(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  if (d->m <= 0 || d->n <= 0) return;
  if (d->k <= 0) {
    if (!d->accumulate) clear(c, d);
    return;
  }
  int64_t columns = (d->n + ab_gemm_blocks.cols - 1) / ab_gemm_blocks.cols;
  int64_t blocks = (d->m + ab_gemm_blocks.rows - 1) / ab_gemm_blocks.rows * columns;
#pragma omp parallel for schedule(static) if (may_spread(blocks))
  for (int64_t i = 0; i < blocks; i++)
    block_at(c, a, b, d, i / columns * ab_gemm_blocks.rows, i % columns * ab_gemm_blocks.cols);
}
