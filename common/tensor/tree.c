#define XXH_INLINE_ALL
#include "tree.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "mem.h"

/* Tensors are blocks of their own, so that pointers to them outlive growth. Slots hold index + 1; 0 is empty; at most half
 * of them are used. The tensor is followed by its path.
 */
struct ab_tree {
  struct ab_tensor **tensors;
  size_t size, room;
  uint32_t *slots;
  size_t slot_count; /* a power of two */
};

ab_status ab_tree_new(struct ab_tree **out) {
  struct ab_tree *tree;
  AB_TRY(ab_mem_new(&tree, 1, sizeof *tree));
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
  ab_mem_free(tree->slots);
  ab_mem_free(tree);
}

/* The slot that holds path, or the empty one where it belongs. */
static size_t probe_slot(const struct ab_tree *tree, const char *path) {
  size_t mask = tree->slot_count - 1, slot = XXH3_64bits(path, strlen(path)) & mask;
  while (tree->slots[slot] && strcmp(tree->tensors[tree->slots[slot] - 1]->name, path)) slot = (slot + 1) & mask;
  return slot;
}

static ab_status grow(struct ab_tree *tree) {
  if (tree->size < tree->room) return AB_OK;
  size_t room = tree->room ? 2 * tree->room : 16;
  if (room > UINT32_MAX / 2) return AB_FAIL(AB_ENOMEM, "a tree holds at most %zu tensors", tree->room);
  uint32_t *slots;
  AB_TRY(ab_mem_resize(&tree->tensors, room, sizeof *tree->tensors));
  AB_TRY(ab_mem_new(&slots, 2 * room, sizeof *slots));
  ab_mem_free(tree->slots);
  tree->slots = slots;
  tree->slot_count = 2 * room;
  tree->room = room;
  for (size_t i = 0; i < tree->size; i++) slots[probe_slot(tree, tree->tensors[i]->name)] = (uint32_t)i + 1;
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
  tree->slots[probe_slot(tree, path)] = (uint32_t)tree->size + 1;
  tree->tensors[tree->size++] = tensor;
  if (out) *out = tensor;
  return AB_OK;
}

size_t ab_tree_size(const struct ab_tree *tree) { return tree->size; }
struct ab_tensor *ab_tree_at(const struct ab_tree *tree, size_t i) { return tree->tensors[i]; }

struct ab_tensor *ab_tree_find(const struct ab_tree *tree, const char *path) {
  if (!tree->slot_count) return NULL;
  uint32_t index = tree->slots[probe_slot(tree, path)];
  return index ? tree->tensors[index - 1] : NULL;
}

ab_status ab_tree_get(struct ab_tensor **out, const struct ab_tree *tree, const char *path, const char *what) {
  struct ab_tensor *tensor = ab_tree_find(tree, path);
  if (!tensor) return AB_FAIL(AB_ENOTFOUND, "%s holds no tensor '%s'", what, path);
  *out = tensor;
  return AB_OK;
}
