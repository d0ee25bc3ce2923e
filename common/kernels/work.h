/* Sizes of kernel work memory, the same for every table. */
#pragma once

#include "kernels.h"

/* Backward holds two tiles: the probabilities and the cotangents of the logits. */
static inline size_t ab_attention_work(const struct ab_attention_dims *dims) {
  return 2 * (size_t)dims->length * (size_t)dims->length;
}
