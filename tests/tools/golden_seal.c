/* golden_seal FILE: gives a golden or pending golden that a test edited the seal of what it now holds, so that what the
 * edit itself does can be seen. The check of the seal is taken out (-Wl,--wrap). */
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "pending.h"

struct ab_json;
/* A name that the linker makes. */
ab_status __wrap_ab_golden_check_seal(const struct ab_golden *golden, const struct ab_json *root);
ab_status __wrap_ab_golden_check_seal(const struct ab_golden *golden, const struct ab_json *root) {
  (void)golden;
  (void)root;
  return AB_OK;
}

static ab_status seal_pending(const char *path) {
  struct ab_pending pending;
  AB_TRY(ab_pending_read(&pending, path));
  ab_status status = ab_pending_write(&pending, path);
  ab_pending_free(&pending);
  return status;
}

static ab_status seal_golden(const char *path) {
  struct ab_golden *golden;
  AB_TRY(ab_golden_read(&golden, path));
  ab_status status = ab_golden_write(golden, path);
  ab_golden_free(golden);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  ab_status status = strstr(argv[1], "golden.pending.json") ? seal_pending(argv[1]) : seal_golden(argv[1]);
  if (status != AB_OK) fprintf(stderr, "golden_seal: %s\n", ab_status_message());
  return status == AB_OK ? 0 : 1;
}
