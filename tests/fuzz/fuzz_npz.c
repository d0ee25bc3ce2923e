/* .npz: what the directory promises is what a member holds, and never much more than the file could. */
#include "fuzz.h"
#include "mem.h"
#include "npz.h"

static void read_member(const struct ab_npz *archive, const struct ab_safetensor *t) {
  unsigned char *values;
  if (ab_mem_new(&values, (size_t)t->bytes + 1, 1) != AB_OK) return;
  fuzz_read(ab_npz_read(archive, t, values));
  fuzz_check(values[t->bytes] == 0, "a member is longer than it said");
  ab_mem_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ab_npz *archive;
  size_t live = fuzz_begin();
  if (fuzz_read(ab_npz_open(&archive, fuzz_file(data, size)))) {
    for (size_t i = 0; i < ab_npz_size(archive) && i < 8; i++) {
      const struct ab_safetensor *t = ab_npz_at(archive, i);
      fuzz_check(t->bytes == t->count * ab_dtype_size(t->dtype), "a member has another size than it needs");
      fuzz_check(t->bytes / 1101 <= size, "a member is larger than deflate can make it");
      (void)ab_npz_fortran(archive, t);
      read_member(archive, t);
    }
    ab_npz_close(archive);
  }
  fuzz_end(live);
  return 0;
}
