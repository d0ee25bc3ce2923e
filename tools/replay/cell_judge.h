/* Inside the judgement of an artifact: what cell.c and cell_sum.c share. */
#pragma once

#include "cell.h"
#include "cell_run.h"

struct ab_cell_judging {
  const struct ab_artifact *a;
  const struct ab_block *block;
  const struct ab_kernels *f32, *f64;
  struct ab_replayed *out;
  int base; /* layer whose weights the reference runs with; -1: its own */
  bool differs;
};
/* An order for a side, with the cell's own weights, positions and segments. */
struct ab_cell_order ab_cell_own(const struct ab_cell_judging *j, int side, int part);
/* "step 0, iteration 9, stage 2, repeat 1, microbatch 3, layer 6". */
void ab_cell_place(char text[160], const struct ab_artifact *artifact);
/* A weight gradient: the sum over all parts. */
ab_status ab_cell_judge_sum(struct ab_cell_judging *j);
