/* Overrides of the command line, one a line, merged into the defaults (which are made once: a whole load of a
 * configuration is the target `config`). What was accepted has a text and a node for every key. */
#include <string.h>

#include "config_values.h"
#include "fuzz.h"
#include "mem.h"

enum { MOST = 16, LONGEST = 4096 };

static struct ab_config_values *values;
static struct ab_value *defaults;
static size_t default_documents;

/* The linker puts this in the place of the search for the nearest key, which would take nine tenths of the time. */
const char *__wrap_ab_key_nearest(const char *name);
const char *__real_ab_key_nearest(const char *name);
const char *__wrap_ab_key_nearest(const char *name) {
  return strlen(name) == 4 ? __real_ab_key_nearest(name) : ab_keys[0].name;
}

static void make_defaults(void) {
  if (values) return;
  fuzz_check(ab_values_new(&values) == AB_OK, "no defaults");
  fuzz_check(ab_mem_new(&defaults, ab_key_count, sizeof *defaults) == AB_OK, "no memory");
  memcpy(defaults, values->rows, ab_key_count * sizeof *defaults);
  default_documents = values->document_count;
  fuzz_check(ab_mem_resize(&values->documents, 64, sizeof *values->documents) == AB_OK, "no memory");
}

static void restore(void) {
  while (values->document_count > default_documents) ab_yaml_free(values->documents[--values->document_count]);
  memcpy(values->rows, defaults, ab_key_count * sizeof *defaults);
  memset(values->outranked, 0, ab_key_count * sizeof *values->outranked);
}

/* Lines of text, which is changed; NUL bytes end it, as they end an argument. */
static size_t split(const char *lines[MOST], char *text) {
  size_t count = 0;
  for (char *line = strtok(text, "\n"); line && count < MOST; line = strtok(NULL, "\n")) lines[count++] = line;
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char text[LONGEST + 1];
  const char *lines[MOST];
  struct ab_config_request request = {.overrides = lines, .ignore_environment = true};
  make_defaults();
  size_t live = fuzz_begin();
  if (size < 1 || size > LONGEST) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  request.override_count = split(lines, text);
  /* A first one that ends in .yml is a file to open, which is no business of this target. */
  size_t length = request.override_count ? strlen(lines[0]) : 0;
  if (length > 3 && strcmp(lines[0] + length - 4, ".yml") == 0) return 0;
  if (fuzz_read(ab_config_merge(values, &request)) && fuzz_read(ab_values_check_kinds(values)))
    for (size_t row = 0; row < ab_key_count; row++)
      fuzz_check(values->rows[row].text && values->rows[row].node, "a key without value");
  restore();
  fuzz_end(live);
  return 0;
}
