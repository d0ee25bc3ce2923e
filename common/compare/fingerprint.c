#include "fingerprint.h"

#include <math.h>
#include <string.h>

#include "cursor.h"
#include "float_bits.h"

enum { LANES = 8 };

static uint64_t splitmix64(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t word_of(uint64_t seed, uint64_t i) {
  return splitmix64(seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

size_t ab_fingerprint_position(uint64_t seed, int k, size_t count) {
  return count ? (size_t)(word_of(~seed, (uint64_t)k) % count) : 0;
}

static void take_samples(struct ab_fingerprint *f, const struct ab_cursor *cursor, size_t start, size_t count) {
  for (int k = 0; k < AB_SAMPLES; k++) {
    size_t at = ab_fingerprint_position(f->seed, k, (size_t)f->summary.count);
    if (at >= start && at < start + count) f->sample[k] = cursor->value[at - start];
  }
}

/* The sign goes in as a bit: all projections of an element are one vector operation. */
static void project(double lane[AB_PROJECTIONS], double x, uint64_t word) {
  uint64_t bits = ab_bits_of_double(x), turned[AB_PROJECTIONS];
  double term[AB_PROJECTIONS];
  for (int j = 0; j < AB_PROJECTIONS; j++) turned[j] = bits ^ (word >> j & 1) << 63;
  memcpy(term, turned, sizeof term);
  for (int j = 0; j < AB_PROJECTIONS; j++) lane[j] += term[j];
}

void ab_fingerprint(struct ab_fingerprint *out, const struct ab_identity *id, const struct ab_view *view,
                    uint64_t seed) {
  double lanes[LANES][AB_PROJECTIONS] = {{0}};
  struct ab_cursor cursor;
  size_t start = 0;
  *out = (struct ab_fingerprint){.id = *id, .dtype = view->dtype, .shape = view->shape, .seed = seed};
  ab_summarize(&out->summary, view);
  ab_cursor_start(&cursor, view);
  for (size_t n; (n = ab_cursor_next(&cursor)); start += n) {
    take_samples(out, &cursor, start, n);
    for (size_t i = 0; i < n; i++)
      if (isfinite(cursor.value[i])) project(lanes[(start + i) % LANES], cursor.value[i], word_of(seed, start + i));
  }
  for (int l = 0; l < LANES; l++)
    for (int j = 0; j < AB_PROJECTIONS; j++) out->projection[j] += lanes[l][j];
}

double ab_fingerprint_distance(const struct ab_fingerprint *a, const struct ab_fingerprint *b) {
  double sum = 0;
  for (int j = 0; j < AB_PROJECTIONS; j++) {
    double d = a->projection[j] - b->projection[j];
    sum += d * d;
  }
  return sqrt(sum / AB_PROJECTIONS);
}
