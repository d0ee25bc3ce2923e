#include "linen_intermediates.h"

static const char collection[] = "intermediates";

/* self.sow of one layer, with the axes of the scope as they are; k is the layer, or LINEN_WHOLE for all of a scan. */
static ab_status variable(struct linen_partitioned *out, const struct linen_intermediates *self, int k,
                          int64_t scanned, enum ab_sown which) {
  struct linen_declaration declared = {.name = ab_sown_names[which]};
  struct linen_scope scope;
  AB_TRY(linen_stack_layer_scope(&scope, self->stack, &self->scope, k, scanned));
  return linen_scope_variable(out, &scope, collection, &declared);
}

static ab_status declare(struct linen_intermediates *self) {
  struct linen_partitioned box;
  int trees = self->stack->kind == LINEN_SEQUENTIAL ? self->stack->count : 1;
  for (int i = 0; i < trees * AB_SOWN; i++)
    AB_TRY(variable(&box, self, i / AB_SOWN, LINEN_WHOLE, (enum ab_sown)(i % AB_SOWN)));
  return AB_OK;
}

ab_status linen_intermediates_begin(struct linen_intermediates *self, const struct linen_stack *stack,
                                    const char *path, const struct linen_axis *lifts, int count, int workers) {
  const struct ab_exec *exec = stack->exec;
  size_t scalars = (size_t)(workers * stack->count * AB_SOWN);
  *self = (struct linen_intermediates){.apply = *exec, .stack = stack};
  self->apply.slab = exec->arena;
  linen_variables_init(&self->variables, &self->apply);
  struct linen_scope root = linen_scope_root(&self->variables, collection);
  AB_TRY(linen_scope_push(&self->scope, &root, path));
  for (int i = 0; i < count; i++) AB_TRY(linen_scope_lift(&self->scope, &lifts[i]));
  AB_TRY(ab_arena_take(exec->arena, &self->sown, scalars, exec->kernels->element));
  AB_TRY(ab_arena_take(exec->arena, &self->reported, 1, exec->kernels->element));
  return declare(self);
}

static void *scalar(const struct linen_intermediates *self, int worker, int i) {
  size_t at = (size_t)(worker * self->stack->count * AB_SOWN + i);
  return (unsigned char *)self->sown + at * self->apply.kernels->element;
}

void *linen_intermediates_of_worker(const struct linen_intermediates *self, int worker) {
  return scalar(self, worker, 0);
}

/* Without `at` the axes stay whole. */
static void select_slice(struct linen_intermediates *self, const int64_t *at) {
  for (int i = 0; i < self->scope.axes; i++) self->scope.axis[i].index = at ? at[i] : LINEN_WHOLE;
}

static ab_status slice(struct linen_partitioned *out, struct linen_intermediates *self, int k, enum ab_sown which,
                       const int64_t *at) {
  select_slice(self, at);
  return variable(out, self, k, k, which);
}

ab_status linen_intermediates_place(struct linen_intermediates *self, int worker, const int64_t *at) {
  struct linen_partitioned box;
  for (int i = 0; i < self->stack->count * AB_SOWN; i++) {
    AB_TRY(slice(&box, self, i / AB_SOWN, (enum ab_sown)(i % AB_SOWN), at));
    linen_lift_place(self->apply.kernels, &box.value, scalar(self, worker, i));
  }
  return AB_OK;
}

ab_status linen_intermediates_read(void **out, struct linen_intermediates *self, int k, enum ab_sown which,
                                   const int64_t *at) {
  struct linen_partitioned box;
  AB_TRY(slice(&box, self, k, which, at));
  *out = box.value.data;
  return AB_OK;
}

ab_status linen_intermediates_read_flat(void **out, struct linen_intermediates *self, int k, enum ab_sown which,
                                        int64_t element) {
  struct linen_partitioned box;
  select_slice(self, NULL);
  AB_TRY(variable(&box, self, k, LINEN_WHOLE, which));
  *out = (unsigned char *)box.value.data + (size_t)element * self->apply.kernels->element;
  return AB_OK;
}
