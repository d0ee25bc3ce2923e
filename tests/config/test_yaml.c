#include <math.h>

#include "cases.h"
#include "yaml_door.h"

static struct ab_yaml *parse(const char *text) {
  struct ab_yaml *yaml = NULL;
  ck_ok(ab_yaml_parse(&yaml, "t.yml", text, strlen(text)));
  return yaml;
}

static void refuse_bytes(const char *text, size_t size, const char *sentence) {
  size_t before = ab_mem_stats().live_blocks;
  struct ab_yaml *yaml = NULL;
  ck_fails(ab_yaml_parse(&yaml, "t.yml", text, size), AB_EFORMAT, sentence);
  ck_assert_ptr_null(yaml);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}

static const struct {
  const char *text;
  enum ab_yaml_type type;
  const char *canonical;
} scalars[] = {
    {"true", AB_YAML_BOOL, "true"},
    {"True", AB_YAML_BOOL, "true"},
    {"FALSE", AB_YAML_BOOL, "false"},
    {"no", AB_YAML_STRING, "\"no\""},
    {"Yes", AB_YAML_STRING, "\"Yes\""},
    {"on", AB_YAML_STRING, "\"on\""},
    {"y", AB_YAML_STRING, "\"y\""},
    {"tRUE", AB_YAML_STRING, "tRUE"},
    {"'true'", AB_YAML_STRING, "\"true\""},
    {"0", AB_YAML_INT, "0"},
    {"-7", AB_YAML_INT, "-7"},
    {"+7", AB_YAML_INT, "7"},
    {"10_000_000", AB_YAML_INT, "10000000"},
    {"1__0", AB_YAML_STRING, "\"1__0\""},
    {"1_", AB_YAML_STRING, "\"1_\""},
    {"9223372036854775807", AB_YAML_INT, "9223372036854775807"},
    {"-9223372036854775808", AB_YAML_INT, "-9223372036854775808"},
    {"9223372036854775808", AB_YAML_FLOAT, "9.223372036854776e+18"},
    {"0555567", AB_YAML_STRING, "\"0555567\""},
    {"08", AB_YAML_STRING, "\"08\""},
    {"00.5", AB_YAML_STRING, "\"00.5\""},
    {"0x10", AB_YAML_STRING, "\"0x10\""},
    {"0o10", AB_YAML_STRING, "\"0o10\""},
    {"1:30", AB_YAML_STRING, "\"1:30\""},
    {"1e-5", AB_YAML_FLOAT, "1e-05"},
    {"1.0e-5", AB_YAML_FLOAT, "1e-05"},
    {"1.e-8", AB_YAML_FLOAT, "1e-08"},
    {"3.", AB_YAML_FLOAT, "3.0"},
    {".5", AB_YAML_FLOAT, "0.5"},
    {".", AB_YAML_STRING, "\".\""},
    {"1e", AB_YAML_STRING, "\"1e\""},
    {"1e+", AB_YAML_STRING, "\"1e+\""},
    {"1.5.2", AB_YAML_STRING, "\"1.5.2\""},
    {"0.1", AB_YAML_FLOAT, "0.1"},
    {"-0.0", AB_YAML_FLOAT, "-0.0"},
    {"1e400", AB_YAML_FLOAT, ".inf"},
    {"-1e400", AB_YAML_FLOAT, "-.inf"},
    {".nan", AB_YAML_FLOAT, ".nan"},
    {"-.inf", AB_YAML_FLOAT, "-.inf"},
    {"nan", AB_YAML_STRING, "nan"},
    {"inf", AB_YAML_STRING, "inf"},
    {"", AB_YAML_NULL, "null"},
    {"~", AB_YAML_NULL, "null"},
    {"Null", AB_YAML_NULL, "null"},
    {"none", AB_YAML_STRING, "none"},
    {"\"\"", AB_YAML_STRING, "\"\""},
    {"gs://bucket/x", AB_YAML_STRING, "gs://bucket/x"},
    {"c4/en:3.1.0", AB_YAML_STRING, "c4/en:3.1.0"},
    {"\"a:\"", AB_YAML_STRING, "\"a:\""},
    {"2024-01-01", AB_YAML_STRING, "\"2024-01-01\""},
    {"\"a\\nb\\\"c\"", AB_YAML_STRING, "\"a\\nb\\\"c\""},
    {"\"\\x01\"", AB_YAML_STRING, "\"\\x01\""},
    {"\"\\x7f\"", AB_YAML_STRING, "\"\\x7F\""},
    {"\"\\x80\\N\\_\"", AB_YAML_STRING, "\"\\x80\\x85\u00a0\""},
    {"\"\\L\\P\\uFEFF\"", AB_YAML_STRING, "\"\\u2028\\u2029\\uFEFF\""},
    {"\"\\U00010000\"", AB_YAML_STRING, "\"\U00010000\""},
    {"[a, 1, [b], {c: d}]", AB_YAML_LIST, "[a, 1, [b], {c: d}]"},
    {"[]", AB_YAML_LIST, "[]"},
    {"{}", AB_YAML_MAP, "{}"},
    {"{a: {b: [1, 2.0]}, 'c d': ~}", AB_YAML_MAP, "{a: {b: [1, 2.0]}, \"c d\": null}"},
};

