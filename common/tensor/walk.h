/* Walks a strided view in row-major order as runs of equal stride, with neighbouring dimensions merged where the layout
 * allows: a contiguous view is one run. Allocates nothing.
 */
#pragma once

#include "tensor.h"

struct ab_walk {
  size_t element; /* bytes */
  int rank;       /* merged dimensions outside the run */
  int64_t dim[AB_MAX_RANK], stride[AB_MAX_RANK], index[AB_MAX_RANK];
  size_t run, runs_left; /* elements per run; runs still to come */
  int64_t run_stride;    /* elements between neighbours of a run */
  unsigned char *at;
};

void ab_walk_start(struct ab_walk *walk, const struct ab_view *view);
/* The first element of the next run of walk->run elements; NULL when there is none. */
unsigned char *ab_walk_next(struct ab_walk *walk);
