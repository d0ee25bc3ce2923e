#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "report_doc.h"
#include "tap.h"

/* All caught but one that cannot apply; two inputs nobody would miss; two blind rows. */
static void teeth_of(struct ab_teeth *t) {
  *t = (struct ab_teeth){.controlled = true, .looked = true, .blinds = 2};
  for (size_t i = 0; i < AB_CONTROLS; i++) t->controls.row[i].outcome = AB_CONTROL_CAUGHT;
  struct ab_control_result *last = &t->controls.row[AB_CONTROLS - 1];
  *last = (struct ab_control_result){.outcome = AB_CONTROL_NA, .why = "no bounded comparison"};
  strcpy(t->controls.row[1].on, "step 0 layers/0/mlp/wo/kernel backward");
  ab_teeth_unobserved(t, "segment_ids", "every token has segment %d", 1);
  ab_teeth_unobserved(t, "layers/1/mlp/wo/kernel", "all gradients are 0\n\033[31m");
  t->blind[0] = (struct ab_blind){.name = "repeats", .reason = "one repeat", .hidden = "S34", .built = true};
  t->blind[1] = (struct ab_blind){.name = "dropout", .reason = "it has none", .hidden = "S46", .built = false};
}

static char *text_of(const struct ab_teeth *t, bool full) {
  char *text;
  ck_ok(ab_teeth_text(&text, t, full));
  return text;
}

#define has(text, part) ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in:\n%s", part, text)

START_TEST(three_lines_say_it_all) {
  struct ab_teeth t;
  teeth_of(&t);
  char *text = text_of(&t, false), expected[64];
  snprintf(expected, sizeof expected, "controls: %d of %d caught (n/a: ", AB_CONTROLS - 1, AB_CONTROLS - 1);
  ck_assert_int_eq(strncmp(text, expected, strlen(expected)), 0);
  has(text, " (n/a: one ulp against a golden: no bounded comparison)\n");
  has(text, "\nunobserved: segment_ids (every token has segment 1), layers/1/mlp/wo/kernel (all gradients are 0\\x0a");
  has(text, "\nblind to: repeats (not in this build: dropout)\n");
  ck_assert_msg(!strchr(text, '\033'), "a control character went through");
  ab_mem_free(text);
}
END_TEST

START_TEST(neighbours_that_cannot_apply_share_their_reason) {
  struct ab_teeth t;
  teeth_of(&t);
  t.controls.row[AB_CONTROLS - 2] = t.controls.row[AB_CONTROLS - 1];
  t.controls.row[0] = (struct ab_control_result){.outcome = AB_CONTROL_NA, .why = "one stage"};
  char *text = text_of(&t, false);
  has(text, " (n/a: undamaged copy: one stage; missing leaf against a record, one ulp against a golden: no bounded "
            "comparison)\n");
  ab_mem_free(text);
}
END_TEST

START_TEST(in_full_every_row_has_a_line) {
  struct ab_teeth t;
  teeth_of(&t);
  t.controls.row[2].outcome = AB_CONTROL_MISSED;
  t.controls.row[2].expected = AB_EXIT_DIFFERENT;
  char *text = text_of(&t, true);
  int lines = 0;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  ck_assert_int_eq(lines, 3 + AB_CONTROLS + 2);
  has(text, "\ncontrol: one ulp: caught, exit 0 of expected 0 (step 0 layers/0/mlp/wo/kernel backward); guards against: ");
  has(text, "\ncontrol: dropped microbatch: missed, exit 0 of expected 1; guards against: ");
  has(text, "\nblind: repeats: one repeat; hides: S34\n");
  ab_mem_free(text);
}
END_TEST

START_TEST(inputs_with_one_reason_share_it) {
  struct ab_teeth t = {.looked = true};
  const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) ab_teeth_unobserved(&t, names[i], "%s", i < 2 ? "zero" : "constant");
  char *text = text_of(&t, false);
  has(text, "unobserved: a, b (zero), c (constant)\n");
  ab_mem_free(text);
  for (int i = 0; i < 20; i++) ab_teeth_unobserved(&t, "d", "constant");
  text = text_of(&t, false);
  has(text, " d, d (constant), and 15 more\n");
  ab_mem_free(text);
}
END_TEST

START_TEST(nothing_to_say_is_said) {
  struct ab_teeth t = {.looked = true};
  char *text = text_of(&t, false);
  ck_assert_str_eq(text, "unobserved: no input\nblind to: nothing that this build can run\n");
  ab_mem_free(text);
  t.blind[0] = (struct ab_blind){.name = "dropout", .reason = "it has none", .hidden = "S46", .built = false};
  t.blinds = 1;
  text = text_of(&t, false);
  has(text, "blind to: nothing that this build can run (not in this build: dropout)\n");
  ab_mem_free(text);
  t.blind[0].built = true;
  text = text_of(&t, false);
  has(text, "blind to: dropout\n");
  ab_mem_free(text);
  t.blinds = 0;
  t.looked = false;
  text = text_of(&t, true);
  ck_assert_str_eq(text, "");
  ab_mem_free(text);
}
END_TEST

