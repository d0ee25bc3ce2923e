/* The artifact of a cell: what artifact.json says beside a good config and empty tensors is in range, and the same the
 * second time. (Configs and tensors are targets of their own.) */
#include <string.h>

#include "artifact.h"
#include "fuzz.h"

/* Names that the linker makes: digests of these files are not what is looked for. */
ab_status __wrap_ab_artifact_check_file(const char *path, const char *digest);
ab_status __wrap_ab_artifact_check_file(const char *path, const char *digest) {
  fuzz_check(path && strlen(digest) <= 32, "a digest without an end");
  return AB_OK;
}

static const char config[] = "base_config: base.yml\nmodel_name: llama2-tiny\ndataset_type: synthetic\nsteps: 2\n"
                             "per_device_batch_size: 4\nmax_target_length: 8\nici_pipeline_parallelism: 2\n"
                             "num_pipeline_microbatches: 4\nnum_pipeline_repeats: 2\nenable_checkpointing: false\n";
static const char no_tensors[] = "\2\0\0\0\0\0\0\0{}";

static void check(const struct ab_artifact *a) {
  fuzz_check(a->wrong == 0 || a->wrong == 1, "a side that is none is judged");
  fuzz_check(a->parts > 0 && ab_artifact_part(a) >= 0 && ab_artifact_part(a) < a->parts, "a part that is none");
  fuzz_check(a->at.layer >= 0 && a->at.step >= 0 && a->devices >= 0, "a place that is none");
  fuzz_check(memchr(a->at.tensor, 0, sizeof a->at.tensor) && memchr(a->fed, 0, sizeof a->fed), "a text without an end");
  for (int side = 0; side < AB_ARTIFACT_SIDES; side++)
    fuzz_check(memchr(a->name[side], 0, sizeof a->name[side]) != NULL, "a name without an end");
  fuzz_check(a->config && ab_tree_size(a->inputs) == 0 && ab_tree_size(a->recorded) == 0, "another file was read");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_artifact first, second;
  fuzz_place("config.yml", config, sizeof config - 1);
  fuzz_place("inputs.safetensors", no_tensors, sizeof no_tensors - 1);
  fuzz_place("recorded.safetensors", no_tensors, sizeof no_tensors - 1);
  const char *folder = fuzz_place("artifact.json", data, size);
  size_t live = fuzz_begin();
  if (fuzz_read(ab_artifact_read(&first, folder))) {
    check(&first);
    fuzz_check(ab_artifact_read(&second, folder) == AB_OK, "an artifact is not read a second time");
    fuzz_check(ab_identity_equal(&first.at, &second.at) && first.parts == second.parts && first.sum == second.sum,
               "it says something else the second time");
    ab_artifact_free(&first);
    ab_artifact_free(&second);
  }
  fuzz_end(live);
  return 0;
}
