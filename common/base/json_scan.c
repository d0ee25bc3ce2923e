#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "json_internal.h"
#include "mem.h"
#include "number.h"
#include "text.h"

const struct ab_json_limits ab_json_default_limits = {.bytes = (size_t)64 << 20, .values = 8000000, .depth = 32};

enum { DEEPEST = 512, LONG_NUMBER = 300 };

struct scan {
  const char *text, *what; /* as given; it is never changed */
  size_t size, at;
  uint32_t line; /* at */
  struct ab_json_limits limits;
  struct json_document *document;
  size_t count, room; /* values */
  size_t slots_used, slots_room;
};

/* Column in characters, both from 1. Called only to refuse. */
static void locate(const struct scan *scan, size_t at, size_t *line, size_t *column) {
  *line = *column = 1;
  for (size_t i = 0; i < at && i < scan->size; i++) {
    JSON_STEPS(1);
    if (scan->text[i] == '\n') {
      ++*line;
      *column = 1;
    } else if ((scan->text[i] & 0xc0) != 0x80) {
      ++*column;
    }
  }
}

static void sentence(const struct scan *scan, size_t at, const char *reason) {
  size_t line, column;
  locate(scan, at, &line, &column);
  (void)AB_FAIL(AB_EFORMAT, "%s:%zu:%zu: %s", scan->what, line, column, reason);
}

static ab_status reject(const struct scan *scan, size_t at, const char *reason) {
  sentence(scan, at, reason);
  return AB_EFORMAT;
}

static ab_status expected(const struct scan *scan, const char *thing) {
  char reason[128];
  unsigned char found = scan->at < scan->size ? (unsigned char)scan->text[scan->at] : 0;
  if (scan->at >= scan->size)
    snprintf(reason, sizeof reason, "expected %s, found the end", thing);
  else if (found > 0x20 && found < 0x7f)
    snprintf(reason, sizeof reason, "expected %s, found '%c'", thing, found);
  else
    snprintf(reason, sizeof reason, "expected %s, found byte 0x%02x", thing, found);
  return reject(scan, scan->at, reason);
}

static int peek(const struct scan *scan) {
  JSON_STEPS(1);
  return scan->at < scan->size ? (unsigned char)scan->text[scan->at] : -1;
}

static void skip_blanks(struct scan *scan) {
  for (int c = peek(scan); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(scan)) {
    scan->line += c == '\n'; /* nowhere else may one stand */
    scan->at++;
  }
}

static ab_status new_value(uint32_t *index, struct scan *scan, enum ab_json_type type) {
  if (scan->count == scan->limits.values) {
    char reason[64];
    snprintf(reason, sizeof reason, "more than %zu values, which is the limit", scan->limits.values);
    return reject(scan, scan->at, reason);
  }
  if (scan->count == scan->room) {
    size_t room = scan->room ? 2 * scan->room : 64;
    JSON_STEPS(scan->count);
    AB_TRY(ab_mem_resize(&scan->document, sizeof *scan->document + room * sizeof(struct ab_json), 1));
    scan->room = room;
  }
  *index = (uint32_t)scan->count++;
  scan->document->values[*index] =
      (struct ab_json){.self = *index, .next = *index + 1, .line = scan->line, .type = (uint8_t)type};
  return AB_OK;
}

static int hex_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Four hex digits at scan->at. */
static ab_status scan_unit(struct scan *scan, uint32_t *unit) {
  *unit = 0;
  for (int i = 0; i < 4; i++, scan->at++) {
    int digit = hex_digit(peek(scan));
    if (digit < 0) return expected(scan, "a hex digit");
    *unit = *unit * 16 + (uint32_t)digit;
  }
  return AB_OK;
}

static size_t put_utf8(char *out, uint32_t c) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length; --i > 0; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(lead[length] | c);
  return length;
}

/* Behind "\u". */
static ab_status scan_unicode(struct scan *scan, char *out, size_t *length) {
  uint32_t unit, low = 0;
  size_t start = scan->at - 2;
  AB_TRY(scan_unit(scan, &unit));
  if (unit >= 0xd800 && unit < 0xdc00) {
    if (scan->size - scan->at < 6 || memcmp(scan->text + scan->at, "\\u", 2))
      return reject(scan, start, "half of a surrogate pair");
    scan->at += 2;
    AB_TRY(scan_unit(scan, &low));
    if (low < 0xdc00 || low > 0xdfff) return reject(scan, start, "half of a surrogate pair");
    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  } else if (unit >= 0xdc00 && unit < 0xe000) {
    return reject(scan, start, "half of a surrogate pair");
  }
  *length = put_utf8(out, unit);
  return AB_OK;
}

static ab_status scan_escape(struct scan *scan, char *out, size_t *length) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  scan->at++;
  int c = peek(scan);
  const char *known = c > 0 ? strchr(from, c) : NULL;
  if (!known && c != 'u') return expected(scan, "one of \"\\/bfnrtu after '\\'");
  scan->at++;
  if (c == 'u') return scan_unicode(scan, out, length);
  *out = to[known - from];
  *length = 1;
  return AB_OK;
}

