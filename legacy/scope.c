#include "scope.h"

#include <stdio.h>
#include <string.h>

void linen_variables_init(struct linen_variables *variables, const struct ab_exec *exec) {
  *variables = (struct linen_variables){.exec = exec};
}

/* FNV-1a: a look-up compares strings only where the numbers agree. */
static uint64_t hash_path(const char *path) {
  uint64_t hash = 14695981039346656037u;
  for (; *path; path++) hash = (hash ^ (unsigned char)*path) * 1099511628211u;
  return hash;
}

struct linen_variable *linen_variables_find(const struct linen_variables *variables, const char *collection,
                                            const char *path) {
  uint64_t hash = hash_path(path);
  struct linen_variable *v = variables->first;
  while (v && !(v->hash == hash && !strcmp(v->path, path) && !strcmp(v->collection, collection))) v = v->next;
  return v;
}

ab_status linen_variables_delete(struct linen_variables *variables, const char *collection, const char *path) {
  struct linen_variable *gone = linen_variables_find(variables, collection, path);
  if (!gone) return AB_FAIL(AB_ENOTFOUND, "there is no variable '%s' in collection '%s'", path, collection);
  struct linen_variable *before = NULL;
  for (struct linen_variable *v = variables->first; v != gone; v = v->next) before = v;
  if (before) before->next = gone->next;
  if (!before) variables->first = gone->next;
  if (variables->last == gone) variables->last = before;
  variables->count--;
  return AB_OK;
}

struct linen_scope linen_scope_root(struct linen_variables *variables, const char *mutable_filter) {
  return (struct linen_scope){.variables = variables, .mutable_filter = mutable_filter};
}

static ab_status join_path(char *out, const char *path, const char *name) {
  const char *slash = *path && *name ? "/" : "";
  int n = snprintf(out, LINEN_PATH_MAX, "%s%s%s", path, slash, name);
  if (n < LINEN_PATH_MAX) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "the path '%s/%s' has %d bytes, at most %d are possible", path, name, n,
                 LINEN_PATH_MAX - 1);
}

ab_status linen_scope_push(struct linen_scope *child, const struct linen_scope *parent, const char *name) {
  struct linen_scope pushed = *parent;
  AB_TRY(join_path(pushed.path, parent->path, name));
  *child = pushed;
  return AB_OK;
}

void linen_scope_pop(struct linen_scope *scope) { scope->variables = NULL; }

ab_status linen_scope_lift(struct linen_scope *scope, const struct linen_axis *axis) {
  if (scope->axes == LINEN_MAX_AXES)
    return AB_FAIL(AB_EMISMATCH, "scope '%s' is under %d transforms, '%s' would be one too many", scope->path,
                   scope->axes, axis->name);
  scope->axis[scope->axes++] = *axis;
  return AB_OK;
}

bool linen_scope_is_mutable(const struct linen_scope *scope, const char *collection) {
  return !strcmp(scope->mutable_filter, "*") || !strcmp(scope->mutable_filter, collection);
}

/* flax spmd.py: LogicallyPartitioned.add_axis. */
static void add_axis(struct linen_partitioned *box, const struct linen_axis *axis) {
  int rank = box->value.shape.rank++;
  int at = axis->axis < rank ? axis->axis : rank;
  for (int i = rank; i > at; i--) {
    box->value.shape.dim[i] = box->value.shape.dim[i - 1];
    box->names[i] = box->names[i - 1];
  }
  box->value.shape.dim[at] = axis->length;
  box->names[at] = axis->name;
}

/* flax spmd.py: LogicallyPartitioned.remove_axis, together with taking the slice. */
static ab_status remove_axis(struct linen_partitioned *box, const struct linen_axis *axis, const char *path) {
  int rank = box->value.shape.rank - 1;
  int at = axis->axis < rank ? axis->axis : rank;
  const char *name = box->names[at];
  if (!name || strcmp(name, axis->name))
    return AB_FAIL(AB_EMISMATCH, "axis %d of '%s' is named '%s', the transform would remove '%s'", at, path,
                   name ? name : "", axis->name);
  box->value = ab_view_index(&box->value, at, axis->index);
  for (int i = at; i < rank; i++) box->names[i] = box->names[i + 1];
  return AB_OK;
}

