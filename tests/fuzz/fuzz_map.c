/* Name maps: whatever a map makes of a name is a name, and the same one the second time. */
#include <string.h>

#include "diff_map.h"
#include "fuzz.h"
#include "text.h"

static void apply(const struct ab_name_map *map, const char *name) {
  struct ab_mapped mapped, again;
  if (!fuzz_read(ab_name_map_apply(&mapped, map, name))) return;
  fuzz_check(mapped.name[0] && strlen(mapped.name) < sizeof mapped.name, "a name is empty or too long");
  fuzz_check(ab_text_is_printable(mapped.name), "a name is not printable");
  fuzz_check((mapped.axis != AB_NOT_STACKED) == (strstr(mapped.name, "%d") != NULL), "%d and unstack part");
  fuzz_check(ab_name_map_apply(&again, map, name) == AB_OK && strcmp(mapped.name, again.name) == 0,
             "a name becomes another one the second time");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"params/decoder/pipeline_module/layers/scanned_layers/mlp/wi_0/kernel",
                                      "decoder/layers/self_attention/query/kernel", "token_embedder/embedding", "w",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                                      "\xc3\xa9\xe2\x82\xac/kernel"};
  struct ab_name_map *map;
  size_t live = fuzz_begin();
  if (fuzz_read(ab_name_map_open(&map, fuzz_file(data, size)))) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) apply(map, names[i]);
    ab_name_map_close(map);
  }
  fuzz_end(live);
  return 0;
}
