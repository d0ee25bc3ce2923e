#include "to_linen.h"

#include <string.h>

#include "linen.h"
#include "pipeline.h"

/* A constructed NNX module as functional parts. */
struct instance {
  struct nnx_pipeline *pipeline;
  struct nnx_graphdef *graphdef;
  struct nnx_state stored, rng; /* what Linen holds; what it does not */
};

struct to_linen {
  struct linen_module base;
  const struct ab_config *config;
  const struct ab_exec *exec;
  struct instance declared;    /* abstract: what init saw */
  struct instance applied;     /* by the last apply; exec->book of the step */
  struct nnx_node *module;     /* of the last apply, values in it; NULL: its vjp has run, or there was none */
};

/* The collection of a variable type. flax.nnx variable_name_from_type. */
static const struct kind {
  nnx_filter type;
  const char *collection;
} kinds[] = {{NNX_PARAM, LINEN_PARAMS}, {NNX_INTERMEDIATE, "intermediates"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *collection_of(nnx_filter type) {
  for (int i = 0; i < KINDS; i++)
    if (kinds[i].type == type) return kinds[i].collection;
  return nnx_type_name(type);
}

static ab_status construct(struct instance *out, const struct to_linen *self) {
  static const nnx_filter filters[] = {NNX_NOT(NNX_RNG_STATE), NNX_RNG_STATE};
  struct nnx_node *module;
  struct nnx_state states[2];
  AB_TRY(nnx_pipeline_new(&out->pipeline, &module, self->config, self->exec));
  AB_TRY(nnx_split(&out->graphdef, states, filters, 2, self->exec->book, module));
  out->stored = states[0];
  out->rng = states[1];
  return AB_OK;
}

/* to_linen_var: the boxed variable of every leaf, created by init. */
static ab_status declare_variables(struct linen_module *module, const struct linen_scope *scope) {
  const struct to_linen *self = (const struct to_linen *)module;
  for (size_t i = 0; i < self->declared.stored.count; i++) {
    const struct nnx_leaf *leaf = &self->declared.stored.leaf[i];
    struct linen_declaration declared = {leaf->path, leaf->variable.value.shape, leaf->variable.sharding};
    struct linen_partitioned box;
    AB_TRY(linen_scope_variable(&box, scope, collection_of(leaf->variable.type), &declared));
  }
  return AB_OK;
}

static const struct linen_module_ops to_linen_class = {.class_name = "ToLinen", .params = declare_variables};

static const char *text_or(const char *text) { return text ? text : "none"; }

static ab_status check_metadata(const struct linen_variable *stored, const struct nnx_variable *fresh) {
  const struct ab_view *value = &stored->box.value;
  char have[96], want[96];
  if (value->dtype != fresh->value.dtype)
    return AB_FAIL(AB_EMISMATCH, "ToLinen: variable '%s' is %s, the NNX module expects %s", stored->path,
                   ab_dtype_name(value->dtype), ab_dtype_name(fresh->value.dtype));
  ab_shape_print(have, sizeof have, &value->shape);
  ab_shape_print(want, sizeof want, &fresh->value.shape);
  if (!ab_shape_equal(&value->shape, &fresh->value.shape))
    return AB_FAIL(AB_ESHAPE, "ToLinen: variable '%s' has shape %s, the NNX module expects %s", stored->path, have,
                   want);
  for (int i = 0; i < value->shape.rank; i++)
    if (strcmp(text_or(stored->box.names[i]), text_or(fresh->sharding[i])) != 0)
      return AB_FAIL(AB_EMISMATCH, "ToLinen: axis %d of variable '%s' is named '%s', the NNX module expects '%s'", i,
                     stored->path, text_or(stored->box.names[i]), text_or(fresh->sharding[i]));
  return AB_OK;
}

/* to_nnx_var: a stored variable replaces the fresh one. */
static ab_status overwrite_variable(const struct nnx_state *state, const struct linen_variable *stored,
                                    const char *path) {
  struct nnx_leaf *leaf = nnx_state_find(state, path);
  if (!leaf)
    return AB_FAIL(AB_ENOTFOUND, "ToLinen: the NNX module has no variable for '%s' of collection '%s'", stored->path,
                   stored->collection);
  struct nnx_variable *fresh = &leaf->variable;
  if (strcmp(stored->collection, collection_of(fresh->type)) != 0)
    return AB_FAIL(AB_EMISMATCH, "ToLinen: variable '%s' is in collection '%s', its type %s belongs in '%s'",
                   stored->path, stored->collection, nnx_type_name(fresh->type), collection_of(fresh->type));
  AB_TRY(check_metadata(stored, fresh));
  fresh->value = stored->box.value;
  memcpy(fresh->sharding, stored->box.names, sizeof fresh->sharding);
  return AB_OK;
}

/* "layers/mlp/wi_0/kernel" of "decoder/pipeline_module/layers/mlp/wi_0/kernel"; NULL when it is not below the scope. */
static const char *path_below(const struct linen_scope *scope, const char *path) {
  size_t length = strlen(scope->path);
  if (length == 0) return path;
  return strncmp(path, scope->path, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static ab_status check_complete(const struct nnx_state *state, const struct linen_scope *scope) {
  for (size_t i = 0; i < state->count; i++)
    if (!state->leaf[i].variable.value.data)
      return AB_FAIL(AB_ENOTFOUND, "ToLinen: variable '%s%s%s' is not in collection '%s'", scope->path,
                     *scope->path ? "/" : "", state->leaf[i].path, collection_of(state->leaf[i].variable.type));
  return AB_OK;
}

/* nnx.update of an abstract state by all that the dict holds below the wrapper's scope. */
static ab_status overwrite(const struct nnx_state *state, const struct to_linen *self,
                           const struct linen_scope *root) {
  struct linen_scope scope;
  AB_TRY(linen_module_scope(&scope, &self->base, root));
  for (const struct linen_variable *v = scope.variables->first; v; v = v->next) {
    const char *path = path_below(&scope, v->path);
    if (path) AB_TRY(overwrite_variable(state, v, path));
  }
  return check_complete(state, &scope);
}

static ab_status rebuild_rng(const struct to_linen *self, struct nnx_state *rng) {
  AB_TRY(nnx_materialize(rng, self->exec->book));
  return nnx_init_rng_state(rng, self->exec->book, self->config->init_weights_seed);
}

static ab_status merge(struct nnx_node **out, const struct to_linen *self, const struct nnx_state *stored) {
  const struct nnx_state *states[] = {stored, &self->applied.rng};
  return nnx_merge(out, self->exec->book, self->applied.graphdef, states, 2);
}

/* nnx_wrappers.py: ToLinen.__call__. */
static ab_status call(struct linen_module *module, const struct linen_scope *root, void *outputs, const void *inputs,
                      const int32_t *positions, const int32_t *segment_ids) {
  struct to_linen *self = (struct to_linen *)module;
  AB_TRY(construct(&self->applied, self));
  AB_TRY(overwrite(&self->applied.stored, self, root));
  AB_TRY(rebuild_rng(self, &self->applied.rng));
  AB_TRY(merge(&self->module, self, &self->applied.stored));
  return nnx_pipeline_forward(self->applied.pipeline, self->module, outputs, inputs, positions, segment_ids);
}

static ab_status vjp(struct linen_module *module, const struct linen_scope *root, const struct linen_scope *cotangents,
                     void *d_inputs, const void *d_outputs) {
  struct to_linen *self = (struct to_linen *)module;
  struct nnx_node *primal = self->module, *dmodule;
  struct nnx_state state;
  (void)root; /* the primals are those of the apply */
  if (!primal) return AB_FAIL(AB_EMISMATCH, "ToLinen: a vjp was asked for without the apply that it belongs to");
  self->module = NULL;
  AB_TRY(nnx_abstract_like(&state, self->exec->book, &self->applied.stored));
  AB_TRY(overwrite(&state, self, cotangents));
  nnx_zero(&state, self->exec->kernels);
  AB_TRY(merge(&dmodule, self, &state));
  return nnx_pipeline_pullback(self->applied.pipeline, primal, dmodule, d_inputs, d_outputs);
}

static ab_status visit_leaves(const struct to_linen *self, const struct linen_scope *root, ab_leaf_fn fn, void *ctx) {
  struct nnx_state state;
  AB_TRY(nnx_abstract_like(&state, self->exec->book, &self->declared.stored));
  AB_TRY(overwrite(&state, self, root));
  return nnx_pipeline_leaves(self->declared.pipeline, &state, "", fn, ctx);
}

static ab_status leaves(const struct linen_module *module, const struct linen_scope *root, ab_leaf_fn fn, void *ctx) {
  const struct to_linen *self = (const struct to_linen *)module;
  size_t mark = ab_arena_mark(self->exec->book);
  ab_status status = visit_leaves(self, root, fn, ctx);
  ab_arena_release(self->exec->book, mark);
  return status;
}

static ab_status create(struct linen_module **out, struct linen_module *parent, const char *name,
                        const struct ab_config *config, const struct ab_exec *exec) {
  struct to_linen *self;
  AB_TRY(ab_arena_take_zeroed(exec->book, &self, 1, sizeof *self));
  self->config = config;
  self->exec = exec;
  if (parent)
    AB_TRY(linen_module_adopt(&self->base, &to_linen_class, parent, name));
  else
    linen_module_root(&self->base, &to_linen_class);
  *out = &self->base;
  return construct(&self->declared, self);
}

static const struct linen_pipeline_hook nnx_pipeline = {
    .create = create, .call = call, .vjp = vjp, .leaves = leaves};

static ab_status create_model(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec) {
  return linen_create_model_with(out, config, exec, &nnx_pipeline);
}

static ab_status step_model(struct ab_model *model, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  return linen_model_ops.step(model, batch, terms);
}

static ab_status model_leaves(struct ab_model *model, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return linen_model_ops.leaves(model, kind, fn, ctx);
}

const struct ab_model_ops to_linen_model_ops = {.create = create_model, .step = step_model, .leaves = model_leaves};

static ab_status create_alone(struct ab_pipeline **out, const struct ab_config *config, const struct ab_exec *exec) {
  return linen_create_pipeline_with(out, config, exec, &nnx_pipeline);
}

static ab_status forward(struct ab_pipeline *alone, void *outputs, const void *inputs, const int32_t *positions,
                         const int32_t *segment_ids) {
  return linen_pipeline_ops.forward(alone, outputs, inputs, positions, segment_ids);
}

static ab_status backward(struct ab_pipeline *alone, void *d_inputs, const void *d_outputs) {
  return linen_pipeline_ops.backward(alone, d_inputs, d_outputs);
}

static ab_status pipeline_leaves(struct ab_pipeline *alone, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return linen_pipeline_ops.leaves(alone, kind, fn, ctx);
}

const struct ab_pipeline_ops to_linen_pipeline_ops = {
    .create = create_alone, .forward = forward, .backward = backward, .leaves = pipeline_leaves};
