/* The JSON door: RFC 8259 and nothing else.
 *
 * Read strictly: valid UTF-8, no byte order mark, no trailing text, no equal keys in one object, no NUL in a key, no
 * number that overflows a double. Every rejection is AB_EFORMAT with "what:line:column: ...". Integers stay text until
 * they are asked for, so that all 64 bits survive (which is why the tree is ours: cJSON keeps doubles only; tests
 * compare the two).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

struct ab_json_limits {
  size_t bytes;  /* of text; at most 4 GiB */
  size_t values; /* of all values in it; at most 2^31 */
  int depth;     /* of nesting; at most 512 */
};
/* 64 MiB, 8 million values, depth 32. */
extern const struct ab_json_limits ab_json_default_limits;

enum ab_json_type { AB_JSON_NULL, AB_JSON_BOOL, AB_JSON_NUMBER, AB_JSON_STRING, AB_JSON_ARRAY, AB_JSON_OBJECT };

/* A value; it lives as long as the root it belongs to. */
struct ab_json;

/* *out is the root (ab_json_free). `what` names the text in every sentence and is copied; NULL limits are the default.
 */
ab_status ab_json_parse(struct ab_json **out, const char *text, size_t size, const char *what,
                        const struct ab_json_limits *limits);
/* Reads a file through the file door, and parses it. */
ab_status ab_json_read(struct ab_json **out, const char *path, const struct ab_json_limits *limits);
/* Frees everything; `root` is what parse gave. Accepts NULL. */
void ab_json_free(struct ab_json *root);

enum ab_json_type ab_json_type(const struct ab_json *value);
/* The line of the text on which it begins, from 1. */
size_t ab_json_line(const struct ab_json *value);
/* "golden.json: 'steps[3].loss'" for a sentence about it; cut to size. */
void ab_json_where(char *text, size_t size, const struct ab_json *value);
/* Fails with AB_EFORMAT: "<where> <reason>". */
ab_status ab_json_fail(const struct ab_json *value, const char *reason);

/* Members of an object, elements of an array: how many, and in order. NULL at the end. */
size_t ab_json_size(const struct ab_json *value);
const struct ab_json *ab_json_first(const struct ab_json *value);
const struct ab_json *ab_json_next(const struct ab_json *value);
/* The key of a member, "" for anything else. */
const char *ab_json_key(const struct ab_json *member);
/* Element i of an array, NULL outside; constant time if all elements are scalars, else i steps (iterate instead). */
const struct ab_json *ab_json_at(const struct ab_json *array, size_t i);
/* Exact case, expected constant time; NULL when it is missing or value is not an object. */
const struct ab_json *ab_json_find(const struct ab_json *object, const char *key);

/* AB_EFORMAT unless the object has exactly these members: `keys` ends with NULL, a name that begins with '?' may be
 * missing. of: what it is, for the sentence: "abpipe-golden/2", "a calibration". */
ab_status ab_json_only_keys(const struct ab_json *object, const char *const *keys, const char *of);

/* A member that must be there, of any type: AB_EFORMAT naming text and key otherwise. */
ab_status ab_json_get(const struct ab_json **out, const struct ab_json *object, const char *key);
/* And of a type. */
ab_status ab_json_get_object(const struct ab_json **out, const struct ab_json *object, const char *key);
ab_status ab_json_get_array(const struct ab_json **out, const struct ab_json *object, const char *key);
ab_status ab_json_get_string(const char **out, const struct ab_json *object, const char *key);
ab_status ab_json_get_int64(int64_t *out, const struct ab_json *object, const char *key);
ab_status ab_json_get_double(double *out, const struct ab_json *object, const char *key);
ab_status ab_json_get_bool(bool *out, const struct ab_json *object, const char *key);
/* A string member, copied: the caller's. */
ab_status ab_json_get_copy(char **out, const struct ab_json *object, const char *key);

/* The value itself as a type, or AB_EFORMAT naming where it stands. string: borrowed, without NUL inside. int64:
 * written as an integer and in range. double: finite. */
ab_status ab_json_string(const char **out, const struct ab_json *value);
ab_status ab_json_int64(int64_t *out, const struct ab_json *value);
ab_status ab_json_double(double *out, const struct ab_json *value);
ab_status ab_json_bool(bool *out, const struct ab_json *value);
/* Like double, and also reads {"nonfinite": "nan" | "inf" | "-inf"}. */
ab_status ab_json_double_or_nonfinite(double *out, const struct ab_json *value);

/* Writing, into a growing buffer. Keys appear in the order in which they are put (the canonical order is the caller's);
 * key is NULL inside arrays and at the top. A failure is remembered and returned by finish. */
struct ab_json_writer;
ab_status ab_json_writer_new(struct ab_json_writer **out);
void ab_json_writer_free(struct ab_json_writer *writer);
/* Containers; what stands in a `flat` one is written on one line, in others each member has its own. */
void ab_json_put_object(struct ab_json_writer *writer, const char *key, bool flat);
void ab_json_put_array(struct ab_json_writer *writer, const char *key, bool flat);
void ab_json_put_end(struct ab_json_writer *writer);
/* Invalid UTF-8 becomes U+FFFD. */
void ab_json_put_string(struct ab_json_writer *writer, const char *key, const char *text);
void ab_json_put_int64(struct ab_json_writer *writer, const char *key, int64_t value);
/* Shortest round trip; non-finite as {"nonfinite": "nan"}. */
void ab_json_put_double(struct ab_json_writer *writer, const char *key, double value);
void ab_json_put_float(struct ab_json_writer *writer, const char *key, float value);
void ab_json_put_bool(struct ab_json_writer *writer, const char *key, bool value);
void ab_json_put_null(struct ab_json_writer *writer, const char *key);
/* The whole text, ended by a newline: borrowed, valid until the writer is freed. */
ab_status ab_json_writer_finish(const char **text, size_t *size, struct ab_json_writer *writer);
/* Finish, hand over and free the writer, whatever happens: the text is the caller's, or goes to a file by ab_file_write
 * or ab_file_replace. */
ab_status ab_json_writer_text(char **out, struct ab_json_writer *writer);
ab_status ab_json_writer_file(struct ab_json_writer *writer, const char *path,
                              ab_status (*write)(const char *path, const void *bytes, size_t size));