/* Unescapes into the document's text at the same place: it never gets longer. scan->at is behind the opening quote. */
static ab_status scan_characters(struct scan *scan, size_t *length) {
  char *start = scan->document->text + scan->at, *out = start;
  for (int c = peek(scan); c != '"'; c = peek(scan)) {
    size_t bytes = 1;
    if (c < 0) return expected(scan, "'\"' at the end of a string");
    if (c < 0x20) return reject(scan, scan->at, "a control character in a string must be escaped");
    if (c == '\\') {
      AB_TRY(scan_escape(scan, out, &bytes));
    } else {
      bytes = ab_utf8_length(scan->text + scan->at, scan->size - scan->at);
      if (!bytes) return reject(scan, scan->at, "the text is not valid UTF-8");
      memcpy(out, scan->text + scan->at, bytes);
      scan->at += bytes;
    }
    out += bytes;
  }
  *out = '\0';
  *length = (size_t)(out - start);
  scan->at++;
  return AB_OK;
}

static ab_status scan_string(struct scan *scan) {
  uint32_t index;
  size_t length;
  AB_TRY(new_value(&index, scan, AB_JSON_STRING));
  uint32_t position = (uint32_t)++scan->at;
  AB_TRY(scan_characters(scan, &length));
  scan->document->values[index].text = position;
  scan->document->values[index].length = (uint32_t)length;
  return AB_OK;
}

static ab_status scan_digits(struct scan *scan) {
  if (peek(scan) < '0' || peek(scan) > '9') return expected(scan, "a digit");
  while (peek(scan) >= '0' && peek(scan) <= '9') scan->at++;
  return AB_OK;
}

static ab_status scan_number_text(struct scan *scan, bool *exponent) {
  if (peek(scan) == '-') scan->at++;
  if (peek(scan) == '0')
    scan->at++;
  else
    AB_TRY(scan_digits(scan));
  if (peek(scan) == '.') {
    scan->at++;
    AB_TRY(scan_digits(scan));
  }
  *exponent = peek(scan) == 'e' || peek(scan) == 'E';
  if (!*exponent) return AB_OK;
  scan->at++;
  if (peek(scan) == '-' || peek(scan) == '+') scan->at++;
  return scan_digits(scan);
}

static ab_status scan_number(struct scan *scan) {
  uint32_t index;
  size_t start = scan->at;
  bool exponent;
  double value;
  AB_TRY(new_value(&index, scan, AB_JSON_NUMBER));
  AB_TRY(scan_number_text(scan, &exponent));
  char *text = scan->document->text + start;
  size_t length = scan->at - start;
  memcpy(text, scan->text + start, length);
  JSON_STEPS(length);
  text[length] = '\0'; /* the byte behind a number is never part of a string */
  if ((exponent || length > LONG_NUMBER) && ab_number_double(&value, text) != AB_OK)
    return reject(scan, start, "the number does not fit into 64 bits");
  struct ab_json *node = &scan->document->values[index];
  node->text = (uint32_t)start;
  node->length = (uint32_t)length;
  return AB_OK;
}

static ab_status scan_word(struct scan *scan, const char *word, enum ab_json_type type, bool truth) {
  uint32_t index;
  size_t length = strlen(word);
  if (scan->size - scan->at < length || memcmp(scan->text + scan->at, word, length)) return expected(scan, "a value");
  AB_TRY(new_value(&index, scan, type));
  scan->document->values[index].plain = truth;
  scan->at += length;
  return AB_OK;
}

static ab_status scan_value(struct scan *scan, int depth);

static ab_status duplicate(const struct scan *scan, const struct ab_json *member) {
  char reason[192];
  snprintf(reason, sizeof reason, "the key '%.128s' stands twice in one object", scan->document->text + member->key);
  return reject(scan, member->key - 1, reason);
}

/* Looks for equal keys, and leaves an index behind for an object that is not small. */
static ab_status index_members(struct scan *scan, uint32_t object) {
  struct json_document *document = scan->document;
  struct ab_json *all = document->values, *node = &all[object];
  uint32_t slots = json_slot_count(node->length), slot;
  if (node->length > JSON_SMALL_OBJECT) {
    if (scan->slots_used + slots > scan->slots_room) {
      size_t room = 2 * (scan->slots_used + slots);
      JSON_STEPS(scan->slots_used);
      AB_TRY(ab_mem_resize(&document->slots, room, sizeof *document->slots));
      scan->slots_room = room;
    }
    node->plain = true;
    node->text = (uint32_t)scan->slots_used;
    scan->slots_used += slots;
  }
  for (uint32_t i = object + 1; i < node->next; i = all[i].next) {
    const struct ab_json *same = json_probe(document, node, document->text + all[i].key, &slot);
    if (same && same->self < i) return duplicate(scan, &all[i]);
    if (node->plain) document->slots[slot] = i;
  }
  return AB_OK;
}

