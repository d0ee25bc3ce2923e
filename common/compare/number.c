#include "number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc's "C" locale is a static object: making it allocates nothing and it need not be freed. */
static locale_t enter_c(void) { return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }

static bool reads_back(const char *text, double value, bool f32) {
  if (f32) return strtof(text, NULL) == (float)value;
  return strtod(text, NULL) == value;
}

void ab_number_print(char text[AB_NUMBER_TEXT], double value, bool f32) {
  if (!isfinite(value)) {
    strcpy(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return;
  }
  locale_t old = enter_c();
  for (int digits = 1; digits <= (f32 ? 9 : 17); digits++) {
    snprintf(text, AB_NUMBER_TEXT, "%.*g", digits, value);
    if (reads_back(text, value, f32)) break;
  }
  uselocale(old);
}

bool ab_number_parse(double *out, const char *text) {
  char *end;
  if (!text[0] || strspn(text, "0123456789+-.eE") != strlen(text)) return false;
  locale_t old = enter_c();
  double value = strtod(text, &end);
  uselocale(old);
  if (*end || !isfinite(value)) return false;
  *out = value;
  return true;
}

uint64_t ab_bits_of(double value, bool f32) {
  uint64_t bits = 0;
  float narrow = (float)value;
  uint32_t word;
  memcpy(&word, &narrow, sizeof word);
  memcpy(&bits, &value, sizeof bits);
  return f32 ? word : bits;
}

double ab_value_of(uint64_t bits, bool f32) {
  double value;
  float narrow;
  uint32_t word = (uint32_t)bits;
  memcpy(&narrow, &word, sizeof narrow);
  memcpy(&value, &bits, sizeof value);
  return f32 ? (double)narrow : value;
}
