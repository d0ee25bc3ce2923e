#define XXH_INLINE_ALL
#include "name_index.h"

#include <string.h>
#include <xxhash.h>

#include "mem.h"
#include "text.h"

enum { FIRST = 32 };

static size_t hash(const char *name) { return XXH3_64bits_withSeed(name, strlen(name), ab_hash_secret()); }

/* The slot that holds the name, or the empty one where it belongs. */
static size_t slot_of(const struct ab_name_index *index, const void *owner, const char *name) {
  size_t mask = index->slot_count - 1, at = hash(name) & mask;
  while (index->slots[at] && strcmp(index->name(owner, index->slots[at] - 1), name)) at = (at + 1) & mask;
  return at;
}

size_t ab_name_index_find(const struct ab_name_index *index, const void *owner, const char *name) {
  if (!index->slot_count) return AB_NO_NAME;
  uint32_t found = index->slots[slot_of(index, owner, name)];
  return found ? found - 1 : AB_NO_NAME;
}

static void enter(struct ab_name_index *index, const void *owner, size_t i) {
  index->slots[slot_of(index, owner, index->name(owner, i))] = (uint32_t)i + 1;
}

ab_status ab_name_index_reserve(struct ab_name_index *index, const void *owner) {
  if (2 * (index->count + 1) <= index->slot_count) return AB_OK;
  size_t count = index->slot_count ? 2 * index->slot_count : FIRST;
  if (count > UINT32_MAX) return AB_FAIL(AB_ENOMEM, "more than %zu names", index->count);
  uint32_t *slots;
  AB_TRY(ab_mem_new(&slots, count, sizeof *slots));
  ab_mem_free(index->slots);
  index->slots = slots;
  index->slot_count = count;
  for (size_t i = 0; i < index->count; i++) enter(index, owner, i);
  return AB_OK;
}

void ab_name_index_put(struct ab_name_index *index, const void *owner) {
  enter(index, owner, index->count);
  index->count++;
}

void ab_name_index_free(struct ab_name_index *index) {
  ab_mem_free(index->slots);
  index->slots = NULL;
  index->slot_count = index->count = 0;
}
