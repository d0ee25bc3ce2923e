#include <ctype.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_values.h"
#include "mem.h"
#include "config_models.h"
#include "text.h"

extern char **environ;

enum { PATH_SIZE = 4096, MAX_PARENTS = 16, LONGEST_NAME = 255 };

/* One value given on the command line. */
struct override {
  size_t row;
  struct ab_yaml *document;
};

struct merge {
  struct ab_config_values *values;
  const struct ab_yaml *top;   /* the file that was named; NULL without one */
  const struct ab_yaml *model; /* NULL without one */
  char folder[PATH_SIZE];      /* of the file that was named */
  struct override *overrides;
  size_t override_count;
};

static ab_status unknown_key(const char *where, const char *key) {
  return AB_FAIL(AB_ECONFIG, "%s: key '%.100s' is unknown, the nearest known key is '%s'", where, key,
                 ab_key_nearest(key));
}

/* Documents */

static struct ab_yaml_node *first_key(const struct ab_yaml *document) { return document->nodes + 1; }
static struct ab_yaml_node *end_of(const struct ab_yaml *document) { return document->nodes + document->nodes->span; }
static struct ab_yaml_node *next_key(struct ab_yaml_node *key) { return key + 1 + key[1].span; }

static struct ab_yaml_node *find_in(const struct ab_yaml *document, const char *name) {
  for (struct ab_yaml_node *key = first_key(document); key < end_of(document); key = next_key(key))
    if (strcmp(key->string, name) == 0) return key + 1;
  return NULL;
}

static ab_status check_keys(const struct ab_yaml *document) {
  for (struct ab_yaml_node *key = first_key(document); key < end_of(document); key = next_key(key)) {
    char where[AB_WHERE_SIZE];
    if (ab_key_find(key->string) < ab_key_count) continue;
    snprintf(where, sizeof where, "%s:%d:%d", document->name, key->line, key->column);
    return unknown_key(where, key->string);
  }
  return AB_OK;
}

static void apply_document(struct merge *m, const struct ab_yaml *document, enum ab_source source) {
  for (struct ab_yaml_node *key = first_key(document); key < end_of(document); key = next_key(key))
    ab_values_set(m->values, ab_key_find(key->string), document, key + 1, source);
}

/* logical_axis_rules are merged by rule name: a new rule drops all older rules of that name. */
static bool names_rule(const struct ab_yaml_node *rules, const char *name) {
  for (const struct ab_yaml_node *rule = rules + 1; rule < rules + rules->span; rule += rule->span)
    if (rule->span > 1 && rule[1].string && name && strcmp(rule[1].string, name) == 0) return true;
  return false;
}

static ab_status join_rules(char **out, const struct ab_yaml_node *old, const struct ab_yaml_node *new) {
  char *text = NULL;
  size_t size = strlen(old->text) + strlen(new->text) + 4, used = 1;
  AB_TRY(ab_mem_new(&text, size, 1));
  text[0] = '[';
  for (const struct ab_yaml_node *rule = old + 1; rule < old + old->span; rule += rule->span)
    if (rule->span == 1 || !names_rule(new, rule[1].string))
      used += (size_t)snprintf(text + used, size - used, "%s, ", rule->text);
  snprintf(text + used, size - used, "%s", new->text + 1); /* without its bracket */
  *out = text;
  return AB_OK;
}

static ab_status merge_rules(struct merge *m, const struct ab_yaml *document, struct ab_yaml_node *new,
                             enum ab_source source) {
  size_t row = ab_key_find("logical_axis_rules");
  const struct ab_yaml_node *old = m->values->rows[row].node;
  bool list = new->type == AB_YAML_LIST, nothing = new->type == AB_YAML_NULL || (list && new->span == 1);
  if (nothing || old->type != AB_YAML_LIST) return AB_OK;
  if (!list) {
    ab_values_set(m->values, row, document, new, source); /* to be refused for its kind */
    return AB_OK;
  }
  char *text = NULL;
  AB_TRY(join_rules(&text, old, new));
  ab_status status = ab_values_set_text(m->values, row, document->name, text, source);
  ab_mem_free(text);
  return status;
}

/* Files */

/* configs/ of the installation: $AB_DATADIR/configs, else the one of the source tree. */
static const char *config_folder(char buffer[PATH_SIZE]) {
  const char *data = getenv("AB_DATADIR");
  if (!data || !*data) return AB_CONFIG_DIR;
  snprintf(buffer, PATH_SIZE, "%s/configs", data);
  return buffer;
}

static void folder_of(char folder[PATH_SIZE], const char *path) {
  char copy[PATH_SIZE];
  snprintf(copy, sizeof copy, "%s", path);
  snprintf(folder, PATH_SIZE, "%s", dirname(copy));
}

