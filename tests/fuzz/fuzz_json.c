/* JSON: what is read can be written, and what was written reads back as the same text. */
#include <string.h>

#include "fuzz.h"
#include "json.h"
#include "mem.h"

static void put(struct ab_json_writer *w, const char *key, const struct ab_json *value);

static void put_number(struct ab_json_writer *w, const char *key, const struct ab_json *value) {
  int64_t integer;
  double number;
  if (ab_json_int64(&integer, value) == AB_OK && integer != 0) { /* -0 is a double */
    ab_json_put_int64(w, key, integer);
    return;
  }
  fuzz_check(ab_json_double(&number, value) == AB_OK, "a number that was accepted is none");
  ab_json_put_double(w, key, number);
}

static void put_string(struct ab_json_writer *w, const char *key, const struct ab_json *value) {
  const char *text;
  if (ab_json_string(&text, value) == AB_OK)
    ab_json_put_string(w, key, text);
  else
    ab_json_put_null(w, key); /* a NUL in it */
}

static void put_all(struct ab_json_writer *w, const struct ab_json *container) {
  size_t count = 0;
  for (const struct ab_json *m = ab_json_first(container); m; m = ab_json_next(m), count++) {
    bool member = ab_json_type(container) == AB_JSON_OBJECT;
    if (member) fuzz_check(ab_json_find(container, ab_json_key(m)) == m, "a member is not found by its key");
    put(w, member ? ab_json_key(m) : NULL, m);
  }
  fuzz_check(count == ab_json_size(container), "a container has another size than it has members");
  ab_json_put_end(w);
}

/* Recursion is bounded by the door's depth. */
static void put(struct ab_json_writer *w, const char *key, const struct ab_json *value) {
  bool truth = false;
  switch (ab_json_type(value)) {
    case AB_JSON_NULL: ab_json_put_null(w, key); return;
    case AB_JSON_BOOL:
      fuzz_check(ab_json_bool(&truth, value) == AB_OK, "a truth value is none");
      ab_json_put_bool(w, key, truth);
      return;
    case AB_JSON_NUMBER: put_number(w, key, value); return;
    case AB_JSON_STRING: put_string(w, key, value); return;
    case AB_JSON_ARRAY: ab_json_put_array(w, key, ab_json_size(value) & 1); break;
    case AB_JSON_OBJECT: ab_json_put_object(w, key, ab_json_size(value) & 1); break;
  }
  put_all(w, value);
}

static struct ab_json_writer *written(const char **text, size_t *size, const struct ab_json *root) {
  struct ab_json_writer *w;
  fuzz_check(ab_json_writer_new(&w) == AB_OK, "no writer");
  put(w, NULL, root);
  fuzz_check(ab_json_writer_finish(text, size, w) == AB_OK, "what was read cannot be written");
  return w;
}

static void check_twice(const struct ab_json *root) {
  const char *first, *second;
  size_t size, again;
  struct ab_json *back;
  struct ab_json_writer *w = written(&first, &size, root);
  fuzz_check(ab_json_parse(&back, first, size, "again", NULL) == AB_OK, "what was written is not read");
  struct ab_json_writer *v = written(&second, &again, back);
  fuzz_check(size == again && memcmp(first, second, size) == 0, "it is written otherwise the second time");
  ab_json_writer_free(w);
  ab_json_writer_free(v);
  ab_json_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_json *root;
  size_t live = fuzz_begin();
  if (fuzz_read(ab_json_parse(&root, (const char *)data, size, "input", NULL))) {
    check_twice(root);
    ab_json_free(root);
  }
  fuzz_end(live);
  return 0;
}
