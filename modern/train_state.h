/* A model held functionally, as a pure NNX trainer does: graphdef and states, merged anew for every step. */
#pragma once

#include "model.h"
#include "transforms.h"

struct nnx_train_state {
  struct nnx_graphdef *graphdef;
  struct nnx_state params, grads; /* exec->slab, in the same order */
  struct nnx_state rest;          /* rng state; exec->book */
};

/* Splits the abstract module and gives its variables storage. */
ab_status nnx_train_state_new(struct nnx_train_state *out, const struct nnx_node *module,
                              const struct ab_config *config, const struct ab_exec *exec);
/* The module, and (if dmodule is not NULL) its cotangents. */
ab_status nnx_train_state_merge(struct nnx_node **module, struct nnx_node **dmodule,
                                const struct nnx_train_state *state, struct ab_arena *book);
