/* Numbers as text that reads back to the same bits, whatever the locale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AB_NUMBER_TEXT = 32 }; /* bytes that hold any number, terminator included */

/* Shortest of "%.1g" to "%.9g" (f32: value is a widened float32) or "%.17g" that reads back; "nan", "inf", "-inf". */
void ab_number_print(char text[AB_NUMBER_TEXT], double value, bool f32);
/* The whole text as a double ("%a" forms, nan and inf refused). */
bool ab_number_parse(double *out, const char *text);
uint64_t ab_bits_of(double value, bool f32);
double ab_value_of(uint64_t bits, bool f32);
