#include "number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;
static void open_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* (locale_t)0 when it cannot be had: uselocale then leaves the current one. */
static locale_t plain(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_locale);
  return c_locale;
}

static ab_status refuse(const char *text, const char *expected) {
  return AB_FAIL(AB_EFORMAT, "'%.128s' is not %s", text, expected);
}

ab_status ab_number_int64(int64_t *out, const char *text) {
  const char *digit = text + (*text == '-');
  if (*digit == '\0' || (*digit == '0' && digit[1])) return refuse(text, "a decimal integer");
  int64_t value = 0;
  for (; *digit; digit++) {
    if (*digit < '0' || *digit > '9') return refuse(text, "a decimal integer");
    int step = *text == '-' ? '0' - *digit : *digit - '0';
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, step, &value))
      return refuse(text, "an integer of 64 bits");
  }
  *out = value;
  return AB_OK;
}

ab_status ab_number_double(double *out, const char *text) {
  if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return refuse(text, "a decimal number");
  locale_t before = uselocale(plain());
  char *end;
  double value = strtod(text, &end);
  uselocale(before);
  if (*end) return refuse(text, "a decimal number");
  if (!isfinite(value)) return refuse(text, "a finite number of 64 bits");
  *out = value;
  return AB_OK;
}

static int print_nonfinite(char *text, double value) {
  if (isfinite(value)) return 0;
  snprintf(text, AB_NUMBER_MAX, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  return 1;
}

/* %g drops trailing zeros, so `digits10` digits already give the shortest form of a normal number that has one that
 * short; subnormal numbers have fewer digits. */
void ab_number_print(char text[AB_NUMBER_MAX], double value) {
  if (print_nonfinite(text, value)) return;
  locale_t before = uselocale(plain());
  int digits = fpclassify(value) == FP_SUBNORMAL ? 1 : 15;
  do snprintf(text, AB_NUMBER_MAX, "%.*g", digits++, value);
  while (digits <= 17 && strtod(text, NULL) != value);
  uselocale(before);
}

void ab_number_print_float(char text[AB_NUMBER_MAX], float value) {
  if (print_nonfinite(text, value)) return;
  locale_t before = uselocale(plain());
  int digits = fpclassify(value) == FP_SUBNORMAL ? 1 : 6;
  do snprintf(text, AB_NUMBER_MAX, "%.*g", digits++, (double)value);
  while (digits <= 9 && strtof(text, NULL) != value);
  uselocale(before);
}
