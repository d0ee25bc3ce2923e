/* Tensors: dtype, shape, contiguous row-major storage, a name; and strided views of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { AB_MAX_RANK = 8 };

/* Element types; AB_M61 holds residues modulo 2^61 - 1 in 8 bytes. */
enum ab_dtype { AB_F32, AB_F64, AB_I32, AB_I64, AB_U8, AB_M61 };

size_t ab_dtype_size(enum ab_dtype dtype);
/* "F32", "F64", "I32", "I64", "U8" as safetensors spells them; "M61". */
const char *ab_dtype_name(enum ab_dtype dtype);

struct ab_shape {
  int rank;
  int64_t dim[AB_MAX_RANK];
};

bool ab_shape_equal(const struct ab_shape *a, const struct ab_shape *b);
/* Number of elements; AB_ESHAPE for a negative extent, AB_ENOMEM when it does not fit. */
ab_status ab_shape_count(size_t *out, const struct ab_shape *shape);
/* "[2, 16, 4]" into text; cut to size. */
void ab_shape_print(char *text, size_t size, const struct ab_shape *shape);

struct ab_tensor {
  const char *name; /* borrowed */
  enum ab_dtype dtype;
  struct ab_shape shape;
  size_t count; /* elements */
  void *data;   /* borrowed: the slab of a tree, or an arena */
};

/* A strided window; stride in elements, outermost first. */
struct ab_view {
  enum ab_dtype dtype;
  struct ab_shape shape;
  int64_t stride[AB_MAX_RANK];
  void *data;
};

struct ab_view ab_view_of(const struct ab_tensor *tensor);
/* Row-major strides of view->shape: makes a contiguous view. */
void ab_view_contiguous(struct ab_view *view);
/* The view with axis removed at position index. */
struct ab_view ab_view_index(const struct ab_view *view, int axis, int64_t index);
size_t ab_view_count(const struct ab_view *view);
/* Copies every element in row-major order of the shape into contiguous memory, and back. */
void ab_view_pack(void *out, const struct ab_view *view);
void ab_view_unpack(const struct ab_view *view, const void *packed);
