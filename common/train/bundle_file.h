/* Private to the bundle door: reading a safetensors file of which the names, dtypes and shapes are known beforehand. */
#pragma once

#include "layout.h"

enum { AB_FOLDER_MAX = 4096 };

struct ab_wanted {
  const char *name;
  enum ab_dtype dtype;
  struct ab_shape shape;
};

/* "folder/name" into text [AB_FOLDER_MAX]; AB_EIO when it does not fit. */
ab_status ab_bundle_path(char *text, const char *folder, const char *name);

/* All wanted tensors of a file, checked by its header before anything is allocated. Others are counted in *ignored, or,
 * if that is NULL, an error. AB_EMISMATCH for an unknown or missing tensor or a dtype, AB_ESHAPE for a shape. */
ab_status ab_wanted_read(struct ab_tree **out, size_t *ignored, const char *path, const struct ab_wanted *wanted,
                         size_t count);
/* Exactly the leaves of a layout, F32. */
ab_status ab_wanted_read_layout(struct ab_tree **out, const char *path, const struct ab_layout *layout);

/* AB_EFORMAT naming tensor and index of the first value that is not finite (F32), or outside [least, most] (I32). */
ab_status ab_check_finite(const struct ab_tensor *tensor, const char *path);
ab_status ab_check_range(const struct ab_tensor *tensor, int64_t least, int64_t most, const char *path);
