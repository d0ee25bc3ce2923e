#include "pending.h"

#include <string.h>

#include "file.h"
#include "golden_internal.h"
#include "mem.h"

static ab_status put(struct ab_json_writer *w, const struct ab_pending *p) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "schema", AB_PENDING_SCHEMA);
  ab_json_put_string(w, "cause", p->cause);
  ab_json_put_string(w, "verdict", p->verdict);
  ab_json_put_string(w, "command", p->command);
  ab_json_put_bool(w, "engines_equal", p->engines_equal);
  if (p->from) ab_json_put_string(w, "from", p->from);
  AB_TRY(ab_golden_put(w, "golden", p->golden));
  ab_json_put_end(w);
  return AB_OK;
}

ab_status ab_pending_write(const struct ab_pending *pending, const char *path) {
  struct ab_json_writer *w;
  AB_TRY(ab_json_writer_new(&w));
  ab_status status = put(w, pending);
  if (status == AB_OK) return ab_json_writer_file(w, path, ab_file_replace);
  ab_json_writer_free(w);
  return status;
}

static ab_status fill(struct ab_pending *p, const struct ab_json *root) {
  static const char *const keys[] = {"schema", "cause", "verdict", "command", "engines_equal", "?from", "golden", NULL};
  const struct ab_json *golden;
  const char *schema;
  AB_TRY(ab_json_get_string(&schema, root, "schema"));
  if (strcmp(schema, AB_PENDING_SCHEMA) != 0)
    return ab_json_fail(ab_json_find(root, "schema"), "is not " AB_PENDING_SCHEMA);
  AB_TRY(ab_json_only_keys(root, keys, AB_PENDING_SCHEMA));
  AB_TRY(ab_json_get_copy(&p->cause, root, "cause"));
  AB_TRY(ab_json_get_copy(&p->verdict, root, "verdict"));
  AB_TRY(ab_json_get_copy(&p->command, root, "command"));
  AB_TRY(ab_json_get_bool(&p->engines_equal, root, "engines_equal"));
  if (ab_json_find(root, "from")) AB_TRY(ab_json_get_copy(&p->from, root, "from"));
  AB_TRY(ab_json_get_object(&golden, root, "golden"));
  AB_TRY(ab_golden_from(&p->golden, golden));
  return AB_OK;
}

static ab_status parse(struct ab_pending *p, const char *text, size_t size, const char *path) {
  struct ab_json *root;
  AB_TRY(ab_golden_check_merged(text, size, path));
  AB_TRY(ab_json_parse(&root, text, size, path, NULL));
  ab_status status = fill(p, root);
  ab_json_free(root);
  return status;
}

ab_status ab_pending_read(struct ab_pending *out, const char *path) {
  struct ab_pending pending = {0};
  char *text;
  size_t size;
  AB_TRY(ab_file_read(&text, &size, path, ab_json_default_limits.bytes));
  ab_status status = parse(&pending, text, size, path);
  ab_mem_free(text);
  if (status == AB_OK) *out = pending;
  else ab_pending_free(&pending);
  AB_TRY(status);
  return AB_OK;
}

void ab_pending_free(struct ab_pending *p) {
  char *texts[] = {p->cause, p->verdict, p->command, p->from};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ab_mem_free(texts[i]);
  ab_golden_free(p->golden);
  *p = (struct ab_pending){0};
}
