/* Small text helpers that more than one library needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* For "the nearest known name is": of the names offered, the first at the smallest Levenshtein distance from `wanted`
 * (borrowed); only the first 63 bytes of each count. */
struct ab_nearest {
  const char *name; /* NULL before the first offer */
  size_t distance;
  size_t length;        /* private: of the wanted name, and its places of each byte */
  uint64_t places[256];
};
void ab_nearest_start(struct ab_nearest *nearest, const char *wanted);
void ab_nearest_offer(struct ab_nearest *nearest, const char *name);
/* Copies text into out with control bytes, invalid UTF-8, line separators, characters that turn the direction of a line
 * and U+FFFE, U+FFFF shown as \xNN, so that names from data cannot steer a terminal; cut to size. Words that go into
 * documents pass page.h. */
void ab_text_escape(char *out, size_t size, const char *text);
/* The same of a text of any length, printed. */
void ab_text_print(FILE *out, const char *text);
/* Bytes of the UTF-8 character at text, of which `left` are there; 0 if it is none (overlong, surrogate, above
 * U+10FFFF, cut). */
size_t ab_utf8_length(const char *text, size_t left);
/* Whether all of it is valid UTF-8 without such characters: what ab_text_escape would leave alone. */
bool ab_text_is_printable(const char *text);
/* A number that nobody who writes an input can know, the same throughout a process: the seed of every hash index over
 * names from outside, so that no file can be made whose names all meet in one place. */
uint64_t ab_hash_secret(void);
