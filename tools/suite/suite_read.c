#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "suite.h"
#include "text.h"

__attribute__((format(printf, 3, 4))) static ab_status wrong(const struct ab_yaml *yaml,
                                                             const struct ab_yaml_node *node, const char *format, ...) {
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return AB_FAIL(AB_EFORMAT, "%s:%d:%d: %s", yaml->name, node->line, node->column, what);
}

static const struct ab_yaml_node *next(const struct ab_yaml_node *node) { return node + node->span; }

static ab_status text(const char **out, const struct ab_yaml *yaml, const struct ab_yaml_node *key,
                      const struct ab_yaml_node *value) {
  if (value->type != AB_YAML_STRING)
    return wrong(yaml, value, "'%s' is %s, expected a string", key->string, ab_yaml_type_name(value->type));
  if (!value->string[0] || !ab_text_is_printable(value->string))
    return wrong(yaml, value, "'%s' is empty or holds control characters", key->string);
  *out = value->string;
  return AB_OK;
}

static ab_status overrides(struct ab_suite_row *row, const struct ab_yaml *yaml, const struct ab_yaml_node *key,
                           const struct ab_yaml_node *list) {
  if (list->type != AB_YAML_LIST)
    return wrong(yaml, list, "'overrides' is %s, expected a list of key=value", ab_yaml_type_name(list->type));
  AB_TRY(ab_mem_new(&row->overrides, list->span, sizeof *row->overrides));
  for (const struct ab_yaml_node *item = list + 1; item < next(list); item = next(item)) {
    AB_TRY(text(&row->overrides[row->override_count], yaml, key, item));
    if (!strchr(row->overrides[row->override_count], '='))
      return wrong(yaml, item, "override '%.200s' is not key=value", item->string);
    row->override_count++;
  }
  return AB_OK;
}

/* The case's path from where we are. */
static ab_status locate(char **out, const char *suite, const char *name) {
  const char *slash = strrchr(suite, '/');
  size_t folder = slash && name[0] != '/' ? (size_t)(slash - suite) + 1 : 0;
  AB_TRY(ab_mem_new(out, folder + strlen(name) + 1, 1));
  memcpy(*out, suite, folder);
  strcpy(*out + folder, name);
  return AB_OK;
}

static ab_status set(struct ab_suite_row *row, const char **where, const struct ab_suite *suite,
                     const struct ab_yaml_node *key) {
  const struct {
    const char *key;
    const char **value;
  } fields[] = {{"name", &row->name}, {"case", where}, {"skip", &row->skip}, {"a", &row->a}, {"b", &row->b}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(key->string, fields[i].key) == 0) return text(fields[i].value, suite->yaml, key, key + 1);
  if (strcmp(key->string, "overrides") == 0) return overrides(row, suite->yaml, key, key + 1);
  return wrong(suite->yaml, key, "'%.200s' is not a key of a case; expected name, case, skip, a, b or overrides",
               key->string);
}

static ab_status check_name(const struct ab_suite *suite, const struct ab_yaml_node *node,
                            const struct ab_suite_row *row) {
  if (!row->name) return wrong(suite->yaml, node, "the case has no name");
  for (const struct ab_suite_row *other = suite->row; other < row; other++)
    if (strcmp(other->name, row->name) == 0)
      return wrong(suite->yaml, node, "the name '%.200s' is given twice", row->name);
  return AB_OK;
}

static ab_status want_golden(struct ab_suite_row *row) {
  static const char file[] = "/golden.json";
  bool folder, bundle;
  AB_TRY(ab_folder_find(&folder, row->target));
  AB_TRY(ab_bundle_find(&bundle, row->target));
  if (!folder || bundle) return AB_OK;
  AB_TRY(ab_mem_new(&row->golden, strlen(row->target) + sizeof file, 1));
  strcat(strcpy(row->golden, row->target), file);
  return AB_OK;
}

static ab_status read_row(struct ab_suite *suite, const struct ab_yaml_node *node) {
  struct ab_suite_row *row = &suite->row[suite->rows++];
  const char *where = NULL;
  if (node->type != AB_YAML_MAP)
    return wrong(suite->yaml, node, "a case is %s, expected a map with name, and case or skip",
                 ab_yaml_type_name(node->type));
  for (const struct ab_yaml_node *key = node + 1; key < next(node); key = next(key + 1))
    AB_TRY(set(row, &where, suite, key));
  AB_TRY(check_name(suite, node, row));
  if (!where == !row->skip)
    return wrong(suite->yaml, node, "'%.200s' has %s; expected one of them", row->name,
                 where ? "both case and skip" : "neither case nor skip");
  if (row->skip && (row->a || row->b || row->overrides))
    return wrong(suite->yaml, node, "'%.200s' is skipped and says how to run", row->name);
  if (row->skip) return AB_OK;
  AB_TRY(locate(&row->target, suite->path, where));
  AB_TRY(want_golden(row));
  return AB_OK;
}

static ab_status read_rows(struct ab_suite *suite, const struct ab_yaml_node *list) {
  if (list->type != AB_YAML_LIST || list->span == 1)
    return wrong(suite->yaml, list, "'cases' is %s, expected a list with at least one case",
                 list->type == AB_YAML_LIST ? "empty" : ab_yaml_type_name(list->type));
  AB_TRY(ab_mem_new(&suite->row, list->span, sizeof *suite->row));
  for (const struct ab_yaml_node *item = list + 1; item < next(list); item = next(item)) AB_TRY(read_row(suite, item));
  return AB_OK;
}

static ab_status read(struct ab_suite *suite) {
  AB_TRY(ab_yaml_read(&suite->yaml, suite->path));
  const struct ab_yaml_node *root = suite->yaml->nodes, *cases = NULL;
  for (const struct ab_yaml_node *key = root + 1; key < next(root); key = next(key + 1)) {
    if (strcmp(key->string, "cases") == 0)
      cases = key + 1;
    else if (strcmp(key->string, "about") == 0)
      AB_TRY(text(&suite->about, suite->yaml, key, key + 1));
    else
      return wrong(suite->yaml, key, "'%.200s' is not a key of a suite; expected about or cases", key->string);
  }
  if (!cases) return AB_FAIL(AB_EFORMAT, "%s has no 'cases'", suite->path);
  AB_TRY(read_rows(suite, cases));
  return AB_OK;
}

ab_status ab_suite_read(struct ab_suite *out, const char *path) {
  *out = (struct ab_suite){.path = path};
  ab_status status = read(out);
  if (status != AB_OK) ab_suite_free(out);
  return status;
}

void ab_suite_free(struct ab_suite *suite) {
  for (size_t i = 0; i < suite->rows; i++) {
    ab_mem_free(suite->row[i].target);
    ab_mem_free(suite->row[i].golden);
    ab_mem_free(suite->row[i].overrides);
  }
  ab_mem_free(suite->row);
  ab_yaml_free(suite->yaml);
  *suite = (struct ab_suite){0};
}
