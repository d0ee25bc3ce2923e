#include "transforms.h"

#include <string.h>

static int position(const struct nnx_variable *variable, const struct nnx_axis *axis, int rank) {
  if (variable->type != NNX_PARAM) return 0;
  return axis->axis < rank ? axis->axis : rank;
}

static ab_status insert_axis(struct nnx_variable *variable, const struct nnx_axis *axis) {
  struct ab_shape *shape = &variable->value.shape;
  int at = position(variable, axis, shape->rank);
  if (shape->rank == AB_MAX_RANK)
    return AB_FAIL(AB_ESHAPE, "axis '%s' would be number %d, at most %d are possible", axis->name, AB_MAX_RANK + 1,
                   AB_MAX_RANK);
  for (int i = shape->rank++; i > at; i--) {
    shape->dim[i] = shape->dim[i - 1];
    variable->sharding[i] = variable->sharding[i - 1];
  }
  shape->dim[at] = axis->size;
  variable->sharding[at] = axis->name;
  ab_view_contiguous(&variable->value);
  return AB_OK;
}

ab_status nnx_add_axis(struct nnx_node *module, struct ab_arena *book, const struct nnx_axis *axis) {
  static const nnx_filter every[] = {NNX_EVERY};
  struct nnx_graphdef *graphdef;
  struct nnx_state state;
  AB_TRY(nnx_split(&graphdef, &state, every, 1, book, module));
  for (size_t i = 0; i < state.count; i++) AB_TRY(insert_axis(&state.leaf[i].variable, axis));
  return nnx_update(module, &state);
}

static ab_status remove_axis(struct nnx_leaf *leaf, const struct nnx_axis *axis, int64_t index) {
  struct nnx_variable *variable = &leaf->variable;
  int rank = variable->value.shape.rank;
  int at = position(variable, axis, rank - 1);
  const char *name = rank ? variable->sharding[at] : NULL;
  if (!name || strcmp(name, axis->name) != 0)
    return AB_FAIL(AB_EMISMATCH, "axis %d of variable '%s' is named '%s', expected '%s'", at, leaf->path,
                   name ? name : "none", axis->name);
  variable->value = ab_view_index(&variable->value, at, index);
  for (int i = at; i + 1 < rank; i++) variable->sharding[i] = variable->sharding[i + 1];
  variable->sharding[rank - 1] = NULL;
  return AB_OK;
}

ab_status nnx_index_axis(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state,
                         const struct nnx_axis *axis, int64_t index) {
  AB_TRY(nnx_state_copy(out, book, state));
  for (size_t i = 0; i < out->count; i++) AB_TRY(remove_axis(&out->leaf[i], axis, index));
  return AB_OK;
}

ab_status nnx_materialize(struct nnx_state *state, struct ab_arena *arena) {
  for (size_t i = 0; i < state->count; i++) {
    struct ab_view *value = &state->leaf[i].variable.value;
    if (!value->data) AB_TRY(ab_arena_take(arena, &value->data, ab_view_count(value), ab_dtype_size(value->dtype)));
  }
  return AB_OK;
}

ab_status nnx_abstract_like(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state) {
  AB_TRY(nnx_state_copy(out, book, state));
  for (size_t i = 0; i < out->count; i++) out->leaf[i].variable.value.data = NULL;
  return AB_OK;
}

void nnx_zero(const struct nnx_state *state, const struct ab_kernels *kernels) {
  for (size_t i = 0; i < state->count; i++) {
    const struct ab_view *value = &state->leaf[i].variable.value;
    kernels->zero(value->data, ab_view_count(value));
  }
}

bool nnx_contiguous(const struct ab_view *view) {
  int64_t stride = 1;
  for (int i = view->shape.rank - 1; i >= 0; i--) {
    if (view->shape.dim[i] != 1 && view->stride[i] != stride) return false;
    stride *= view->shape.dim[i];
  }
  return true;
}

void nnx_vmap_stages(int begin, int end, bool serial, void (*body)(void *ctx, int stage), void *ctx) {
#pragma omp parallel for schedule(static, 1) if (!serial)
  for (int stage = begin; stage < end; stage++) body(ctx, stage);
  (void)serial; /* unused without OpenMP */
}

static ab_status iterate(ab_status (*half)(void *ctx, int i), void *ctx, int i, struct ab_arena *book) {
  size_t mark = ab_arena_mark(book);
  ab_status status = half(ctx, i);
  ab_arena_release(book, mark);
  return status;
}

ab_status nnx_scan(const struct nnx_scan_body *body, void *ctx, int length, struct ab_arena *book) {
  for (int i = 0; i < length; i++) AB_TRY(iterate(body->forward, ctx, i, book));
  return AB_OK;
}

ab_status nnx_scan_pullback(const struct nnx_scan_body *body, void *ctx, int length, struct ab_arena *book) {
  for (int i = length - 1; i >= 0; i--) AB_TRY(iterate(body->pullback, ctx, i, book));
  return AB_OK;
}