START_TEST(a_scalar_has_one_meaning_and_one_spelling) {
  for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
    struct ab_yaml *yaml = parse(scalars[i].text);
    ck_assert_uint_eq(yaml->nodes[0].span, yaml->count);
    ck_assert_msg(yaml->nodes[0].type == scalars[i].type, "%s: %s", scalars[i].text,
                  ab_yaml_type_name(yaml->nodes[0].type));
    ck_assert_msg(strcmp(yaml->nodes[0].text, scalars[i].canonical) == 0, "%s: %s, expected %s", scalars[i].text,
                  yaml->nodes[0].text, scalars[i].canonical);
    ab_yaml_free(yaml);
  }
}
END_TEST

START_TEST(the_canonical_spelling_reads_back_as_itself) {
  for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
    struct ab_yaml *again = parse(scalars[i].canonical);
    ck_assert_str_eq(again->nodes[0].text, scalars[i].canonical);
    ab_yaml_free(again);
  }
}
END_TEST

START_TEST(numbers_are_exact) {
  struct ab_yaml *yaml = parse("[0.1, 1e-5, 1.7976931348623157e308, 4.9e-324]");
  ck_assert(yaml->nodes[1].number == 0.1 && yaml->nodes[2].number == 1e-5);
  ck_assert(yaml->nodes[3].number == 1.7976931348623157e308 && yaml->nodes[4].number == 4.9e-324);
  ab_yaml_free(yaml);
  yaml = parse("[-12, 9223372036854775808, 1.5]");
  ck_assert(yaml->nodes[1].integer == -12 && yaml->nodes[1].number == -12);
  ck_assert(yaml->nodes[2].integer == 0 && yaml->nodes[2].number == 9223372036854775808.0);
  ck_assert(yaml->nodes[3].integer == 0 && yaml->nodes[3].number == 1.5);
  ab_yaml_free(yaml);
}
END_TEST

START_TEST(a_number_has_255_characters_at_most) {
  for (size_t n = 254; n <= 256; n++) {
    char text[257] = "";
    memset(text, '1', n);
    struct ab_yaml *yaml = parse(text);
    ck_assert_int_eq(yaml->nodes[0].type, n > 255 ? AB_YAML_STRING : AB_YAML_FLOAT);
    ab_yaml_free(yaml);
  }
}
END_TEST

START_TEST(nodes_know_their_place_and_order) {
  struct ab_yaml *yaml = parse("# comment\na: 1\nlist:\n  - x\n  - [p, q]\nb: last\n");
  const struct ab_yaml_node *n = yaml->nodes;
  ck_assert_int_eq(n[0].type, AB_YAML_MAP);
  ck_assert_uint_eq(n[0].span, yaml->count);
  ck_assert_str_eq(n[1].string, "a");
  ck_assert_int_eq(n[2].line, 2);
  ck_assert_int_eq(n[2].column, 4);
  ck_assert_str_eq(n[4].text, "[x, [p, q]]");
  ck_assert_uint_eq(n[4].span, 5);
  ck_assert_str_eq(n[4 + n[4].span].string, "b");
  ab_yaml_free(yaml);
}
END_TEST

