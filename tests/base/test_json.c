#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "sweep.h"
#include "tap.h"

static struct ab_json *parse(const char *text) {
  struct ab_json *root = NULL;
  ck_ok(ab_json_parse(&root, text, strlen(text), "g.json", NULL));
  return root;
}

static ab_status try_parse(const char *text, const struct ab_json_limits *limits) {
  struct ab_json *root = NULL;
  ab_status status = ab_json_parse(&root, text, strlen(text), "g.json", limits);
  if (status == AB_OK) ab_json_free(root);
  return status;
}

START_TEST(values_are_read_as_written) {
  struct ab_json *root = parse(
      "{\"i\": 9223372036854775807, \"d\": 0.1, \"s\": \"a\\u00e9\\ud83d\\ude00\\n\", \"t\": true, "
      "\"n\": null, \"a\": [1, [2], {\"x\": -5}]}");
  int64_t i;
  double d;
  const char *s;
  bool t;
  ck_ok(ab_json_get_int64(&i, root, "i"));
  ck_assert(i == INT64_MAX);
  ck_ok(ab_json_get_double(&d, root, "d"));
  ck_assert(d == 0.1);
  ck_ok(ab_json_get_string(&s, root, "s"));
  ck_assert_str_eq(s, "a\xc3\xa9\xf0\x9f\x98\x80\n");
  ck_ok(ab_json_get_bool(&t, root, "t"));
  ck_assert(t);
  const struct ab_json *a;
  ck_ok(ab_json_get_array(&a, root, "a"));
  ck_assert_uint_eq(ab_json_size(a), 3);
  ck_assert_ptr_null(ab_json_at(a, 3));
  ck_assert_ptr_null(ab_json_at(ab_json_at(a, 1), 1));
  ck_ok(ab_json_get_int64(&i, ab_json_at(a, 2), "x"));
  ck_assert_int_eq(i, -5);
  ck_assert_int_eq(ab_json_type(ab_json_find(root, "n")), AB_JSON_NULL);
  ck_assert_ptr_null(ab_json_find(root, "I"));
  ab_json_free(root);
  char digits[65] = ""; /* its end is the end of a block, where AddressSanitizer looks */
  memset(digits, '1', 64);
  ck_ok(try_parse(digits, NULL));
}
END_TEST

START_TEST(members_come_in_order) {
  struct ab_json *root = parse("{\"b\": 1, \"a\": {}, \"c\": []}");
  char keys[8] = "";
  for (const struct ab_json *m = ab_json_first(root); m; m = ab_json_next(m)) strcat(keys, ab_json_key(m));
  ck_assert_str_eq(keys, "bac");
  ck_assert_ptr_null(ab_json_first(ab_json_find(root, "a")));
  ck_assert_ptr_null(ab_json_next(root));
  ab_json_free(root);
}
END_TEST

START_TEST(sentences_name_text_place_and_key) {
  struct ab_json *root =
      parse("{\"steps\": [{\"loss\": \"x\", \"n\": 1.5, \"big\": 9223372036854775808, \"z\": \"a\\u0000b\"}]}");
  const struct ab_json *step = ab_json_at(ab_json_find(root, "steps"), 0);
  double d;
  int64_t i;
  const char *s;
  ck_fails(ab_json_get_double(&d, step, "loss"), AB_EFORMAT, "g.json: 'steps[0].loss' is a string, expected a number");
  ck_fails(ab_json_get_double(&d, step, "Loss"), AB_EFORMAT, "g.json: 'steps[0]' lacks the key 'Loss'");
  ck_fails(ab_json_get_double(&d, root, "loss"), AB_EFORMAT, "g.json lacks the key 'loss'");
  ck_fails(ab_json_get_int64(&i, step, "n"), AB_EFORMAT, "'steps[0].n' is 1.5, expected an integer");
  ck_fails(ab_json_get_int64(&i, step, "big"), AB_EFORMAT, "64 bits");
  ck_fails(ab_json_get_string(&s, step, "z"), AB_EFORMAT, "NUL");
  ck_fails(ab_json_get_object(&step, root, "steps"), AB_EFORMAT, "is an array, expected an object");
  ab_json_free(root);
}
END_TEST

