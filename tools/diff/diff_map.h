/* Names of one side in the names of the other.
 *
 * A map is a text file of lines `REGEX -> REPLACEMENT [unstack=AXIS] [transpose]`; # begins a comment. The first line
 * whose POSIX extended expression matches a whole name says what it becomes; \1 to \9 are its groups. unstack=AXIS
 * takes a stacked tensor apart along that axis, which it must have: %d in the replacement is the index.
 * transpose reverses the axes of what is left.
 *
 * On some expressions that are short to write the C library crashes or hangs: at most 1000 lines are read, of at most
 * 200 bytes before the arrow, without repetition counts {m,n}, without back-references, and with at most 8 of * + ? in
 * one expression (it copies what a + repeats, and what follows an anchor).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "probe.h"

enum { AB_NOT_STACKED = -1 };

struct ab_mapped {
  char name[AB_NAME_MAX]; /* with %d where it is stacked */
  int axis;               /* AB_NOT_STACKED, or to be taken apart */
  bool transpose;
  const char *map; /* path, borrowed, and line of the rule; NULL without a map */
  size_t line;
};

struct ab_name_map;
/* AB_ENOTFOUND, AB_EIO, or AB_EFORMAT with file and line: malformed, beyond the limits, or not printable. */
ab_status ab_name_map_open(struct ab_name_map **out, const char *path);
/* Accepts NULL. */
void ab_name_map_close(struct ab_name_map *map);
/* A NULL map keeps every name. AB_EMISMATCH when no line matches, or when what it becomes is too long, empty or no
 * UTF-8. */
ab_status ab_name_map_apply(struct ab_mapped *out, const struct ab_name_map *map, const char *name);
