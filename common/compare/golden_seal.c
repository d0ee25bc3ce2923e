#include <string.h>

#include "golden_internal.h"

static ab_status digest_of(char out[33], const struct ab_golden *g,
                           void (*put)(struct ab_json_writer *, const struct ab_golden *)) {
  struct ab_json_writer *w;
  const char *text;
  size_t size;
  AB_TRY(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, false);
  put(w, g);
  ab_json_put_end(w);
  ab_status status = ab_json_writer_finish(&text, &size, w);
  if (status == AB_OK) ab_digest_bytes(out, text, size);
  ab_json_writer_free(w);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_golden_content_digest(char out[33], const struct ab_golden *g) {
  return digest_of(out, g, ab_golden_put_content);
}

ab_status ab_golden_seal(char out[33], const struct ab_golden *g) { return digest_of(out, g, ab_golden_put_members); }

ab_status ab_golden_check_seal(const struct ab_golden *g, const struct ab_json *root) {
  char seal[33];
  const char *stated;
  AB_TRY(ab_json_get_string(&stated, root, "seal"));
  AB_TRY(ab_golden_seal(seal, g));
  if (strcmp(seal, stated) == 0) return AB_OK;
  return ab_json_fail(ab_json_find(root, "seal"), "is not the digest of the rest: the golden was edited by hand or "
                      "merged; restore it, or record it again");
}
