/* Numbers as text, in the C locale whatever the process has set: exact for integers, shortest round trip for floats. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { AB_NUMBER_MAX = 40 }; /* bytes of a printed number, terminator included */

/* A whole text as a decimal integer: -?(0|[1-9][0-9]*). AB_EFORMAT with the text and what is wrong. */
ab_status ab_number_int64(int64_t *out, const char *text);
/* A whole text as a finite decimal float (no hex, no inf, no nan, no blanks). */
ab_status ab_number_double(double *out, const char *text);
/* The fewest digits that read back as the same bits; "nan", "inf", "-inf" for the others (a NaN's sign and payload are
 * not kept). */
void ab_number_print(char text[AB_NUMBER_MAX], double value);
void ab_number_print_float(char text[AB_NUMBER_MAX], float value);
