#include <string.h>

#include "tap.h"
#include "text.h"

START_TEST(names_from_data_cannot_steer_a_terminal) {
  static const struct {
    const char *text, *shown;
  } cases[] = {
      {"plain", "plain"},           {"\xc3\xa9\xf0\x9f\x98\x80", "\xc3\xa9\xf0\x9f\x98\x80"},
      {"a\x1b[2J", "a\\x1b[2J"},    {"\n\x7f", "\\x0a\\x7f"},
      {"\xc2\x9b", "\\xc2\\x9b"},   {"\xff", "\\xff"},
      {"\xc0\xaf", "\\xc0\\xaf"},   {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"\xe2\x80\xae", "\\xe2\\x80\\xae"}, {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},
      {"\xef\xbf\xbf", "\\xef\\xbf\\xbf"}, {"\xe2\x80\xa6", "\xe2\x80\xa6"},
      {"\xe2\x82", "\\xe2\\x82"},   {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char shown[64];
    ab_text_escape(shown, sizeof shown, cases[i].text);
    ck_assert_str_eq(shown, cases[i].shown);
    ck_assert_int_eq(ab_text_is_printable(cases[i].text), !strcmp(cases[i].text, cases[i].shown));
  }
}
END_TEST

START_TEST(long_names_are_cut_between_characters) {
  char shown[6];
  ab_text_escape(shown, sizeof shown, "abc\xc3\xa9z");
  ck_assert_str_eq(shown, "abc\xc3\xa9");
  ab_text_escape(shown, sizeof shown, "abcd\xc3\xa9");
  ck_assert_str_eq(shown, "abcd");
  ab_text_escape(shown, sizeof shown, "ab\x01");
  ck_assert_str_eq(shown, "ab");
}
END_TEST

START_TEST(characters_have_their_length) {
  ck_assert_uint_eq(ab_utf8_length("a", 1), 1);
  ck_assert_uint_eq(ab_utf8_length("", 0), 0);
  ck_assert_uint_eq(ab_utf8_length("\xc3\xa9", 2), 2);
  ck_assert_uint_eq(ab_utf8_length("\xc3\xa9", 1), 0);
  ck_assert_uint_eq(ab_utf8_length("\xef\xbf\xbf", 3), 3);
  ck_assert_uint_eq(ab_utf8_length("\xe0\x9f\xbf", 3), 0);
  ck_assert_uint_eq(ab_utf8_length("\xf4\x8f\xbf\xbf", 4), 4);
  ck_assert_uint_eq(ab_utf8_length("\xf5\x80\x80\x80", 4), 0);
}
END_TEST

static size_t distance(const char *wanted, const char *name) {
  struct ab_nearest nearest;
  ab_nearest_start(&nearest, wanted);
  ab_nearest_offer(&nearest, name);
  ck_assert_ptr_eq(nearest.name, name);
  return nearest.distance;
}

/* By the recursion that defines it. */
static size_t defined(const char *a, const char *b) {
  if (!*a || !*b) return strlen(a) + strlen(b);
  size_t kept = defined(a + 1, b + 1) + (*a != *b), less = defined(a + 1, b) + 1, more = defined(a, b + 1) + 1;
  size_t least = less < more ? less : more;
  return kept < least ? kept : least;
}

static void spell(char word[7], unsigned number) {
  for (; number; number /= 3) *word++ = "abc"[number % 3];
  *word = '\0';
}

START_TEST(the_distance_is_that_of_levenshtein) {
  char a[7], b[7], x[80], y[80];
  for (unsigned i = 0; i < 243; i += 2)
    for (unsigned j = 0; j < 729; j += 5) {
      spell(a, i);
      spell(b, j);
      ck_assert_msg(distance(a, b) == defined(a, b), "'%s' '%s': %zu", a, b, distance(a, b));
    }
  memset(x, 'x', sizeof x);
  memset(y, 'y', sizeof y);
  x[79] = y[79] = '\0';
  ck_assert_uint_eq(distance(x, y), 63);
  ck_assert_uint_eq(distance(x, y + 77), 63);
  ck_assert_uint_eq(distance(x + 16, y), 63);
  y[62] = 'x';
  ck_assert_uint_eq(distance(x, y), 62);
}
END_TEST

START_TEST(edit_distance_counts_edits) {
  ck_assert_uint_eq(distance("", ""), 0);
  ck_assert_uint_eq(distance("kernel", "kernel"), 0);
  ck_assert_uint_eq(distance("kitten", "sitting"), 3);
  ck_assert_uint_eq(distance("sitting", "kitten"), 3);
  ck_assert_uint_eq(distance("", "abc"), 3);
  ck_assert_uint_eq(distance("abc", ""), 3);
}
END_TEST

START_TEST(the_first_of_the_nearest_names_is_kept) {
  static const char *const names[] = {"a", "step", "stepsize", "stops", "steps_", "remat"};
  static const struct { const char *wanted, *name; } rows[] = {
      {"steps", "step"}, {"stopss", "stops"}, {"", "a"}, {"rematpolicy", "remat"}, {"stepsizes", "stepsize"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_nearest nearest;
    ab_nearest_start(&nearest, rows[i].wanted);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) ab_nearest_offer(&nearest, names[n]);
    ck_assert_msg(strcmp(nearest.name, rows[i].name) == 0, "'%s': %s", rows[i].wanted, nearest.name);
  }
}
END_TEST

START_TEST(no_sentence_steers_a_terminal) {
  char names[2000];
  memset(names, 'a', sizeof names - 1);
  names[sizeof names - 1] = '\0';
  ck_assert_int_eq(AB_FAIL(AB_EFORMAT, "'%s' of %d", "lo\x01ss\xef\xbf\xbf\n", 3), AB_EFORMAT);
  ck_assert_str_eq(ab_status_message(), "'lo\\x01ss\\xef\\xbf\\xbf\\x0a' of 3");
  ck_assert_int_eq(AB_FAIL(AB_EIO, "twice: %s", ab_status_message()), AB_EIO);
  ck_assert_str_eq(ab_status_message(), "twice: 'lo\\x01ss\\xef\\xbf\\xbf\\x0a' of 3");
  memcpy(names + 1021, "\xc3\xa9", 2); /* where the sentence is cut */
  ck_assert_int_eq(AB_FAIL(AB_EIO, "%s", names), AB_EIO);
  ck_assert(ab_text_is_printable(ab_status_message()));
  ab_status_clear();
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("text");
  TCase *c = tcase_create("text");
  tcase_add_test(c, names_from_data_cannot_steer_a_terminal);
  tcase_add_test(c, long_names_are_cut_between_characters);
  tcase_add_test(c, characters_have_their_length);
  tcase_add_test(c, edit_distance_counts_edits);
  tcase_add_test(c, the_distance_is_that_of_levenshtein);
  tcase_add_test(c, the_first_of_the_nearest_names_is_kept);
  tcase_add_test(c, no_sentence_steers_a_terminal);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
