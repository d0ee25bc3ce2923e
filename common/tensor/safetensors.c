#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "name_index.h"
#include "safetensors_internal.h"
#include "text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the files are little-endian, and so is what they are read into");

enum { MOST_TENSORS = 1000000, TENSOR_KEYS = 3 };

static const struct ab_json_limits header_limits = {.bytes = SAFETENSORS_HEADER_MAX, .values = 16000000, .depth = 3};

struct ab_safetensors {
  struct ab_file file;
  struct ab_json *header; /* holds the names */
  uint64_t data, data_size;
  struct ab_safetensor *tensors; /* in the order of the data */
  size_t count;
  struct ab_name_index index;
};

static const char *name_of(const void *owner, size_t i) {
  return ((const struct ab_safetensors *)owner)->tensors[i].name;
}

const char *ab_safetensors_path(const struct ab_safetensors *file) { return file->file.path; }
size_t ab_safetensors_size(const struct ab_safetensors *file) { return file->count; }
const struct ab_safetensor *ab_safetensors_at(const struct ab_safetensors *file, size_t i) { return &file->tensors[i]; }

const struct ab_safetensor *ab_safetensors_find(const struct ab_safetensors *file, const char *name) {
  size_t i = ab_name_index_find(&file->index, file, name);
  return i == AB_NO_NAME ? NULL : &file->tensors[i];
}

ab_status safetensors_check_name(const char *name, const char *path) {
  size_t length = strlen(name);
  if (length >= 1 && length <= AB_SAFETENSORS_NAME && ab_text_is_printable(name)) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "%s: the tensor name '%.128s' of %zu bytes is not 1 to %d bytes of printable UTF-8", path,
                 name, length, AB_SAFETENSORS_NAME);
}

static ab_status read_dtype(struct ab_safetensor *tensor, const struct ab_json *member) {
  const char *name = NULL;
  const struct ab_json *value = NULL;
  char reason[128];
  AB_TRY(ab_json_get(&value, member, "dtype"));
  AB_TRY(ab_json_string(&name, value));
  for (int dtype = AB_F32; dtype < AB_M61; dtype++) {
    tensor->dtype = (enum ab_dtype)dtype;
    if (!strcmp(name, ab_dtype_name(tensor->dtype))) return AB_OK;
  }
  snprintf(reason, sizeof reason, "is '%.64s', expected F32, F64, I32, I64 or U8", name);
  return ab_json_fail(value, reason);
}

static ab_status read_natural(uint64_t *out, const struct ab_json *value) {
  int64_t number = 0;
  AB_TRY(ab_json_int64(&number, value));
  if (number < 0) return ab_json_fail(value, "is negative");
  *out = (uint64_t)number;
  return AB_OK;
}

static ab_status read_shape(struct ab_safetensor *tensor, const struct ab_json *member) {
  const struct ab_json *array = NULL;
  char reason[96];
  AB_TRY(ab_json_get_array(&array, member, "shape"));
  if (ab_json_size(array) > AB_SAFETENSORS_RANK) {
    snprintf(reason, sizeof reason, "has rank %zu, at most %d", ab_json_size(array), AB_SAFETENSORS_RANK);
    return ab_json_fail(array, reason);
  }
  for (const struct ab_json *extent = ab_json_first(array); extent; extent = ab_json_next(extent)) {
    uint64_t dim = 0;
    AB_TRY(read_natural(&dim, extent));
    tensor->shape.dim[tensor->shape.rank++] = (int64_t)dim;
  }
  if (ab_shape_count(&tensor->count, &tensor->shape) != AB_OK) return ab_json_fail(array, "does not fit into memory");
  return AB_OK;
}

