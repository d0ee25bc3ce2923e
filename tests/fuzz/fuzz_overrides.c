/* Overrides of the command line, one a line, merged into the defaults (a whole load of a configuration is the target
 * `config`). What was accepted has a text and a node for every key. */
#include <string.h>

#include "config_values.h"
#include "fuzz.h"

enum { MOST = 16, LONGEST = 4096 };

/* Lines of text, which is changed; NUL bytes end it, as they end an argument. */
static size_t split(const char *lines[MOST], char *text) {
  size_t count = 0;
  for (char *line = strtok(text, "\n"); line && count < MOST; line = strtok(NULL, "\n")) lines[count++] = line;
  return count;
}

static void merge(const struct ab_config_request *request) {
  struct ab_config_values *values;
  fuzz_check(ab_values_new(&values, request->defaults) == AB_OK, "no values");
  if (fuzz_read(ab_config_merge(values, request)) && fuzz_read(ab_values_check_kinds(values)))
    for (size_t row = 0; row < ab_key_count; row++)
      fuzz_check(values->rows[row].text && values->rows[row].node, "a key without value");
  ab_values_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct ab_config_values *defaults;
  char text[LONGEST + 1];
  const char *lines[MOST];
  struct ab_config_request request = {.overrides = lines, .ignore_environment = true};
  if (!defaults) fuzz_check(ab_config_defaults(&defaults) == AB_OK, "no defaults");
  size_t live = fuzz_begin();
  if (size < 1 || size > LONGEST) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  request.defaults = defaults;
  request.override_count = split(lines, text);
  /* A first one that ends in .yml is a file to open, which is no business of this target. */
  size_t length = request.override_count ? strlen(lines[0]) : 0;
  if (length > 3 && strcmp(lines[0] + length - 4, ".yml") == 0) return 0;
  merge(&request);
  fuzz_end(live);
  return 0;
}
