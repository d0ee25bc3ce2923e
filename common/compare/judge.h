/* One tensor, one metric: equal, within its bound, or not. And the names of what differs in structure, grouped. */
#pragma once

#include "verdict.h"

/* Fills finding->evidence, distance, difference, differs and fails; the rest of it is set by the caller. `judged` is
 * false for a bounded tensor that differs and of which neither values nor fingerprints are known. */
ab_status ab_judge_tensor(struct ab_finding *finding, bool *judged, const struct ab_comparison *c,
                          const struct ab_observation *a, const struct ab_observation *b);
void ab_judge_metric(struct ab_finding *finding, const struct ab_metric *a, const struct ab_metric *b);
/* The identity under which a metric is shown and its bounds are asked for. */
struct ab_identity ab_metric_identity(const struct ab_metric *metric);

struct ab_groups {
  struct ab_group *row;
  size_t rows, capacity;
  struct ab_index by_pattern;
};
/* a or b is NULL where that side lacks it. */
ab_status ab_groups_add(struct ab_groups *groups, enum ab_change change, const struct ab_observation *a,
                        const struct ab_observation *b);
ab_status ab_groups_add_metric(struct ab_groups *groups, enum ab_change change, const struct ab_metric *metric);
/* Largest first; equal counts by change and pattern. */
void ab_groups_sort(struct ab_groups *groups);
void ab_groups_free(struct ab_groups *groups);
