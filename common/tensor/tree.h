/* An ordered map from "/"-joined path to tensor. Paths and tensors belong to the tree; insertion order is kept. */
#pragma once

#include "tensor.h"

struct ab_tree;

ab_status ab_tree_new(struct ab_tree **out);
/* Accepts NULL. */
void ab_tree_free(struct ab_tree *tree);

/* Declares a tensor with zeroed storage of its own. AB_EMISMATCH when the path is there already. *out may be NULL. */
ab_status ab_tree_add(struct ab_tree *tree, const char *path, enum ab_dtype dtype, const struct ab_shape *shape,
                      struct ab_tensor **out);

size_t ab_tree_size(const struct ab_tree *tree);
/* i in [0, size), insertion order. Borrowed. */
struct ab_tensor *ab_tree_at(const struct ab_tree *tree, size_t i);
/* NULL when there is no such path; expected constant time. Borrowed. */
struct ab_tensor *ab_tree_find(const struct ab_tree *tree, const char *path);
/* Like find; AB_ENOTFOUND with the path and `what` (the file or collection) otherwise. */
ab_status ab_tree_get(struct ab_tensor **out, const struct ab_tree *tree, const char *path, const char *what);

/* One structural difference between two trees. */
enum ab_leaf_change { AB_LEAF_ADDED, AB_LEAF_MISSING, AB_LEAF_RESHAPED, AB_LEAF_RETYPED, AB_LEAF_RENAMED };
struct ab_leaf_difference {
  enum ab_leaf_change change;
  const struct ab_tensor *a, *b; /* NULL on the side that lacks it; RENAMED has both */
};
/* Compares path sets, shapes and dtypes. *count differences in *out (owned by the caller, ab_mem_free), NULL if none.
 * A missing and an added leaf of equal shape and dtype whose names share their last component become one RENAMED. */
ab_status ab_tree_diff(struct ab_leaf_difference **out, size_t *count, const struct ab_tree *a,
                       const struct ab_tree *b);
/* One readable line about a difference; cut to size. */
void ab_leaf_difference_print(char *text, size_t size, const struct ab_leaf_difference *difference);