static ab_status scan_key(struct scan *scan, uint32_t *position) {
  size_t length, start = scan->at;
  if (peek(scan) != '"') return expected(scan, "'\"' before a key");
  *position = (uint32_t)++scan->at;
  AB_TRY(scan_characters(scan, &length));
  JSON_STEPS(length);
  if (memchr(scan->document->text + *position, 0, length)) return reject(scan, start, "a key holds a NUL character");
  skip_blanks(scan);
  if (peek(scan) != ':') return expected(scan, "':' after a key");
  scan->at++;
  skip_blanks(scan);
  return AB_OK;
}

/* One member or element; *simple stays true while all are scalars. */
static ab_status scan_item(struct scan *scan, bool member, int depth, uint32_t *item) {
  uint32_t key = 0;
  skip_blanks(scan);
  if (member) AB_TRY(scan_key(scan, &key));
  *item = (uint32_t)scan->count;
  AB_TRY(scan_value(scan, depth + 1));
  scan->document->values[*item].key = key;
  skip_blanks(scan);
  return AB_OK;
}

static ab_status scan_items(struct scan *scan, uint32_t container, char close, int depth) {
  bool member = close == '}';
  uint32_t length = 0, item = 0;
  for (scan->at++, skip_blanks(scan); length || peek(scan) != close; scan->at++) {
    AB_TRY(scan_item(scan, member, depth, &item));
    length++;
    if (peek(scan) == close) break;
    if (peek(scan) != ',') return expected(scan, member ? "',' or '}'" : "',' or ']'");
  }
  scan->at++;
  struct ab_json *node = &scan->document->values[container];
  node->length = length;
  node->next = (uint32_t)scan->count;
  node->plain = !member && node->next - container - 1 == length;
  if (length) scan->document->values[item].last = true;
  return AB_OK;
}

static ab_status scan_container(struct scan *scan, enum ab_json_type type, char close, int depth) {
  uint32_t index;
  if (depth >= scan->limits.depth) {
    char reason[64];
    snprintf(reason, sizeof reason, "nested deeper than %d, which is the limit", scan->limits.depth);
    return reject(scan, scan->at, reason);
  }
  AB_TRY(new_value(&index, scan, type));
  AB_TRY(scan_items(scan, index, close, depth));
  return type == AB_JSON_OBJECT ? index_members(scan, index) : AB_OK;
}

static bool starts_number(int c) { return c == '-' || (c >= '0' && c <= '9'); }

static ab_status scan_value(struct scan *scan, int depth) {
  switch (peek(scan)) {
    case '{': return scan_container(scan, AB_JSON_OBJECT, '}', depth);
    case '[': return scan_container(scan, AB_JSON_ARRAY, ']', depth);
    case '"': return scan_string(scan);
    case 't': return scan_word(scan, "true", AB_JSON_BOOL, true);
    case 'f': return scan_word(scan, "false", AB_JSON_BOOL, false);
    case 'n': return scan_word(scan, "null", AB_JSON_NULL, false);
    default: return starts_number(peek(scan)) ? scan_number(scan) : expected(scan, "a value");
  }
}

static ab_status scan_document(struct scan *scan) {
  if (scan->size > scan->limits.bytes || scan->size >= UINT32_MAX)
    return AB_FAIL(AB_EFORMAT, "%s:1:1: the text has %zu bytes, at most %zu are read", scan->what, scan->size,
                   scan->limits.bytes);
  scan->room = 64;
  AB_TRY(ab_mem_new(&scan->document, sizeof *scan->document + scan->room * sizeof(struct ab_json), 1));
  AB_TRY(ab_mem_string(&scan->document->what, scan->what));
  AB_TRY(ab_mem_new(&scan->document->text, scan->size + 1, 1));
  if (scan->size >= 3 && !memcmp(scan->text, "\xef\xbb\xbf", 3))
    return reject(scan, 0, "a byte order mark is not allowed");
  skip_blanks(scan);
  AB_TRY(scan_value(scan, 0));
  skip_blanks(scan);
  if (scan->at < scan->size) return expected(scan, "the end");
  scan->document->values[0].last = true;
  return AB_OK;
}

ab_status ab_json_parse(struct ab_json **out, const char *text, size_t size, const char *what,
                        const struct ab_json_limits *limits) {
  struct scan scan = {
      .text = text, .size = size, .line = 1, .what = what, .limits = limits ? *limits : ab_json_default_limits};
  if (scan.limits.depth > DEEPEST) scan.limits.depth = DEEPEST;
  if (scan.limits.values > INT32_MAX) scan.limits.values = INT32_MAX;
  ab_status status = scan_document(&scan);
  if (status != AB_OK && scan.document) ab_json_free(scan.document->values);
  AB_TRY(status);
  *out = scan.document->values;
  return AB_OK;
}

ab_status ab_json_read(struct ab_json **out, const char *path, const struct ab_json_limits *limits) {
  char *text;
  size_t size;
  AB_TRY(ab_file_read(&text, &size, path, (limits ? limits : &ab_json_default_limits)->bytes));
  ab_status status = ab_json_parse(out, text, size, path, limits);
  ab_mem_free(text);
  AB_TRY(status);
  return AB_OK;
}