static const struct {
  const char *text, *sentence;
} refusals[] = {
    {"a: 1\nb: 2\na: 3\n", "t.yml:3:1: key 'a' is given twice, first on line 1"},
    {"x: {a: 1, b: 2, a: 3}\n", "key 'a' is given twice"},
    {"1: a\n\"1\": b\n", "t.yml:2:1: key '1' is given twice, first on line 1"},
    {"1_0: a\n\"1_0\": b\n", "t.yml:2:1: key '1_0' is given twice, first on line 1"},
    {"~: a\nnull: b\n", "t.yml:2:1: key 'null' is given twice, first on line 1"},
    {".inf: a\nb: 1\n.Inf: c\n", "t.yml:3:1: key '.Inf' is given twice, first on line 1"},
    {"true: a\nTRUE: b\n", "key 'TRUE' is given twice"},
    {"1.0: a\n1.00: b\n", "key '1.00' is given twice"},
    {"1_0: a\n10: b\n", "key '10' is given twice"},
    {"a: &x 1\n", "t.yml:1:4: anchors are not supported here, found 'x'"},
    {"a: *x\n", "t.yml:1:4: aliases are not supported here, found 'x'"},
    {"a: &x [1]\nb: *x\n", "anchors are not supported"},
    {"a: !!int 3\n", "tags are not supported here, found 'tag:yaml.org,2002:int'"},
    {"a: ! 3\n", "tags are not supported here, found '!'"},
    {"%TAG ! tag:x,2000:\n---\na: 1\n", "tag directives are not supported here"},
    {"a: 1\n---\nb: 2\n", "t.yml:2:1: a second document is not supported here"},
    {"a: 1\n...\n---\n", "a second document"},
    {"<<: {a: 1}\n", "merge keys are not supported here, found '<<'"},
    {"? [a]\n: b\n", "a key must be a name, found a list or map"},
    {"? {a: b}\n: c\n", "a key must be a name, found a list or map"},
    {"'': b\n", "a key must be a name, found nothing"},
    {"a: \"x\\0y\"\n", "a text with a NUL character"},
    {"a: [1, 2\n", "t.yml:"},
    {"a:\tb\n\tc: d\n", "t.yml:2:1: found a tab character that violates indentation"},
    {"a: b: c\n", "t.yml:1:5: mapping values are not allowed in this context"},
    {"a: \"x\n", "t.yml:"},
    {"a: \xff\n", "expected UTF-8 text"},
    {"a: \xc3\x28\n", "expected UTF-8 text"},
    {"a: \x01\n", "expected UTF-8 text"},
    {"\377\376a", "expected UTF-8 text"},
};

START_TEST(what_is_outside_the_subset_is_refused_by_name) {
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
    refuse_bytes(refusals[i].text, strlen(refusals[i].text), refusals[i].sentence);
  refuse_bytes("a: \0b", 5, "expected UTF-8 text");
}
END_TEST

START_TEST(ordinary_variety_is_read) {
  static const char *const texts[] = {"\357\273\277a: 1\n",
                                      "a: 1\r\nb: 2\r\n",
                                      "%YAML 1.1\n---\na: 1\n...\n",
                                      "---\na: 1\n",
                                      "# only a comment\n",
                                      "",
                                      "a: |\n  text\n  more\nb: >\n  folded\n  text\n",
                                      "a: 'it''s'\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) ab_yaml_free(parse(texts[i]));
}
END_TEST

/* Limits at n - 1, n and n + 1. */
static void check_limit(char *(*make)(size_t n), size_t limit, const char *sentence) {
  for (size_t n = limit - 1; n <= limit + 1; n++) {
    char *text = make(n);
    struct ab_yaml *yaml = NULL;
    ab_status status = ab_yaml_parse(&yaml, "t.yml", text, strlen(text));
    ck_assert_msg(status == (n > limit ? AB_EFORMAT : AB_OK), "%zu of %zu: %s", n, limit, ab_status_message());
    if (n > limit) ck_assert_msg(strstr(ab_status_message(), sentence) != NULL, "%s", ab_status_message());
    ab_yaml_free(yaml);
    free(text);
  }
}

static char *nested(size_t n) {
  char *text = calloc(2 * n + 1, 1);
  memset(text, '[', n);
  memset(text + n, ']', n);
  return text;
}

static char *nested_maps(size_t n) {
  char *text = calloc(6 * n + 1, 1);
  for (size_t i = 0; i + 1 < n; i++) strcat(text, "{a: ");
  strcat(text, "{}");
  for (size_t i = 0; i + 1 < n; i++) strcat(text, "}");
  return text;
}

static char *keys(size_t n) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  for (size_t i = 0; i < n; i++) fprintf(out, "k%zu: 1\n", i);
  fclose(out);
  return text;
}

