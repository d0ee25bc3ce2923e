#include "bundle_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "safetensors.h"

ab_status ab_bundle_path(char *text, const char *folder, const char *name) {
  int length = snprintf(text, AB_FOLDER_MAX, "%s/%s", folder, name);
  if (length < 0 || length >= AB_FOLDER_MAX)
    return AB_FAIL(AB_EIO, "the path '%.60s.../%s' has %d bytes, expected less than %d", folder, name, length,
                   AB_FOLDER_MAX);
  return AB_OK;
}

static ab_status check_one(const struct ab_safetensors *file, const struct ab_wanted *w) {
  const struct ab_safetensor *found = ab_safetensors_find(file, w->name);
  const char *path = ab_safetensors_path(file);
  char got[96], expected[96];
  if (!found) return AB_FAIL(AB_EMISMATCH, "%s: tensor '%s' is missing, but the config has it", path, w->name);
  if (found->dtype != w->dtype)
    return AB_FAIL(AB_EMISMATCH, "%s: tensor '%s' is %s, expected %s", path, w->name, ab_dtype_name(found->dtype),
                   ab_dtype_name(w->dtype));
  if (ab_shape_equal(&found->shape, &w->shape)) return AB_OK;
  ab_shape_print(got, sizeof got, &found->shape);
  ab_shape_print(expected, sizeof expected, &w->shape);
  return AB_FAIL(AB_ESHAPE, "%s: tensor '%s' has shape %s, but the config makes it %s", path, w->name, got, expected);
}

static bool is_wanted(const char *name, const struct ab_wanted *wanted, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(wanted[i].name, name) == 0) return true;
  return false;
}

static ab_status check_header(size_t *ignored, const struct ab_safetensors *file, const struct ab_wanted *wanted,
                              size_t count) {
  for (size_t i = 0; i < count; i++) AB_TRY(check_one(file, &wanted[i]));
  size_t more = ab_safetensors_size(file) - count;
  if (ignored) *ignored += more;
  if (ignored || more == 0) return AB_OK;
  for (size_t i = 0; i < ab_safetensors_size(file); i++) {
    const char *name = ab_safetensors_at(file, i)->name;
    if (!is_wanted(name, wanted, count))
      return AB_FAIL(AB_EMISMATCH, "%s: tensor '%s' is unknown, the config has no such parameter",
                     ab_safetensors_path(file), name);
  }
  return AB_OK;
}

static ab_status read_values(struct ab_tree *tree, const struct ab_safetensors *file, const struct ab_wanted *wanted,
                             size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct ab_tensor *tensor;
    AB_TRY(ab_tree_add(tree, wanted[i].name, wanted[i].dtype, &wanted[i].shape, &tensor));
    AB_TRY(ab_safetensors_read(file, ab_safetensors_find(file, wanted[i].name), tensor->data));
  }
  return AB_OK;
}

ab_status ab_wanted_read(struct ab_tree **out, size_t *ignored, const char *path, const struct ab_wanted *wanted,
                         size_t count) {
  struct ab_safetensors *file;
  struct ab_tree *tree = NULL;
  AB_TRY(ab_safetensors_open(&file, path));
  ab_status status = check_header(ignored, file, wanted, count);
  if (status == AB_OK) status = ab_tree_new(&tree);
  if (status == AB_OK) status = read_values(tree, file, wanted, count);
  ab_safetensors_close(file);
  if (status != AB_OK) ab_tree_free(tree);
  AB_TRY(status);
  *out = tree;
  return AB_OK;
}

ab_status ab_wanted_read_layout(struct ab_tree **out, const char *path, const struct ab_layout *layout) {
  struct ab_wanted *wanted;
  AB_TRY(ab_mem_new(&wanted, layout->leaves, sizeof *wanted));
  for (size_t i = 0; i < layout->leaves; i++)
    wanted[i] = (struct ab_wanted){layout->leaf[i].path, AB_F32, layout->leaf[i].shape};
  ab_status status = ab_wanted_read(out, NULL, path, wanted, layout->leaves);
  ab_mem_free(wanted);
  AB_TRY(status);
  return AB_OK;
}

/* "[1, 0, 5]" of a flat index. */
static void print_index(char *text, size_t size, const struct ab_shape *shape, size_t flat) {
  struct ab_shape index = {.rank = shape->rank};
  for (int i = shape->rank; i-- > 0; flat /= (size_t)shape->dim[i])
    index.dim[i] = (int64_t)(flat % (size_t)shape->dim[i]);
  ab_shape_print(text, size, &index);
}

ab_status ab_check_finite(const struct ab_tensor *tensor, const char *path) {
  const float *values = tensor->data;
  char index[96];
  for (size_t i = 0; i < tensor->count; i++) {
    if (isfinite(values[i])) continue;
    print_index(index, sizeof index, &tensor->shape, i);
    return AB_FAIL(AB_EFORMAT, "%s: tensor '%s' is %g at %s, expected a finite number", path, tensor->name,
                   (double)values[i], index);
  }
  return AB_OK;
}

ab_status ab_check_range(const struct ab_tensor *tensor, int64_t least, int64_t most, const char *path) {
  const int32_t *values = tensor->data;
  char index[96];
  for (size_t i = 0; i < tensor->count; i++) {
    if (values[i] >= least && values[i] <= most) continue;
    print_index(index, sizeof index, &tensor->shape, i);
    return AB_FAIL(AB_EFORMAT, "%s: tensor '%s' is %d at %s, expected %lld to %lld", path, tensor->name, (int)values[i],
                   index, (long long)least, (long long)most);
  }
  return AB_OK;
}
