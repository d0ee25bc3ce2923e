#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "golden_command.h"
#include "mem.h"

enum { DEEPEST = 4, NAMES_MAX = 10000, INVENTORY_MAX = 1 << 20 };

static ab_status has(bool *out, const char *folder, const char *name) {
  char *path;
  AB_TRY(ab_path_join(&path, folder, name));
  ab_status status = ab_file_find(out, path);
  ab_mem_free(path);
  return status;
}

static ab_status look(struct ab_golden_case *c, const char *folder) {
  AB_TRY(ab_mem_string(&c->folder, folder));
  AB_TRY(ab_path_join(&c->golden, folder, "golden.json"));
  AB_TRY(ab_path_join(&c->pending, folder, "golden.pending.json"));
  AB_TRY(has(&c->has_config, folder, "config.yml"));
  AB_TRY(ab_file_find(&c->has_golden, c->golden));
  AB_TRY(ab_file_find(&c->has_pending, c->pending));
  return AB_OK;
}

ab_status ab_golden_case_open(struct ab_golden_case *out, const char *folder) {
  *out = (struct ab_golden_case){0};
  char *plain;
  AB_TRY(ab_mem_string(&plain, folder));
  for (size_t n = strlen(plain); n > 1 && plain[n - 1] == '/'; n--) plain[n - 1] = '\0';
  ab_status status = look(out, plain);
  ab_mem_free(plain);
  if (status != AB_OK) ab_golden_case_close(out);
  AB_TRY(status);
  return AB_OK;
}

void ab_golden_case_close(struct ab_golden_case *c) {
  char *texts[] = {c->folder, c->golden, c->pending};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ab_mem_free(texts[i]);
  *c = (struct ab_golden_case){0};
}

void ab_golden_cases_free(struct ab_golden_cases *cases) {
  for (size_t i = 0; i < cases->count; i++) ab_golden_case_close(&cases->row[i]);
  ab_mem_free(cases->row);
  *cases = (struct ab_golden_cases){0};
}

ab_status ab_golden_case_lock(int *out, const struct ab_golden_case *c) {
  AB_TRY(ab_folder_lock(out, c->folder));
  ab_status status = ab_folder_sweep(c->folder);
  if (status != AB_OK) ab_folder_unlock(*out);
  AB_TRY(status);
  return AB_OK;
}

static bool is_case(const struct ab_golden_case *c) { return c->has_config || c->has_golden || c->has_pending; }

/* Takes the case over, also when it fails. */
static ab_status append(struct ab_golden_cases *cases, struct ab_golden_case *c) {
  ab_status status = ab_mem_resize(&cases->row, cases->count + 1, sizeof *cases->row);
  if (status == AB_OK) cases->row[cases->count++] = *c;
  else ab_golden_case_close(c);
  AB_TRY(status);
  return AB_OK;
}

static ab_status walk(struct ab_golden_cases *cases, const char *folder, int depth);

static ab_status walk_inside(struct ab_golden_cases *cases, const char *folder, int depth) {
  struct ab_names names;
  AB_TRY(ab_folder_list(&names, folder, NAMES_MAX));
  ab_status status = AB_OK;
  for (size_t i = 0; i < names.count && status == AB_OK; i++) {
    char *path;
    bool inner;
    status = ab_path_join(&path, folder, names.name[i]);
    if (status != AB_OK) break;
    status = ab_folder_find(&inner, path);
    if (status == AB_OK && inner) status = walk(cases, path, depth + 1);
    ab_mem_free(path);
  }
  ab_names_free(&names);
  return status;
}

static ab_status walk(struct ab_golden_cases *cases, const char *folder, int depth) {
  struct ab_golden_case c;
  AB_TRY(ab_golden_case_open(&c, folder));
  if (is_case(&c)) return append(cases, &c);
  ab_golden_case_close(&c);
  return depth < DEEPEST ? walk_inside(cases, folder, depth) : AB_OK;
}

/* Marks the row as listed; a case that is not there becomes a row of its own. */
static ab_status list_one(struct ab_golden_cases *cases, size_t first, const char *root, const char *name) {
  struct ab_golden_case wanted;
  char *folder;
  AB_TRY(ab_check_beneath(root, name));
  AB_TRY(ab_path_join(&folder, root, name));
  ab_status status = ab_golden_case_open(&wanted, folder);
  ab_mem_free(folder);
  AB_TRY(status);
  for (size_t i = first; i < cases->count; i++) {
    if (strcmp(cases->row[i].folder, wanted.folder) != 0) continue;
    cases->row[i].unlisted = false;
    ab_golden_case_close(&wanted);
    return AB_OK;
  }
  return append(cases, &wanted);
}

static ab_status take_inventory(struct ab_golden_cases *cases, size_t first, const char *root, char *text) {
  for (size_t i = first; i < cases->count; i++) cases->row[i].unlisted = true;
  char *rest = text;
  for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
    line[strcspn(line, "# \t\r")] = '\0';
    if (*line) AB_TRY(list_one(cases, first, root, line));
  }
  return AB_OK;
}

static ab_status read_inventory(struct ab_golden_cases *cases, size_t first, const char *root) {
  char *text;
  size_t size;
  ab_status status = ab_file_read_beneath(&text, &size, root, "inventory", INVENTORY_MAX);
  if (status == AB_ENOTFOUND) {
    ab_status_clear();
    return AB_OK;
  }
  AB_TRY(status);
  status = take_inventory(cases, first, root, text);
  ab_mem_free(text);
  return status;
}

static ab_status find_one(struct ab_golden_cases *cases, const char *target) {
  struct ab_golden_case c;
  size_t first = cases->count;
  bool there;
  AB_TRY(ab_folder_find(&there, target));
  if (!there) return AB_FAIL(AB_ENOTFOUND, "there is no folder '%s'", target);
  AB_TRY(ab_golden_case_open(&c, target));
  if (is_case(&c)) return append(cases, &c);
  char *root = c.folder; /* without trailing slashes */
  ab_status status = walk_inside(cases, root, 0);
  if (status == AB_OK) status = read_inventory(cases, first, root);
  ab_golden_case_close(&c);
  AB_TRY(status);
  if (cases->count == first) return AB_FAIL(AB_ECONFIG, "'%s' holds no case: no config.yml, no golden.json", target);
  return AB_OK;
}

ab_status ab_golden_cases_find(struct ab_golden_cases *out, const char *const *targets, size_t count) {
  static const char *const usual[] = {"golden"};
  struct ab_golden_cases cases = {0};
  ab_status status = AB_OK;
  if (!count) targets = usual;
  for (size_t i = 0; i < (count ? count : 1) && status == AB_OK; i++) status = find_one(&cases, targets[i]);
  if (status == AB_OK) *out = cases;
  else ab_golden_cases_free(&cases);
  AB_TRY(status);
  return AB_OK;
}

int ab_golden_with_cases(int argc, char **argv, ab_golden_act_fn act) {
  struct ab_golden_words w;
  struct ab_golden_cases cases;
  if (ab_golden_words_parse(&w, argc, argv, 0, SIZE_MAX, "CASE_DIR ...") != AB_OK)
    return ab_golden_refuse(AB_EXIT_USAGE);
  int code = AB_EXIT_USAGE;
  if (ab_golden_cases_find(&cases, w.word, w.words) == AB_OK) {
    code = act(&cases, &w);
    ab_golden_cases_free(&cases);
  } else {
    ab_golden_refuse(code);
  }
  ab_golden_words_free(&w);
  return code;
}
