#include "lift.h"

#include <string.h>

ab_status linen_scan_call(linen_body body, void *ctx, int64_t length) {
  for (int64_t i = 0; i < length; i++) AB_TRY(body(ctx, i));
  return AB_OK;
}

ab_status linen_scan_vjp(linen_body body, void *ctx, int64_t length) {
  for (int64_t i = length - 1; i >= 0; i--) AB_TRY(body(ctx, i));
  return AB_OK;
}

ab_status linen_residuals_new(struct linen_residuals *residuals, const struct ab_exec *exec, size_t bytes,
                              int64_t length, bool scan) {
  *residuals = (struct linen_residuals){.bytes = bytes, .length = length};
  if (scan) return AB_OK;
  return ab_arena_take(exec->book, &residuals->unrolled, (size_t)length, sizeof *residuals->unrolled);
}

ab_status linen_residuals_take(struct linen_residuals *residuals, const struct ab_exec *exec) {
  if (!residuals->unrolled)
    return ab_arena_take(exec->arena, &residuals->stacked, (size_t)residuals->length, residuals->bytes);
  for (int64_t i = 0; i < residuals->length; i++)
    AB_TRY(ab_arena_take(exec->arena, &residuals->unrolled[i], 1, residuals->bytes));
  return AB_OK;
}

void *linen_residuals_at(const struct linen_residuals *residuals, int64_t i) {
  if (residuals->unrolled) return residuals->unrolled[i];
  return (unsigned char *)residuals->stacked + (size_t)i * residuals->bytes;
}

void linen_vmap(void (*body)(void *ctx, int index), void *ctx, int begin, int end, bool serial) {
  (void)serial; /* read by the pragma alone, which a build without OpenMP ignores */
#pragma omp parallel for schedule(static, 1) if (!serial)
  for (int i = begin; i < end; i++) body(ctx, i);
}

ab_status linen_remat(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config,
                      enum linen_remat_place place) {
  struct ab_config step = *config;
  if (place == LINEN_REMAT_OUTSIDE) return ab_remat_outside(out, block, config);
  if (place == LINEN_REMAT_STEP) step.set_remat_policy_on_pipeline_iterations = true;
  return ab_remat_pipeline(out, block, &step);
}

/* The contiguous partner of a slice. */
static struct ab_view packed_like(const struct ab_view *slice, void *data) {
  struct ab_view packed = *slice;
  packed.data = data;
  ab_view_contiguous(&packed);
  return packed;
}

void linen_lift_slice(const struct ab_kernels *kernels, void *to, const struct ab_view *slice) {
  struct ab_view packed = packed_like(slice, to);
  kernels->copy_view(&packed, slice);
}

void linen_lift_place(const struct ab_kernels *kernels, const struct ab_view *slice, const void *from) {
  struct ab_view packed = packed_like(slice, NULL);
  memcpy(&packed.data, &from, sizeof from); /* read only: copy_view takes its source as a view too */
  kernels->copy_view(slice, &packed);
}
