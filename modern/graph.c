#include "graph_node.h"

#include <string.h>

static const char *const type_names[] = {"Param", "RngKey", "RngCount", "Intermediate"};

const char *nnx_type_name(nnx_filter type) {
  for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
    if (type == (nnx_filter)1 << i) return type_names[i];
  return "Variable";
}

ab_status nnx_text_copy(const char **out, struct ab_arena *book, const char *text, size_t length) {
  char *copy;
  AB_TRY(ab_arena_take(book, &copy, length + 1, 1));
  memcpy(copy, text, length);
  copy[length] = '\0';
  *out = copy;
  return AB_OK;
}

ab_status nnx_module_new(struct nnx_node **out, struct ab_arena *book, const char *type) {
  struct nnx_node *module;
  AB_TRY(ab_arena_take_zeroed(book, &module, 1, sizeof *module));
  module->type = type;
  *out = module;
  return AB_OK;
}

const char *nnx_module_type(const struct nnx_node *module) { return module->type; }

struct nnx_attribute *nnx_attribute_find(const struct nnx_node *module, const char *name, size_t length) {
  for (struct nnx_attribute *a = module->first; a; a = a->next)
    if (strncmp(a->name, name, length) == 0 && a->name[length] == '\0') return a;
  return NULL;
}

ab_status nnx_attribute_add(struct nnx_attribute **out, struct ab_arena *book, struct nnx_node *module,
                            const char *name, size_t length) {
  struct nnx_attribute *attribute;
  if (nnx_attribute_find(module, name, length))
    return AB_FAIL(AB_EMISMATCH, "module %s has an attribute '%.*s' already", module->type, (int)length, name);
  AB_TRY(ab_arena_take_zeroed(book, &attribute, 1, sizeof *attribute));
  AB_TRY(nnx_text_copy(&attribute->name, book, name, length));
  if (module->last) module->last->next = attribute;
  else module->first = attribute;
  module->last = attribute;
  *out = attribute;
  return AB_OK;
}

ab_status nnx_set_module(struct ab_arena *book, struct nnx_node *module, const char *name, struct nnx_node *child) {
  struct nnx_attribute *attribute;
  AB_TRY(nnx_attribute_add(&attribute, book, module, name, strlen(name)));
  attribute->module = child;
  return AB_OK;
}

ab_status nnx_set_static(struct ab_arena *book, struct nnx_node *module, const char *name, const void *data) {
  struct nnx_attribute *attribute;
  AB_TRY(nnx_attribute_add(&attribute, book, module, name, strlen(name)));
  attribute->fixed = data;
  return AB_OK;
}

static ab_status open_module(struct nnx_node **out, struct ab_arena *book, struct nnx_node *module, const char *name,
                             size_t length) {
  struct nnx_attribute *attribute = nnx_attribute_find(module, name, length);
  if (!attribute) {
    AB_TRY(nnx_attribute_add(&attribute, book, module, name, length));
    AB_TRY(nnx_module_new(&attribute->module, book, "Module"));
  }
  if (!attribute->module)
    return AB_FAIL(AB_EMISMATCH, "attribute '%s' of module %s is no module", attribute->name, module->type);
  *out = attribute->module;
  return AB_OK;
}

ab_status nnx_set_variable(struct ab_arena *book, struct nnx_node *module, const char *path,
                           const struct nnx_variable *variable) {
  for (const char *slash; (slash = strchr(path, '/')); path = slash + 1)
    AB_TRY(open_module(&module, book, module, path, (size_t)(slash - path)));
  struct nnx_attribute *attribute;
  AB_TRY(nnx_attribute_add(&attribute, book, module, path, strlen(path)));
  AB_TRY(ab_arena_take(book, &attribute->variable, 1, sizeof *variable));
  *attribute->variable = *variable;
  return AB_OK;
}

/* The attribute at a path, NULL if any step of it is missing. */
static struct nnx_attribute *walk(const struct nnx_node *module, const char *path) {
  for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
    struct nnx_attribute *step = nnx_attribute_find(module, path, (size_t)(slash - path));
    if (!step || !step->module) return NULL;
    module = step->module;
  }
  return nnx_attribute_find(module, path, strlen(path));
}

ab_status nnx_get_module(struct nnx_node **out, const struct nnx_node *module, const char *path) {
  struct nnx_attribute *attribute = walk(module, path);
  if (!attribute || !attribute->module)
    return AB_FAIL(AB_ENOTFOUND, "module %s has no submodule '%s'", module->type, path);
  *out = attribute->module;
  return AB_OK;
}

ab_status nnx_get_variable(struct nnx_variable **out, const struct nnx_node *module, const char *path) {
  struct nnx_attribute *attribute = walk(module, path);
  if (!attribute || !attribute->variable)
    return AB_FAIL(AB_ENOTFOUND, "module %s has no variable '%s'", module->type, path);
  *out = attribute->variable;
  return AB_OK;
}

ab_status nnx_get_static(const void **out, const struct nnx_node *module, const char *name) {
  struct nnx_attribute *attribute = walk(module, name);
  if (!attribute || !attribute->fixed)
    return AB_FAIL(AB_ENOTFOUND, "module %s has no static attribute '%s'", module->type, name);
  *out = attribute->fixed;
  return AB_OK;
}
