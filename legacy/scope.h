/* Scopes: how a Linen module reaches its variables.
 *
 * A scope is a path into a dict of collections. Every variable is boxed: a value and the logical name of each of its
 * axes (flax LogicallyPartitioned). A lifted transform above the module (scan, vmap) adds an axis to everything
 * declared below it; the scope carries these axes, so that a module declares and reads the shape it wrote itself while
 * the dict holds the stacked one. flax core/scope.py, linen/spmd.py.
 */
#pragma once

#include "model.h"

enum { LINEN_PATH_MAX = 160, LINEN_MAX_AXES = 4 };

#define LINEN_PARAMS "params"

/* flax spmd.py: LogicallyPartitioned. names[i] belongs to axis i of value; NULL: unnamed. */
struct linen_partitioned {
  struct ab_view value;
  const char *names[AB_MAX_RANK];
};

struct linen_variable {
  struct linen_variable *next;
  const char *collection; /* borrowed */
  char path[LINEN_PATH_MAX];
  uint64_t hash; /* of the path */
  struct linen_partitioned box;
};

/* The dict that init returns and apply is given, and the cotangent dict of the same structure. Values lie in
 * exec->slab, entries in exec->book. */
struct linen_variables {
  const struct ab_exec *exec; /* borrowed */
  struct linen_variable *first, *last;
  size_t count;
};

/* An axis that a lifted transform stacks variables along: variable_axes={'params': axis} with
 * metadata_params={PARTITION_NAME: name}. index selects a slice when reading; LINEN_WHOLE leaves the axis. */
enum { LINEN_WHOLE = -1 };
struct linen_axis {
  int axis;
  int64_t length, index;
  const char *name;
};

struct linen_scope {
  struct linen_variables *variables; /* NULL once popped */
  const char *mutable_filter;        /* "" nothing, "*" everything, otherwise one collection */
  char path[LINEN_PATH_MAX];
  int axes; /* outermost transform first */
  struct linen_axis axis[LINEN_MAX_AXES];
};

void linen_variables_init(struct linen_variables *variables, const struct ab_exec *exec);
/* NULL when there is none. */
struct linen_variable *linen_variables_find(const struct linen_variables *variables, const char *collection,
                                            const char *path);
/* AB_ENOTFOUND with the path when there is none. */
ab_status linen_variables_delete(struct linen_variables *variables, const char *collection, const char *path);

struct linen_scope linen_scope_root(struct linen_variables *variables, const char *mutable_filter);
/* The child scope `name`; "" gives the parent's own path. AB_EMISMATCH when the path is too long. */
ab_status linen_scope_push(struct linen_scope *child, const struct linen_scope *parent, const char *name);
/* Ends a scope: whatever it is asked for from now on fails. */
void linen_scope_pop(struct linen_scope *scope);
/* Puts everything below this scope under one more transform, inside those that it is under already. */
ab_status linen_scope_lift(struct linen_scope *scope, const struct linen_axis *axis);
bool linen_scope_is_mutable(const struct linen_scope *scope, const char *collection);

/* What a module declares: its own shape and axis names, without the axes of the transforms above it. */
struct linen_declaration {
  const char *name;
  struct ab_shape shape;
  const char *const *names; /* [shape.rank] */
};

/* The module's variable. It is created, zeroed, when it is missing and the collection is mutable; otherwise
 * AB_ENOTFOUND with its full path. AB_ESHAPE when it has another shape, AB_EMISMATCH when an axis has another name
 * than the transform that wants to remove it. */
ab_status linen_scope_variable(struct linen_partitioned *out, const struct linen_scope *scope, const char *collection,
                               const struct linen_declaration *declared);
/* self.param. */
ab_status linen_scope_param(struct linen_partitioned *out, const struct linen_scope *scope,
                            const struct linen_declaration *declared);
