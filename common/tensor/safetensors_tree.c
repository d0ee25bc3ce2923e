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
