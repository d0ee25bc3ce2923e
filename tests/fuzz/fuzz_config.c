/* A configuration file as a whole: what is accepted loads again with the same digest. */
#include <string.h>

#include "config.h"
#include "fuzz.h"
#include "mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_config *config, *again;
  struct ab_config_request request = {.ignore_environment = true, .inspect = size & 1};
  size_t live = fuzz_begin();
  if (memmem(data, size, "base_config", 11) && memmem(data, size, "self", 4)) return 0; /* a file of other people */
  request.file = fuzz_file(data, size);
  if (fuzz_read(ab_config_load(&config, &request))) {
    fuzz_check(ab_config_load(&again, &request) == AB_OK, "a configuration does not load a second time");
    fuzz_check(ab_config_digest(config) == ab_config_digest(again), "it has another digest the second time");
    ab_config_free(config);
    ab_config_free(again);
  }
  fuzz_end(live);
  return 0;
}
