/* The list of a suite: what is read, what is refused with line and column, and how results fold and print. */
#include <string.h>

#include "file.h"
#include "mem.h"
#include "suite.h"
#include "tap.h"

static char *scratch, path[4096];

static void start(void) {
  ck_ok(ab_scratch_new(&scratch, NULL));
  snprintf(path, sizeof path, "%s/list.yml", scratch);
}

static void stop(void) {
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
  ck_assert_uint_eq(ab_mem_stats().live_bytes, 0);
}

static ab_status read_text(struct ab_suite *out, const char *text) {
  ck_ok(ab_file_write(path, text, strlen(text)));
  return ab_suite_read(out, path);
}

START_TEST(test_rows_are_read) {
  struct ab_suite s;
  ck_ok(read_text(&s, "about: two\n"
                      "cases:\n"
                      "  - {name: one, case: sub/one, a: nnx, b: sequential, overrides: [steps=1, vocab_size=32]}\n"
                      "  - name: two\n"
                      "    skip: needs fp8\n"
                      "  - {name: three, case: /etc/hostname}\n"));
  ck_assert_uint_eq(s.rows, 3);
  ck_assert_str_eq(s.about, "two");
  ck_assert(strncmp(s.row[0].target, scratch, strlen(scratch)) == 0);
  ck_assert_str_eq(s.row[0].target + strlen(scratch), "/sub/one");
  ck_assert_str_eq(s.row[0].a, "nnx");
  ck_assert_str_eq(s.row[0].b, "sequential");
  ck_assert_uint_eq(s.row[0].override_count, 2);
  ck_assert_str_eq(s.row[0].overrides[1], "vocab_size=32");
  ck_assert_ptr_null(s.row[0].golden);
  ck_assert_str_eq(s.row[1].skip, "needs fp8");
  ck_assert_ptr_null(s.row[1].target);
  ck_assert_str_eq(s.row[2].target, "/etc/hostname");
  ab_suite_free(&s);
}
END_TEST

START_TEST(test_a_case_folder_owes_a_golden) {
  struct ab_suite s;
  char folder[4200];
  snprintf(folder, sizeof folder, "%s/one", scratch);
  ck_ok(ab_folder_make(folder));
  ck_ok(read_text(&s, "cases: [{name: one, case: one}]"));
  ck_assert_str_eq(s.row[0].golden + strlen(folder), "/golden.json");
  ab_suite_free(&s);
}
END_TEST

/* What is wrong, and what the sentence must say. */
static const struct {
  const char *text, *says;
} malformed[] = {
    {"", "has no 'cases'"},
    {"about: nothing\n", "has no 'cases'"},
    {"cases: []\n", ":1:8: 'cases' is empty"},
    {"cases: one\n", "'cases' is a string, expected a list"},
    {"- name: one\n", "list.yml"},
    {"cases: [one]\n", "a case is a string"},
    {"cases: [{}]\n", "the case has no name"},
    {"cases: [{name: one}]\n", "'one' has neither case nor skip"},
    {"cases: [{name: one, case: x, skip: y}]\n", "'one' has both case and skip"},
    {"cases: [{name: one, skip: y, a: nnx}]\n", "'one' is skipped and says how to run"},
    {"cases: [{name: one, case: 7}]\n", "'case' is an integer, expected a string"},
    {"cases: [{name: '', case: x}]\n", "'name' is empty"},
    {"cases: [{name: \"a\\eb\", case: x}]\n", "'name' is empty or holds control characters"},
    {"cases:\n  - {name: one, case: x}\n  - {name: one, case: y}\n", ":3:5: the name 'one' is given twice"},
    {"cases: [{name: one, cases: x}]\n", "'cases' is not a key of a case"},
    {"case: [{name: one, case: x}]\n", "'case' is not a key of a suite"},
    {"cases: [{name: one, case: x, overrides: steps=1}]\n", "'overrides' is a string"},
    {"cases: [{name: one, case: x, overrides: [steps]}]\n", "override 'steps' is not key=value"},
    {"cases: [{name: one, case: x, overrides: [3]}]\n", "'overrides' is an integer, expected a string"},
    {"cases: [{name: one, name: two, case: x}]\n", "list.yml"},
    {"cases: [{name: one, case: x}\n", "list.yml"},
    {"cases: &a [*a]\n", "list.yml"},
};

