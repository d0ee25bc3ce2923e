/* How modules are laid out; for graph.c and split.c only. */
#pragma once

#include "graph.h"

/* Exactly one of module, variable, fixed is set. */
struct nnx_attribute {
  const char *name;
  struct nnx_node *module;
  struct nnx_variable *variable;
  const void *fixed;
  struct nnx_attribute *next;
};

struct nnx_node {
  const char *type;
  struct nnx_attribute *first, *last;
};

ab_status nnx_text_copy(const char **out, struct ab_arena *book, const char *text, size_t length);
struct nnx_attribute *nnx_attribute_find(const struct nnx_node *module, const char *name, size_t length);
ab_status nnx_attribute_add(struct nnx_attribute **out, struct ab_arena *book, struct nnx_node *module,
                            const char *name, size_t length);
