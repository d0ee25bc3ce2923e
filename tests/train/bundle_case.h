/* Bundles of the test data, opened; and a model whose leaves are windows into a bundle's own trees. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "bundle.h"
#include "fixture.h"
#include "mem.h"
#include "tap.h"

static inline void case_path(char text[512], const char *name, const char *file) {
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(text, 512, "%s/tests/fixtures/reference/%s%s%s", root ? root : ".", name, file[0] ? "/" : "", file);
}

/* Names of the manifest's cases that carry their data here. At most 64; NULL ends the list. */
static inline const char **main_cases(void) {
  static const char *name[65];
  static cJSON *manifest;
  if (manifest) return name;
  manifest = fixture_json("manifest.json");
  const cJSON *row;
  int count = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(manifest, "cases")) {
    if (strcmp(cJSON_GetObjectItem(row, "issue")->valuestring, "main-job") == 0 && count < 64)
      name[count++] = cJSON_GetObjectItem(row, "case")->valuestring;
  }
  return name;
}

static inline int main_case_count(void) {
  int count = 0;
  while (main_cases()[count]) count++;
  return count;
}

static inline struct ab_config *case_config(const char *name) {
  char path[512];
  struct ab_config *config;
  case_path(path, name, "config.yml");
  ck_ok(ab_config_load(&config, &(struct ab_config_request){.file = path, .ignore_environment = true}));
  return config;
}

/* Calls fn with the window of each canonical parameter into a stacked tree. */
static inline ab_status each_window(const struct ab_layout *layout, const struct ab_tree *tree,
                                    const struct ab_config *config, bool layers_only, ab_leaf_fn fn, void *ctx) {
  struct ab_inventory inventory;
  ab_status status = AB_OK;
  AB_TRY(ab_inventory_new(&inventory, config, layers_only));
  for (size_t i = 0; i < inventory.rows && status == AB_OK; i++) {
    struct ab_view view;
    status = ab_layout_view(&view, layout, tree, inventory.row[i].layer, inventory.row[i].param->name);
    if (status == AB_OK) status = fn(ctx, inventory.row[i].layer, inventory.row[i].param->name, &view);
  }
  ab_inventory_free(&inventory);
  return status;
}
