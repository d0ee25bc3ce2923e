#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "mem.h"
#include "tap.h"

static const cJSON *manifest_rows(void) {
  static cJSON *manifest;
  if (!manifest) manifest = fixture_json("manifest.json");
  return cJSON_GetObjectItem(manifest, "cases");
}

/* Also called before any test runs, so nothing is asserted here. */
static const char *text_of(const cJSON *row, const char *key) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(row, key));
  return text ? text : "";
}

static bool matches(const cJSON *row, const char *issue, const char *kind) {
  return strcmp(text_of(row, "issue"), issue) == 0 && strncmp(text_of(row, "kind"), kind, strlen(kind)) == 0;
}

int reference_count(const char *issue, const char *kind) {
  int count = 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, manifest_rows()) count += matches(row, issue, kind);
  return count;
}

static void path_of(char *text, size_t size, const char *name, const char *file) {
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(text, size, "%s/tests/fixtures/reference/%s/%s", root ? root : ".", name, file);
}

static struct reference_case open_row(const cJSON *row, const char *override) {
  char path[4096];
  struct reference_case c = {.name = text_of(row, "case"), .kind = text_of(row, "kind"),
                             .loss_kind = text_of(row, "loss_kind"), .row = row};
  path_of(path, sizeof path, c.name, "config.yml");
  struct ab_config_request request = {
      .file = path, .overrides = &override, .override_count = override != NULL, .ignore_environment = true};
  ck_ok(ab_config_load(&c.config, &request));
  return c;
}

struct reference_case reference_open(const char *issue, const char *kind, int i) {
  const cJSON *row;
  cJSON_ArrayForEach(row, manifest_rows()) if (matches(row, issue, kind) && i-- == 0) return open_row(row, NULL);
  ck_abort_msg("manifest.json: too few rows of kind %s for %s", kind, issue);
  return (struct reference_case){0};
}

static const cJSON *row_named(const char *name) {
  const cJSON *row;
  cJSON_ArrayForEach(row, manifest_rows()) if (strcmp(text_of(row, "case"), name) == 0) return row;
  ck_abort_msg("manifest.json: no case %s", name);
  return NULL;
}

struct reference_case reference_open_named(const char *name) {
  return open_row(row_named(name), NULL);
}

struct reference_case reference_open_faithful(const char *name) {
  return open_row(row_named(name), "upstream_faithful=B1");
}

bool reference_has_modes(const struct reference_case *c) {
  return cJSON_GetObjectItem(c->row, "modes") != NULL;
}

void reference_close(struct reference_case *c) {
  ab_config_free(c->config);
}

struct ab_tree *reference_tensors(const struct reference_case *c, const char *file) {
  char path[4096];
  struct ab_tree *tree;
  path_of(path, sizeof path, c->name, file);
  ck_ok(ab_safetensors_load(&tree, path));
  return tree;
}

cJSON *reference_expected(const struct reference_case *c) {
  char path[512];
  snprintf(path, sizeof path, "%s/expected.json", c->name);
  return fixture_json(path);
}

double reference_distance(const void *a, enum ab_dtype dtype, const float *b, size_t n) {
  double wrong = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    double x = dtype == AB_F64 ? ((const double *)a)[i] : (double)((const float *)a)[i];
    wrong += (x - (double)b[i]) * (x - (double)b[i]);
    all += (double)b[i] * (double)b[i];
  }
  if (!isfinite(wrong) || !isfinite(all)) return INFINITY;
  return wrong == 0 ? 0 : all > 0 ? sqrt(wrong / all) : INFINITY;
}

double reference_bound(const struct reference_case *c, const char *group, const char *name, const char *measure) {
  const cJSON *node = cJSON_GetObjectItem(cJSON_GetObjectItem(c->row, "bounds"), group);
  if (name) node = cJSON_GetObjectItemCaseSensitive(node, name);
  node = cJSON_GetObjectItem(node, measure);
  ck_assert_msg(cJSON_IsNumber(node), "%s: no bound %s %s %s", c->name, group, name ? name : "", measure);
  return node->valuedouble;
}

double reference_value(const cJSON *node, const char *name) {
  const cJSON *value = cJSON_GetObjectItem(cJSON_GetObjectItem(node, name), "value");
  ck_assert_msg(cJSON_IsNumber(value), "expected.json: no value '%s'", name);
  return value->valuedouble;
}

double reference_check_tree(const struct reference_case *c, const struct ab_tree *tree, const char *file,
                            const char *group) {
  double worst = 0;
  struct ab_tree *want = reference_tensors(c, file);
  ck_assert_msg(ab_tree_size(tree) == ab_tree_size(want), "%s: %zu leaves, %s has %zu", c->name, ab_tree_size(tree),
                file, ab_tree_size(want));
  for (size_t i = 0; i < ab_tree_size(want); i++) {
    const struct ab_tensor *b = ab_tree_at(want, i), *a = ab_tree_find(tree, b->name);
    ck_assert_msg(a && ab_shape_equal(&a->shape, &b->shape), "%s: leaf %s is missing or misshaped", c->name, b->name);
    double distance = reference_distance(a->data, a->dtype, b->data, b->count);
    double bound = reference_bound(c, group, b->name, "rel_l2");
    ck_assert_msg(distance <= bound, "%s %s: %s is %.3g away, bound %.3g", c->name, group, b->name, distance, bound);
    if (bound > 0 && distance / bound > worst) worst = distance / bound;
  }
  ab_tree_free(want);
  return worst;
}
