#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "npz_internal.h"

/* The text behind `'key':`, or NULL. NumPy writes the keys in this form, and no value contains one. */
static const char *value_of(const char *text, const char *key) {
  const char *at = strstr(text, key);
  if (!at) return NULL;
  at += strlen(key);
  return at + strspn(at, " ");
}

static const struct {
  const char *descr;
  enum ab_dtype dtype;
} dtypes[] = {{"'<f4'", AB_F32}, {"'<f8'", AB_F64}, {"'<i4'", AB_I32}, {"'<i8'", AB_I64}, {"'|u1'", AB_U8}};

static const char *read_dtype(struct ab_safetensor *out, const char *value) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strncmp(value, dtypes[i].descr, strlen(dtypes[i].descr)) != 0) continue;
    out->dtype = dtypes[i].dtype;
    return NULL;
  }
  if (strncmp(value, "'|O'", 4) == 0) return "is an object array, a pickle, which is never read";
  return "has another dtype than float32, float64, int32, int64 (little endian) or uint8";
}

/* "(2, 3)", "(4,)", "()". */
static const char *read_shape(struct ab_safetensor *out, const char *at) {
  static const char wrong[] = "has a shape that cannot be read, or of more than 8 axes";
  out->shape = (struct ab_shape){0};
  if (*at++ != '(') return wrong;
  for (at += strspn(at, " "); *at != ')'; at += strspn(at, " ")) {
    char *rest;
    if (*at < '0' || *at > '9' || out->shape.rank == AB_MAX_RANK) return wrong;
    errno = 0;
    out->shape.dim[out->shape.rank++] = strtoll(at, &rest, 10);
    at = rest + strspn(rest, " ");
    if (errno || (*at != ',' && *at != ')')) return wrong;
    if (*at == ',') at++;
  }
  if (ab_shape_count(&out->count, &out->shape) == AB_OK) return NULL;
  ab_status_clear();
  return wrong;
}

const char *npy_header(struct ab_safetensor *out, bool *fortran, const char *text) {
  const char *descr = value_of(text, "'descr':"), *order = value_of(text, "'fortran_order':"),
             *shape = value_of(text, "'shape':");
  if (!descr || !order || !shape) return "has a .npy header without descr, fortran_order or shape";
  *fortran = strncmp(order, "True", 4) == 0;
  if (!*fortran && strncmp(order, "False", 5) != 0) return "has a fortran_order that is neither True nor False";
  const char *why = read_dtype(out, descr);
  return why ? why : read_shape(out, shape);
}
