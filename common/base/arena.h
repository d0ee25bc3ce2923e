/* Arenas: one slab, mark and release. A measuring arena has no slab: it hands out addresses that nobody may touch and
 * records how much would have been used, so that a dry run (kernel table `dry`) plans the memory of the real one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

struct ab_arena {
  const char *name;    /* for the sentence when it is exhausted; borrowed */
  unsigned char *base; /* slab, or a made-up address when measuring */
  size_t size, used, high;
  bool measuring;
};

/* One slab of `bytes` through the allocator door. */
ab_status ab_arena_init(struct ab_arena *arena, const char *name, size_t bytes);
void ab_arena_init_measuring(struct ab_arena *arena, const char *name);
void ab_arena_free(struct ab_arena *arena);

/* AB_ALIGN-aligned, contents undefined. AB_ENOMEM when the slab is exhausted (a plan that was too small is a bug). */
ab_status ab_arena_take(struct ab_arena *arena, void *out, size_t count, size_t size);
/* The same, zeroed. Never for a measuring arena that stands in for tensor memory: tensors are zeroed by kernels. */
ab_status ab_arena_take_zeroed(struct ab_arena *arena, void *out, size_t count, size_t size);

size_t ab_arena_mark(const struct ab_arena *arena);
void ab_arena_release(struct ab_arena *arena, size_t mark);
