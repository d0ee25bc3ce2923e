#include "kernels.h"

struct ab_gemm_blocks ab_gemm_blocks = {AB_GEMM_BLOCK_ROWS, AB_GEMM_BLOCK_COLS, AB_GEMM_BLOCK_DEPTH};

static int64_t within(int64_t wanted, int64_t most) { return wanted > 0 && wanted < most ? wanted : most; }

void ab_gemm_set_blocks(int64_t rows, int64_t cols, int64_t depth) {
  ab_gemm_blocks = (struct ab_gemm_blocks){within(rows, AB_GEMM_BLOCK_ROWS), within(cols, AB_GEMM_BLOCK_COLS),
                                           within(depth, AB_GEMM_BLOCK_DEPTH)};
}
