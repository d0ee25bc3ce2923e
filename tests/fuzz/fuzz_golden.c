/* Goldens: what is accepted is written, read and written again as the same text, and its digests can be told. */
#include <string.h>

#include "fuzz.h"
#include "golden.h"
#include "mem.h"

static void check_twice(const struct ab_golden *golden) {
  struct ab_golden *again;
  char *text, *twice, digest[33], other[33];
  fuzz_check(ab_golden_text(&text, golden) == AB_OK, "a golden that was read cannot be written");
  fuzz_check(ab_golden_parse(&again, text, strlen(text), "again") == AB_OK, "what was written is not read");
  fuzz_check(ab_golden_text(&twice, again) == AB_OK, "it cannot be written a second time");
  fuzz_check(strcmp(text, twice) == 0, "it is written otherwise the second time");
  fuzz_check(ab_golden_content_digest(digest, golden) == AB_OK, "no digest");
  fuzz_check(ab_golden_content_digest(other, again) == AB_OK, "no digest");
  fuzz_check(strcmp(digest, other) == 0, "it has another digest the second time");
  ab_mem_free(text);
  ab_mem_free(twice);
  ab_golden_free(again);
}

static void use(const struct ab_golden *golden) {
  struct ab_recording *side;
  fuzz_read(ab_golden_check_explained(golden, "input"));
  fuzz_read(ab_golden_check_genuine(golden, "input"));
  if (fuzz_read(ab_golden_recording(&side, golden))) ab_recording_free(side);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_golden *golden;
  size_t live = fuzz_begin();
  if (fuzz_read(ab_golden_parse(&golden, (const char *)data, size, "input"))) {
    check_twice(golden);
    use(golden);
    ab_golden_free(golden);
  }
  fuzz_end(live);
  return 0;
}
