/* A configuration file as a whole, over a small base file and small model files: what is accepted loads again with the
 * same digest. */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "fuzz.h"

static struct ab_config_values *defaults;

/* The base file of the installation holds every key: reading it would take most of the time. */
static void set_up(void) {
  if (defaults) return;
  fuzz_check(setenv("AB_DATADIR", FUZZ_DATADIR, 1) == 0, "no environment");
  fuzz_check(ab_config_defaults(&defaults) == AB_OK, "no defaults");
}

/* The input's file lies among the descriptors, so that a base_config may name one: a file of other people. */
static bool names_a_descriptor(const uint8_t *data, size_t size) {
  if (!memmem(data, size, "base_config", 11)) return false;
  for (size_t i = 1; i < size; i++)
    if (data[i] == '/' && data[i - 1] >= '0' && data[i - 1] <= '9') return true;
  return memmem(data, size, "self", 4) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_config *config, *again;
  struct ab_config_request request = {.ignore_environment = true, .inspect = size & 1};
  set_up();
  size_t live = fuzz_begin();
  if (names_a_descriptor(data, size)) return 0;
  request.file = fuzz_file(data, size);
  request.defaults = defaults;
  if (fuzz_read(ab_config_load(&config, &request))) {
    fuzz_check(ab_config_load(&again, &request) == AB_OK, "a configuration does not load a second time");
    fuzz_check(ab_config_digest(config) == ab_config_digest(again), "it has another digest the second time");
    ab_config_free(config);
    ab_config_free(again);
  }
  fuzz_end(live);
  return 0;
}
