#include "cursor.h"

#include <string.h>

#include "m61.h"

/* `count` elements, `step` bytes apart. */
typedef void (*widen_fn)(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count);

static void widen_f32(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count) {
  for (size_t i = 0; i < count; i++, at += step) {
    float x;
    uint32_t word;
    memcpy(&x, at, sizeof x);
    memcpy(&word, at, sizeof word);
    value[i] = (double)x;
    bits[i] = word;
  }
}

static void widen_f64(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count) {
  for (size_t i = 0; i < count; i++, at += step) {
    memcpy(&value[i], at, sizeof *value);
    memcpy(&bits[i], at, sizeof *bits);
  }
}

static void widen_i32(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count) {
  for (size_t i = 0; i < count; i++, at += step) {
    int32_t x;
    memcpy(&x, at, sizeof x);
    value[i] = x;
    bits[i] = (uint32_t)x;
  }
}

static void widen_i64(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count) {
  for (size_t i = 0; i < count; i++, at += step) {
    int64_t x;
    memcpy(&x, at, sizeof x);
    value[i] = (double)x;
    bits[i] = (uint64_t)x;
  }
}

static void widen_u8(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count) {
  for (size_t i = 0; i < count; i++, at += step) {
    value[i] = *at;
    bits[i] = *at;
  }
}

static void widen_m61(double *value, uint64_t *bits, const unsigned char *at, int64_t step, size_t count) {
  for (size_t i = 0; i < count; i++, at += step) {
    memcpy(&bits[i], at, sizeof *bits);
    bits[i] = ab_m61_reduce(bits[i]);
    value[i] = (double)bits[i];
  }
}

static const widen_fn widen[] = {[AB_F32] = widen_f32, [AB_F64] = widen_f64, [AB_I32] = widen_i32,
                                 [AB_I64] = widen_i64, [AB_U8] = widen_u8,   [AB_M61] = widen_m61};

void ab_cursor_start(struct ab_cursor *cursor, const struct ab_view *view) {
  ab_walk_start(&cursor->walk, view);
  cursor->dtype = view->dtype;
  cursor->run = ab_walk_next(&cursor->walk);
  cursor->taken = 0;
}

static size_t piece(struct ab_cursor *cursor, size_t filled) {
  size_t left = cursor->walk.run - cursor->taken, room = AB_CURSOR_BLOCK - filled, count = left < room ? left : room;
  int64_t step = cursor->walk.run_stride * (int64_t)cursor->walk.element;
  widen[cursor->dtype](cursor->value + filled, cursor->bits + filled, cursor->run + (int64_t)cursor->taken * step, step,
                       count);
  cursor->taken += count;
  return count;
}

size_t ab_cursor_next(struct ab_cursor *cursor) {
  size_t filled = 0;
  while (filled < AB_CURSOR_BLOCK && cursor->run) {
    filled += piece(cursor, filled);
    if (cursor->taken < cursor->walk.run) continue;
    cursor->run = ab_walk_next(&cursor->walk);
    cursor->taken = 0;
  }
  return filled;
}