/* The first of the folders that holds the name; AB_ENOTFOUND when none does. */
static ab_status read_first(struct ab_yaml **out, const char *const *folders, const char *name) {
  for (; *folders; folders++) {
    ab_status status = ab_yaml_read_beneath(out, *folders, name);
    if (status != AB_ENOTFOUND) return status;
    ab_status_clear(); /* not there is no failure yet */
  }
  return AB_ENOTFOUND;
}

static ab_status read_parent(struct ab_yaml **out, const struct ab_yaml *child, const struct ab_yaml_node *name) {
  char beside[PATH_SIZE], buffer[PATH_SIZE];
  folder_of(beside, child->name);
  const char *const folders[] = {beside, config_folder(buffer), NULL};
  if (name->type != AB_YAML_STRING)
    return AB_FAIL(AB_ECONFIG, "%s:%d:%d: key 'base_config' is %s, expected a file name", child->name, name->line,
                   name->column, ab_yaml_type_name(name->type));
  if (strlen(name->string) > LONGEST_NAME)
    return AB_FAIL(AB_ECONFIG, "%s:%d:%d: key 'base_config' is a name of %zu bytes, expected at most %d", child->name,
                   name->line, name->column, strlen(name->string), LONGEST_NAME);
  ab_status status = read_first(out, folders, name->string);
  if (status == AB_OK) return AB_OK;
  if (status != AB_ENOTFOUND)
    return AB_FAIL(status, "%s:%d:%d: key 'base_config': %s", child->name, name->line, name->column,
                   ab_status_message());
  return AB_FAIL(AB_ECONFIG, "%s:%d:%d: key 'base_config' names '%.512s', which is neither in %s nor in %s",
                 child->name, name->line, name->column, name->string, folders[0], folders[1]);
}

/* Child first into chain[]; the caller applies them from the end. */
static ab_status read_chain(struct merge *m, const char *path, struct ab_yaml *chain[MAX_PARENTS], int *count) {
  struct ab_yaml *document = NULL;
  AB_TRY(ab_yaml_read(&document, path));
  for (;;) {
    AB_TRY(ab_values_keep(m->values, document));
    AB_TRY(check_keys(document));
    chain[(*count)++] = document;
    const struct ab_yaml_node *parent = find_in(document, "base_config");
    if (!parent || parent->type == AB_YAML_NULL) return AB_OK;
    if (*count == MAX_PARENTS)
      return AB_FAIL(AB_ECONFIG, "%s:%d:%d: key 'base_config' makes a chain of more than %d files", document->name,
                     parent->line, parent->column, MAX_PARENTS);
    AB_TRY(read_parent(&document, document, parent));
  }
}

static ab_status merge_files(struct merge *m, const char *path) {
  struct ab_yaml *chain[MAX_PARENTS];
  int count = 0;
  AB_TRY(read_chain(m, path, chain, &count));
  for (int i = count; i-- > 0;) apply_document(m, chain[i], AB_SOURCE_FILE);
  m->top = chain[0];
  folder_of(m->folder, path);
  return AB_OK;
}

/* Overrides */

static ab_status read_override(struct merge *m, const char *text) {
  char key[128], name[AB_WHERE_SIZE], shown[200];
  const char *equals = strchr(text, '=');
  ab_text_escape(shown, sizeof shown, text);
  if (!equals || equals == text) return AB_FAIL(AB_ECONFIG, "override '%s' is not of the form key=value", shown);
  snprintf(name, sizeof name, "override '%s'", shown);
  snprintf(key, sizeof key, "%.*s", (int)(equals - text), text); /* no key is so long that it is cut */
  struct override *o = &m->overrides[m->override_count];
  o->row = ab_key_find(key);
  if (o->row == ab_key_count) return unknown_key(name, key);
  if (strcmp(key, "base_config") == 0)
    return AB_FAIL(AB_ECONFIG, "%s: key 'base_config' is read in files only", name);
  AB_TRY(ab_yaml_parse(&o->document, name, equals + 1, strlen(equals + 1)));
  AB_TRY(ab_values_keep(m->values, o->document));
  m->override_count++;
  return AB_OK;
}

static ab_status read_overrides(struct merge *m, const char *const *texts, size_t count) {
  AB_TRY(ab_mem_new(&m->overrides, count, sizeof *m->overrides));
  for (size_t i = 0; i < count; i++) AB_TRY(read_override(m, texts[i]));
  return AB_OK;
}

/* The last override of a key; NULL when it is not given. */
static const struct override *override_of(const struct merge *m, size_t row) {
  for (size_t i = m->override_count; i-- > 0;)
    if (m->overrides[i].row == row) return &m->overrides[i];
  return NULL;
}