START_TEST(test_malformed_lists_are_refused) {
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    struct ab_suite s;
    ck_fails(read_text(&s, malformed[i].text), AB_EFORMAT, malformed[i].says);
    ab_status_clear();
  }
  struct ab_suite s;
  ck_fails(ab_suite_read(&s, "nowhere/list.yml"), AB_ENOTFOUND, "nowhere/list.yml");
}
END_TEST

/* Rows of a list that does not come from a file. */
static struct ab_suite_row rows[] = {{.name = "good"}, {.name = "skipped", .skip = "needs fp8"}, {.name = "bad"}};
static const struct ab_suite list = {.path = "list.yml", .row = rows, .rows = 3};

START_TEST(test_exit_codes_fold) {
  struct ab_suite_result results[3] = {{0}};
  ck_assert_int_eq(ab_suite_exit(&list, results), AB_EXIT_EQUAL);
  results[1].exit = AB_EXIT_USAGE; /* of a row that did not run: does not count */
  results[2].exit = AB_EXIT_DIFFERENT;
  ck_assert_int_eq(ab_suite_exit(&list, results), AB_EXIT_DIFFERENT);
  results[0].exit = AB_EXIT_GOLDEN;
  ck_assert_int_eq(ab_suite_exit(&list, results), AB_EXIT_GOLDEN);
  const struct ab_suite nothing = {.row = rows + 1, .rows = 1};
  ck_assert_int_eq(ab_suite_exit(&nothing, results), AB_EXIT_INCOMPARABLE);
}
END_TEST

START_TEST(test_the_matrix_prints) {
  char name[4200], *text, bad[] = "DIFFERENT: linen against nnx\n";
  size_t size;
  struct ab_suite_result results[3] = {{.schedule = "2-4-2-1-1", .pair = "linen:nnx"},
                                       {0},
                                       {.exit = AB_EXIT_DIFFERENT, .pair = "linen:nnx", .distance = 0.5, .text = bad}};
  for (int c = 0; c < AB_COLUMNS; c++) results[0].cell[c] = AB_CELL_SAME;
  results[0].cell[AB_COLUMN_FLOAT64] = AB_CELL_WITHIN;
  results[2].cell[AB_COLUMN_D_WEIGHTS] = AB_CELL_OVER;
  results[2].cell[AB_COLUMN_COUNTERS] = AB_CELL_BROKEN;
  snprintf(name, sizeof name, "%s/matrix", scratch);
  FILE *out = fopen(name, "w");
  ck_ok(ab_suite_print(out, &list, results, false));
  fclose(out);
  ck_ok(ab_file_read(&text, &size, name, 1 << 16));
  const char *const says[] = {
      "RED: suite list.yml; 1 of 2 cases equal, 1 numeric difference, 1 skipped\n",
      "case  S-M-R-K-d    routes       out dX  dW  los par lay cnt orc f64 rec worst of its bound  exit\n",
      "good  2-4-2-1-1    linen:nnx     =   =   =   =   =   =   =   =   <   =  0                    0\n",
      "bad   -            linen:nnx     .   .   X   .   .   .   !   .   .   .  5.0e-01  of 0.0e+00  1\n",
      "skipped: skipped: needs fp8\n", "\nbad: DIFFERENT: linen against nnx\n", "exit: 1 (numeric difference)\n"};
  for (size_t i = 0; i < sizeof says / sizeof *says; i++)
    ck_assert_msg(strstr(text, says[i]) != NULL, "no \"%s\" in:\n%s", says[i], text);
  ab_mem_free(text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("suite");
  TCase *tc = tcase_create("read");
  tcase_add_checked_fixture(tc, start, stop);
  tcase_add_test(tc, test_rows_are_read);
  tcase_add_test(tc, test_a_case_folder_owes_a_golden);
  tcase_add_test(tc, test_malformed_lists_are_refused);
  tcase_add_test(tc, test_exit_codes_fold);
  tcase_add_test(tc, test_the_matrix_prints);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
