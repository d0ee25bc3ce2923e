/* Whose bytes stood in an arena when it was fullest: set arena->ledger before anything is taken, read it when the run
 * is over. For planning: it allocates as it goes.
 */
#pragma once

#include "arena.h"

struct ab_arena_item {
  struct ab_arena_taker taker;
  size_t begin, bytes; /* offset in the arena, of the first block of this taker; rounded up to AB_ALIGN */
};

/* Zero-initialised by the caller. */
struct ab_arena_ledger {
  struct ab_arena_item *live, *peak; /* blocks that stand; those that stood at the peak so far */
  size_t live_count, peak_count, room, peak_bytes;
};

/* For arena.c. A block of `bytes` at `begin`; everything from `mark` on is gone. */
ab_status ab_arena_ledger_take(struct ab_arena_ledger *ledger, struct ab_arena_taker taker, size_t begin, size_t bytes);
void ab_arena_ledger_release(struct ab_arena_ledger *ledger, size_t mark);

/* Ends the account: ledger->peak then has one item per taker, in the order of their first blocks, whose bytes sum to
 * peak_bytes, the arena's high-water mark. */
void ab_arena_ledger_close(struct ab_arena_ledger *ledger);
void ab_arena_ledger_free(struct ab_arena_ledger *ledger);
