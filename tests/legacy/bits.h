/* Bitwise comparison of float32 results with the oracle's, -0 taken as +0. */
#pragma once

#include <math.h>

#include "tap.h"
#include "tree.h"

static inline void same_floats(const char *name, const char *what, const void *a, const void *b, size_t n) {
  const float *x = a, *y = b;
  for (size_t i = 0; i < n; i++)
    ck_assert_msg(isfinite(x[i]) && x[i] == y[i], "%s: %s[%zu] is %a, the oracle's %a", name, what, i, (double)x[i],
                  (double)y[i]);
}

static inline void same_trees(const char *name, const struct ab_tree *a, const struct ab_tree *b) {
  ck_assert_uint_eq(ab_tree_size(a), ab_tree_size(b));
  for (size_t i = 0; i < ab_tree_size(a); i++) {
    const struct ab_tensor *x = ab_tree_at(a, i), *y = ab_tree_find(b, x->name);
    ck_assert_ptr_nonnull(y);
    same_floats(name, x->name, x->data, y->data, x->count);
  }
}
