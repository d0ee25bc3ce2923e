#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "tap.h"

enum { ACCEPT = 56, REJECT = 127, EITHER = 27 }; /* files in the corpus: a missing one is a failure */

/* Refused on purpose though the grammar allows them. */
static const char *const refused[] = {"y_object_escaped_null_in_key.json", "y_object_duplicated_key.json",
                                      "y_object_duplicated_key_and_value.json"};

static bool is_refused(const char *name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (!strcmp(name, refused[i])) return true;
  return false;
}

static void corpus_folder(char *path, size_t size) {
  snprintf(path, size, "%s/tests/corpora/json", getenv("AB_SOURCE_ROOT"));
}

/* "name:line:column: " with both above zero. */
static bool has_place(const char *message, const char *name) {
  const char *at = strstr(message, name);
  unsigned long line = 0, column = 0;
  int end = 0;
  return at && sscanf(at + strlen(name), ":%lu:%lu: %n", &line, &column, &end) == 2 && end > 0 && line > 0 &&
         column > 0;
}

static ab_status parse_file(struct ab_json **out, const char *name, size_t *size, char **text) {
  char folder[4096];
  corpus_folder(folder, sizeof folder);
  ck_ok(ab_file_read_beneath(text, size, folder, name, 1 << 20));
  return ab_json_parse(out, *text, *size, name, NULL);
}

static bool same_value(const struct ab_json *ours, const cJSON *theirs);

static bool same_children(const struct ab_json *ours, const cJSON *theirs) {
  const struct ab_json *a = ab_json_first(ours);
  const cJSON *b = theirs->child;
  for (; a && b; a = ab_json_next(a), b = b->next) {
    if (b->string && strcmp(ab_json_key(a), b->string)) return false;
    if (!same_value(a, b)) return false;
  }
  return !a && !b;
}

static bool same_value(const struct ab_json *ours, const cJSON *theirs) {
  double number;
  const char *text;
  bool truth;
  switch (ab_json_type(ours)) {
    case AB_JSON_NULL: return cJSON_IsNull(theirs);
    case AB_JSON_BOOL: return ab_json_bool(&truth, ours) == AB_OK && truth == !!cJSON_IsTrue(theirs);
    case AB_JSON_NUMBER:
      return cJSON_IsNumber(theirs) && ab_json_double(&number, ours) == AB_OK && number == theirs->valuedouble;
    case AB_JSON_STRING:
      return cJSON_IsString(theirs) && (ab_json_string(&text, ours) != AB_OK || !strcmp(text, theirs->valuestring));
    default: return same_children(ours, theirs);
  }
}

static void check_accepted(const char *name) {
  struct ab_json *root;
  char *text;
  size_t size;
  ab_status status = parse_file(&root, name, &size, &text);
  if (is_refused(name)) {
    ck_assert_msg(status == AB_EFORMAT && has_place(ab_status_message(), name), "%s: %s", name, ab_status_message());
  } else {
    ck_assert_msg(status == AB_OK, "%s: %s", name, ab_status_message());
    cJSON *theirs = cJSON_ParseWithLength(text, size);
    ck_assert_msg(!theirs || same_value(root, theirs), "%s: the two readers differ", name);
    cJSON_Delete(theirs);
    ab_json_free(root);
  }
  ab_mem_free(text);
}

static void check_rejected(const char *name) {
  struct ab_json *root;
  char *text;
  size_t size;
  ab_status status = parse_file(&root, name, &size, &text);
  ck_assert_msg(status == AB_EFORMAT, "%s is accepted", name);
  ck_assert_msg(has_place(ab_status_message(), name), "%s: \"%s\" has no line and column", name, ab_status_message());
  ab_mem_free(text);
}

static void check_either(const char *name) {
  struct ab_json *root = NULL;
  char *text;
  size_t size;
  if (parse_file(&root, name, &size, &text) == AB_OK) ab_json_free(root);
  ab_mem_free(text);
}

static int run(char kind, void (*check)(const char *name)) {
  char folder[4096];
  struct ab_names names;
  int count = 0;
  size_t live = ab_mem_stats().live_blocks;
  corpus_folder(folder, sizeof folder);
  ck_ok(ab_folder_list(&names, folder, 1000));
  for (size_t i = 0; i < names.count; i++) {
    if (names.name[i][0] != kind || names.name[i][1] != '_') continue;
    check(names.name[i]);
    count++;
  }
  ab_names_free(&names);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, live);
  return count;
}

START_TEST(must_accept) { ck_assert_int_eq(run('y', check_accepted), ACCEPT); }
END_TEST
START_TEST(must_reject) { ck_assert_int_eq(run('n', check_rejected), REJECT); }
END_TEST
START_TEST(may_go_either_way) { ck_assert_int_eq(run('i', check_either), EITHER); }
END_TEST

static void check_cut_and_flipped(const char *name) {
  char folder[4096];
  char *text;
  size_t size;
  corpus_folder(folder, sizeof folder);
  ck_ok(ab_file_read_beneath(&text, &size, folder, name, 1 << 20));
  for (size_t i = 0; i < size && i < 64; i++)
    for (int bit = 0; bit < 8; bit++) {
      struct ab_json *root = NULL;
      text[i] = (char)(text[i] ^ 1 << bit);
      if (ab_json_parse(&root, text, bit ? size : i, name, NULL) == AB_OK) ab_json_free(root);
      text[i] = (char)(text[i] ^ 1 << bit);
    }
  ab_mem_free(text);
}

START_TEST(cut_and_flipped_files_never_crash) { ck_assert_int_eq(run('y', check_cut_and_flipped), ACCEPT); }
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("json_corpus");
  TCase *c = tcase_create("corpus");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, must_accept);
  tcase_add_test(c, must_reject);
  tcase_add_test(c, may_go_either_way);
  tcase_add_test(c, cut_and_flipped_files_never_crash);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
