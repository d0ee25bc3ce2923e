#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "number.h"
#include "text.h"

enum { DEEPEST = 64, INDENT = 2 };

struct ab_json_writer {
  char *text;
  size_t size, room;
  ab_status failed; /* the first failure; nothing is written after it */
  int depth;
  struct {
    char close;
    bool flat, filled;
  } open[DEEPEST];
};

ab_status ab_json_writer_new(struct ab_json_writer **out) {
  struct ab_json_writer *writer;
  AB_TRY(ab_mem_new(&writer, 1, sizeof *writer));
  *out = writer;
  return AB_OK;
}

void ab_json_writer_free(struct ab_json_writer *writer) {
  if (!writer) return;
  ab_mem_free(writer->text);
  ab_mem_free(writer);
}

static void put(struct ab_json_writer *writer, const char *bytes, size_t count) {
  if (writer->failed != AB_OK) return;
  if (writer->room - writer->size <= count) {
    size_t room = 2 * writer->room + count + 1024;
    writer->failed = ab_mem_resize(&writer->text, room, 1);
    if (writer->failed != AB_OK) return;
    writer->room = room;
  }
  memcpy(writer->text + writer->size, bytes, count);
  writer->size += count;
}

static void put_text(struct ab_json_writer *writer, const char *text) { put(writer, text, strlen(text)); }

/* One character of a string; its bytes in the source. */
static size_t put_character(struct ab_json_writer *writer, const char *at, size_t left) {
  static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
  unsigned char c = (unsigned char)*at;
  const char *known = strchr(plain, c);
  char text[8];
  if (known) {
    snprintf(text, sizeof text, "\\%c", escaped[known - plain]);
  } else if (c < 0x20 || c == 0x7f) {
    snprintf(text, sizeof text, "\\u%04x", c);
  } else {
    size_t length = ab_utf8_length(at, left);
    put(writer, length ? at : "\xef\xbf\xbd", length ? length : 3);
    return length ? length : 1;
  }
  put_text(writer, text);
  return 1;
}

static void put_quoted(struct ab_json_writer *writer, const char *text) {
  put_text(writer, "\"");
  for (size_t left = strlen(text); left;) {
    size_t taken = put_character(writer, text, left);
    text += taken;
    left -= taken;
  }
  put_text(writer, "\"");
}

static bool is_flat(const struct ab_json_writer *writer) {
  return writer->depth > 0 && writer->open[writer->depth - 1].flat;
}

static void put_line_break(struct ab_json_writer *writer) {
  char blanks[1 + INDENT * DEEPEST];
  size_t count = (size_t)(INDENT * writer->depth);
  memset(blanks, ' ', sizeof blanks);
  blanks[0] = '\n';
  put(writer, blanks, 1 + count);
}

/* What stands before any value: comma, line break, key. */
static void start_value(struct ab_json_writer *writer, const char *key) {
  if (writer->depth > 0) {
    bool filled = writer->open[writer->depth - 1].filled;
    writer->open[writer->depth - 1].filled = true;
    if (is_flat(writer))
      put_text(writer, filled ? ", " : "");
    else
      put_text(writer, filled ? "," : "");
    if (!is_flat(writer)) put_line_break(writer);
  }
  if (!key) return;
  put_quoted(writer, key);
  put_text(writer, ": ");
}

static void open_container(struct ab_json_writer *writer, const char *key, bool flat, const char *opening, char close) {
  if (writer->failed == AB_OK && writer->depth == DEEPEST)
    writer->failed = AB_FAIL(AB_EFORMAT, "JSON to be written is nested deeper than %d", DEEPEST);
  if (writer->failed != AB_OK) return;
  flat |= is_flat(writer);
  start_value(writer, key);
  put_text(writer, opening);
  writer->open[writer->depth].close = close;
  writer->open[writer->depth].flat = flat;
  writer->open[writer->depth++].filled = false;
}

void ab_json_put_object(struct ab_json_writer *writer, const char *key, bool flat) {
  open_container(writer, key, flat, "{", '}');
}

void ab_json_put_array(struct ab_json_writer *writer, const char *key, bool flat) {
  open_container(writer, key, flat, "[", ']');
}

void ab_json_put_end(struct ab_json_writer *writer) {
  if (writer->failed != AB_OK || writer->depth == 0) return;
  writer->depth--;
  if (writer->open[writer->depth].filled && !writer->open[writer->depth].flat) put_line_break(writer);
  put(writer, &writer->open[writer->depth].close, 1);
}

void ab_json_put_string(struct ab_json_writer *writer, const char *key, const char *text) {
  start_value(writer, key);
  put_quoted(writer, text);
}

static void put_raw(struct ab_json_writer *writer, const char *key, const char *text) {
  start_value(writer, key);
  put_text(writer, text);
}

void ab_json_put_int64(struct ab_json_writer *writer, const char *key, int64_t value) {
  char text[AB_NUMBER_MAX];
  snprintf(text, sizeof text, "%lld", (long long)value);
  put_raw(writer, key, text);
}

static void put_number(struct ab_json_writer *writer, const char *key, const char *text, bool finite) {
  char tagged[64];
  snprintf(tagged, sizeof tagged, "{\"nonfinite\": \"%s\"}", text);
  put_raw(writer, key, finite ? text : tagged);
}

void ab_json_put_double(struct ab_json_writer *writer, const char *key, double value) {
  char text[AB_NUMBER_MAX];
  ab_number_print(text, value);
  put_number(writer, key, text, isfinite(value));
}

void ab_json_put_float(struct ab_json_writer *writer, const char *key, float value) {
  char text[AB_NUMBER_MAX];
  ab_number_print_float(text, value);
  put_number(writer, key, text, isfinite(value));
}

void ab_json_put_bool(struct ab_json_writer *writer, const char *key, bool value) {
  put_raw(writer, key, value ? "true" : "false");
}

void ab_json_put_null(struct ab_json_writer *writer, const char *key) { put_raw(writer, key, "null"); }

ab_status ab_json_writer_finish(const char **text, size_t *size, struct ab_json_writer *writer) {
  if (writer->failed == AB_OK && writer->depth > 0)
    writer->failed = AB_FAIL(AB_EFORMAT, "JSON to be written has %d open containers at its end", writer->depth);
  put(writer, "\n", 1);
  put(writer, "", 1);
  AB_TRY(writer->failed);
  *text = writer->text;
  *size = writer->size - 1;
  return AB_OK;
}

ab_status ab_json_writer_text(char **out, struct ab_json_writer *writer) {
  const char *text;
  size_t size;
  ab_status status = ab_json_writer_finish(&text, &size, writer);
  if (status == AB_OK) status = ab_mem_string(out, text);
  ab_json_writer_free(writer);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_json_writer_file(struct ab_json_writer *writer, const char *path,
                              ab_status (*write)(const char *path, const void *bytes, size_t size)) {
  const char *text;
  size_t size;
  ab_status status = ab_json_writer_finish(&text, &size, writer);
  if (status == AB_OK) status = write(path, text, size);
  ab_json_writer_free(writer);
  AB_TRY(status);
  return AB_OK;
}
