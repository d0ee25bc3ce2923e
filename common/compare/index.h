/* Open addressing over rows that the caller holds: hash -> row numbers, growing by doubling. */
#pragma once

#include "recording.h"

typedef bool (*ab_row_equal)(const void *rows, size_t row, const void *key);
typedef uint64_t (*ab_row_hash)(const void *rows, size_t row);

/* Row number of the key, SIZE_MAX if it is not there. */
size_t ab_index_find(const struct ab_index *index, uint64_t hash, ab_row_equal equal, const void *rows,
                     const void *key);
/* Adds row `row`, whose key is not there yet; `hash_of` rehashes the others when the table grows. */
ab_status ab_index_add(struct ab_index *index, size_t row, ab_row_hash hash_of, const void *rows);
