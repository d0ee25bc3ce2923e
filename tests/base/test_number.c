#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "number.h"
#include "tap.h"

START_TEST(shortest_doubles) {
  static const struct {
    double value;
    const char *text;
  } cases[] = {
      {0, "0"},
      {-0.0, "-0"},
      {0.1, "0.1"},
      {1.0 / 3, "0.3333333333333333"},
      {5e-324, "5e-324"},
      {1e23, "1e+23"},
      {DBL_MAX, "1.7976931348623157e+308"},
      {DBL_MIN, "2.2250738585072014e-308"},
      {9007199254740993.0, "9007199254740992"},
      {NAN, "nan"},
      {-NAN, "nan"},
      {INFINITY, "inf"},
      {-INFINITY, "-inf"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[AB_NUMBER_MAX];
    ab_number_print(text, cases[i].value);
    ck_assert_msg(!strcmp(text, cases[i].text), "%s, expected %s", text, cases[i].text);
  }
}
END_TEST

START_TEST(shortest_floats) {
  static const struct {
    float value;
    const char *text;
  } cases[] = {{0.1f, "0.1"},         {1.0f / 3, "0.33333334"},   {16777216.0f, "16777216"},     {1e-45f, "1e-45"},
               {2e-42f, "2e-42"},     {FLT_MIN, "1.1754944e-38"}, {FLT_MAX, "3.4028235e+38"},    {-0.0f, "-0"},
               {-INFINITY, "-inf"},   {NAN, "nan"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[AB_NUMBER_MAX];
    ab_number_print_float(text, cases[i].value);
    ck_assert_msg(!strcmp(text, cases[i].text), "%s, expected %s", text, cases[i].text);
  }
}
END_TEST

START_TEST(every_printed_number_reads_back_as_the_same_bits) {
  uint64_t state = 1;
  for (int i = 0; i < 20000; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = state ^ state >> 29;
    double value, back;
    float small, small_back;
    char text[AB_NUMBER_MAX];
    memcpy(&value, &bits, sizeof value);
    memcpy(&small, &bits, sizeof small);
    if (isfinite(value)) {
      ab_number_print(text, value);
      ck_ok(ab_number_double(&back, text));
      ck_assert_msg(!memcmp(&back, &value, sizeof value), "%a became %s", value, text);
    }
    if (!isfinite(small)) continue;
    ab_number_print_float(text, small);
    ck_ok(ab_number_double(&back, text));
    small_back = (float)back;
    ck_assert_msg(!memcmp(&small_back, &small, sizeof small), "%a became %s", (double)small, text);
  }
}
END_TEST

START_TEST(integers_are_exact_to_the_last) {
  int64_t value = 7;
  ck_ok(ab_number_int64(&value, "9223372036854775807"));
  ck_assert(value == INT64_MAX);
  ck_ok(ab_number_int64(&value, "-9223372036854775808"));
  ck_assert(value == INT64_MIN);
  ck_ok(ab_number_int64(&value, "-0"));
  ck_assert(value == 0);
  value = 7;
  ck_fails(ab_number_int64(&value, "9223372036854775808"), AB_EFORMAT, "64 bits");
  ck_fails(ab_number_int64(&value, "-9223372036854775809"), AB_EFORMAT, "64 bits");
  static const char *const bad[] = {"", "-", "01", "1 ", " 1", "+1", "1.0", "1e3", "0x10", "\x1b[2J"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_fails(ab_number_int64(&value, bad[i]), AB_EFORMAT, "is not a decimal integer");
  ck_assert(value == 7);
}
END_TEST

START_TEST(doubles_are_decimal_and_finite) {
  double value = 7;
  static const char *const bad[] = {"", "nan", "inf", "0x1p3", "1,5", " 1", "1 ", "--1", "1e", "."};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_fails(ab_number_double(&value, bad[i]), AB_EFORMAT, "decimal");
  ck_fails(ab_number_double(&value, "1e400"), AB_EFORMAT, "finite");
  ck_assert(value == 7);
  ck_ok(ab_number_double(&value, "1e-400"));
  ck_assert(value == 0);
}
END_TEST

/* A locale with a decimal comma when the machine has one; the C locale otherwise, which proves less and fails no one.
 */
START_TEST(the_locale_of_the_process_does_not_matter) {
  char text[AB_NUMBER_MAX];
  double value;
  setlocale(LC_ALL, "de_DE.UTF-8");
  ab_number_print(text, 1.5);
  ck_ok(ab_number_double(&value, "2.5"));
  setlocale(LC_ALL, "C");
  ck_assert_str_eq(text, "1.5");
  ck_assert(value == 2.5);
}
END_TEST

START_TEST(the_locale_of_the_thread_is_put_back) {
  char text[AB_NUMBER_MAX];
  double value;
  locale_t own = LC_GLOBAL_LOCALE;
  uselocale(own);
  ab_number_print(text, 1.5);
  ck_assert(uselocale((locale_t)0) == own);
  ab_number_print_float(text, 1.5f);
  ck_assert(uselocale((locale_t)0) == own);
  ck_ok(ab_number_double(&value, "2.5"));
  ck_assert(uselocale((locale_t)0) == own);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("number");
  TCase *c = tcase_create("number");
  tcase_add_test(c, shortest_doubles);
  tcase_add_test(c, shortest_floats);
  tcase_add_test(c, the_locale_of_the_thread_is_put_back);
  tcase_add_test(c, every_printed_number_reads_back_as_the_same_bits);
  tcase_add_test(c, integers_are_exact_to_the_last);
  tcase_add_test(c, doubles_are_decimal_and_finite);
  tcase_add_test(c, the_locale_of_the_process_does_not_matter);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
