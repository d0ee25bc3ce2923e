#include "kernel_test.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "mem.h"

/* Loops call ck_abort_msg on failure instead of ck_assert, which writes to a file even when it passes. */

enum { GUARD = 64, POOL = 256, GUARD_BYTE = 0xa5 };

const struct ab_kernels *const tables[TABLES] = {&ab_kernels_f32, &ab_kernels_f32_portable, &ab_kernels_f64};

static struct {
  unsigned char *block;
  size_t bytes;
} pool[POOL];
static int used;

static void *take(size_t bytes) {
  unsigned char *block = NULL;
  if (used == POOL || ab_mem_new(&block, bytes + 2 * GUARD, 1) != AB_OK) ck_abort_msg("no room for a buffer");
  memset(block, GUARD_BYTE, bytes + 2 * GUARD);
  memset(block + GUARD, 0xff, bytes);
  pool[used].block = block;
  pool[used++].bytes = bytes;
  return block + GUARD;
}

void *kt_new(const struct ab_kernels *k, size_t n) { return take(n * k->element); }
double *kt_doubles(size_t n) { return take(n * sizeof(double)); }
int32_t *kt_ints(size_t n) { return take(n * sizeof(int32_t)); }

static uint32_t next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

void *kt_random(const struct ab_kernels *k, size_t n, uint32_t seed, double spread) {
  void *x = kt_new(k, n);
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < 3; j++) sum += (double)next(&state) / 0x1p24 + (double)next(&state) / 0x1p48 - 0.5;
    kt_set(k, x, i, 2 * spread * sum);
  }
  return x;
}

int32_t *kt_random_ints(size_t n, uint32_t seed, int32_t low, int32_t high) {
  int32_t *x = kt_ints(n);
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < n; i++) x[i] = low + (int32_t)(next(&state) % (uint32_t)(high - low + 1));
  return x;
}

double *kt_widen(const struct ab_kernels *k, const void *x, size_t n) {
  double *wide = kt_doubles(n);
  for (size_t i = 0; i < n; i++) wide[i] = kt_get(k, x, i);
  return wide;
}

static bool guard_kept(const unsigned char *guard) {
  for (int i = 0; i < GUARD; i++)
    if (guard[i] != GUARD_BYTE) return false;
  return true;
}

void kt_guards(const char *what) {
  for (int i = 0; i < used; i++)
    if (!guard_kept(pool[i].block) || !guard_kept(pool[i].block + GUARD + pool[i].bytes))
      ck_abort_msg("%s: wrote outside buffer %d of %zu bytes", what, i, pool[i].bytes);
}

void kt_done(const char *what) {
  kt_guards(what);
  while (used > 0) ab_mem_free(pool[--used].block);
}

double kt_get(const struct ab_kernels *k, const void *x, size_t i) {
  return k->dtype == AB_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

void kt_set(const struct ab_kernels *k, void *x, size_t i, double value) {
  if (k->dtype == AB_F64)
    ((double *)x)[i] = value;
  else
    ((float *)x)[i] = (float)value;
}

void kt_close(const struct ab_kernels *k, const void *actual, const double *expected, size_t n, const char *what) {
  double size = 0, tolerance = k->dtype == AB_F64 ? 1e-13 : 4e-6;
  for (size_t i = 0; i < n; i++) size = fmax(size, fabs(expected[i]));
  for (size_t i = 0; i < n; i++) {
    double value = kt_get(k, actual, i);
    if (fabs(value - expected[i]) <= tolerance * size) continue;
    ck_abort_msg("%s, table %s: [%zu] is %.17g, expected %.17g", what, k->name, i, value, expected[i]);
  }
}

void kt_same_bits(const struct ab_kernels *k, const void *a, const void *b, size_t n, const char *what) {
  ck_assert_msg(memcmp(a, b, n * k->element) == 0, "%s, table %s: bits differ", what, k->name);
}