START_TEST(many_unobserved_inputs_are_counted) {
  static struct ab_teeth t;
  t = (struct ab_teeth){.looked = true};
  for (int i = 0; i < AB_UNOBSERVED_MAX + 5; i++) ab_teeth_unobserved(&t, "leaf", "number %d", i);
  char *text = text_of(&t, false);
  has(text, "unobserved: leaf (number 0), leaf (number 1), ");
  has(text, ", and 253 more\n");
  ab_mem_free(text);
}
END_TEST

/* The last element of a list, which has so many. */
static const struct ab_json *last_of(const struct ab_json *list, int count) {
  const struct ab_json *last = NULL;
  for (const struct ab_json *element = ab_json_first(list); element; element = ab_json_next(element), count--)
    last = element;
  ck_assert_int_eq(count, 0);
  return last;
}

START_TEST(json_holds_the_lists_and_fits_the_schema) {
  struct ab_teeth t;
  int64_t number;
  const char *word;
  teeth_of(&t);
  struct ab_report report = {.tool = "ab_compare", .teeth = &t};
  struct ab_json *json = json_of(&report), *schema = schema_root();
  struct schema s = {.root = schema};
  ck_assert_msg(schema_check(&s, json, schema), "%s", s.why);
  const struct ab_json *controls = ab_json_find(json, "controls"), *list = ab_json_find(controls, "list");
  ck_ok(ab_json_get_int64(&number, controls, "caught"));
  ck_assert_int_eq(number, AB_CONTROLS - 1);
  ck_ok(ab_json_get_string(&word, ab_json_next(ab_json_first(list)), "name"));
  ck_assert_str_eq(word, "one ulp");
  ck_ok(ab_json_get_int64(&number, ab_json_first(list), "got_exit"));
  ck_assert_int_eq(ab_json_type(ab_json_find(last_of(list, AB_CONTROLS), "got_exit")), AB_JSON_NULL);
  last_of(ab_json_find(ab_json_find(json, "unobserved"), "list"), 2);
  last_of(ab_json_find(json, "blind"), 2);
  ck_ok(ab_json_get_string(&word, ab_json_first(ab_json_find(ab_json_find(json, "unobserved"), "list")), "input"));
  ck_assert_str_eq(word, "segment_ids");
  ck_ok(ab_json_get_string(&word, ab_json_first(ab_json_find(json, "blind")), "hides"));
  ck_assert_str_eq(word, "S34");
  ab_json_free(json);
  ab_json_free(schema);
}
END_TEST

static void json_text(char **out, const struct ab_teeth *teeth) {
  struct ab_json_writer *w;
  ck_ok(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, false);
  ab_teeth_put(w, teeth);
  ab_json_put_end(w);
  ck_ok(ab_json_writer_text(out, w));
}

/* Each member on a line of its own, so that two reports can be compared line by line. */
START_TEST(json_has_one_member_per_line) {
  struct ab_teeth t;
  char *text;
  teeth_of(&t);
  json_text(&text, &t);
  has(text, "{\n  \"controls\": {\n    \"caught\": ");
  has(text, "    \"list\": [\n      {\n        \"name\": \"undamaged copy\",\n");
  ab_mem_free(text);
  t = (struct ab_teeth){.looked = true, .blinds = 1};
  ab_teeth_unobserved(&t, "positions", "constant");
  t.blind[0] = (struct ab_blind){.name = "repeats", .reason = "one repeat", .hidden = "S34", .built = true};
  json_text(&text, &t);
  ck_assert_str_eq(text, "{\n  \"controls\": null,\n  \"unobserved\": {\n    \"perturbed\": false,\n"
                         "    \"left_out\": 0,\n    \"not_applicable\": null,\n    \"list\": [\n      {\n"
                         "        \"input\": \"positions\",\n        \"reason\": \"constant\"\n      }\n    ]\n  },\n"
                         "  \"blind\": [\n    {\n      \"name\": \"repeats\",\n      \"reason\": \"one repeat\",\n"
                         "      \"hides\": \"S34\",\n      \"in_this_build\": true\n    }\n  ]\n}\n");
  ab_mem_free(text);
}
END_TEST

START_TEST(a_run_that_is_not_green_has_nulls) {
  struct ab_teeth none = {0};
  const struct ab_teeth *given[] = {NULL, &none};
  for (int i = 0; i < 2; i++) {
    struct ab_report report = {.tool = "ab_compare", .teeth = given[i]};
    struct ab_json *json = json_of(&report);
    static const char *const keys[] = {"controls", "unobserved", "blind"};
    for (int k = 0; k < 3; k++)
      ck_assert_msg(ab_json_type(ab_json_find(json, keys[k])) == AB_JSON_NULL, "%s is not null", keys[k]);
    ab_json_free(json);
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("teeth");
  TCase *c = tcase_create("teeth");
  tcase_add_test(c, three_lines_say_it_all);
  tcase_add_test(c, neighbours_that_cannot_apply_share_their_reason);
  tcase_add_test(c, in_full_every_row_has_a_line);
  tcase_add_test(c, inputs_with_one_reason_share_it);
  tcase_add_test(c, nothing_to_say_is_said);
  tcase_add_test(c, many_unobserved_inputs_are_counted);
  tcase_add_test(c, json_holds_the_lists_and_fits_the_schema);
  tcase_add_test(c, json_has_one_member_per_line);
  tcase_add_test(c, a_run_that_is_not_green_has_nulls);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