/* The box as the dict holds it: the innermost transform has stacked first. */
static ab_status stacked_box(struct linen_partitioned *out, const struct linen_scope *scope,
                             const struct linen_declaration *declared, const char *path) {
  if (declared->shape.rank + scope->axes > AB_MAX_RANK)
    return AB_FAIL(AB_ESHAPE, "'%s' has rank %d under %d transforms, at most %d is possible", path,
                   declared->shape.rank, scope->axes, AB_MAX_RANK);
  *out = (struct linen_partitioned){.value = {.dtype = scope->variables->exec->kernels->dtype,
                                              .shape = declared->shape}};
  for (int i = 0; i < declared->shape.rank; i++) out->names[i] = declared->names[i];
  for (int i = scope->axes - 1; i >= 0; i--) add_axis(out, &scope->axis[i]);
  ab_view_contiguous(&out->value);
  return AB_OK;
}

static ab_status create_variable(struct linen_variables *variables, const char *collection, const char *path,
                                 const struct linen_partitioned *box) {
  const struct ab_exec *exec = variables->exec;
  struct linen_variable *created;
  void *data;
  size_t count = ab_view_count(&box->value);
  AB_TRY(ab_arena_take(exec->slab, &data, count, exec->kernels->element));
  AB_TRY(ab_arena_take(exec->book, &created, 1, sizeof *created));
  *created = (struct linen_variable){.collection = collection, .hash = hash_path(path), .box = *box};
  memcpy(created->path, path, strlen(path) + 1);
  created->box.value.data = data;
  exec->kernels->zero(data, count);
  if (variables->last) variables->last->next = created;
  if (!variables->first) variables->first = created;
  variables->last = created;
  variables->count++;
  return AB_OK;
}

static ab_status check_stacked(const struct linen_partitioned *found, const struct linen_partitioned *wanted,
                               const char *path) {
  char have[96], want[96];
  if (ab_shape_equal(&found->value.shape, &wanted->value.shape)) return AB_OK;
  ab_shape_print(have, sizeof have, &found->value.shape);
  ab_shape_print(want, sizeof want, &wanted->value.shape);
  return AB_FAIL(AB_ESHAPE, "variable '%s' has shape %s, the module declares %s", path, have, want);
}

ab_status linen_scope_variable(struct linen_partitioned *out, const struct linen_scope *scope, const char *collection,
                               const struct linen_declaration *declared) {
  if (!scope->variables)
    return AB_FAIL(AB_EMISMATCH, "scope '%s' has been popped and was asked for '%s'", scope->path, declared->name);
  char path[LINEN_PATH_MAX];
  struct linen_partitioned box;
  AB_TRY(join_path(path, scope->path, declared->name));
  AB_TRY(stacked_box(&box, scope, declared, path));
  if (!linen_variables_find(scope->variables, collection, path)) {
    if (!linen_scope_is_mutable(scope, collection))
      return AB_FAIL(AB_ENOTFOUND, "variable '%s' is not in collection '%s', which is not mutable here", path,
                     collection);
    AB_TRY(create_variable(scope->variables, collection, path, &box));
  }
  const struct linen_variable *found = linen_variables_find(scope->variables, collection, path);
  AB_TRY(check_stacked(&found->box, &box, path));
  box = found->box;
  for (int i = 0; i < scope->axes; i++)
    if (scope->axis[i].index != LINEN_WHOLE) AB_TRY(remove_axis(&box, &scope->axis[i], path));
  *out = box;
  return AB_OK;
}

ab_status linen_scope_param(struct linen_partitioned *out, const struct linen_scope *scope,
                            const struct linen_declaration *declared) {
  return linen_scope_variable(out, scope, LINEN_PARAMS, declared);
}
