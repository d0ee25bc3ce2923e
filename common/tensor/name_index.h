/* Finds names among things that are numbered 0, 1, 2 ...: open addressing over XXH3, at most half full. The names stay
 * with their owner, who says what name i is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "status.h"

struct ab_name_index {
  uint32_t *slots;   /* number + 1; 0 is empty */
  size_t slot_count; /* a power of two, or 0 */
  size_t count;
  const char *(*name)(const void *owner, size_t i);
};

#define AB_NO_NAME SIZE_MAX
/* The number of a name, or AB_NO_NAME. */
size_t ab_name_index_find(const struct ab_name_index *index, const void *owner, const char *name);
/* Room for one more name; afterwards put cannot fail. */
ab_status ab_name_index_reserve(struct ab_name_index *index, const void *owner);
/* Enters the name of number index->count, which must be new. */
void ab_name_index_put(struct ab_name_index *index, const void *owner);
void ab_name_index_free(struct ab_name_index *index);
