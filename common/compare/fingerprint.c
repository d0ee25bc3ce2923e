#include "fingerprint.h"

#include <math.h>

#include "cursor.h"

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

static void project(double lanes[AB_PROJECTIONS][LANES], double x, uint64_t word, size_t lane) {
  for (int j = 0; j < AB_PROJECTIONS; j++) lanes[j][lane] += word >> j & 1 ? -x : x;
}

void ab_fingerprint(struct ab_fingerprint *out, const struct ab_identity *id, const struct ab_view *view,
                    uint64_t seed) {
  double lanes[AB_PROJECTIONS][LANES] = {{0}};
  struct ab_cursor cursor;
  size_t start = 0;
  *out = (struct ab_fingerprint){.id = *id, .dtype = view->dtype, .shape = view->shape, .seed = seed};
  ab_summarize(&out->summary, view);
  ab_cursor_start(&cursor, view);
  for (size_t n; (n = ab_cursor_next(&cursor)); start += n) {
    take_samples(out, &cursor, start, n);
    for (size_t i = 0; i < n; i++)
      if (isfinite(cursor.value[i])) project(lanes, cursor.value[i], word_of(seed, start + i), (start + i) % LANES);
  }
  for (int j = 0; j < AB_PROJECTIONS; j++)
    for (int l = 0; l < LANES; l++) out->projection[j] += lanes[j][l];
}

double ab_fingerprint_distance(const struct ab_fingerprint *a, const struct ab_fingerprint *b) {
  double sum = 0;
  for (int j = 0; j < AB_PROJECTIONS; j++) {
    double d = a->projection[j] - b->projection[j];
    sum += d * d;
  }
  return sqrt(sum / AB_PROJECTIONS);
}