static char *bytes(size_t n) {
  char *text = calloc(n + 1, 1);
  memset(text, 'x', n);
  return text;
}

START_TEST(limits_hold_at_their_edges) {
  check_limit(nested, AB_YAML_MAX_DEPTH, "nested deeper than 64 levels");
  check_limit(nested_maps, AB_YAML_MAX_DEPTH, "nested deeper than 64 levels");
  check_limit(keys, AB_YAML_MAX_KEYS, "more than 20000 keys");
  check_limit(bytes, AB_YAML_MAX_BYTES, "expected at most 1048576");
}
END_TEST

START_TEST(a_file_has_the_same_limit) {
  char *folder = new_scratch();
  struct ab_yaml *yaml = NULL;
  for (int extra = 0; extra < 2; extra++) {
    char *text = bytes((size_t)AB_YAML_MAX_BYTES + (size_t)extra);
    text[0] = '#';
    const char *path = write_text(folder, "big.yml", text);
    free(text);
    if (extra) ck_fails(ab_yaml_read(&yaml, path), AB_EFORMAT, "big.yml");
    else ck_ok(ab_yaml_read(&yaml, path));
    ab_yaml_free(yaml);
    yaml = NULL;
  }
  ck_fails(ab_yaml_read(&yaml, folder), AB_EIO, "expected a regular file");
  ck_fails(ab_yaml_read(&yaml, write_text(folder, "list.yml", "- a\n")), AB_EFORMAT,
           "list.yml:1:1: a list, expected a map");
  ck_fails(ab_yaml_read_beneath(&yaml, folder, "../x.yml"), AB_EFORMAT, "not a plain name");
  free_scratch(folder);
}
END_TEST

/* A megabyte of brackets must end at once: libyaml alone is quadratic there. */
START_TEST(deep_nesting_ends_early) {
  char *text = calloc(AB_YAML_MAX_BYTES + 1, 1);
  memset(text, '[', AB_YAML_MAX_BYTES);
  refuse_bytes(text, AB_YAML_MAX_BYTES, "t.yml:1:65: nested deeper than 64 levels");
  free(text);
}
END_TEST

/* Every prefix and every one-byte change of a document ends in a status, with nothing left behind. */
START_TEST(damaged_text_never_harms) {
  const char seed[] = "a: [1, 'two', {b: 3.5}]\n\"c\": |\n  text\nd: &e *f\n? g\n: !h i\n# end\n--- %x\n";
  static const char damage[] = {'\0', '\t', '\n', '[', '}', ':', '&', '"', '\'', '\x80', '\xff', '%', '!', '-'};
  char text[sizeof seed];
  size_t before = ab_mem_stats().live_blocks;
  for (size_t i = 0; i < sizeof seed; i++)
    for (size_t d = 0; d < sizeof damage; d++) {
      struct ab_yaml *yaml = NULL;
      memcpy(text, seed, sizeof seed);
      text[i] = damage[d];
      if (ab_yaml_parse(&yaml, "t.yml", text, sizeof seed - 1 - (d == 0 ? i : 0)) != AB_OK) ck_assert_ptr_null(yaml);
      ab_yaml_free(yaml);
    }
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("yaml");
  TCase *c = tcase_create("yaml");
  tcase_add_test(c, a_scalar_has_one_meaning_and_one_spelling);
  tcase_add_test(c, the_canonical_spelling_reads_back_as_itself);
  tcase_add_test(c, numbers_are_exact);
  tcase_add_test(c, a_number_has_255_characters_at_most);
  tcase_add_test(c, nodes_know_their_place_and_order);
  tcase_add_test(c, what_is_outside_the_subset_is_refused_by_name);
  tcase_add_test(c, ordinary_variety_is_read);
  tcase_add_test(c, limits_hold_at_their_edges);
  tcase_add_test(c, a_file_has_the_same_limit);
  tcase_add_test(c, deep_nesting_ends_early);
  tcase_add_test(c, damaged_text_never_harms);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
