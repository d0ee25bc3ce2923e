/* The allocator door: all bytes of ours pass here, so that they can be counted, limited and made to fail. */
#pragma once

#include <stddef.h>

#include "status.h"

enum { AB_ALIGN = 64 }; /* bytes; alignment of every block and of every arena allocation */

/* Where blocks come from. alloc returns AB_ALIGN-aligned memory or NULL; release gets what alloc returned. */
struct ab_allocator {
  void *ctx;
  void *(*alloc)(void *ctx, size_t bytes);
  void (*release)(void *ctx, void *block, size_t bytes);
};

struct ab_mem_stats {
  size_t live_blocks, live_bytes, high_bytes, calls, refused;
};

/* Installs an allocator; NULL restores the C library's. No block may be live. */
void ab_mem_install(const struct ab_allocator *allocator);
struct ab_mem_stats ab_mem_stats(void);

/* A zeroed block of count x size bytes, owned by the caller. AB_ENOMEM on refusal or overflow; *out untouched then. */
ab_status ab_mem_new(void *out, size_t count, size_t size);
/* Grows or shrinks *block to count x size bytes; new bytes are zero. On failure *block stays valid. */
ab_status ab_mem_resize(void *block, size_t count, size_t size);
/* A copy of a string, owned by the caller. */
ab_status ab_mem_string(char **out, const char *text);
/* Accepts NULL. */
void ab_mem_free(void *block);

/* *out = a * b and *out = a + b; AB_ENOMEM when the true result does not fit. */
ab_status ab_size_mul(size_t *out, size_t a, size_t b);
ab_status ab_size_add(size_t *out, size_t a, size_t b);
