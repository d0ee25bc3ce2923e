#define XXH_INLINE_ALL
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "index.h"
#include "judge.h"
#include "mem.h"
#include "text.h"

static uint64_t key_hash(const struct ab_group *group) {
  return XXH3_64bits_withSeed(group->pattern, strlen(group->pattern), (uint64_t)group->change);
}

static uint64_t group_hash(const void *rows, size_t row) { return key_hash(&((const struct ab_group *)rows)[row]); }

static bool group_is(const void *rows, size_t row, const void *key) {
  const struct ab_group *a = &((const struct ab_group *)rows)[row], *b = key;
  return a->change == b->change && strcmp(a->pattern, b->pattern) == 0;
}

static ab_status add(struct ab_groups *groups, const struct ab_group *group) {
  size_t row = ab_index_find(&groups->by_pattern, key_hash(group), group_is, groups->row, group);
  if (row != SIZE_MAX) {
    groups->row[row].count++;
    return AB_OK;
  }
  if (groups->rows == groups->capacity) {
    size_t larger = groups->capacity ? 2 * groups->capacity : 16;
    AB_TRY(ab_mem_resize(&groups->row, larger, sizeof *groups->row));
    groups->capacity = larger;
  }
  groups->row[groups->rows] = *group;
  AB_TRY(ab_index_add(&groups->by_pattern, groups->rows, group_hash, groups->row));
  groups->rows++;
  return AB_OK;
}

ab_status ab_groups_add(struct ab_groups *groups, enum ab_change change, const struct ab_observation *a,
                        const struct ab_observation *b) {
  struct ab_group group = {.change = change, .count = 1, .example = a ? a->id : b->id};
  group.shape_a.rank = group.shape_b.rank = -1;
  if (a) group.shape_a = a->shape;
  if (b) group.shape_b = b->shape;
  group.dtype_a = a ? a->dtype : b->dtype;
  group.dtype_b = b ? b->dtype : a->dtype;
  ab_identity_pattern(group.pattern, &group.example);
  return add(groups, &group);
}

ab_status ab_groups_add_metric(struct ab_groups *groups, enum ab_change change, const struct ab_metric *metric) {
  char name[4 * AB_NAME_MAX];
  struct ab_group group = {.change = change, .count = 1, .example = ab_metric_identity(metric)};
  group.shape_a.rank = change == AB_CHANGE_MISSING ? -1 : 0;
  group.shape_b.rank = change == AB_CHANGE_ADDED ? -1 : 0;
  ab_text_escape(name, sizeof name, metric->name);
  snprintf(group.pattern, sizeof group.pattern, "metric %s", name);
  return add(groups, &group);
}

static int compare(const void *x, const void *y) {
  const struct ab_group *a = x, *b = y;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  if (a->change != b->change) return a->change < b->change ? -1 : 1;
  return strcmp(a->pattern, b->pattern);
}

void ab_groups_sort(struct ab_groups *groups) {
  if (groups->rows) qsort(groups->row, groups->rows, sizeof *groups->row, compare);
}

void ab_groups_free(struct ab_groups *groups) {
  ab_mem_free(groups->row);
  ab_mem_free(groups->by_pattern.slot);
  *groups = (struct ab_groups){0};
}
