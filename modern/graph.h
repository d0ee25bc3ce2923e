/* The object graph: modules with named attributes and typed variables, and its functional form - a graphdef (static
 * structure) and a state (path -> variable). flax/nnx/graph.py: split, merge, update, state.
 *
 * Everything lives in a bookkeeping arena; variables are views, so splitting and merging copy no tensor.
 */
#pragma once

#include "arena.h"
#include "tensor.h"

/* Variable types; a filter is a set of them. flax/nnx/variablelib.py, rnglib.py. */
typedef unsigned nnx_filter;
#define NNX_PARAM ((nnx_filter)1)
#define NNX_RNG_KEY ((nnx_filter)2)
#define NNX_RNG_COUNT ((nnx_filter)4)
#define NNX_INTERMEDIATE ((nnx_filter)8)
#define NNX_RNG_STATE (NNX_RNG_KEY | NNX_RNG_COUNT)
#define NNX_EVERY (~(nnx_filter)0)
#define NNX_NOT(filter) (~(filter))
/* "Param", "RngKey", ...: the name of the single type in `type`. */
const char *nnx_type_name(nnx_filter type);

struct nnx_variable {
  nnx_filter type;                   /* one bit */
  struct ab_view value;              /* data is NULL while the variable is abstract */
  const char *sharding[AB_MAX_RANK]; /* out_sharding: logical axis names, one per axis; NULL: unnamed */
};

struct nnx_node;

/* A module of a given class without attributes. */
ab_status nnx_module_new(struct nnx_node **out, struct ab_arena *book, const char *type);
const char *nnx_module_type(const struct nnx_node *module);
/* Attributes. A path "a/b/c" of a variable creates the modules a and a/b where they are missing. Names are copied. */
ab_status nnx_set_module(struct ab_arena *book, struct nnx_node *module, const char *name, struct nnx_node *child);
ab_status nnx_set_variable(struct ab_arena *book, struct nnx_node *module, const char *path,
                           const struct nnx_variable *variable);
/* Static data, part of the graphdef; borrowed. */
ab_status nnx_set_static(struct ab_arena *book, struct nnx_node *module, const char *name, const void *data);

/* AB_ENOTFOUND with the path when there is no such attribute. Borrowed. */
ab_status nnx_get_module(struct nnx_node **out, const struct nnx_node *module, const char *path);
ab_status nnx_get_variable(struct nnx_variable **out, const struct nnx_node *module, const char *path);
ab_status nnx_get_static(const void **out, const struct nnx_node *module, const char *name);

/* A path and its variable. Paths belong to the graphdef. */
struct nnx_leaf {
  const char *path;
  struct nnx_variable variable;
};
struct nnx_state {
  size_t count;
  struct nnx_leaf *leaf; /* in the order of the graphdef */
};
/* NULL when there is no such path. */
struct nnx_leaf *nnx_state_find(const struct nnx_state *state, const char *path);
/* A copy of the leaves (views of the same tensors) that can be changed on its own. */
ab_status nnx_state_copy(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state);

struct nnx_graphdef;

/* Static structure and one state per filter; the first filter that matches a variable takes it. AB_EMISMATCH names a
 * variable that none takes. A node or variable reached twice is one. */
ab_status nnx_split(struct nnx_graphdef **graphdef, struct nnx_state *states, const nnx_filter *filters, int count,
                    struct ab_arena *book, const struct nnx_node *module);
/* The variables of `filter` alone, of a module that has the structure of graphdef. */
ab_status nnx_state_of(struct nnx_state *out, struct ab_arena *book, const struct nnx_graphdef *graphdef,
                       const struct nnx_node *module, nnx_filter filter);
/* A new module. AB_ENOTFOUND names the full path and type of a variable that no state holds. */
ab_status nnx_merge(struct nnx_node **out, struct ab_arena *book, const struct nnx_graphdef *graphdef,
                    const struct nnx_state *const *states, int count);
/* Replaces the module's variables by those of the state. AB_ENOTFOUND names a path that the module lacks. */
ab_status nnx_update(struct nnx_node *module, const struct nnx_state *state);
