/* safetensors files: 8 bytes of header length, a JSON header, little-endian data.
 *
 * Read strictly, before anything of the stated size is allocated: header at most 100 MB, at most 1,000,000 tensors,
 * rank at most 8, names of 1 to 1,024 bytes of printable UTF-8 and none twice, known dtypes, begin <= end <= size of
 * the data, spans without holes or overlaps that reach the end, span = elements x dtype size. AB_EFORMAT names file,
 * tensor, found and expected.
 */
#pragma once

#include "tree.h"

enum { AB_SAFETENSORS_RANK = AB_MAX_RANK, AB_SAFETENSORS_NAME = 1024 };

struct ab_safetensor {
  const char *name; /* borrowed from the file */
  enum ab_dtype dtype;
  struct ab_shape shape;
  size_t count;           /* elements */
  uint64_t offset, bytes; /* in the file */
};

struct ab_safetensors;

/* Reads the header only. */
ab_status ab_safetensors_open(struct ab_safetensors **out, const char *path);
/* Accepts NULL. */
void ab_safetensors_close(struct ab_safetensors *file);
const char *ab_safetensors_path(const struct ab_safetensors *file);

/* In the order of the data. */
size_t ab_safetensors_size(const struct ab_safetensors *file);
const struct ab_safetensor *ab_safetensors_at(const struct ab_safetensors *file, size_t i);
/* Expected constant time; NULL when there is none. */
const struct ab_safetensor *ab_safetensors_find(const struct ab_safetensors *file, const char *name);

/* The tensor's bytes into a buffer of tensor->bytes. */
ab_status ab_safetensors_read(const struct ab_safetensors *file, const struct ab_safetensor *tensor, void *out);
/* `bytes` of them from byte `begin` of the tensor on; may be called by several threads. */
ab_status ab_safetensors_read_part(const struct ab_safetensors *file, const struct ab_safetensor *tensor, void *out,
                                   uint64_t begin, size_t bytes);
/* All tensors of a file, names as paths; *out is the caller's tree. */
ab_status ab_safetensors_load(struct ab_tree **out, const char *path);

/* Writing: what will come is declared first (the header stands before the data), then the values come in that order.
 * Appears under its name when it is complete (file door). M61 has no spelling and is refused. */
struct ab_safetensors_writer;
ab_status ab_safetensors_writer_new(struct ab_safetensors_writer **out, const char *path);
ab_status ab_safetensors_writer_declare(struct ab_safetensors_writer *writer, const char *name, enum ab_dtype dtype,
                                        const struct ab_shape *shape);
/* The values of the next declared tensor, whole, or in pieces of whole bytes. */
ab_status ab_safetensors_writer_put(struct ab_safetensors_writer *writer, const void *values, size_t bytes);
/* AB_EMISMATCH unless everything declared has come. */
ab_status ab_safetensors_writer_commit(struct ab_safetensors_writer *writer);
/* Removes what was not committed. Accepts NULL. */
void ab_safetensors_writer_free(struct ab_safetensors_writer *writer);
/* A whole tree, in its order. */
ab_status ab_safetensors_write(const char *path, const struct ab_tree *tree);
