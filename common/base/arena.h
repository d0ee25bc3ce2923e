/* Arenas: one slab, mark and release. A measuring arena has no slab: it hands out addresses that nobody may touch and
 * records how much would have been used, so that a dry run (kernel table `dry`) plans the memory of the real one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

struct ab_arena_ledger; /* arena_ledger.h: whose bytes stood at the high-water mark */

struct ab_arena {
  const char *name;    /* for the sentence when it is exhausted; borrowed */
  unsigned char *base; /* slab, or a made-up address when measuring */
  size_t size, used, high;
  bool measuring;
  struct ab_arena_ledger *ledger; /* of a measuring arena; NULL: nobody asks; borrowed */
};

/* The place in the source that took a block, and the text of the pointer it asked for; literals. */
struct ab_arena_taker {
  const char *file, *function, *pointer;
};

/* One slab of `bytes` through the allocator door. */
ab_status ab_arena_init(struct ab_arena *arena, const char *name, size_t bytes);
void ab_arena_init_measuring(struct ab_arena *arena, const char *name);
void ab_arena_free(struct ab_arena *arena);

/* AB_ALIGN-aligned, contents undefined. AB_ENOMEM when the slab is exhausted (a plan that was too small is a bug). */
#define ab_arena_take(arena, out, count, size) \
  ab_arena_take_as(arena, out, count, size, (struct ab_arena_taker){__FILE__, __func__, #out})
ab_status ab_arena_take_as(struct ab_arena *arena, void *out, size_t count, size_t size, struct ab_arena_taker taker);
/* The same, zeroed. Never for a measuring arena that stands in for tensor memory: tensors are zeroed by kernels. */
#define ab_arena_take_zeroed(arena, out, count, size) \
  ab_arena_take_zeroed_as(arena, out, count, size, (struct ab_arena_taker){__FILE__, __func__, #out})
ab_status ab_arena_take_zeroed_as(struct ab_arena *arena, void *out, size_t count, size_t size,
                                  struct ab_arena_taker taker);

size_t ab_arena_mark(const struct ab_arena *arena);
void ab_arena_release(struct ab_arena *arena, size_t mark);
