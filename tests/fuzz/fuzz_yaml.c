/* YAML: the canonical spelling of what was read reads back as itself. */
#include <string.h>

#include "fuzz.h"
#include "mem.h"
#include "yaml_door.h"

static void check_twice(const struct ab_yaml *yaml) {
  const char *text = yaml->nodes[0].text;
  struct ab_yaml *again;
  fuzz_check(text != NULL, "a root has no canonical text");
  ab_status status = ab_yaml_parse(&again, "again", text, strlen(text));
  if (status != AB_OK && strlen(text) > AB_YAML_MAX_BYTES) return; /* the spelling may be longer than the limit */
  fuzz_check(status == AB_OK, "the canonical spelling is not read");
  fuzz_check(strcmp(again->nodes[0].text, text) == 0, "the canonical spelling reads back as another one");
  fuzz_check(again->count == yaml->count, "the canonical spelling has other nodes");
  ab_yaml_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_yaml *yaml;
  size_t live = fuzz_begin();
  if (fuzz_read(ab_yaml_parse(&yaml, "input", (const char *)data, size))) {
    check_twice(yaml);
    ab_yaml_free(yaml);
  }
  fuzz_end(live);
  return 0;
}