static ab_status read_span(struct ab_safetensor *tensor, const struct ab_json *member, uint64_t data_size) {
  const struct ab_json *array = NULL;
  char reason[160];
  size_t bytes;
  uint64_t begin = 0, end = 0;
  AB_TRY(ab_json_get_array(&array, member, "data_offsets"));
  if (ab_json_size(array) != 2) return ab_json_fail(array, "is not a pair of begin and end");
  AB_TRY(read_natural(&begin, ab_json_at(array, 0)));
  AB_TRY(read_natural(&end, ab_json_at(array, 1)));
  if (begin > end || end > data_size) {
    snprintf(reason, sizeof reason, "is [%" PRIu64 ", %" PRIu64 "], expected begin <= end <= %" PRIu64, begin, end,
             data_size);
    return ab_json_fail(array, reason);
  }
  if (__builtin_mul_overflow(tensor->count, ab_dtype_size(tensor->dtype), &bytes) || bytes != end - begin) {
    snprintf(reason, sizeof reason, "spans %" PRIu64 " bytes, its shape and dtype need %zu x %zu", end - begin,
             tensor->count, ab_dtype_size(tensor->dtype));
    return ab_json_fail(array, reason);
  }
  tensor->offset = begin; /* in the data, until all are known to fit */
  tensor->bytes = bytes;
  return AB_OK;
}

static ab_status read_tensor(struct ab_safetensors *file, const struct ab_json *member) {
  struct ab_safetensor *tensor = &file->tensors[file->count];
  *tensor = (struct ab_safetensor){.name = ab_json_key(member)};
  AB_TRY(safetensors_check_name(tensor->name, file->file.path));
  if (ab_json_type(member) != AB_JSON_OBJECT || ab_json_size(member) != TENSOR_KEYS)
    return ab_json_fail(member, "is not an object of dtype, shape and data_offsets");
  AB_TRY(read_dtype(tensor, member));
  AB_TRY(read_shape(tensor, member));
  AB_TRY(read_span(tensor, member, file->data_size));
  file->count++;
  return AB_OK;
}

static ab_status check_metadata(const struct ab_json *map) {
  if (ab_json_type(map) != AB_JSON_OBJECT) return ab_json_fail(map, "is not a map of strings");
  for (const struct ab_json *value = ab_json_first(map); value; value = ab_json_next(value))
    if (ab_json_type(value) != AB_JSON_STRING) return ab_json_fail(value, "is not a string");
  return AB_OK;
}

