/* Small text helpers that more than one library needs. */
#pragma once

#include <stddef.h>

/* Levenshtein distance of two names; only the first 63 bytes of each count. For "the nearest known name is". */
size_t ab_edit_distance(const char *a, const char *b);
/* Copies text into out with control bytes and invalid UTF-8 shown as \xNN, so that names from data cannot steer a
 * terminal; cut to size. */
void ab_text_escape(char *out, size_t size, const char *text);
