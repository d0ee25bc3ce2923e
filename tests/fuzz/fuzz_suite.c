/* Lists of a suite: rows have names of their own, and either run or are skipped. */
#include <string.h>

#include "fuzz.h"
#include "suite.h"

static void check_row(const struct ab_suite *suite, size_t i) {
  const struct ab_suite_row *row = &suite->row[i];
  fuzz_check(row->name && row->name[0], "a row has no name");
  fuzz_check(!row->skip == (row->target != NULL), "a row neither runs nor is skipped");
  fuzz_check(!row->golden || row->target, "a golden of nothing");
  for (size_t k = 0; k < i; k++) fuzz_check(strcmp(row->name, suite->row[k].name) != 0, "two rows have one name");
  for (size_t k = 0; k < row->override_count; k++)
    fuzz_check(strchr(row->overrides[k], '=') != NULL, "an override is not key=value");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_suite suite;
  size_t live = fuzz_begin();
  ab_status status = ab_suite_read(&suite, fuzz_file(data, size));
  if (status == AB_EIO) /* of a case whose path cannot be: it is too long, or goes through a file */
    ab_status_clear();
  else if (fuzz_read(status)) {
    fuzz_check(suite.rows > 0, "a list of nothing");
    for (size_t i = 0; i < suite.rows; i++) check_row(&suite, i);
    ab_suite_free(&suite);
  }
  fuzz_end(live);
  return 0;
}
