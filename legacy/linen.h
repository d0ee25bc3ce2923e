/* The Linen engine: a module-style pipeline trainer as MaxText had it before the migration. What dispatch/ and the
 * bridges see of it. */
#pragma once

#include "module.h"

extern const struct ab_model_ops linen_model_ops;
/* The pipeline module alone; AB_ECONFIG when the config gives no microbatches. */
extern const struct ab_pipeline_ops linen_pipeline_ops;

/* What the decoder calls for create_pipeline, and the methods of the module that it gets. */
struct linen_pipeline_hook {
  /* The module lives in exec->book; parent NULL: it is the root. */
  ab_status (*create)(struct linen_module **out, struct linen_module *parent, const char *name,
                      const struct ab_config *config, const struct ab_exec *exec);
  /* As linen_pipeline_call, linen_pipeline_vjp and linen_pipeline_leaves. */
  ab_status (*call)(struct linen_module *module, const struct linen_scope *root, void *outputs, const void *inputs,
                    const int32_t *positions, const int32_t *segment_ids);
  ab_status (*vjp)(struct linen_module *module, const struct linen_scope *root, const struct linen_scope *cotangents,
                   void *d_inputs, const void *d_outputs);
  ab_status (*leaves)(const struct linen_module *module, const struct linen_scope *root, ab_leaf_fn fn, void *ctx);
};
/* `create` of the two tables above with another pipeline module; their other functions serve what comes of it. */
ab_status linen_create_model_with(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec,
                                  const struct linen_pipeline_hook *hook);
ab_status linen_create_pipeline_with(struct ab_pipeline **out, const struct ab_config *config,
                                     const struct ab_exec *exec, const struct linen_pipeline_hook *hook);
