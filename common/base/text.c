#include "text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

enum { LONGEST = 63 };

void ab_nearest_start(struct ab_nearest *nearest, const char *wanted) {
  *nearest = (struct ab_nearest){.length = strnlen(wanted, LONGEST)};
  for (size_t i = 0; i < nearest->length; i++) nearest->places[(unsigned char)wanted[i]] |= UINT64_C(1) << i;
}

/* Myers, "A fast bit-vector algorithm for approximate string matching" (1999): a column of the table of distances at
 * once, as the bits at which it rises and falls. */
static size_t edit_distance(const struct ab_nearest *nearest, const char *name, size_t length) {
  uint64_t rises = ~UINT64_C(0), falls = 0;
  size_t distance = nearest->length, last = distance - 1;
  if (distance == 0) return length;
  for (size_t i = 0; i < length; i++) {
    uint64_t equal = nearest->places[(unsigned char)name[i]], down = equal | falls;
    uint64_t across = (((equal & rises) + rises) ^ rises) | equal;
    uint64_t up = falls | ~(across | rises), less = rises & across;
    distance += up >> last & 1;
    distance -= less >> last & 1;
    up = up << 1 | 1;
    rises = less << 1 | ~(down | up);
    falls = up & down;
  }
  return distance;
}

void ab_nearest_offer(struct ab_nearest *nearest, const char *name) {
  size_t length = strnlen(name, LONGEST);
  size_t least = length > nearest->length ? length - nearest->length : nearest->length - length;
  if (nearest->name && least >= nearest->distance) return;
  size_t distance = edit_distance(nearest, name, length);
  if (nearest->name && distance >= nearest->distance) return;
  nearest->name = name;
  nearest->distance = distance;
}

size_t ab_utf8_length(const char *text, size_t left) {
  const unsigned char *p = (const unsigned char *)text;
  if (left == 0) return 0;
  if (p[0] < 0x80) return 1;
  size_t length = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  bool surrogate = p[0] == 0xed && p[1] >= 0xa0, above = p[0] == 0xf4 && p[1] >= 0x90;
  return overlong || surrogate || above ? 0 : length;
}

/* U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069, U+FFFE, U+FFFF; all have three bytes. */
static bool steers(const unsigned char *p) {
  if (p[0] == 0xef) return p[1] == 0xbf && p[2] >= 0xbe;
  if (p[0] != 0xe2) return false;
  if (p[1] == 0x80) return p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae);
  return p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9;
}

/* Length of the valid UTF-8 sequence of a printable character at p, 0 if there is none. */
static size_t printable(const unsigned char *p) {
  size_t length = ab_utf8_length((const char *)p, strnlen((const char *)p, 4));
  bool control = p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
  return control || (length == 3 && steers(p)) ? 0 : length;
}

void ab_text_escape(char *out, size_t size, const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  size_t used = 0;
  while (*p) {
    size_t length = printable(p), room = length ? length : 4;
    if (used + room >= size) break;
    if (length)
      memcpy(out + used, p, length);
    else
      snprintf(out + used, 5, "\\x%02x", *p);
    used += room;
    p += length ? length : 1;
  }
  if (size) out[used] = '\0';
}

void ab_text_print(FILE *out, const char *text) {
  for (size_t length; *text; text += length ? length : 1) {
    length = printable((const unsigned char *)text);
    if (length) fwrite(text, 1, length, out);
    else fprintf(out, "\\x%02x", (unsigned char)*text);
  }
}

bool ab_text_is_printable(const char *text) {
  for (size_t length; *text; text += length) {
    length = printable((const unsigned char *)text);
    if (!length) return false;
  }
  return true;
}

/* The kernel leaves 16 random bytes at the start of each program. */
uint64_t ab_hash_secret(void) {
  uint64_t secret = 0;
  const void *bytes = (const void *)(uintptr_t)getauxval(AT_RANDOM);
  if (bytes) memcpy(&secret, bytes, sizeof secret);
  return secret;
}
