/* The collection `intermediates`: what decoder layers sow (sown.h), as lifted transforms stack it. Every apply is made
 * with mutable=["intermediates"], so its dict is its own: values in exec->arena, entries in exec->book.
 *
 * | layers                  | variable                             | shape     | transforms                         |
 * |-------------------------|--------------------------------------|-----------|------------------------------------|
 * | pipeline, K = 1         | layers/activation_mean               | [T, S]    | scan of iterations, vmap of stages |
 * | pipeline, scanned stage | layers_per_stage/activation_mean     | [T, S, K] | and scan of layers                 |
 * | pipeline, sequential    | layers/layers_<k>/activation_mean    | [T, S]    | as K = 1                           |
 * | outside, scanned        | layers/activation_mean               | [layers]  | scan of layers                     |
 * | outside, by name        | layers_<k>/activation_mean           | []        | none                               |
 *
 * Scans and vmaps put the axis of this collection first. Parameters have an axis of repeats besides; iterations of all
 * repeats are one axis here.
 */
#pragma once

#include "linen_stack.h"
#include "sown.h"

enum { LINEN_SOWN_AXES = 2 };

struct linen_intermediates {
  struct linen_variables variables;
  struct ab_exec apply;        /* the exec of one apply, whose slab is its arena */
  struct linen_scope scope;    /* of the stack */
  const struct linen_stack *stack;
  void *sown;                  /* [workers][layers][AB_SOWN] as the layers wrote them last */
  void *reported;              /* one element */
};
/* A new dict with every variable of the stack, zeros. path: the stack's scope. lifts: outermost first. */
ab_status linen_intermediates_begin(struct linen_intermediates *self, const struct linen_stack *stack,
                                    const char *path, const struct linen_axis *lifts, int count, int workers);
/* Where a worker's layers sow: linen_cell.sown. */
void *linen_intermediates_of_worker(const struct linen_intermediates *self, int worker);
/* What a worker's layers have sown becomes the slice at[] of the lifted axes. */
ab_status linen_intermediates_place(struct linen_intermediates *self, int worker, const int64_t *at);
/* Element at[] of layer k's number. */
ab_status linen_intermediates_read(void **out, struct linen_intermediates *self, int k, enum ab_sown which,
                                   const int64_t *at);
/* Element number `element` of the flattened variable. */
ab_status linen_intermediates_read_flat(void **out, struct linen_intermediates *self, int k, enum ab_sown which,
                                        int64_t element);
