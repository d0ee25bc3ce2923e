#include "tensor.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "walk.h"

static const struct {
  const char *name;
  size_t size;
} dtypes[] = {
    [AB_F32] = {"F32", 4}, [AB_F64] = {"F64", 8}, [AB_I32] = {"I32", 4},
    [AB_I64] = {"I64", 8}, [AB_U8] = {"U8", 1},   [AB_M61] = {"M61", 8},
};

size_t ab_dtype_size(enum ab_dtype dtype) { return dtypes[dtype].size; }
const char *ab_dtype_name(enum ab_dtype dtype) { return dtypes[dtype].name; }

bool ab_shape_equal(const struct ab_shape *a, const struct ab_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

/* Zero extents make the product zero whatever the others are, but every extent is looked at. */
ab_status ab_shape_count(size_t *out, const struct ab_shape *shape) {
  char text[256];
  ab_shape_print(text, sizeof text, shape);
  if (shape->rank < 0 || shape->rank > AB_MAX_RANK)
    return AB_FAIL(AB_ESHAPE, "a tensor has rank %d, expected 0 to %d", shape->rank, AB_MAX_RANK);
  size_t count = 1;
  bool empty = false, overflow = false;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] < 0) return AB_FAIL(AB_ESHAPE, "a shape %s has a negative extent", text);
    if (shape->dim[i] == 0)
      empty = true;
    else
      overflow |= __builtin_mul_overflow(count, (size_t)shape->dim[i], &count);
  }
  if (overflow && !empty) return AB_FAIL(AB_ENOMEM, "a tensor of shape %s does not fit into memory", text);
  *out = empty ? 0 : count;
  return AB_OK;
}

void ab_shape_print(char *text, size_t size, const struct ab_shape *shape) {
  size_t used = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < shape->rank && i < AB_MAX_RANK && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
  if (used < size) snprintf(text + used, size - used, "]");
}

void ab_view_contiguous(struct ab_view *view) {
  int64_t stride = 1;
  for (int i = view->shape.rank - 1; i >= 0; i--) {
    view->stride[i] = stride;
    stride *= view->shape.dim[i];
  }
}

struct ab_view ab_view_of(const struct ab_tensor *tensor) {
  struct ab_view view = {.dtype = tensor->dtype, .shape = tensor->shape, .data = tensor->data};
  ab_view_contiguous(&view);
  return view;
}

/* Addresses are computed as integers: in a dry run they are made up. */
static void *offset(void *data, int64_t elements, size_t size) {
  return (void *)((uintptr_t)data + (uintptr_t)(elements * (int64_t)size));
}

struct ab_view ab_view_index(const struct ab_view *view, int axis, int64_t index) {
  struct ab_view out = *view;
  out.data = offset(view->data, index * view->stride[axis], ab_dtype_size(view->dtype));
  out.shape.rank--;
  for (int i = axis; i < out.shape.rank; i++) {
    out.shape.dim[i] = view->shape.dim[i + 1];
    out.stride[i] = view->stride[i + 1];
  }
  return out;
}

size_t ab_view_count(const struct ab_view *view) {
  size_t count = 1;
  for (int i = 0; i < view->shape.rank; i++) count *= (size_t)view->shape.dim[i];
  return count;
}

/* Drops extents of one and merges an outer dimension into the inner one it continues. */
static int merge_dims(int64_t *dim, int64_t *stride, const struct ab_view *view) {
  int rank = 0;
  for (int i = 0; i < view->shape.rank; i++) {
    int64_t extent = view->shape.dim[i], step = view->stride[i];
    if (extent == 1) continue;
    if (rank && stride[rank - 1] == step * extent) {
      dim[rank - 1] *= extent;
      stride[rank - 1] = step;
      continue;
    }
    dim[rank] = extent;
    stride[rank++] = step;
  }
  return rank;
}

void ab_walk_start(struct ab_walk *walk, const struct ab_view *view) {
  *walk = (struct ab_walk){.element = ab_dtype_size(view->dtype), .run = 1, .run_stride = 1, .at = view->data};
  int rank = merge_dims(walk->dim, walk->stride, view);
  if (rank) {
    walk->run = (size_t)walk->dim[rank - 1];
    walk->run_stride = walk->stride[rank - 1];
    walk->rank = rank - 1;
  }
  size_t count = ab_view_count(view);
  walk->runs_left = count ? count / walk->run : 0;
}

unsigned char *ab_walk_next(struct ab_walk *walk) {
  if (walk->runs_left == 0) return NULL;
  unsigned char *here = walk->at;
  if (--walk->runs_left == 0) return here;
  int64_t move = 0;
  for (int i = walk->rank - 1; i >= 0; i--) {
    move += walk->stride[i];
    if (++walk->index[i] < walk->dim[i]) break;
    move -= walk->stride[i] * walk->dim[i];
    walk->index[i] = 0;
  }
  walk->at = offset(here, move, walk->element);
  return here;
}

static void copy_strided(unsigned char *dst, int64_t dst_stride, const unsigned char *src, int64_t src_stride,
                         size_t count, size_t element) {
  if (dst_stride == 1 && src_stride == 1) {
    memcpy(dst, src, count * element);
    return;
  }
  int64_t dst_step = dst_stride * (int64_t)element, src_step = src_stride * (int64_t)element;
  for (int64_t i = 0; i < (int64_t)count; i++) memcpy(dst + i * dst_step, src + i * src_step, element);
}

void ab_view_pack(void *out, const struct ab_view *view) {
  struct ab_walk walk;
  unsigned char *dst = out;
  ab_walk_start(&walk, view);
  for (const unsigned char *src; (src = ab_walk_next(&walk)); dst += walk.run * walk.element)
    copy_strided(dst, 1, src, walk.run_stride, walk.run, walk.element);
}

void ab_view_unpack(const struct ab_view *view, const void *packed) {
  struct ab_walk walk;
  const unsigned char *src = packed;
  ab_walk_start(&walk, view);
  for (unsigned char *dst; (dst = ab_walk_next(&walk)); src += walk.run * walk.element)
    copy_strided(dst, walk.run_stride, src, 1, walk.run, walk.element);
}
