/* safetensors: the tensors of an accepted file cover its data exactly, are found by name, and load as a tree. */
#include "fuzz.h"
#include "mem.h"
#include "safetensors.h"

static void check(const struct ab_safetensors *file, size_t size) {
  uint64_t next = 0;
  for (size_t i = 0; i < ab_safetensors_size(file); i++) {
    const struct ab_safetensor *t = ab_safetensors_at(file, i);
    fuzz_check(ab_safetensors_find(file, t->name) == t, "a tensor is not found by its name");
    fuzz_check(i == 0 || t->offset == next, "a hole or an overlap was accepted");
    fuzz_check(t->bytes == t->count * ab_dtype_size(t->dtype), "a tensor has another size than it needs");
    next = t->offset + t->bytes;
  }
  fuzz_check(next == 0 || next == size, "the tensors do not end where the file does");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_safetensors *file;
  struct ab_tree *tree;
  size_t live = fuzz_begin();
  const char *path = fuzz_file(data, size);
  if (fuzz_read(ab_safetensors_open(&file, path))) {
    check(file, size);
    size_t count = ab_safetensors_size(file);
    ab_safetensors_close(file);
    if (fuzz_read(ab_safetensors_load(&tree, path))) {
      fuzz_check(ab_tree_size(tree) == count, "a tree lacks a tensor of its file");
      ab_tree_free(tree);
    }
  }
  fuzz_end(live);
  return 0;
}
