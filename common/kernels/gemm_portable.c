/* One output block in plain C: every element is, per ab_gemm_blocks.depth products, one running sum in order of k,
 * then one addition onto C. The order depends on k alone, never on m, n, the place in the matrix or the transposes.
 */
#include "instance.h"

enum {
  TILE_ROWS = 4, /* of the inner kernel; without effect on bits, as are the panel sizes */
  TILE_COLS = 8,
  PANEL_ROWS = 64,
  PANEL_COLS = 128
};

typedef real tile_row __attribute__((vector_size(TILE_COLS * sizeof(real))));

struct panels {
  _Alignas(64) real a[PANEL_ROWS * AB_GEMM_BLOCK_DEPTH]; /* [row tile][k][TILE_ROWS] */
  _Alignas(64) real b[PANEL_COLS * AB_GEMM_BLOCK_DEPTH]; /* [column tile][k][TILE_COLS] */
};

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Packs `count` vectors of k elements into tiles of `width` vectors, padded with zeros: element p of vector i is
 * x[i * stride + p * step]. */
static void pack(real *panel, const real *x, int64_t stride, int64_t step, int64_t count, int64_t k, int64_t width) {
  for (int64_t first = 0; first < count; first += width, panel += width * k)
    for (int64_t i = 0; i < width; i++)
      for (int64_t p = 0; p < k; p++)
        panel[p * width + i] = first + i < count ? x[(first + i) * stride + p * step] : 0;
}

/* sum[r] = sum over p of a[p][r] b[p], one tile of C. */
static void tile_sums(tile_row sum[TILE_ROWS], const real *restrict a, const real *restrict b, int64_t k) {
  tile_row s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  for (int64_t p = 0; p < k; p++, a += TILE_ROWS, b += TILE_COLS) {
    tile_row row;
    memcpy(&row, b, sizeof row);
    s0 += a[0] * row;
    s1 += a[1] * row;
    s2 += a[2] * row;
    s3 += a[3] * row;
  }
  sum[0] = s0;
  sum[1] = s1;
  sum[2] = s2;
  sum[3] = s3;
}

static void tile_store(real *c, int64_t ldc, const tile_row sum[TILE_ROWS], int64_t rows, int64_t columns,
                       bool accumulate) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) c[i * ldc + j] = accumulate ? c[i * ldc + j] + sum[i][j] : sum[i][j];
}

static void multiply_panels(real *c, int64_t ldc, const struct panels *panels, int64_t rows, int64_t columns,
                            int64_t k, bool accumulate) {
  tile_row sum[TILE_ROWS];
  for (int64_t j = 0; j < columns; j += TILE_COLS)
    for (int64_t i = 0; i < rows; i += TILE_ROWS) {
      tile_sums(sum, panels->a + i * k, panels->b + j * k, k);
      tile_store(c + i * ldc + j, ldc, sum, least(TILE_ROWS, rows - i), least(TILE_COLS, columns - j), accumulate);
    }
}

/* All columns of one block of k, PANEL_COLS at a time. */
static void multiply_k_block(real *c, const real *a, const real *b, const struct ab_gemm *d, int64_t k,
                             bool accumulate) {
  struct panels panels;
  int64_t a_row = d->trans_a ? 1 : d->lda, a_k = d->trans_a ? d->lda : 1;
  int64_t b_col = d->trans_b ? d->ldb : 1, b_k = d->trans_b ? 1 : d->ldb;
  for (int64_t j = 0; j < d->n; j += PANEL_COLS) {
    int64_t columns = least(PANEL_COLS, d->n - j);
    pack(panels.b, b + j * b_col, b_col, b_k, columns, k, TILE_COLS);
    for (int64_t i = 0; i < d->m; i += PANEL_ROWS) {
      int64_t rows = least(PANEL_ROWS, d->m - i);
      pack(panels.a, a + i * a_row, a_row, a_k, rows, k, TILE_ROWS);
      multiply_panels(c + i * d->ldc + j, d->ldc, &panels, rows, columns, k, accumulate);
    }
  }
}

void KERNEL(gemm_block)(real *c, const real *a, const real *b, const struct ab_gemm *d) {
  for (int64_t p = 0; p < d->k; p += ab_gemm_blocks.depth)
    multiply_k_block(c, a + p * (d->trans_a ? d->lda : 1), b + p * (d->trans_b ? 1 : d->ldb), d,
                     least(ab_gemm_blocks.depth, d->k - p), d->accumulate || p > 0);
}
