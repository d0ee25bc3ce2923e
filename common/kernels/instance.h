/* One instance of the kernel table. Meson compiles the shared sources once per instance with
 *   AB_INSTANCE    f32, f32_portable, f64, exact: the suffix of every symbol
 *   AB_REAL        float, double, uint64_t (residues): the element type
 *   AB_TABLE_NAME  the table's public name
 *   AB_CLONES      1: functions marked HOT are compiled for wider vectors too, and the loader picks by processor.
 *                  Same bits: lanes are fixed in the source and nothing is contracted.
 * float uses math32.h, double the C library.
 */
#pragma once

#include <math.h>

#include "kernels.h"
#include "m61.h"
#include "math32.h"

typedef AB_REAL real;

#if AB_CLONES
#define HOT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HOT
#endif

#define AB_PASTE3(a, b, c) a##b##c
#define AB_PASTE(a, b, c) AB_PASTE3(a, b, c)
#define KERNEL(name) AB_PASTE(ab_, AB_INSTANCE, _##name)

/* x + y of elements. */
#define REAL_ADD(x, y) \
  _Generic((real)0, uint64_t: ab_m61_add((uint64_t)(x), (uint64_t)(y)), default: (x) + (y))

#define REAL_EXP(x) _Generic((x), float: ab_expf, double: exp)(x)
#define REAL_LOG(x) _Generic((x), float: ab_logf, double: log)(x)
#define REAL_SIN(x) _Generic((x), float: ab_sinf, double: sin)(x)
#define REAL_COS(x) _Generic((x), float: ab_cosf, double: cos)(x)
#define REAL_POW(x, y) _Generic((x), float: ab_powf, double: pow)(x, y)
#define REAL_SQRT(x) _Generic((x), float: sqrtf, double: sqrt)(x)
/* e^x in double, for results that are rounded to real only after more arithmetic. */
#define REAL_EXP_WIDE(x) _Generic((real)0, float: ab_exp_wide, double: exp)((double)(x))

#define AB_KERNEL_TYPE(name) __typeof__(*((struct ab_kernels *)0)->name)
#define AB_DECLARE(name) AB_KERNEL_TYPE(name) KERNEL(name)

AB_DECLARE(gemm);
AB_DECLARE(from_f32);
AB_DECLARE(zero);
AB_DECLARE(copy);
AB_DECLARE(fill);
AB_DECLARE(add);
AB_DECLARE(subtract);
AB_DECLARE(scale);
AB_DECLARE(copy_view);
AB_DECLARE(add_view);
AB_DECLARE(sum);
AB_DECLARE(sum_squares);
AB_DECLARE(dot);
AB_DECLARE(weighted_sum);
AB_DECLARE(statistics);
AB_DECLARE(embed);
AB_DECLARE(embed_weight);
AB_DECLARE(norm);
AB_DECLARE(norm_input);
AB_DECLARE(norm_weight);
AB_DECLARE(rope_table);
AB_DECLARE(rope);
AB_DECLARE(rope_input);
AB_DECLARE(attention);
AB_DECLARE(attention_input);
AB_DECLARE(swiglu);
AB_DECLARE(swiglu_input);
AB_DECLARE(cross_entropy);
AB_DECLARE(cross_entropy_input);
AB_DECLARE(adamw);
AB_DECLARE(sgd);
AB_DECLARE(clip);

/* The rows of every table: what sums and products alone give. */
#define POLYNOMIAL_KERNELS                                                                        \
  .gemm = KERNEL(gemm), .from_f32 = KERNEL(from_f32), .zero = KERNEL(zero), .copy = KERNEL(copy), \
      .fill = KERNEL(fill), .add = KERNEL(add), .subtract = KERNEL(subtract),                     \
      .scale = KERNEL(scale), .copy_view = KERNEL(copy_view), .add_view = KERNEL(add_view),       \
      .sum = KERNEL(sum), .sum_squares = KERNEL(sum_squares), .dot = KERNEL(dot),                 \
      .weighted_sum = KERNEL(weighted_sum)

/* One output block: C[m,n] (+)= op(A) op(B) with m <= AB_GEMM_BLOCK_ROWS, n <= AB_GEMM_BLOCK_COLS, k > 0. One
 * single-thread BLAS call, or the portable loops. */
void KERNEL(gemm_block)(real *c, const real *a, const real *b, const struct ab_gemm *block);
