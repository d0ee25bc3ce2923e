#include "module.h"

#include <string.h>

void linen_module_root(struct linen_module *module, const struct linen_module_ops *ops) {
  *module = (struct linen_module){.ops = ops, .name = ""};
}

ab_status linen_module_adopt(struct linen_module *module, const struct linen_module_ops *ops,
                             struct linen_module *parent, const char *name) {
  struct linen_module **end = &parent->child;
  for (; *end; end = &(*end)->sibling)
    if (!strcmp((*end)->name, name))
      return AB_FAIL(AB_EMISMATCH, "%s '%s' has a submodule named '%s' already", parent->ops->class_name, parent->name,
                     name);
  *module = (struct linen_module){.ops = ops, .name = name, .parent = parent};
  *end = module;
  return AB_OK;
}

static ab_status lift_by(const struct linen_module *module, struct linen_scope *scope) {
  return module && module->ops->lift ? module->ops->lift(module, scope) : AB_OK;
}

ab_status linen_module_scope(struct linen_scope *out, const struct linen_module *module,
                             const struct linen_scope *root) {
  struct linen_scope scope = *root;
  if (module->parent) {
    AB_TRY(linen_module_scope(&scope, module->parent, root));
    AB_TRY(lift_by(module->parent, &scope));
    AB_TRY(lift_by(module->lifter, &scope));
  }
  return linen_scope_push(out, &scope, module->name);
}

ab_status linen_module_init(struct linen_module *module, const struct linen_scope *root) {
  struct linen_scope scope;
  AB_TRY(linen_module_scope(&scope, module, root));
  if (module->ops->params) AB_TRY(module->ops->params(module, &scope));
  linen_scope_pop(&scope);
  for (struct linen_module *child = module->child; child; child = child->sibling)
    AB_TRY(linen_module_init(child, root));
  return AB_OK;
}

static ab_status init_variables(struct linen_variables *variables, struct linen_module *root,
                                const struct ab_exec *exec) {
  linen_variables_init(variables, exec);
  struct linen_scope scope = linen_scope_root(variables, LINEN_PARAMS);
  return linen_module_init(root, &scope);
}

ab_status linen_state_init(struct linen_state *state, struct linen_module *root, const struct ab_exec *exec) {
  AB_TRY(init_variables(&state->variables, root, exec));
  return init_variables(&state->cotangents, root, exec);
}

struct linen_scope linen_state_params(struct linen_state *state) { return linen_scope_root(&state->variables, ""); }

struct linen_scope linen_state_cotangents(struct linen_state *state) {
  return linen_scope_root(&state->cotangents, "");
}
