#include <string.h>

#include "artifact.h"
#include "file.h"
#include "golden.h"
#include "mem.h"

ab_status ab_artifact_digest(char out[AB_ARTIFACT_DIGEST], const char *path) {
  char *bytes;
  size_t size;
  AB_TRY(ab_file_read(&bytes, &size, path, SIZE_MAX / 2));
  ab_digest_bytes(out, bytes, size);
  ab_mem_free(bytes);
  return AB_OK;
}

ab_status ab_artifact_check_file(const char *path, const char *digest) {
  char found[AB_ARTIFACT_DIGEST];
  AB_TRY(ab_artifact_digest(found, path));
  if (strcmp(found, digest) == 0) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "'%s' has the digest %s, artifact.json says %.32s: it is not the file that was saved",
                 path, found, digest);
}
