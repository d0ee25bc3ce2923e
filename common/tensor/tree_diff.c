#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "tree.h"

/* A leaf that only one side has, and the rank by which renamed ones are paired. */
struct lone {
  const struct ab_tensor *tensor;
  size_t order; /* insertion order, last in the comparison: the first missing goes with the first added */
  struct lone *partner;
};

struct lones {
  struct lone *all; /* insertion order */
  struct lone **sorted;
  size_t count;
};

static const char *last_component(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int compare_int(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_kind(const struct ab_tensor *a, const struct ab_tensor *b) {
  int order = strcmp(last_component(a->name), last_component(b->name));
  if (!order) order = compare_int(a->dtype, b->dtype);
  if (!order) order = compare_int(a->shape.rank, b->shape.rank);
  for (int i = 0; !order && i < a->shape.rank; i++) order = compare_int(a->shape.dim[i], b->shape.dim[i]);
  return order;
}

static int compare_lone(const void *left, const void *right) {
  const struct lone *a = *(struct lone *const *)left, *b = *(struct lone *const *)right;
  int order = compare_kind(a->tensor, b->tensor);
  return order ? order : compare_int((int64_t)a->order, (int64_t)b->order);
}

/* The leaves of `tree` that `other` lacks. */
static ab_status collect(struct lones *lones, const struct ab_tree *tree, const struct ab_tree *other) {
  size_t size = ab_tree_size(tree);
  AB_TRY(ab_mem_new(&lones->all, size, sizeof *lones->all));
  AB_TRY(ab_mem_new(&lones->sorted, size, sizeof *lones->sorted));
  for (size_t i = 0; i < size; i++) {
    struct ab_tensor *tensor = ab_tree_at(tree, i);
    if (ab_tree_find(other, tensor->name)) continue;
    lones->all[lones->count] = (struct lone){.tensor = tensor, .order = i};
    lones->sorted[lones->count] = &lones->all[lones->count];
    lones->count++;
  }
  if (lones->count) qsort(lones->sorted, lones->count, sizeof *lones->sorted, compare_lone);
  return AB_OK;
}

static void pair(struct lones *a, struct lones *b) {
  for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
    int order = compare_kind(a->sorted[i]->tensor, b->sorted[j]->tensor);
    if (order == 0) {
      a->sorted[i]->partner = b->sorted[j];
      b->sorted[j]->partner = a->sorted[i];
    }
    i += order <= 0;
    j += order >= 0;
  }
}

static void put(struct ab_leaf_difference *out, size_t *count, enum ab_leaf_change change, const struct ab_tensor *a,
                const struct ab_tensor *b) {
  out[(*count)++] = (struct ab_leaf_difference){change, a, b};
}

/* In the order of a, then what only b has in the order of b. */
static size_t list(struct ab_leaf_difference *out, const struct ab_tree *a, const struct ab_tree *b,
                   const struct lones *missing, const struct lones *added) {
  size_t count = 0, next = 0;
  for (size_t i = 0; i < ab_tree_size(a); i++) {
    struct ab_tensor *left = ab_tree_at(a, i), *right = ab_tree_find(b, left->name);
    if (!right) {
      const struct lone *partner = missing->all[next++].partner;
      put(out, &count, partner ? AB_LEAF_RENAMED : AB_LEAF_MISSING, left, partner ? partner->tensor : NULL);
    } else if (!ab_shape_equal(&left->shape, &right->shape)) {
      put(out, &count, AB_LEAF_RESHAPED, left, right);
    } else if (left->dtype != right->dtype) {
      put(out, &count, AB_LEAF_RETYPED, left, right);
    }
  }
  for (size_t i = 0; i < added->count; i++)
    if (!added->all[i].partner) put(out, &count, AB_LEAF_ADDED, NULL, added->all[i].tensor);
  return count;
}

static ab_status diff(struct ab_leaf_difference **out, size_t *count, const struct ab_tree *a, const struct ab_tree *b,
                      struct lones *missing, struct lones *added) {
  AB_TRY(collect(missing, a, b));
  AB_TRY(collect(added, b, a));
  pair(missing, added);
  struct ab_leaf_difference *differences;
  size_t most = ab_tree_size(a) + added->count;
  AB_TRY(ab_mem_new(&differences, most, sizeof *differences));
  *count = list(differences, a, b, missing, added);
  if (*count == 0) {
    ab_mem_free(differences);
    differences = NULL;
  }
  *out = differences;
  return AB_OK;
}

ab_status ab_tree_diff(struct ab_leaf_difference **out, size_t *count, const struct ab_tree *a,
                       const struct ab_tree *b) {
  struct lones missing = {0}, added = {0};
  ab_status status = diff(out, count, a, b, &missing, &added);
  ab_mem_free(missing.all);
  ab_mem_free(missing.sorted);
  ab_mem_free(added.all);
  ab_mem_free(added.sorted);
  AB_TRY(status);
  return AB_OK;
}

void ab_leaf_difference_print(char *text, size_t size, const struct ab_leaf_difference *d) {
  char left[256] = "", right[256] = "";
  if (d->a) ab_shape_print(left, sizeof left, &d->a->shape);
  if (d->b) ab_shape_print(right, sizeof right, &d->b->shape);
  switch (d->change) {
    case AB_LEAF_ADDED:
      snprintf(text, size, "added: '%s' %s %s is only in B", d->b->name, ab_dtype_name(d->b->dtype), right);
      break;
    case AB_LEAF_MISSING:
      snprintf(text, size, "missing: '%s' %s %s is only in A", d->a->name, ab_dtype_name(d->a->dtype), left);
      break;
    case AB_LEAF_RESHAPED:
      snprintf(text, size, "reshaped: '%s' is %s in A and %s in B", d->a->name, left, right);
      break;
    case AB_LEAF_RETYPED:
      snprintf(text, size, "retyped: '%s' is %s in A and %s in B", d->a->name, ab_dtype_name(d->a->dtype),
               ab_dtype_name(d->b->dtype));
      break;
    case AB_LEAF_RENAMED:
      snprintf(text, size, "renamed: '%s' in A is '%s' in B, both %s %s", d->a->name, d->b->name,
               ab_dtype_name(d->a->dtype), left);
      break;
  }
}
