/* Walks over all pairs of equal tensors of two sources: threads read blocks of both, and take turns in the order of the
 * elements to measure them, so that the sums are those of one thread.
 *
 * Memory: at most DIFF_THREADS x 2 x DIFF_BLOCK bytes (1 MiB) whatever the size of a tensor. A tensor that a map
 * transposes or takes apart along an inner axis, and a member of a .npz archive, is held whole, one per side.
 */
#pragma once

#include "diff_source.h"
#include "metrics.h"

enum { DIFF_THREADS = 4, DIFF_BLOCK = 128 << 10 };

struct ab_diff_walk;
/* Measures every tensor of b that a has with the same shape and dtype. AB_EIO, AB_EFORMAT from the files. */
ab_status ab_diff_walk_run(struct ab_diff_walk **out, struct ab_diff_source *a, struct ab_diff_source *b);
/* Accepts NULL. */
void ab_diff_walk_free(struct ab_diff_walk *walk);
/* Of a tensor of b. AB_ENOTFOUND if it was not measured. */
ab_status ab_diff_walk_find(struct ab_difference *out, const struct ab_diff_walk *walk, const struct ab_identity *id);
