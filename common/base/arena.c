#include "arena.h"

#include <stdint.h>
#include <string.h>

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

ab_status ab_arena_take(struct ab_arena *arena, void *out, size_t count, size_t size) {
  size_t bytes;
  AB_TRY(ab_size_mul(&bytes, count, size));
  size_t left = arena->size - arena->used;
  if (bytes > left || round_up(bytes) > left)
    return AB_FAIL(AB_ENOMEM, "the %s arena of %zu bytes has %zu left, %zu were asked for", arena->name,
                   arena->size, left, bytes);
  void *block = arena->base + arena->used;
  arena->used += round_up(bytes);
  if (arena->used > arena->high) arena->high = arena->used;
  memcpy(out, &block, sizeof block);
  return AB_OK;
}

ab_status ab_arena_take_zeroed(struct ab_arena *arena, void *out, size_t count, size_t size) {
  void *block;
  AB_TRY(ab_arena_take(arena, &block, count, size));
  memset(block, 0, count * size);
  memcpy(out, &block, sizeof block);
  return AB_OK;
}

size_t ab_arena_mark(const struct ab_arena *arena) { return arena->used; }
void ab_arena_release(struct ab_arena *arena, size_t mark) { arena->used = mark; }
