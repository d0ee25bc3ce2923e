/* Optimizers by opt_type. MaxText optimizers/optimizers.py: get_optimizer; optax. */
#pragma once

#include "leaves.h"

enum { AB_MOMENTS_MAX = 2 };

/* One row of the table: its name and how a leaf is updated. */
struct ab_optimizer_rule {
  const char *name;                   /* opt_type */
  int moments;                        /* state tensors per leaf */
  const char *moment[AB_MOMENTS_MAX]; /* their names: "mu", "nu" */
  /* p [n] updated in place from g [n] and the moments [n] each; step is 0-based. */
  void (*update)(void *p, void *const *moment, const void *g, const struct ab_config *config, int64_t step, double rate,
                 size_t n, const struct ab_kernels *kernels);
};
/* A NULL name ends the table. */
extern const struct ab_optimizer_rule ab_optimizer_rules[];
/* AB_ECONFIG names opt_type and what there is. */
ab_status ab_optimizer_find(const struct ab_optimizer_rule **out, const char *opt_type);

/* State of one side: moments of every leaf in canonical order, contiguous in the parameter's own shape. */
struct ab_optimizer {
  const struct ab_optimizer_rule *rule;
  void **moment[AB_MOMENTS_MAX]; /* [leaves]; exec->slab */
};
/* Moments from exec->slab, zeroed; their list from exec->book. */
ab_status ab_optimizer_new(struct ab_optimizer *out, const struct ab_config *config, const struct ab_exec *exec,
                           const struct ab_leaf_table *table);
