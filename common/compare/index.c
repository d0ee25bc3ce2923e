#include "index.h"

#include "mem.h"

size_t ab_index_find(const struct ab_index *index, uint64_t hash, ab_row_equal equal, const void *rows,
                     const void *key) {
  if (!index->slots) return SIZE_MAX;
  for (size_t i = (size_t)hash & (index->slots - 1); index->slot[i]; i = (i + 1) & (index->slots - 1))
    if (equal(rows, index->slot[i] - 1, key)) return index->slot[i] - 1;
  return SIZE_MAX;
}

static void place(struct ab_index *index, uint64_t hash, size_t row) {
  size_t i = (size_t)hash & (index->slots - 1);
  while (index->slot[i]) i = (i + 1) & (index->slots - 1);
  index->slot[i] = row + 1;
}

static ab_status grow(struct ab_index *index, ab_row_hash hash_of, const void *rows) {
  struct ab_index larger = {.slots = index->slots ? 2 * index->slots : 64, .used = index->used};
  AB_TRY(ab_mem_new(&larger.slot, larger.slots, sizeof *larger.slot));
  for (size_t i = 0; i < index->slots; i++)
    if (index->slot[i]) place(&larger, hash_of(rows, index->slot[i] - 1), index->slot[i] - 1);
  ab_mem_free(index->slot);
  *index = larger;
  return AB_OK;
}

ab_status ab_index_add(struct ab_index *index, size_t row, ab_row_hash hash_of, const void *rows) {
  if (2 * (index->used + 1) > index->slots) AB_TRY(grow(index, hash_of, rows));
  place(index, hash_of(rows, row), row);
  index->used++;
  return AB_OK;
}
