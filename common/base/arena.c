#include "arena.h"

#include <stdint.h>
#include <string.h>

#include "arena_ledger.h"
#include "mem.h"

/* Far above anything mapped; only compared and added to, never read. */
static const uintptr_t MEASURING_BASE = (uintptr_t)1 << 44;

ab_status ab_arena_init(struct ab_arena *arena, const char *name, size_t bytes) {
  unsigned char *base;
  AB_TRY(ab_mem_new(&base, bytes ? bytes : 1, 1));
  *arena = (struct ab_arena){.name = name, .base = base, .size = bytes};
  return AB_OK;
}

void ab_arena_init_measuring(struct ab_arena *arena, const char *name) {
  *arena = (struct ab_arena){
      .name = name, .base = (unsigned char *)MEASURING_BASE, .size = (size_t)1 << 46, .measuring = true};
}

void ab_arena_free(struct ab_arena *arena) {
  if (!arena->measuring) ab_mem_free(arena->base);
  *arena = (struct ab_arena){0};
}

static size_t round_up(size_t bytes) { return (bytes + AB_ALIGN - 1) / AB_ALIGN * AB_ALIGN; }

ab_status ab_arena_take_as(struct ab_arena *arena, void *out, size_t count, size_t size, struct ab_arena_taker taker) {
  size_t bytes;
  AB_TRY(ab_size_mul(&bytes, count, size));
  size_t left = arena->size - arena->used;
  if (bytes > left || round_up(bytes) > left)
    return AB_FAIL(AB_ENOMEM, "the %s arena of %zu bytes has %zu left, %zu were asked for", arena->name,
                   arena->size, left, bytes);
  if (arena->ledger) AB_TRY(ab_arena_ledger_take(arena->ledger, taker, arena->used, round_up(bytes)));
  void *block = arena->base + arena->used;
  arena->used += round_up(bytes);
  if (arena->used > arena->high) arena->high = arena->used;
  memcpy(out, &block, sizeof block);
  return AB_OK;
}

ab_status ab_arena_take_zeroed_as(struct ab_arena *arena, void *out, size_t count, size_t size,
                                  struct ab_arena_taker taker) {
  void *block;
  AB_TRY(ab_arena_take_as(arena, &block, count, size, taker));
  memset(block, 0, count * size);
  memcpy(out, &block, sizeof block);
  return AB_OK;
}

size_t ab_arena_mark(const struct ab_arena *arena) { return arena->used; }

void ab_arena_release(struct ab_arena *arena, size_t mark) {
  if (arena->ledger) ab_arena_ledger_release(arena->ledger, mark);
  arena->used = mark;
}
