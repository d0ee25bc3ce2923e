/* Elements of any view in row-major order, block by block, widened to double and as the bits of their own type. */
#pragma once

#include "walk.h"

enum { AB_CURSOR_BLOCK = 512 };

struct ab_cursor {
  struct ab_walk walk;
  enum ab_dtype dtype;
  const unsigned char *run;
  size_t taken; /* elements of the run already given */
  double value[AB_CURSOR_BLOCK];
  uint64_t bits[AB_CURSOR_BLOCK]; /* AB_M61: the canonical residue */
};

void ab_cursor_start(struct ab_cursor *cursor, const struct ab_view *view);
/* Fills value and bits; the number of elements, AB_CURSOR_BLOCK but for the last block, 0 at the end. */
size_t ab_cursor_next(struct ab_cursor *cursor);
