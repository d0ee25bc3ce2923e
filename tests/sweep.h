/* The loop that SQLite, curl and Lua run: make allocation 0 fail, run, look; then allocation 1; until the run comes
 * through. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "mem.h"
#include "tap.h"

struct sweep_door {
  size_t calls, fail_at;
};

static inline void *sweep_alloc(void *ctx, size_t bytes) {
  struct sweep_door *door = ctx;
  return door->calls++ == door->fail_at ? NULL : aligned_alloc(AB_ALIGN, bytes);
}

static inline void sweep_release(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  (void)bytes;
  free(block);
}

/* `run` frees what it made and leaves nothing behind when it fails; blocks that are live before it stay as they are.
 * The number of allocations that were made to fail; each must end in AB_ENOMEM, or what was left out would be
 * taken for whole. */
static inline size_t sweep_allocations(ab_status (*run)(void)) {
  struct sweep_door door = {0};
  struct ab_allocator allocator = {&door, sweep_alloc, sweep_release};
  ab_status status;
  size_t before = ab_mem_stats().live_blocks;
  ab_mem_install(&allocator);
  for (;; door.fail_at++) {
    door.calls = 0;
    status = run();
    size_t left = ab_mem_stats().live_blocks - before;
    if (status != AB_ENOMEM || left) {
      ab_mem_install(NULL);
      bool unhurt = status == AB_OK && door.calls <= door.fail_at;
      ck_assert_msg(unhurt && !left, "allocation %zu of %zu: status %d (%s), %zu blocks left", door.fail_at, door.calls,
                    status, ab_status_message(), left);
      return door.fail_at;
    }
  }
}
