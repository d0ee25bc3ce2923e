#include <stdio.h>
#include <string.h>

#include "bundle.h"
#include "file.h"
#include "golden_command.h"
#include "json.h"
#include "mem.h"
#include "outcome.h"

enum { FILES_MAX = 64, FILE_MAX = 256 << 20 };

/* What makes the folder a golden of ours does not come along. */
static bool is_data(const char *name) {
  const char *dot = strrchr(name, '.');
  if (!dot || strncmp(name, "golden.", 7) == 0) return false;
  return strcmp(name, "config.yml") == 0 || strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".json") == 0;
}

static ab_status copy_one(const char *from, const char *to, const char *name) {
  char *bytes, *path;
  size_t size;
  AB_TRY(ab_file_read_beneath(&bytes, &size, from, name, FILE_MAX));
  ab_status status = ab_path_join(&path, to, name);
  if (status == AB_OK) {
    status = ab_file_write(path, bytes, size);
    ab_mem_free(path);
  }
  ab_mem_free(bytes);
  AB_TRY(status);
  return AB_OK;
}

static ab_status copy_all(const char *from, const char *to) {
  struct ab_names names;
  AB_TRY(ab_folder_list(&names, from, FILES_MAX));
  ab_status status = AB_OK;
  for (size_t i = 0; i < names.count && status == AB_OK; i++)
    if (is_data(names.name[i])) status = copy_one(from, to, names.name[i]);
  ab_names_free(&names);
  return status;
}

/* "<folder's name>: <who made it, as meta.json says>". */
static ab_status origin_of(char *text, size_t size, const char *bundle) {
  struct ab_json *meta;
  char *path;
  const char *commit = "a dump", *name = strrchr(bundle, '/');
  AB_TRY(ab_path_join(&path, bundle, "meta.json"));
  ab_status status = ab_json_read(&meta, path, NULL);
  ab_mem_free(path);
  AB_TRY(status);
  const struct ab_json *found = ab_json_find(meta, "maxtext_commit_nnx");
  if (found && ab_json_string(&commit, found) != AB_OK) ab_status_clear();
  snprintf(text, size, "bundle %s, %s%s", name ? name + 1 : bundle, found ? "MaxText commit " : "", commit);
  ab_json_free(meta);
  return AB_OK;
}

/* In the scratch folder: the case appears whole or not at all. */
static ab_status finish(struct ab_golden *golden, const struct ab_golden_case *c, const char *origin,
                        const char *reason) {
  char line[512];
  snprintf(line, sizeof line, "imported from %.400s", origin);
  AB_TRY(ab_golden_add_provenance(golden, "origin", origin));
  AB_TRY(ab_golden_follow(golden, NULL, reason ? reason : line, true));
  AB_TRY(ab_golden_write(golden, c->golden));
  return AB_OK;
}

/* A run is green only when it gives the bundle's own numbers too. */
static int record_in(const char *scratch, const char *origin, const struct ab_golden_words *w) {
  struct ab_golden *golden;
  struct ab_golden_case c;
  enum ab_selection selection = AB_SELECT_ALL;
  if (w->keep && ab_selection_find(&selection, w->keep) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_golden_case_open(&c, scratch) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = ab_golden_fresh(&golden, scratch, "portable", w->timeout, selection);
  if (code == AB_EXIT_EQUAL) {
    if (finish(golden, &c, origin, w->reason) != AB_OK) code = ab_golden_refuse(AB_EXIT_USAGE);
    ab_golden_free(golden);
  }
  ab_golden_case_close(&c);
  return code;
}

static int import_through(const char *scratch, const char *bundle, const char *target, const char *origin,
                          const struct ab_golden_words *w) {
  if (copy_all(bundle, scratch) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = record_in(scratch, origin, w);
  if (code != AB_EXIT_EQUAL) return code;
  if (ab_scratch_place(scratch, target) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  return ab_say("ab_golden", "imported %s into %s", bundle, target);
}

static ab_status check_target(const char *bundle, const char *target) {
  struct ab_names names = {0};
  bool there;
  AB_TRY(ab_bundle_find(&there, bundle));
  if (!there) return AB_FAIL(AB_ECONFIG, "'%s' is no bundle: it holds no meta.json", bundle);
  AB_TRY(ab_file_find(&there, target));
  if (!there) return AB_OK;
  AB_TRY(ab_folder_list(&names, target, FILES_MAX));
  size_t held = names.count;
  ab_names_free(&names);
  return held ? AB_FAIL(AB_EIO, "'%s' is there and not empty; expected a new folder", target) : AB_OK;
}

static int import(const char *bundle, const char *target, const struct ab_golden_words *w) {
  char origin[400], *scratch;
  if (ab_golden_check_not_ci() != AB_OK || check_target(bundle, target) != AB_OK ||
      (w->reason && ab_golden_check_reason(w->reason) != AB_OK) || origin_of(origin, sizeof origin, bundle) != AB_OK ||
      ab_scratch_beside(&scratch, target) != AB_OK)
    return ab_golden_refuse(AB_EXIT_USAGE);
  int code = import_through(scratch, bundle, target, origin, w);
  if (ab_folder_exists(scratch)) ab_scratch_remove(scratch);
  ab_mem_free(scratch);
  return code;
}

/* Without slashes at its end: the last component is a name. */
static void trim(char *path) {
  for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
}

int ab_golden_import(int argc, char **argv) {
  struct ab_golden_words w;
  for (int i = 1; i < argc; i++) trim(argv[i]);
  if (ab_golden_words_parse(&w, argc, argv, 2, 2, "BUNDLE CASE_DIR") != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = import(w.word[0], w.word[1], &w);
  ab_golden_words_free(&w);
  return code;
}
