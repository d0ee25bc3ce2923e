#define XXH_INLINE_ALL
/* Work on JSON grows with the text and no faster: steps (json_internal.h) are counted, not time, on n, 2n and 4n. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "json_internal.h"
#include "mem.h"
#include "tap.h"

uint64_t json_steps;

enum { SMALL = 4000, MOST_PER_BYTE = 12 };

typedef void (*print_fn)(FILE *out, size_t n);

static void repeat(FILE *out, const char *text, size_t n) {
  while (n--) fputs(text, out);
}

/* before, n items with commas between, after; %zu in item is its number. */
static void items(FILE *out, const char *before, const char *item, const char *after, size_t n) {
  fputs(before, out);
  for (size_t i = 0; i < n; i++) {
    if (i) fputs(", ", out);
    const char *number = strstr(item, "%zu");
    if (number) fprintf(out, "%.*s%zu%s", (int)(number - item), item, i, number + 3);
    else fputs(item, out);
  }
  fputs(after, out);
}

static void print_numbers(FILE *out, size_t n) { items(out, "[", "%zu", "]", n); }
static void print_exponents(FILE *out, size_t n) { items(out, "[", "-1.%zue-3", "]", n); }
static void print_object(FILE *out, size_t n) { items(out, "{", "\"key%zu\": null", "}", n); }
static void print_near_keys(FILE *out, size_t n) {
  items(out, "{", "\"a/rather/long/path/of/a/tensor/in/a/layer/kernel/%zu\": 1", "}", n);
}
static void print_small_objects(FILE *out, size_t n) {
  items(out, "[", "{\"a\": 1, \"b\": [true, false], \"c\": {\"d\": \"%zu\"}}", "]", n);
}
/* One more than what is looked through without an index. */
static void print_indexed_objects(FILE *out, size_t n) {
  fputs("[", out);
  for (size_t i = 0; i < n / 16; i++) {
    if (i) fputs(",", out);
    items(out, "{", "\"k%zu\": 0", "}", JSON_SMALL_OBJECT + 1);
  }
  fputs("]", out);
}
static void print_string(FILE *out, size_t n) {
  fputs("\"", out);
  repeat(out, "a\\u00e9\xc3\xa9", n);
  fputs("\"", out);
}
static void print_blanks(FILE *out, size_t n) {
  repeat(out, " \n", n);
  fputs("0", out);
  repeat(out, "\t", n);
}
static void print_digits(FILE *out, size_t n) {
  fputs("0.", out);
  repeat(out, "1", n);
}
static void print_long_key(FILE *out, size_t n) {
  fputs("{\"", out);
  repeat(out, "k", n);
  fputs("\": 1}", out);
}
static void print_deep(FILE *out, size_t n) { items(out, "", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "", n); }
static void print_deep_list(FILE *out, size_t n) {
  fputs("[", out);
  print_deep(out, n / 8);
  fputs("]", out);
}
static void print_escaped_keys(FILE *out, size_t n) { items(out, "{", "\"\\u0061\\n%zu\": \"\"", "}", n); }
/* Refused at the end. */
static void print_unclosed(FILE *out, size_t n) { items(out, "[", "{\"a\": \"b\"}", "", n); }
static void print_bad_utf8(FILE *out, size_t n) {
  fputs("[\"", out);
  repeat(out, "x", n);
  fputs("\xff", out);
}
static void print_twice(FILE *out, size_t n) { items(out, "{", "\"key%zu\": 1", ", \"key0\": 2}", n); }
static void print_lone_surrogates(FILE *out, size_t n) {
  fputs("[", out);
  repeat(out, "\"\\ud83d\\ude00\",", n);
  fputs("\"\\ud83d\"]", out);
}

static const struct {
  const char *name;
  print_fn print;
} families[] = {{"numbers", print_numbers},
                {"numbers with exponents", print_exponents},
                {"an object", print_object},
                {"keys that begin alike", print_near_keys},
                {"small objects", print_small_objects},
                {"indexed objects", print_indexed_objects},
                {"a string", print_string},
                {"blanks", print_blanks},
                {"digits", print_digits},
                {"a long key", print_long_key},
                {"nesting", print_deep_list},
                {"escaped keys", print_escaped_keys},
                {"no end", print_unclosed},
                {"bad UTF-8 at the end", print_bad_utf8},
                {"a key twice, at the end", print_twice},
                {"half a pair, at the end", print_lone_surrogates}};

/* Every member by its key, every element, and one sentence about the last. */
static void use(const struct ab_json *value) {
  char where[512];
  const struct ab_json *last = value;
  for (const struct ab_json *m = ab_json_first(value); m; m = ab_json_next(m)) {
    if (ab_json_type(value) == AB_JSON_OBJECT) ck_assert_ptr_eq(ab_json_find(value, ab_json_key(m)), m);
    last = m;
  }
  ab_json_where(where, sizeof where, last);
}

static uint64_t steps_of(print_fn print, size_t n, size_t *size) {
  char *text = NULL;
  struct ab_json *root;
  FILE *out = open_memstream(&text, size);
  print(out, n);
  fclose(out);
  json_steps = 0;
  if (ab_json_parse(&root, text, *size, "t", NULL) == AB_OK) {
    use(root);
    ab_json_free(root);
  }
  free(text);
  return json_steps;
}

START_TEST(work_grows_with_the_text) {
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    uint64_t before = 0;
    for (size_t n = SMALL; n <= 4 * SMALL; n *= 2) {
      size_t size;
      uint64_t steps = steps_of(families[f].print, n, &size);
      ck_assert_msg(steps >= size / 2, "%s, %zu: %llu steps for %zu bytes: nothing was counted", families[f].name, n,
                    (unsigned long long)steps, size);
      ck_assert_msg(steps <= MOST_PER_BYTE * (size + 64), "%s, %zu: %llu steps for %zu bytes", families[f].name, n,
                    (unsigned long long)steps, size);
      /* Numbers get longer and room grows by doubling: a little more than twice. */
      ck_assert_msg(!before || steps <= before * 5 / 2, "%s, %zu: %llu steps after %llu", families[f].name, n,
                    (unsigned long long)steps, (unsigned long long)before);
      before = steps;
    }
  }
}
END_TEST

/* Keys whose public hashes agree in the low bits, where the index would look if it had no secret. */
static size_t print_colliding(FILE *out, size_t wanted, uint64_t mask) {
  char key[32];
  size_t found = 0;
  fputs("{", out);
  for (size_t i = 0; found < wanted; i++) {
    snprintf(key, sizeof key, "%zu", i);
    if (XXH3_64bits(key, strlen(key)) & mask) continue;
    fprintf(out, "%s\"%s\": 0", found++ ? "," : "", key);
  }
  fputs("}", out);
  return found;
}

START_TEST(an_enemy_cannot_choose_the_slots) {
  uint64_t before = 0;
  for (size_t n = 256; n <= 1024; n *= 2) {
    char *text = NULL;
    size_t size;
    struct ab_json *root;
    FILE *out = open_memstream(&text, &size);
    print_colliding(out, n, 4 * n - 1);
    fclose(out);
    json_steps = 0;
    ck_ok(ab_json_parse(&root, text, size, "t", NULL));
    ab_json_free(root);
    free(text);
    ck_assert_msg(!before || json_steps <= before * 5 / 2, "%zu keys: %llu steps after %llu", n,
                  (unsigned long long)json_steps, (unsigned long long)before);
    before = json_steps;
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("json_work");
  TCase *c = tcase_create("work");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, work_grows_with_the_text);
  tcase_add_test(c, an_enemy_cannot_choose_the_slots);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
