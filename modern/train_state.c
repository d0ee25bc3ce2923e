#include "train_state.h"

#include "pipeline_utils.h"

ab_status nnx_train_state_new(struct nnx_train_state *out, const struct nnx_node *module,
                              const struct ab_config *config, const struct ab_exec *exec) {
  static const nnx_filter filters[] = {NNX_PARAM, NNX_EVERY};
  struct nnx_state states[2];
  AB_TRY(nnx_split(&out->graphdef, states, filters, 2, exec->book, module));
  out->params = states[0];
  out->rest = states[1];
  AB_TRY(nnx_abstract_like(&out->grads, exec->book, &out->params));
  AB_TRY(nnx_materialize(&out->params, exec->slab));
  AB_TRY(nnx_materialize(&out->grads, exec->slab));
  AB_TRY(nnx_materialize(&out->rest, exec->book));
  return nnx_init_rng_state(&out->rest, exec->book, config->init_weights_seed);
}

ab_status nnx_train_state_merge(struct nnx_node **module, struct nnx_node **dmodule,
                                const struct nnx_train_state *state, struct ab_arena *book) {
  const struct nnx_state *primal[] = {&state->params, &state->rest};
  const struct nnx_state *cotangent[] = {&state->grads, &state->rest};
  AB_TRY(nnx_merge(module, book, state->graphdef, primal, 2));
  return dmodule ? nnx_merge(dmodule, book, state->graphdef, cotangent, 2) : AB_OK;
}
