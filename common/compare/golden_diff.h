/* What moved from one golden to another, worst first.
 *
 * The change of a number is |new - old| / max(|old|, |new|), of a tensor the estimated |new - old|_2 over the larger
 * L2 norm: never negative, never a mean in which signs cancel, at most 2 for numbers.
 */
#pragma once

#include "golden.h"

enum ab_move_kind { AB_MOVE_REMOVED, AB_MOVE_ADDED, AB_MOVE_RESHAPED, AB_MOVE_VALUE };
const char *ab_move_name(enum ab_move_kind kind);

struct ab_golden_move {
  enum ab_move_kind kind;
  bool metric;               /* then id holds its step and, as tensor, its name */
  struct ab_identity id;
  size_t order;              /* in the golden that has it (the new one, if both) */
  double change;             /* of VALUE */
  double before, after;      /* the metric, or the tensor's L2 norm; 0 where it is not there */
};

struct ab_golden_diff {
  struct ab_golden_move *move; /* structure first, then the largest change, then execution order */
  size_t moves;
  size_t compared, of_kind[AB_MOVE_VALUE + 1];
  int first_step;              /* lowest step that moved; meaningless when nothing did */
  double largest, q50, q90, q99; /* of the changes of VALUE, by nearest rank; 0 when there is none */
  size_t keys_changed, keys_added, keys_removed; /* of the config */
  const char *key;             /* the first of them, removed ones before others; borrowed from a golden */
};

/* Both goldens must outlive it. */
ab_status ab_golden_diff(struct ab_golden_diff *out, const struct ab_golden *old, const struct ab_golden *new_one);
void ab_golden_diff_free(struct ab_golden_diff *diff);
/* AB_EMISMATCH when the new golden would hold less: a metric, tensor or config key of the old one is gone. */
ab_status ab_golden_check_no_loss(const struct ab_golden_diff *diff, const char *what);
