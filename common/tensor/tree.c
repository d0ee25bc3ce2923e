#include "tree.h"

#include <string.h>

#include "mem.h"
#include "name_index.h"

/* Tensors are blocks of their own, each followed by its path, so that pointers to them outlive growth. */
struct ab_tree {
  struct ab_tensor **tensors;
  size_t size, room;
  struct ab_name_index index;
};

static const char *path_of(const void *owner, size_t i) { return ((const struct ab_tree *)owner)->tensors[i]->name; }

ab_status ab_tree_new(struct ab_tree **out) {
  struct ab_tree *tree;
  AB_TRY(ab_mem_new(&tree, 1, sizeof *tree));
  tree->index.name = path_of;
  *out = tree;
  return AB_OK;
}

void ab_tree_free(struct ab_tree *tree) {
  if (!tree) return;
  for (size_t i = 0; i < tree->size; i++) {
    ab_mem_free(tree->tensors[i]->data);
    ab_mem_free(tree->tensors[i]);
  }
  ab_mem_free(tree->tensors);
  ab_name_index_free(&tree->index);
  ab_mem_free(tree);
}

static ab_status grow(struct ab_tree *tree) {
  AB_TRY(ab_name_index_reserve(&tree->index, tree));
  if (tree->size < tree->room) return AB_OK;
  size_t room = tree->room ? 2 * tree->room : 16;
  AB_TRY(ab_mem_resize(&tree->tensors, room, sizeof *tree->tensors));
  tree->room = room;
  return AB_OK;
}

static ab_status new_tensor(struct ab_tensor **out, const char *path, enum ab_dtype dtype,
                            const struct ab_shape *shape) {
  size_t count, length = strlen(path) + 1;
  AB_TRY(ab_shape_count(&count, shape));
  struct ab_tensor *tensor;
  AB_TRY(ab_mem_new(&tensor, sizeof *tensor + length, 1));
  void *data;
  ab_status status = ab_mem_new(&data, count, ab_dtype_size(dtype));
  if (status != AB_OK) {
    ab_mem_free(tensor);
    AB_TRY(status);
  }
  char *name = (char *)(tensor + 1);
  memcpy(name, path, length);
  *tensor = (struct ab_tensor){.name = name, .dtype = dtype, .shape = *shape, .count = count, .data = data};
  *out = tensor;
  return AB_OK;
}

ab_status ab_tree_add(struct ab_tree *tree, const char *path, enum ab_dtype dtype, const struct ab_shape *shape,
                      struct ab_tensor **out) {
  if (ab_tree_find(tree, path)) return AB_FAIL(AB_EMISMATCH, "the tensor '%s' is declared twice", path);
  AB_TRY(grow(tree));
  struct ab_tensor *tensor = NULL;
  AB_TRY(new_tensor(&tensor, path, dtype, shape));
  tree->tensors[tree->size++] = tensor;
  ab_name_index_put(&tree->index, tree);
  if (out) *out = tensor;
  return AB_OK;
}

size_t ab_tree_size(const struct ab_tree *tree) { return tree->size; }
struct ab_tensor *ab_tree_at(const struct ab_tree *tree, size_t i) {
  return tree->tensors[i];
}

struct ab_tensor *ab_tree_find(const struct ab_tree *tree, const char *path) {
  size_t i = ab_name_index_find(&tree->index, tree, path);
  return i == AB_NO_NAME ? NULL : tree->tensors[i];
}

ab_status ab_tree_get(struct ab_tensor **out, const struct ab_tree *tree, const char *path, const char *what) {
  struct ab_tensor *tensor = ab_tree_find(tree, path);
  if (!tensor) return AB_FAIL(AB_ENOTFOUND, "%s holds no tensor '%s'", what, path);
  *out = tensor;
  return AB_OK;
}
