/* Copy and sum of strided views of one shape: gather and scatter of stacked layouts. */
#include "instance.h"

#include <string.h>

#include "spread.h"

/* Two views as a list of axes, innermost last, without axes of extent 1 and with axes merged that lie contiguously in
 * both. */
struct walk {
  int rank;
  int64_t dim[AB_MAX_RANK], to[AB_MAX_RANK], from[AB_MAX_RANK];
};

static void walk_push(struct walk *w, int64_t dim, int64_t to, int64_t from) {
  if (dim == 1) return;
  int last = w->rank - 1;
  if (last >= 0 && w->to[last] == dim * to && w->from[last] == dim * from) {
    w->dim[last] *= dim;
    w->to[last] = to;
    w->from[last] = from;
    return;
  }
  w->dim[w->rank] = dim;
  w->to[w->rank] = to;
  w->from[w->rank++] = from;
}

static struct walk walk_of(const struct ab_view *to, const struct ab_view *from) {
  struct walk w = {0};
  for (int axis = 0; axis < to->shape.rank; axis++)
    walk_push(&w, to->shape.dim[axis], to->stride[axis], from->stride[axis]);
  if (w.rank == 0) w = (struct walk){.rank = 1, .dim = {1}, .to = {1}, .from = {1}};
  return w;
}

typedef void (*row_fn)(real *to, const real *from, int64_t n, int64_t to_stride, int64_t from_stride);

static void copy_row(real *to, const real *from, int64_t n, int64_t to_stride, int64_t from_stride) {
  if (to_stride == 1 && from_stride == 1) {
    memcpy(to, from, (size_t)n * sizeof(real));
    return;
  }
  for (int64_t i = 0; i < n; i++) to[i * to_stride] = from[i * from_stride];
}

static void add_row(real *to, const real *from, int64_t n, int64_t to_stride, int64_t from_stride) {
  if (to_stride == 1 && from_stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = REAL_ADD(to[i], from[i]);
    return;
  }
  for (int64_t i = 0; i < n; i++) to[i * to_stride] = REAL_ADD(to[i * to_stride], from[i * from_stride]);
}

static void walk_rows(const struct walk *w, int axis, real *to, const real *from, row_fn row) {
  if (axis == w->rank - 1) {
    row(to, from, w->dim[axis], w->to[axis], w->from[axis]);
    return;
  }
  for (int64_t i = 0; i < w->dim[axis]; i++)
    walk_rows(w, axis + 1, to + i * w->to[axis], from + i * w->from[axis], row);
}

/* Indices [first, first + count) of the outermost axis. */
static void walk_part(struct walk w, size_t first, size_t count, real *to, const real *from, row_fn row) {
  w.dim[0] = (int64_t)count;
  walk_rows(&w, 0, to + (int64_t)first * w.to[0], from + (int64_t)first * w.from[0], row);
}

/* Where all of the outermost axis goes to one place, one worker adds it up. */
static void walk_all(const struct ab_view *to, const struct ab_view *from, row_fn row) {
  struct walk w = walk_of(to, from);
  size_t outer = (size_t)w.dim[0], inner = 1;
  for (int axis = 1; axis < w.rank; axis++) inner *= (size_t)w.dim[axis];
  size_t piece = w.to[0] == 0 || inner == 0 ? outer + 1 : (SPREAD_ELEMENTS + inner - 1) / inner;
  FOR_PIECES(outer, piece, walk_part(w, at, count, to->data, from->data, row));
}

void KERNEL(copy_view)(const struct ab_view *to, const struct ab_view *from) { walk_all(to, from, copy_row); }

void KERNEL(add_view)(const struct ab_view *to, const struct ab_view *from) { walk_all(to, from, add_row); }
