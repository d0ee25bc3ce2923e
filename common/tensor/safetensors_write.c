#include <inttypes.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "name_index.h"
#include "safetensors_internal.h"

/* One declared tensor. */
struct entry {
  char *name;
  enum ab_dtype dtype;
  struct ab_shape shape;
  uint64_t bytes;
};

struct ab_safetensors_writer {
  struct ab_writer *file;
  char *path;
  struct entry *tensors;
  size_t count, room;
  struct ab_name_index names;
  uint64_t declared, written; /* bytes of data */
  bool started;               /* the header is out */
};

static const char *name_of(const void *owner, size_t i) {
  return ((const struct ab_safetensors_writer *)owner)->tensors[i].name;
}

static ab_status make_room(struct ab_safetensors_writer *writer) {
  if (writer->count < writer->room) return AB_OK;
  size_t room = writer->room ? 2 * writer->room : 16;
  AB_TRY(ab_mem_resize(&writer->tensors, room, sizeof *writer->tensors));
  writer->room = room;
  return AB_OK;
}

ab_status ab_safetensors_writer_new(struct ab_safetensors_writer **out, const char *path) {
  struct ab_safetensors_writer *writer;
  AB_TRY(ab_mem_new(&writer, 1, sizeof *writer));
  writer->names.name = name_of;
  ab_status status = ab_mem_string(&writer->path, path);
  if (status == AB_OK) status = ab_writer_new(&writer->file, path);
  if (status != AB_OK) ab_safetensors_writer_free(writer);
  AB_TRY(status);
  *out = writer;
  return AB_OK;
}

void ab_safetensors_writer_free(struct ab_safetensors_writer *writer) {
  if (!writer) return;
  ab_writer_free(writer->file);
  for (size_t i = 0; i < writer->count; i++) ab_mem_free(writer->tensors[i].name);
  ab_mem_free(writer->tensors);
  ab_name_index_free(&writer->names);
  ab_mem_free(writer->path);
  ab_mem_free(writer);
}

static ab_status check_declared(const struct ab_safetensors_writer *writer, const char *name, enum ab_dtype dtype) {
  if (writer->started) return AB_FAIL(AB_EMISMATCH, "%s: '%s' is declared after the first values", writer->path, name);
  AB_TRY(safetensors_check_name(name, writer->path));
  if (dtype == AB_M61) return AB_FAIL(AB_EFORMAT, "%s: the dtype M61 of '%s' cannot be written", writer->path, name);
  if (!strcmp(name, SAFETENSORS_METADATA) || ab_name_index_find(&writer->names, writer, name) != AB_NO_NAME)
    return AB_FAIL(AB_EMISMATCH, "%s: the tensor name '%s' is taken", writer->path, name);
  return AB_OK;
}

ab_status ab_safetensors_writer_declare(struct ab_safetensors_writer *writer, const char *name, enum ab_dtype dtype,
                                        const struct ab_shape *shape) {
  size_t count, bytes, declared;
  char *copy;
  AB_TRY(check_declared(writer, name, dtype));
  AB_TRY(ab_shape_count(&count, shape));
  AB_TRY(ab_size_mul(&bytes, count, ab_dtype_size(dtype)));
  AB_TRY(ab_size_add(&declared, writer->declared, bytes));
  AB_TRY(ab_name_index_reserve(&writer->names, writer));
  AB_TRY(make_room(writer));
  AB_TRY(ab_mem_string(&copy, name));
  writer->tensors[writer->count++] = (struct entry){.name = copy, .dtype = dtype, .shape = *shape, .bytes = bytes};
  ab_name_index_put(&writer->names, writer);
  writer->declared = declared;
  return AB_OK;
}

static void put_tensor(struct ab_json_writer *json, const struct entry *entry, uint64_t begin) {
  ab_json_put_object(json, entry->name, true);
  ab_json_put_string(json, "dtype", ab_dtype_name(entry->dtype));
  ab_json_put_array(json, "shape", true);
  for (int i = 0; i < entry->shape.rank; i++) ab_json_put_int64(json, NULL, entry->shape.dim[i]);
  ab_json_put_end(json);
  ab_json_put_array(json, "data_offsets", true);
  ab_json_put_int64(json, NULL, (int64_t)begin);
  ab_json_put_int64(json, NULL, (int64_t)(begin + entry->bytes));
  ab_json_put_end(json);
  ab_json_put_end(json);
}

static void put_header(struct ab_json_writer *json, const struct ab_safetensors_writer *writer) {
  uint64_t begin = 0;
  ab_json_put_object(json, NULL, true);
  for (size_t i = 0; i < writer->count; i++) {
    put_tensor(json, &writer->tensors[i], begin);
    begin += writer->tensors[i].bytes;
  }
  ab_json_put_end(json);
}

/* Padded with blanks, so that the data is aligned to 8 bytes. */
static ab_status write_header(struct ab_safetensors_writer *writer, struct ab_json_writer *json) {
  static const char blanks[] = "        ";
  unsigned char length_bytes[8];
  const char *text;
  size_t size;
  put_header(json, writer);
  AB_TRY(ab_json_writer_finish(&text, &size, json));
  size--; /* the newline */
  size_t padding = (8 - size % 8) % 8, length = size + padding;
  if (length > SAFETENSORS_HEADER_MAX)
    return AB_FAIL(AB_EFORMAT, "%s needs a header of %zu bytes, at most %d", writer->path, length,
                   SAFETENSORS_HEADER_MAX);
  for (int i = 0; i < 8; i++) length_bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
  AB_TRY(ab_writer_put(writer->file, length_bytes, sizeof length_bytes));
  AB_TRY(ab_writer_put(writer->file, text, size));
  AB_TRY(ab_writer_put(writer->file, blanks, padding));
  return AB_OK;
}

static ab_status start(struct ab_safetensors_writer *writer) {
  struct ab_json_writer *json;
  if (writer->started) return AB_OK;
  AB_TRY(ab_json_writer_new(&json));
  ab_status status = write_header(writer, json);
  ab_json_writer_free(json);
  AB_TRY(status);
  writer->started = true;
  return AB_OK;
}

ab_status ab_safetensors_writer_put(struct ab_safetensors_writer *writer, const void *values, size_t bytes) {
  AB_TRY(start(writer));
  if (bytes > writer->declared - writer->written)
    return AB_FAIL(AB_EMISMATCH, "%s: %zu bytes of values more than the %" PRIu64 " declared", writer->path,
                   bytes - (size_t)(writer->declared - writer->written), writer->declared);
  AB_TRY(ab_writer_put(writer->file, values, bytes));
  writer->written += bytes;
  return AB_OK;
}

ab_status ab_safetensors_writer_commit(struct ab_safetensors_writer *writer) {
  AB_TRY(start(writer));
  if (writer->written != writer->declared)
    return AB_FAIL(AB_EMISMATCH, "%s: %" PRIu64 " bytes of values came, %" PRIu64 " were declared", writer->path,
                   writer->written, writer->declared);
  AB_TRY(ab_writer_commit(writer->file));
  return AB_OK;
}