static const struct ab_yaml_node *effective(const struct merge *m, const char *key) {
  size_t row = ab_key_find(key);
  const struct override *o = override_of(m, row);
  return o ? &o->document->nodes[0] : m->values->rows[row].node;
}

static bool is_true(const struct ab_yaml_node *node) { return node && node->type == AB_YAML_BOOL && node->boolean; }

static bool overriding(const struct merge *m) { return is_true(effective(m, "override_model_config")); }

static ab_status apply_overrides(struct merge *m) {
  size_t rules = ab_key_find("logical_axis_rules");
  bool replace = is_true(effective(m, "override_logical_axis_rules"));
  for (size_t i = 0; i < m->override_count; i++) {
    struct override *o = &m->overrides[i];
    struct ab_yaml_node *node = &o->document->nodes[0];
    if (o->row == rules && !replace) AB_TRY(merge_rules(m, o->document, node, AB_SOURCE_OVERRIDE));
    else ab_values_set(m->values, o->row, o->document, node, AB_SOURCE_OVERRIDE);
  }
  return AB_OK;
}

/* The model file */

static ab_status read_model(struct merge *m, const char *name) {
  char file[128], above[PATH_SIZE + 16], buffer[PATH_SIZE];
  struct ab_yaml *document = NULL;
  snprintf(file, sizeof file, "models/%s.yml", name);
  snprintf(above, sizeof above, "%s/..", m->folder);
  const char *const folders[] = {m->folder, above, config_folder(buffer), NULL};
  ab_status status = read_first(&document, m->top ? folders : folders + 2, file);
  if (status == AB_ENOTFOUND)
    return AB_FAIL(AB_ECONFIG, "key 'model_name' is %s, but there is no %s beside the configuration nor in %s", name,
                   file, folders[2]);
  AB_TRY(status);
  AB_TRY(ab_values_keep(m->values, document));
  m->model = document;
  const struct ab_yaml_node *parent = find_in(document, "base_config");
  if (parent)
    return AB_FAIL(AB_ECONFIG, "%s:%d:%d: key 'base_config' is not read in a model file", document->name,
                   parent->line, parent->column);
  return check_keys(document);
}

static bool is_number(const struct ab_yaml_node *node) {
  return node->type == AB_YAML_INT || node->type == AB_YAML_FLOAT;
}

static bool same_value(const struct ab_yaml_node *a, const struct ab_yaml_node *b) {
  if (is_number(a) && is_number(b)) return a->number == b->number;
  return strcmp(a->text, b->text) == 0;
}

/* pyconfig.py: validate_no_keys_overridden_twice: a key in the model file and in the overrides must have one value.
 */
static ab_status check_conflicts(const struct merge *m) {
  for (struct ab_yaml_node *key = first_key(m->model); key < end_of(m->model); key = next_key(key)) {
    const struct override *o = override_of(m, ab_key_find(key->string));
    if (!o || same_value(&o->document->nodes[0], key + 1)) continue;
    return AB_FAIL(AB_ECONFIG,
                   "%s: key '%s' is %.60s in %s:%d, expected the same value or override_model_config=true",
                   o->document->name, key->string, key[1].text, m->model->name, key[1].line);
  }
  return AB_OK;
}

/* MaxText lets the model file win over the file without a word; the notes will tell. */
static void note_outranked(struct merge *m) {
  for (struct ab_yaml_node *key = first_key(m->model); key < end_of(m->model); key = next_key(key)) {
    size_t row = ab_key_find(key->string);
    const struct ab_value *old = &m->values->rows[row];
    if (old->source != AB_SOURCE_FILE || same_value(old->node, key + 1) || ab_value_is_default(m->values, row))
      continue;
    m->values->outranked[row] = *old;
  }
}

static ab_status apply_model(struct merge *m) {
  size_t rules = ab_key_find("logical_axis_rules");
  struct ab_value old_rules = m->values->rows[rules];
  struct ab_yaml_node *new_rules = find_in(m->model, "logical_axis_rules");
  note_outranked(m);
  apply_document(m, m->model, AB_SOURCE_MODEL);
  for (size_t row = 0; row < ab_key_count; row++)
    if (m->values->outranked[row].node) m->values->rows[row].outranked = &m->values->outranked[row];
  if (!new_rules || is_true(effective(m, "override_logical_axis_rules"))) return AB_OK;
  m->values->rows[rules] = old_rules;
  return merge_rules(m, m->model, new_rules, AB_SOURCE_MODEL);
}

