/* Sizes of kernel work memory, the same for every table. */
#pragma once

#include "kernels.h"

/* Workers that share the heads of one call outside a parallel region: fixed, so that plans do not depend on threads. */
enum { AB_ATTENTION_WORKERS = 2 };

/* Backward holds two tiles: the probabilities and the cotangents of the logits. */
static inline size_t ab_attention_tiles(const struct ab_attention_dims *dims) {
  return 2 * (size_t)dims->length * (size_t)dims->length;
}

static inline size_t ab_attention_work(const struct ab_attention_dims *dims) {
  return AB_ATTENTION_WORKERS * ab_attention_tiles(dims);
}