static int by_offset(const void *left, const void *right) {
  const struct ab_safetensor *a = left, *b = right;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* One after the other, without holes or overlaps, to the end. */
static ab_status check_cover(struct ab_safetensors *file) {
  if (file->count) qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
  uint64_t at = 0;
  for (size_t i = 0; i < file->count; i++) {
    struct ab_safetensor *tensor = &file->tensors[i];
    if (tensor->offset != at)
      return AB_FAIL(AB_EFORMAT, "%s: the tensor '%s' begins at %" PRIu64 ", expected %" PRIu64 " (%s)",
                     file->file.path, tensor->name, tensor->offset, at, tensor->offset > at ? "a hole" : "an overlap");
    at += tensor->bytes;
    tensor->offset += file->data;
  }
  if (at != file->data_size)
    return AB_FAIL(AB_EFORMAT, "%s: the tensors cover %" PRIu64 " bytes of data, the file has %" PRIu64,
                   file->file.path, at, file->data_size);
  return AB_OK;
}

static ab_status enter_names(struct ab_safetensors *file) {
  file->index.name = name_of;
  for (size_t i = 0; i < file->count; i++) {
    AB_TRY(ab_name_index_reserve(&file->index, file));
    ab_name_index_put(&file->index, file);
  }
  return AB_OK;
}

static ab_status read_tensors(struct ab_safetensors *file) {
  size_t members = ab_json_size(file->header);
  bool metadata = ab_json_find(file->header, SAFETENSORS_METADATA) != NULL;
  if (members - metadata > MOST_TENSORS)
    return AB_FAIL(AB_EFORMAT, "%s holds %zu tensors, at most %d", file->file.path, members - metadata, MOST_TENSORS);
  AB_TRY(ab_mem_new(&file->tensors, members, sizeof *file->tensors));
  for (const struct ab_json *member = ab_json_first(file->header); member; member = ab_json_next(member)) {
    if (!strcmp(ab_json_key(member), SAFETENSORS_METADATA))
      AB_TRY(check_metadata(member));
    else
      AB_TRY(read_tensor(file, member));
  }
  AB_TRY(check_cover(file));
  return enter_names(file);
}

/* The length is compared with the file before a byte of it is allocated. */
static ab_status header_length(uint64_t *out, const struct ab_file *file) {
  unsigned char bytes[8];
  uint64_t length = 0;
  if (file->size < sizeof bytes)
    return AB_FAIL(AB_EFORMAT, "%s has %" PRIu64 " bytes, too few for a safetensors file", file->path, file->size);
  AB_TRY(ab_file_read_at(file, bytes, sizeof bytes, 0));
  for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
  if (length > SAFETENSORS_HEADER_MAX)
    return AB_FAIL(AB_EFORMAT, "%s states a header of %" PRIu64 " bytes, at most %d", file->path, length,
                   SAFETENSORS_HEADER_MAX);
  if (length > file->size - sizeof bytes)
    return AB_FAIL(AB_EFORMAT, "%s states a header of %" PRIu64 " bytes, the file has %" PRIu64, file->path, length,
                   file->size);
  *out = length;
  return AB_OK;
}

static ab_status parse_header(struct ab_safetensors *file, char *text, size_t length) {
  AB_TRY(ab_file_read_at(&file->file, text, length, 8));
  if (length == 0 || text[0] != '{')
    return AB_FAIL(AB_EFORMAT, "%s: the header of %zu bytes does not begin with '{'", file->file.path, length);
  AB_TRY(ab_json_parse(&file->header, text, length, file->file.path, &header_limits));
  return AB_OK;
}

static ab_status read_header(struct ab_safetensors *file) {
  uint64_t length;
  char *text;
  AB_TRY(header_length(&length, &file->file));
  file->data = 8 + length;
  file->data_size = file->file.size - file->data;
  AB_TRY(ab_mem_new(&text, (size_t)length, 1));
  ab_status status = parse_header(file, text, (size_t)length);
  ab_mem_free(text);
  AB_TRY(status);
  return read_tensors(file);
}

ab_status ab_safetensors_open(struct ab_safetensors **out, const char *path) {
  struct ab_safetensors *file;
  AB_TRY(ab_mem_new(&file, 1, sizeof *file));
  ab_status status = ab_file_open(&file->file, path);
  if (status == AB_OK) status = read_header(file);
  if (status != AB_OK) ab_safetensors_close(file);
  AB_TRY(status);
  *out = file;
  return AB_OK;
}

void ab_safetensors_close(struct ab_safetensors *file) {
  if (!file) return;
  ab_file_close(&file->file);
  ab_json_free(file->header);
  ab_mem_free(file->tensors);
  ab_name_index_free(&file->index);
  ab_mem_free(file);
}

ab_status ab_safetensors_read(const struct ab_safetensors *file, const struct ab_safetensor *tensor, void *out) {
  AB_TRY(ab_file_read_at(&file->file, out, tensor->bytes, tensor->offset));
  return AB_OK;
}

ab_status ab_safetensors_read_part(const struct ab_safetensors *file, const struct ab_safetensor *tensor, void *out,
                                   uint64_t begin, size_t bytes) {
  if (begin > tensor->bytes || bytes > tensor->bytes - begin)
    return AB_FAIL(AB_EFORMAT, "%s: the tensor '%s' has %" PRIu64 " bytes; expected %zu from %" PRIu64 " on",
                   file->file.path, tensor->name, tensor->bytes, bytes, begin);
  AB_TRY(ab_file_read_at(&file->file, out, bytes, tensor->offset + begin));
  return AB_OK;
}
