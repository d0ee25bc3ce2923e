/* Bundles whose files are cut, exchanged, or hold a merge conflict: each is refused, whichever file it is. What only the
 * numbers can tell (gradients in the place of weights) is the whole tool's: tests/tools/test_bad_input.py. */
#include "bundle_copy.h"

/* Every file that is read; t16: a training run, p01_llama2: the pipeline module. */
static const char *const places[][2] = {
    {"p01_llama2", "meta.json"},           {"p01_llama2", "expected.json"},
    {"t16", "meta.json"},                  {"t16", "expected.json"},
    {"p01_llama2", "params.safetensors"},  {"p01_llama2", "batch.safetensors"},
    {"p01_llama2", "grads.safetensors"},   {"p01_llama2", "outputs.safetensors"},
    {"t16", "params.safetensors"},         {"t16", "batch.safetensors"},
    {"t16", "params_step1.safetensors"},   {"t16", "params_final.safetensors"}};
enum { PLACES = sizeof places / sizeof *places, TEXTS = 4 /* the first ones */ };

/* Both doors, as a comparison opens them. */
static ab_status open_all(const struct copy *copy) {
  struct ab_bundle *bundle;
  struct ab_results results;
  AB_TRY(ab_bundle_open(&bundle, copy->folder, copy->config));
  ab_status status = ab_bundle_expect(&results, bundle);
  if (status == AB_OK) ab_results_free(&results);
  ab_bundle_free(bundle);
  return status;
}

struct text {
  char *bytes, path[512];
  size_t size;
};

static struct text read_text(const struct copy *copy, const char *file) {
  struct text text;
  copy_path(text.path, copy, file);
  ck_ok(ab_file_read(&text.bytes, &text.size, text.path, 1 << 26));
  return text;
}

static void check_refused(const struct copy *copy, const char *file, const char *how, size_t at) {
  ab_status status = open_all(copy);
  ck_assert_msg(status == AB_EFORMAT, "%s %s at %zu: status %d, %s", file, how, at, status, ab_status_message());
  ck_assert_msg(strstr(ab_status_message(), file) != NULL, "%s %s at %zu: \"%s\"", file, how, at, ab_status_message());
}

static void check_cut(const struct copy *copy, const char *file, const struct text *text, size_t cut) {
  ck_assert_int_eq(truncate(text->path, (off_t)cut), 0);
  check_refused(copy, file, "cut", cut);
}

START_TEST(cut_at_every_kilobyte_it_is_refused) {
  const char *file = places[_i][1];
  struct copy copy = copy_new(places[_i][0]);
  struct text text = read_text(&copy, file);
  ck_ok(open_all(&copy));
  size_t last = text.size;
  while (strchr(" \n", text.bytes[last - 1])) last--; /* behind it there is nothing to miss */
  check_cut(&copy, file, &text, last - 1);
  for (size_t kilobytes = (last - 1) / 1024 + 1; kilobytes-- > 0;) check_cut(&copy, file, &text, 1024 * kilobytes);
  ab_mem_free(text.bytes);
  copy_free(&copy);
}
END_TEST

START_TEST(with_its_halves_exchanged_it_is_refused) {
  const char *file = places[_i][1];
  struct copy copy = copy_new(places[_i][0]);
  struct text text = read_text(&copy, file);
  char *turned;
  size_t half = text.size / 2;
  ck_ok(ab_mem_new(&turned, text.size, 1));
  memcpy(turned, text.bytes + half, text.size - half);
  memcpy(turned + text.size - half, text.bytes, half);
  ck_ok(ab_file_write(text.path, turned, text.size));
  check_refused(&copy, file, "turned", half);
  ab_mem_free(turned);
  ab_mem_free(text.bytes);
  copy_free(&copy);
}
END_TEST

/* git's markers around the first line, the middle and the last line of a text. */
START_TEST(with_a_merge_conflict_it_is_refused) {
  static const char marks[][32] = {"<<<<<<< HEAD\n", "\n=======\n", "\n>>>>>>> other\n"};
  const char *file = places[_i][1];
  struct copy copy = copy_new(places[_i][0]);
  struct text text = read_text(&copy, file);
  size_t at[] = {0, (size_t)(strchr(text.bytes + text.size / 2, '\n') - text.bytes), text.size};
  for (int m = 0; m < 3; m++) {
    char *marked;
    size_t length = strlen(marks[m]);
    ck_ok(ab_mem_new(&marked, text.size + length, 1));
    memcpy(marked, text.bytes, at[m]);
    memcpy(marked + at[m], marks[m], length);
    memcpy(marked + at[m] + length, text.bytes + at[m], text.size - at[m]);
    ck_ok(ab_file_write(text.path, marked, text.size + length));
    check_refused(&copy, file, "marked", at[m]);
    ab_mem_free(marked);
  }
  ab_mem_free(text.bytes);
  copy_free(&copy);
}
END_TEST

/* Trees of the parameters' names and shapes. */
static bool like_parameters(const char *file) {
  return strncmp(file, "params", 6) == 0 || strncmp(file, "grads", 5) == 0;
}

START_TEST(exchanged_with_another_file_it_is_refused) {
  for (int other = 0; other < _i; other++) {
    const char *one = places[_i][1], *two = places[other][1];
    if (strcmp(places[_i][0], places[other][0]) != 0 || (like_parameters(one) && like_parameters(two))) continue;
    struct copy copy = copy_new(places[_i][0]);
    struct text a = read_text(&copy, one), b = read_text(&copy, two);
    ck_ok(ab_file_write(a.path, b.bytes, b.size));
    ck_ok(ab_file_write(b.path, a.bytes, a.size));
    ck_assert_msg(open_all(&copy) != AB_OK, "%s and %s exchanged", one, two);
    ck_assert_msg(strstr(ab_status_message(), one) || strstr(ab_status_message(), two), "%s and %s exchanged: \"%s\"",
                  one, two, ab_status_message());
    ab_mem_free(a.bytes);
    ab_mem_free(b.bytes);
    copy_free(&copy);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("torn_bundle");
  TCase *tests = tcase_create("torn_bundle");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, cut_at_every_kilobyte_it_is_refused, 0, PLACES);
  tcase_add_loop_test(tests, with_its_halves_exchanged_it_is_refused, 0, PLACES);
  tcase_add_loop_test(tests, with_a_merge_conflict_it_is_refused, 0, TEXTS);
  tcase_add_loop_test(tests, exchanged_with_another_file_it_is_refused, 0, PLACES);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
