/* Modules: named nodes of a tree, with the life cycle of Flax Linen.
 *
 * A module is built with its attributes and adopted under a name (setup). init walks the tree under a scope whose
 * params are mutable and creates every variable; apply binds the tree to an existing dict, in which nothing may be
 * created. What a module computes is its class's own *_call function, which takes the root scope and finds its own
 * scope by its place in the tree. flax linen/module.py.
 */
#pragma once

#include "scope.h"

struct linen_module;

struct linen_module_ops {
  const char *class_name; /* as in MaxText or Flax: "Pipeline", "RMSNorm" */
  /* Declares the module's own params under its scope. NULL: it has none. */
  ab_status (*params)(struct linen_module *module, const struct linen_scope *scope);
  /* Adds the axes of a lifted module to the scope that its children see. NULL: it lifts nothing. */
  ab_status (*lift)(const struct linen_module *module, struct linen_scope *scope);
};

struct linen_module {
  const struct linen_module_ops *ops;
  const char *name;             /* borrowed; "" for the root */
  struct linen_module *parent;  /* NULL for the root */
  struct linen_module *lifter;  /* a module other than the parent whose lift applies too; NULL: none */
  struct linen_module *child, *sibling;
};

/* A root of its own. */
void linen_module_root(struct linen_module *module, const struct linen_module_ops *ops);
/* Adopts module under parent. AB_EMISMATCH when the parent has a child of that name (flax NameInUseError). */
ab_status linen_module_adopt(struct linen_module *module, const struct linen_module_ops *ops,
                             struct linen_module *parent, const char *name);
/* The scope of a module below the root scope: the pushes and lifts of its ancestors. */
ab_status linen_module_scope(struct linen_scope *out, const struct linen_module *module,
                             const struct linen_scope *root);
/* Declares every param of the tree under the root scope, parents before children, children in order of adoption. */
ab_status linen_module_init(struct linen_module *module, const struct linen_scope *root);

/* {"params": ..., } created by init for a tree, and the cotangents of the same structure. */
struct linen_state {
  struct linen_variables variables, cotangents;
};
ab_status linen_state_init(struct linen_state *state, struct linen_module *root, const struct ab_exec *exec);
/* Root scopes of apply: immutable. */
struct linen_scope linen_state_params(struct linen_state *state);
struct linen_scope linen_state_cotangents(struct linen_state *state);