static ab_status merge_model(struct merge *m) {
  const struct ab_yaml_node *node = effective(m, "model_name");
  char name[64];
  snprintf(name, sizeof name, "%s", node->string ? node->string : "");
  size_t length = strlen(name), suffix = strlen("-Instruct");
  if (length > suffix && strcmp(name + length - suffix, "-Instruct") == 0) name[length - suffix] = '\0';
  if (!ab_model_is_known(name))
    return AB_FAIL(AB_ECONFIG, "key 'model_name' is %s, the nearest known name is '%s'", name, ab_model_nearest(name));
  if (strcmp(name, "default") == 0) return AB_OK;
  AB_TRY(read_model(m, name));
  if (!overriding(m)) AB_TRY(check_conflicts(m));
  AB_TRY(apply_model(m));
  const struct ab_yaml_node *own = m->top ? find_in(m->top, "override_model_config") : NULL;
  if (is_true(own)) apply_document(m, m->top, AB_SOURCE_FILE);
  return AB_OK;
}

/* Environment */

static ab_status check_environment_key(const struct merge *m, size_t row, const char *variable) {
  const char *key = ab_keys[row].name;
  enum ab_yaml_type type = m->values->rows[row].node->type;
  if (ab_keys[row].why == AB_WHY_MERGE)
    return AB_FAIL(AB_ECONFIG, "environment variable %s: key '%s' decides what is merged before the environment is "
                   "read, expected it in the file", variable, key);
  if (override_of(m, row))
    return AB_FAIL(AB_ECONFIG,
                   "key '%s' is given by the environment variable %s and by an override, expected one of them", key,
                   variable);
  if (m->model && find_in(m->model, key) && !overriding(m))
    return AB_FAIL(AB_ECONFIG,
                   "key '%s' is given by the environment variable %s and by %s, expected one of them or "
                   "override_model_config=true",
                   key, variable, m->model->name);
  if (type == AB_YAML_NULL || type >= AB_YAML_LIST)
    return AB_FAIL(AB_ECONFIG, "environment variable %s: key '%s' is %s, expected a string, number or boolean key",
                   variable, key, ab_yaml_type_name(type));
  return AB_OK;
}

static ab_status set_from_environment(struct merge *m, size_t row, const char *variable, const char *text) {
  char name[AB_WHERE_SIZE];
  snprintf(name, sizeof name, "environment variable %s", variable);
  if (ab_keys[row].kind != AB_KIND_STRING)
    return ab_values_set_text(m->values, row, name, text, AB_SOURCE_ENVIRONMENT);
  struct ab_yaml *document = NULL;
  AB_TRY(ab_yaml_string(&document, name, text));
  AB_TRY(ab_values_keep(m->values, document));
  ab_values_set(m->values, row, document, &document->nodes[0], AB_SOURCE_ENVIRONMENT);
  return AB_OK;
}

static ab_status merge_variable(struct merge *m, const char *entry) {
  char variable[128], key[128];
  const char *equals = strchr(entry, '=');
  size_t length = equals ? (size_t)(equals - entry) : sizeof key;
  if (strncmp(entry, "M_", 2) != 0 || length >= sizeof key) return AB_OK;
  snprintf(variable, sizeof variable, "%.*s", (int)length, entry);
  for (size_t i = 2; i <= length; i++) {
    if (islower((unsigned char)variable[i])) return AB_OK;
    key[i - 2] = (char)tolower((unsigned char)variable[i]);
  }
  size_t row = ab_key_find(key);
  if (row == ab_key_count) return AB_OK; /* not ours, as in MaxText */
  AB_TRY(check_environment_key(m, row, variable));
  return set_from_environment(m, row, variable, equals + 1);
}

static ab_status merge_environment(struct merge *m) {
  for (char **entry = environ; entry && *entry; entry++) AB_TRY(merge_variable(m, *entry));
  return AB_OK;
}

static ab_status merge_all(struct merge *m, const struct ab_config_request *request) {
  const char *file = request->file, *const *overrides = request->overrides;
  size_t count = request->override_count, length = count ? strlen(overrides[0]) : 0;
  if (!file && length > 4 && strcmp(overrides[0] + length - 4, ".yml") == 0 && !strchr(overrides[0], '='))
    file = *overrides++, count--;
  if (file) AB_TRY(merge_files(m, file));
  AB_TRY(read_overrides(m, overrides, count));
  AB_TRY(merge_model(m));
  AB_TRY(apply_overrides(m));
  if (!request->ignore_environment) AB_TRY(merge_environment(m));
  return AB_OK;
}

ab_status ab_config_merge(struct ab_config_values *values, const struct ab_config_request *request) {
  struct merge m = {.values = values};
  ab_status status = merge_all(&m, request);
  ab_mem_free(m.overrides);
  return status;
}
