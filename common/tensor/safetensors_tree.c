#include "safetensors.h"

static ab_status add_all(struct ab_tree *tree, const struct ab_safetensors *file) {
  for (size_t i = 0; i < ab_safetensors_size(file); i++) {
    const struct ab_safetensor *from = ab_safetensors_at(file, i);
    struct ab_tensor *to;
    AB_TRY(ab_tree_add(tree, from->name, from->dtype, &from->shape, &to));
    AB_TRY(ab_safetensors_read(file, from, to->data));
  }
  return AB_OK;
}

ab_status ab_safetensors_load(struct ab_tree **out, const char *path) {
  struct ab_safetensors *file;
  struct ab_tree *tree = NULL;
  AB_TRY(ab_safetensors_open(&file, path));
  ab_status status = ab_tree_new(&tree);
  if (status == AB_OK) status = add_all(tree, file);
  ab_safetensors_close(file);
  if (status != AB_OK) ab_tree_free(tree);
  AB_TRY(status);
  *out = tree;
  return AB_OK;
}

static ab_status check_same(const struct ab_tensor *to, const struct ab_safetensor *from, const char *path) {
  char found[256], expected[256];
  if (!from) return AB_FAIL(AB_EMISMATCH, "%s lacks the tensor '%s'", path, to->name);
  if (from->dtype == to->dtype && ab_shape_equal(&from->shape, &to->shape)) return AB_OK;
  ab_shape_print(found, sizeof found, &from->shape);
  ab_shape_print(expected, sizeof expected, &to->shape);
  return AB_FAIL(AB_EMISMATCH, "%s: the tensor '%s' is %s %s, expected %s %s", path, to->name,
                 ab_dtype_name(from->dtype), found, ab_dtype_name(to->dtype), expected);
}

/* Structure first: nothing is read before every tensor is known to correspond. */
static ab_status check_structure(const struct ab_tree *tree, const struct ab_safetensors *file) {
  const char *path = ab_safetensors_path(file);
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    const struct ab_tensor *to = ab_tree_at(tree, i);
    AB_TRY(check_same(to, ab_safetensors_find(file, to->name), path));
  }
  for (size_t i = 0; i < ab_safetensors_size(file); i++) {
    const char *name = ab_safetensors_at(file, i)->name;
    if (!ab_tree_find(tree, name)) return AB_FAIL(AB_EMISMATCH, "%s holds an unknown tensor '%s'", path, name);
  }
  return AB_OK;
}

static ab_status read_into(struct ab_tree *tree, const struct ab_safetensors *file) {
  AB_TRY(check_structure(tree, file));
  for (size_t i = 0; i < ab_safetensors_size(file); i++) {
    const struct ab_safetensor *from = ab_safetensors_at(file, i);
    AB_TRY(ab_safetensors_read(file, from, ab_tree_find(tree, from->name)->data));
  }
  return AB_OK;
}

ab_status ab_safetensors_load_into(struct ab_tree *tree, const char *path) {
  struct ab_safetensors *file;
  AB_TRY(ab_safetensors_open(&file, path));
  ab_status status = read_into(tree, file);
  ab_safetensors_close(file);
  AB_TRY(status);
  return AB_OK;
}

static ab_status write_all(struct ab_safetensors_writer *writer, const struct ab_tree *tree) {
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    const struct ab_tensor *tensor = ab_tree_at(tree, i);
    AB_TRY(ab_safetensors_writer_declare(writer, tensor->name, tensor->dtype, &tensor->shape));
  }
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    const struct ab_tensor *tensor = ab_tree_at(tree, i);
    AB_TRY(ab_safetensors_writer_put(writer, tensor->data, tensor->count * ab_dtype_size(tensor->dtype)));
  }
  return ab_safetensors_writer_commit(writer);
}

ab_status ab_safetensors_write(const char *path, const struct ab_tree *tree) {
  struct ab_safetensors_writer *writer;
  AB_TRY(ab_safetensors_writer_new(&writer, path));
  ab_status status = write_all(writer, tree);
  ab_safetensors_writer_free(writer);
  AB_TRY(status);
  return AB_OK;
}
