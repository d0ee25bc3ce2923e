/* The public YAML test suite through the door: what becomes of each case is pinned, one line per case. Regenerate the
 * pins by copying <build>/yaml_outcomes.txt after reading the difference. */
#include "cases.h"
#include "yaml_door.h"

static const struct {
  const char *mark, *text;
} marks[] = {{"\xe2\x90\xa3", " "},
             {"\xe2\x80\x94", ""},
             {"\xc2\xbb", "\t"},
             {"\xe2\x86\xb5", ""},
             {"\xe2\x88\x8e\n", ""},
             {"\xe2\x88\x8e", ""},
             {"\xe2\x87\x94", "\xef\xbb\xbf"},
             {"\xe2\x86\x90", "\r"}};

/* The suite shows blanks and tabs by visible marks: a tab is any number of dashes and a guillemet. */
static void resolve_marks(char *out, const char *text) {
  while (*text) {
    size_t i = 0;
    while (i < sizeof marks / sizeof marks[0] && strncmp(text, marks[i].mark, strlen(marks[i].mark)) != 0) i++;
    bool mark = i < sizeof marks / sizeof marks[0];
    size_t length = mark ? strlen(marks[i].text) : 1;
    memcpy(out, mark ? marks[i].text : text, length);
    out += length;
    text += mark ? strlen(marks[i].mark) : 1;
  }
  *out = '\0';
}

static const struct ab_yaml_node *member(const struct ab_yaml_node *map, const char *key) {
  for (const struct ab_yaml_node *k = map + 1; k < map + map->span; k += 1 + k[1].span)
    if (strcmp(k->string, key) == 0) return k + 1;
  return NULL;
}

static void print_outcome(FILE *out, const char *name, int number, const struct ab_yaml_node *test) {
  static char text[1 << 16];
  const struct ab_yaml_node *body = member(test, "yaml"), *fail = member(test, "fail");
  struct ab_yaml *yaml = NULL;
  if (!body) return;
  ck_assert_uint_lt(2 * strlen(body->string), sizeof text);
  resolve_marks(text, body->string);
  size_t before = ab_mem_stats().live_blocks;
  ab_status status = ab_yaml_parse(&yaml, "t", text, strlen(text));
  ck_assert_msg(status == AB_OK || status == AB_EFORMAT, "%s: %s", name, ab_status_message());
  fprintf(out, "%.4s %d %s %s\n", name, number, fail ? "invalid" : "valid",
          status == AB_OK ? "read" : ab_status_message());
  ab_yaml_free(yaml);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}

static int print_outcomes(FILE *out, const char *folder, const char *name) {
  char path[1024];
  struct ab_yaml *suite = NULL;
  char *bytes = NULL;
  size_t size;
  int number = 0;
  ck_assert_int_lt(snprintf(path, sizeof path, "%s/%s", folder, name), (int)sizeof path);
  ck_ok(ab_file_read(&bytes, &size, path, AB_YAML_MAX_BYTES));
  ck_ok(ab_yaml_parse(&suite, name, bytes, size));
  const struct ab_yaml_node *list = suite->nodes;
  for (const struct ab_yaml_node *test = list + 1; test < list + list->span; test += test->span)
    print_outcome(out, name, number++, test);
  ab_yaml_free(suite);
  ab_mem_free(bytes);
  return number;
}

static char *outcomes(int *cases) {
  char *text = NULL;
  size_t size;
  struct ab_names names;
  FILE *out = open_memstream(&text, &size);
  const char *folder = source_path("tests/corpora/yaml");
  ck_ok(ab_folder_list(&names, folder, 1000));
  for (size_t i = 0; i < names.count; i++)
    if (strstr(names.name[i], ".yaml")) *cases += print_outcomes(out, folder, names.name[i]);
  ab_names_free(&names);
  fclose(out);
  return text;
}

static void keep_outcomes(const char *text) {
  char path[1024];
  const char *build = getenv("AB_BUILD_ROOT");
  if (!build) return;
  ck_assert_int_lt(snprintf(path, sizeof path, "%s/yaml_outcomes.txt", build), (int)sizeof path);
  ck_ok(ab_file_write(path, text, strlen(text)));
}

START_TEST(every_case_of_the_suite_ends_as_pinned) {
  int cases = 0, line = 1;
  char *found = outcomes(&cases), *pinned = NULL;
  size_t size;
  keep_outcomes(found);
  ck_ok(ab_file_read(&pinned, &size, source_path("tests/config/yaml_outcomes.txt"), 1 << 20));
  const char *a = found, *b = pinned;
  for (; *a && *b; line++) {
    size_t length = strcspn(a, "\n"), expected = strcspn(b, "\n");
    ck_assert_msg(length == expected && memcmp(a, b, length) == 0, "line %d: '%.*s', pinned '%.*s'", line,
                  (int)length, a, (int)expected, b);
    a += length + 1;
    b += expected + 1;
  }
  ck_assert_msg(!*a && !*b, "the outcomes end at line %d of the other", line);
  ck_assert_int_ge(cases, 400);
  ab_mem_free(pinned);
  free(found);
}
END_TEST

/* The whole suite as configuration files: none may crash, leak or load (no case is a configuration). */
START_TEST(no_file_of_the_suite_is_a_configuration) {
  struct ab_names names;
  const char *folder = source_path("tests/corpora/yaml");
  ck_ok(ab_folder_list(&names, folder, 1000));
  for (size_t i = 0; i < names.count; i++) {
    char path[1024];
    ck_assert_int_lt(snprintf(path, sizeof path, "%s/%s", folder, names.name[i]), (int)sizeof path);
    must_refuse(path, "", names.name[i]);
  }
  ab_names_free(&names);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("corpus");
  TCase *c = tcase_create("corpus");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, every_case_of_the_suite_ends_as_pinned);
  tcase_add_test(c, no_file_of_the_suite_is_a_configuration);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
