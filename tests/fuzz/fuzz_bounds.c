/* Bounds of a bundle, from its own expected.json or from a manifest.json beside it: a number for everything, and never
 * less than the least where they follow from a distance. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bounds.h"
#include "fuzz.h"

static void use(const struct ab_bounds *bounds) {
  static const char *const names[] = {"layers/weights", "outputs", "loss", "lm_loss", "perplexity", ""};
  for (int what = AB_BOUND_GRADIENT; what <= AB_BOUND_METRIC; what++)
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      double bound = ab_bounds_find(bounds, (enum ab_bounded)what, names[i]);
      fuzz_check(!isnan(bound), "a bound is no number");
      fuzz_check(bounds->manifest || bound >= ab_bounds_least((enum ab_bounded)what), "a bound is below the least");
    }
}

static void read_one(const char *folder, bool train) {
  struct ab_bounds bounds;
  if (fuzz_read(ab_bounds_open(&bounds, folder, train))) use(&bounds);
  ab_bounds_close(&bounds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bool manifest = size && memmem(data, size, "cases", 5);
  fuzz_place("manifest/case/none", "", 0);
  const char *folder = fuzz_place(manifest ? "manifest/manifest.json" : "bundle/case/expected.json", data, size);
  size_t live = fuzz_begin();
  char path[4096 + 32];
  snprintf(path, sizeof path, "%s/%s", folder, manifest ? "manifest/case" : "bundle/case");
  for (int train = 0; train < 2; train++) read_one(path, train);
  fuzz_end(live);
  return 0;
}