START_TEST(an_object_has_exactly_its_keys) {
  static const char *const keys[] = {"a", "?b", NULL};
  static const struct {
    const char *text, *sentence; /* NULL: is taken */
  } rows[] = {{"{\"a\": 1}", NULL},
              {"{\"b\": 1, \"a\": 1}", NULL},
              {"{\"b\": 1}", "g.json lacks the key 'a'"},
              {"{\"a\": 1, \"?b\": 1}", "g.json: '?b' is not a key of a row"},
              {"{\"a\": 1, \"c\": 1}", "g.json: 'c' is not a key of a row"},
              {"[1]", "g.json is an array, expected an object"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_json *root = parse(rows[i].text);
    if (rows[i].sentence) ck_fails(ab_json_only_keys(root, keys, "a row"), AB_EFORMAT, rows[i].sentence);
    else ck_ok(ab_json_only_keys(root, keys, "a row"));
    ab_json_free(root);
  }
}
END_TEST

START_TEST(a_number_that_is_none_has_one_of_three_words) {
  static const char *const rows[][2] = {
      {"{\"nonfinite\": \"NaN\"}", "g.json: 'nonfinite' is not one of nan, inf, -inf"},
      {"{\"nonfinite\": 1}", "g.json: 'nonfinite' is a number, expected a string"},
      {"{\"nonfinite\": \"nan\", \"x\": 1}", "g.json is an object, expected a number"},
      {"{\"finite\": \"nan\"}", "g.json is an object, expected a number"},
      {"\"nan\"", "g.json is a string, expected a number"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double d;
    struct ab_json *root = parse(rows[i][0]);
    ck_fails(ab_json_double_or_nonfinite(&d, root), AB_EFORMAT, rows[i][1]);
    ab_json_free(root);
  }
}
END_TEST

START_TEST(a_value_knows_its_line) {
  struct ab_json *root;
  const char *text = "\n{ \"a\":\r\n [1, \"\\n\",\n\n 3] }";
  ck_ok(ab_json_parse(&root, text, strlen(text), "g.json", NULL));
  const struct ab_json *array = ab_json_find(root, "a");
  const struct {
    const struct ab_json *value;
    size_t line;
  } cases[] = {{root, 2}, {array, 3}, {ab_json_at(array, 0), 3}, {ab_json_at(array, 1), 3}, {ab_json_at(array, 2), 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_msg(ab_json_line(cases[i].value) == cases[i].line, "value %zu is on line %zu", i,
                  ab_json_line(cases[i].value));
  ab_json_free(root);
}
END_TEST

START_TEST(rejections_have_line_and_column) {
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {"", "g.json:1:1: expected a value, found the end"},
      {"{\n  \"a\" 1}", "g.json:2:7: expected ':' after a key, found '1'"},
      {"{\"\xc3\xa9\": tru}", "g.json:1:7: expected a value, found 't'"},
      {"[1,\n2,\n]", "g.json:3:1: expected a value, found ']'"},
      {"{\"a\": 1, \"b\": 2, \"a\": 3}", "g.json:1:18: the key 'a' stands twice"},
      {"{\"a\": 1, \"\\u0061\": 3}", "g.json:1:10: the key 'a' stands twice"},
      {"{\"a\\u0000\": 1}", "g.json:1:2: a key holds a NUL"},
      {"[1e999]", "g.json:1:2: the number does not fit"},
      {"[\"\xed\xa0\x80\"]", "g.json:1:3: the text is not valid UTF-8"},
      {"[\"\\ud800\"]", "g.json:1:3: half of a surrogate pair"},
      {"[\"\\ud800\\ue000\"]", "g.json:1:3: half of a surrogate pair"},
      {"[\"\\ud800\\ud7ff\"]", "g.json:1:3: half of a surrogate pair"},
      {"[\"\\udc00\\udc00\"]", "g.json:1:3: half of a surrogate pair"},
      {"[\"\\udfff\"]", "g.json:1:3: half of a surrogate pair"},
      {"[01]", "g.json:1:3: expected ',' or ']', found '1'"},
      {"[1\x7f]", "g.json:1:3: expected ',' or ']', found byte 0x7f"},
      {"[- 1]", "g.json:1:3: expected a digit, found byte 0x20"},
      {"1 2", "g.json:1:3: expected the end, found '2'"},
      {"\xef\xbb\xbf{}", "g.json:1:1: a byte order mark"},
      {"\xef\xbb\xbf", "g.json:1:1: a byte order mark"},
      {"NaN", "g.json:1:1: expected a value, found 'N'"},
      {"\"", "g.json:1:2: expected '\"' at the end of a string, found the end"},
      {"\"abc", "g.json:1:5: expected '\"' at the end of a string, found the end"},
      {"\"\\ud800\\udc00", "g.json:1:14: expected '\"' at the end of a string, found the end"},
      {"{\"abc", "g.json:1:6: expected '\"' at the end of a string, found the end"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_fails(try_parse(cases[i].text, NULL), AB_EFORMAT, cases[i].sentence);
}
END_TEST

START_TEST(escapes_are_utf_8_of_every_length) {
  static const char *const rows[][2] = {{"\\u007f", "\x7f"},
                                        {"\\u0080", "\xc2\x80"},
                                        {"\\u07ff", "\xdf\xbf"},
                                        {"\\u0800", "\xe0\xa0\x80"},
                                        {"\\uABcd", "\xea\xaf\x8d"},
                                        {"\\ud7ff", "\xed\x9f\xbf"},
                                        {"\\ue000", "\xee\x80\x80"},
                                        {"\\uffff", "\xef\xbf\xbf"},
                                        {"\\ud800\\udc00", "\xf0\x90\x80\x80"},
                                        {"\\udbff\\udfff", "\xf4\x8f\xbf\xbf"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[64];
    const char *read;
    snprintf(text, sizeof text, "[\"%s\"]", rows[i][0]);
    struct ab_json *root = parse(text);
    ck_ok(ab_json_string(&read, ab_json_at(root, 0)));
    ck_assert_msg(strcmp(read, rows[i][1]) == 0, "%s", rows[i][0]);
    ab_json_free(root);
  }
}
END_TEST

/* Each byte in a string, behind a backslash, as each digit of an escape, and as the end of a number. */
START_TEST(every_byte_is_taken_where_it_may_stand) {
  static const struct {
    const char *form, *taken; /* NULL: all but a quote, a backslash and control characters */
  } rows[] = {{"\"%c\"", NULL},
              {"\"\\%c\"", "\"\\/bfnrt"},
              {"\"\\u%c000\"", "0123456789abcdefABCDEF"},
              {"\"\\u000%c\"", "0123456789abcdefABCDEF"},
              {"1%c", "0123456789 \t\n\r"},
              {"-%c", "0123456789"},
              {"0.%c", "0123456789"},
              {"0e%c", "0123456789"},
              {"0e+%c", "0123456789"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int c = 1; c < 0x80; c++) {
      char text[32];
      snprintf(text, sizeof text, rows[i].form, c);
      bool taken = rows[i].taken ? strchr(rows[i].taken, c) != NULL : c >= 0x20 && c != '"' && c != '\\';
      ck_assert_msg((try_parse(text, NULL) == AB_OK) == taken, "%s", text);
    }
}
END_TEST

static void brackets(char *text, int depth) {
  memset(text, '[', (size_t)depth);
  memset(text + depth, ']', (size_t)depth);
  text[2 * depth] = '\0';
}

START_TEST(limits_hold_at_their_border) {
  char text[256];
  for (int depth = 31; depth <= 33; depth++) {
    brackets(text, depth);
    if (depth <= 32) ck_ok(try_parse(text, NULL));
    else ck_fails(try_parse(text, NULL), AB_EFORMAT, "g.json:1:33: nested deeper than 32");
  }
  struct ab_json_limits limits = {.bytes = 7, .values = 4, .depth = 2};
  ck_ok(try_parse("[1, 2]", &limits));
  ck_ok(try_parse("[1,2,3]", &limits));
  ck_fails(try_parse("[1,2,34]", &limits), AB_EFORMAT, "8 bytes, at most 7");
  limits.bytes = 9;
  static const char *const fifth[] = {"[1,2,3,4]", "[1,2,3,[]]", "[1,2,3,{}]", "[1,2,3,\"\"]"};
  for (size_t i = 0; i < sizeof fifth / sizeof *fifth; i++) {
    limits.bytes = strlen(fifth[i]);
    ck_fails(try_parse(fifth[i], &limits), AB_EFORMAT, "more than 4 values");
  }
  limits.bytes = 12;
  ck_fails(try_parse("[1,2,3,true]", &limits), AB_EFORMAT, "more than 4 values");
  char digits[310] = "";
  memset(digits, '9', 308);
  ck_ok(try_parse(digits, NULL));
  digits[308] = '9';
  ck_fails(try_parse(digits, NULL), AB_EFORMAT, "g.json:1:1: the number does not fit");
}
END_TEST

/* The largest text that is read; the values that it may hold are 8 million, which limits_hold_at_their_border counts in
 * small. */
START_TEST(a_text_of_64_mebibytes_and_not_one_more) {
  const size_t most = (size_t)64 << 20;
  char *text;
  ck_assert_uint_eq(ab_json_default_limits.bytes, most);
  ck_assert_uint_eq(ab_json_default_limits.values, 8000000);
  ck_ok(ab_mem_new(&text, most + 1, 1));
  memset(text, ' ', most + 1);
  memcpy(text, "[]", 2);
  for (size_t size = most - 1; size <= most + 1; size++) {
    struct ab_json *root = NULL;
    ab_status status = ab_json_parse(&root, text, size, "g.json", NULL);
    ck_assert_msg(status == (size > most ? AB_EFORMAT : AB_OK), "%zu: %s", size, ab_status_message());
    ab_json_free(root);
  }
  ck_fails(ab_json_parse(&(struct ab_json *){NULL}, text, most + 1, "g.json", NULL), AB_EFORMAT,
           "67108865 bytes, at most 67108864");
  ab_mem_free(text);
}
END_TEST

static size_t print_members(char *text, int count, int again) {
  size_t used = (size_t)sprintf(text, "{");
  for (int i = 0; i < count; i++) used += (size_t)sprintf(text + used, "%s\"key%d\": %d", i ? ", " : "", i, i);
  if (again >= 0) used += (size_t)sprintf(text + used, ", \"key%d\": 0", again);
  return used + (size_t)sprintf(text + used, "}");
}

START_TEST(large_objects_find_every_key_and_every_duplicate) {
  static const int sizes[] = {1, 15, 16, 17, 18, 100, 50000};
  char *text, key[32];
  ck_ok(ab_mem_new(&text, 2000000, 1));
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    struct ab_json *root = NULL;
    int64_t value;
    ck_ok(ab_json_parse(&root, text, print_members(text, sizes[k], -1), "g.json", NULL));
    for (int i = 0; i < sizes[k]; i++) {
      snprintf(key, sizeof key, "key%d", i);
      ck_ok(ab_json_get_int64(&value, root, key));
      ck_assert_int_eq(value, i);
    }
    ck_assert_ptr_null(ab_json_find(root, "key"));
    ab_json_free(root);
    size_t size = print_members(text, sizes[k], sizes[k] / 2);
    ck_fails(ab_json_parse(&root, text, size, "g.json", NULL), AB_EFORMAT, "stands twice");
  }
  ab_mem_free(text);
}
END_TEST

/* Their keys are the same, so a look-up that strays into the other one's index finds a member there. */
START_TEST(large_objects_of_one_text_keep_their_members) {
  char *text, key[32];
  size_t used = 1;
  struct ab_json *root = NULL;
  ck_ok(ab_mem_new(&text, 100000, 1));
  text[0] = '[';
  for (int o = 0; o < 5; o++) {
    used += print_members(text + used, 20 + 30 * o, -1);
    used += (size_t)sprintf(text + used, o < 4 ? "," : "]");
  }
  ck_ok(ab_json_parse(&root, text, used, "g.json", NULL));
  for (uint32_t o = 0; o < 5; o++)
    for (uint32_t i = 0; i < 20 + 30 * o; i++) {
      snprintf(key, sizeof key, "key%u", i);
      const struct ab_json *object = ab_json_at(root, o), *member = ab_json_first(object);
      for (uint32_t k = 0; k < i; k++) member = ab_json_next(member);
      ck_assert_msg(ab_json_find(object, key) == member, "%s of object %u", key, o);
    }
  ab_json_free(root);
  ab_mem_free(text);
}
END_TEST

static void write_sample(struct ab_json_writer *w) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "name", "a \"b\\\n\x01\x7f\xff\xc3\xa9");
  ab_json_put_int64(w, "least", INT64_MIN);
  ab_json_put_array(w, "values", true);
  ab_json_put_double(w, NULL, 0.1);
  ab_json_put_float(w, NULL, 0.1f);
  ab_json_put_double(w, NULL, NAN);
  ab_json_put_double(w, NULL, -INFINITY);
  ab_json_put_float(w, NULL, INFINITY);
  ab_json_put_end(w);
  ab_json_put_object(w, "empty", false);
  ab_json_put_end(w);
  ab_json_put_bool(w, "yes", true);
  ab_json_put_null(w, "none");
  ab_json_put_end(w);
}

static const char sample[] =
    "{\n"
    "  \"name\": \"a \\\"b\\\\\\n\\u0001\\u007f\xef\xbf\xbd\xc3\xa9\",\n"
    "  \"least\": -9223372036854775808,\n"
    "  \"values\": [0.1, 0.1, {\"nonfinite\": \"nan\"}, {\"nonfinite\": \"-inf\"}, "
    "{\"nonfinite\": \"inf\"}],\n"
    "  \"empty\": {},\n"
    "  \"yes\": true,\n"
    "  \"none\": null\n"
    "}\n";

START_TEST(what_is_written_is_read_back) {
  struct ab_json_writer *w;
  const char *text;
  size_t size;
  ck_ok(ab_json_writer_new(&w));
  write_sample(w);
  ck_ok(ab_json_writer_finish(&text, &size, w));
  ck_assert_str_eq(text, sample);
  ck_assert_uint_eq(size, strlen(sample));
  struct ab_json *root = parse(text);
  const struct ab_json *values = ab_json_find(root, "values");
  double d;
  ck_ok(ab_json_double_or_nonfinite(&d, ab_json_at(values, 2)));
  ck_assert(isnan(d));
  ck_ok(ab_json_double_or_nonfinite(&d, ab_json_at(values, 3)));
  ck_assert(d == -INFINITY);
  ck_ok(ab_json_double_or_nonfinite(&d, ab_json_at(values, 4)));
  ck_assert(d == INFINITY);
  ck_fails(ab_json_double(&d, ab_json_at(values, 3)), AB_EFORMAT, "'values[3]' is an object, expected a number");
  ck_fails(ab_json_get_double(&d, root, "none"), AB_EFORMAT, "is null, expected a number");
  cJSON *theirs = cJSON_Parse(text);
  ck_assert_ptr_nonnull(theirs);
  cJSON_Delete(theirs);
  ab_json_free(root);
  ab_json_writer_free(w);
}
END_TEST

/* Wherever its room ends: indented line breaks are the longest pieces that are put at once. */
START_TEST(a_text_grows_where_it_has_to) {
  enum { DEPTH = 60, ELEMENTS = 40, PIECE = 128 };
  char start[PIECE + 1] = "";
  for (size_t n = 0; n < PIECE; n++) {
    struct ab_json_writer *w;
    struct ab_json *root;
    char *text;
    start[n] = 'x';
    ck_ok(ab_json_writer_new(&w));
    for (int i = 0; i < DEPTH; i++) ab_json_put_array(w, NULL, false);
    ab_json_put_string(w, NULL, start);
    for (int i = 1; i < ELEMENTS; i++) ab_json_put_int64(w, NULL, i);
    for (int i = 0; i < DEPTH; i++) ab_json_put_end(w);
    ck_ok(ab_json_writer_text(&text, w));
    ck_ok(ab_json_parse(&root, text, strlen(text), "g.json", &(struct ab_json_limits){1 << 20, 1000, DEPTH}));
    const struct ab_json *inner = root;
    while (ab_json_type(ab_json_at(inner, 0)) == AB_JSON_ARRAY) inner = ab_json_at(inner, 0);
    ck_assert_uint_eq(ab_json_size(inner), ELEMENTS);
    ab_json_free(root);
    ab_mem_free(text);
  }
}
END_TEST

START_TEST(an_open_container_is_a_failure) {
  struct ab_json_writer *w;
  const char *text;
  size_t size;
  ck_ok(ab_json_writer_new(&w));
  ab_json_put_array(w, NULL, false);
  ck_fails(ab_json_writer_finish(&text, &size, w), AB_EFORMAT, "1 open containers");
  ab_json_writer_free(w);
}
END_TEST

START_TEST(nothing_is_written_deeper_than_64) {
  for (int depth = 63; depth <= 65; depth++) {
    struct ab_json_writer *w;
    char *text;
    ck_ok(ab_json_writer_new(&w));
    for (int i = 0; i < depth; i++) ab_json_put_array(w, NULL, true);
    for (int i = 0; i < depth; i++) ab_json_put_end(w);
    if (depth > 64) {
      ck_fails(ab_json_writer_text(&text, w), AB_EFORMAT, "nested deeper than 64");
      continue;
    }
    ck_ok(ab_json_writer_text(&text, w));
    ck_assert_uint_eq(strlen(text), 2 * (size_t)depth + 1);
    ab_mem_free(text);
  }
}
END_TEST

static int files;

static ab_status write_file(const char *path, const void *bytes, size_t size) {
  files++;
  if (strcmp(path, "full")) return size == 3 && !memcmp(bytes, "[]\n", 3) ? AB_OK : AB_EFORMAT;
  return AB_FAIL(AB_EIO, "%s: no space", path);
}

static struct ab_json_writer *array_writer(bool ended) {
  struct ab_json_writer *w;
  ck_ok(ab_json_writer_new(&w));
  ab_json_put_array(w, NULL, true);
  if (ended) ab_json_put_end(w);
  return w;
}

START_TEST(only_a_whole_text_goes_into_a_file) {
  files = 0;
  ck_fails(ab_json_writer_file(array_writer(false), "f", write_file), AB_EFORMAT, "1 open containers");
  ck_assert_int_eq(files, 0);
  ck_fails(ab_json_writer_file(array_writer(true), "full", write_file), AB_EIO, "no space");
  ck_ok(ab_json_writer_file(array_writer(true), "f", write_file));
  ck_assert_int_eq(files, 2);
}
END_TEST

static ab_status parse_and_write(void) {
  static char text[4096];
  struct ab_json *root;
  print_members(text, 100, -1);
  AB_TRY(ab_json_parse(&root, text, strlen(text), "g.json", NULL));
  ab_json_free(root);
  struct ab_json_writer *writer;
  const char *out;
  size_t size;
  AB_TRY(ab_json_writer_new(&writer));
  write_sample(writer);
  ab_status status = ab_json_writer_finish(&out, &size, writer);
  ab_json_writer_free(writer);
  return status;
}

START_TEST(every_refused_allocation_is_survived) { ck_assert_uint_ge(sweep_allocations(parse_and_write), 7); }
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("json");
  TCase *c = tcase_create("json");
  tcase_add_test(c, values_are_read_as_written);
  tcase_add_test(c, members_come_in_order);
  tcase_add_test(c, sentences_name_text_place_and_key);
  tcase_add_test(c, an_object_has_exactly_its_keys);
  tcase_add_test(c, a_number_that_is_none_has_one_of_three_words);
  tcase_add_test(c, a_value_knows_its_line);
  tcase_add_test(c, rejections_have_line_and_column);
  tcase_add_test(c, escapes_are_utf_8_of_every_length);
  tcase_add_test(c, every_byte_is_taken_where_it_may_stand);
  tcase_add_test(c, limits_hold_at_their_border);
  tcase_add_test(c, a_text_of_64_mebibytes_and_not_one_more);
  tcase_add_test(c, large_objects_find_every_key_and_every_duplicate);
  tcase_add_test(c, large_objects_of_one_text_keep_their_members);
  tcase_add_test(c, what_is_written_is_read_back);
  tcase_add_test(c, a_text_grows_where_it_has_to);
  tcase_add_test(c, an_open_container_is_a_failure);
  tcase_add_test(c, nothing_is_written_deeper_than_64);
  tcase_add_test(c, only_a_whole_text_goes_into_a_file);
  tcase_add_test(c, every_refused_allocation_is_survived);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
