#include "mem.h"

#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

/* In front of every block, one alignment unit wide: the caller never has to remember a size. */
struct header {
  size_t total, asked;
};

static void *libc_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  return aligned_alloc(AB_ALIGN, bytes);
}

static void libc_release(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  (void)bytes;
  free(block);
}

static const struct ab_allocator libc_allocator = {NULL, libc_alloc, libc_release};
static struct ab_allocator door = {NULL, libc_alloc, libc_release};
static struct ab_mem_stats stats;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void ab_mem_install(const struct ab_allocator *allocator) {
  door = allocator ? *allocator : libc_allocator;
}

struct ab_mem_stats ab_mem_stats(void) {
  pthread_mutex_lock(&lock);
  struct ab_mem_stats copy = stats;
  pthread_mutex_unlock(&lock);
  return copy;
}

ab_status ab_size_mul(size_t *out, size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product))
    return AB_FAIL(AB_ENOMEM, "a size of %zu x %zu bytes does not fit into memory", a, b);
  *out = product;
  return AB_OK;
}

ab_status ab_size_add(size_t *out, size_t a, size_t b) {
  size_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return AB_FAIL(AB_ENOMEM, "a size of %zu + %zu bytes does not fit into memory", a, b);
  *out = sum;
  return AB_OK;
}

static ab_status block_size(size_t *total, size_t count, size_t size) {
  size_t bytes;
  AB_TRY(ab_size_mul(&bytes, count, size));
  AB_TRY(ab_size_add(total, bytes, 2 * AB_ALIGN - 1));
  *total -= *total % AB_ALIGN;
  return AB_OK;
}

static void *door_alloc(size_t total) {
  pthread_mutex_lock(&lock);
  stats.calls++;
  void *block = door.alloc(door.ctx, total);
  if (block) {
    stats.live_blocks++;
    stats.live_bytes += total;
    if (stats.live_bytes > stats.high_bytes) stats.high_bytes = stats.live_bytes;
  } else {
    stats.refused++;
  }
  pthread_mutex_unlock(&lock);
  return block;
}

static struct header *header_of(void *block) {
  return (struct header *)((unsigned char *)block - AB_ALIGN);
}

ab_status ab_mem_new(void *out, size_t count, size_t size) {
  size_t total;
  AB_TRY(block_size(&total, count, size));
  struct header *header = door_alloc(total);
  if (!header) return AB_FAIL(AB_ENOMEM, "cannot allocate %zu bytes", total - AB_ALIGN);
  *header = (struct header){total, count * size};
  unsigned char *block = (unsigned char *)header + AB_ALIGN;
  memset(block, 0, header->asked);
  /* The header and the rounding are nobody's: AddressSanitizer sees a step into them. */
  ASAN_POISON_MEMORY_REGION(block + header->asked, total - AB_ALIGN - header->asked);
  ASAN_POISON_MEMORY_REGION(header + 1, AB_ALIGN - sizeof *header);
  memcpy(out, &block, sizeof block);
  return AB_OK;
}

ab_status ab_mem_resize(void *block, size_t count, size_t size) {
  void *old, *fresh;
  memcpy(&old, block, sizeof old);
  AB_TRY(ab_mem_new(&fresh, count, size));
  size_t held = old ? header_of(old)->asked : 0, asked = header_of(fresh)->asked;
  if (held) memcpy(fresh, old, held < asked ? held : asked);
  ab_mem_free(old);
  memcpy(block, &fresh, sizeof fresh);
  return AB_OK;
}

ab_status ab_mem_string(char **out, const char *text) {
  size_t length = strlen(text);
  char *copy;
  AB_TRY(ab_mem_new(&copy, length + 1, 1));
  memcpy(copy, text, length + 1);
  *out = copy;
  return AB_OK;
}

void ab_mem_free(void *block) {
  if (!block) return;
  struct header *header = header_of(block);
  pthread_mutex_lock(&lock);
  size_t total = header->total;
  ASAN_UNPOISON_MEMORY_REGION(header, total);
  stats.live_blocks--;
  stats.live_bytes -= total;
  door.release(door.ctx, header, total);
  pthread_mutex_unlock(&lock);
}
