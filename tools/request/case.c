#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "request.h"

/* "golden/main/" -> "main", "configs/main.yml" -> "main". */
static ab_status name_of(char **out, const char *target) {
  size_t end = strlen(target);
  while (end > 1 && target[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && target[begin - 1] != '/') begin--;
  char name[256];
  snprintf(name, sizeof name, "%.*s", (int)(end - begin < 200 ? end - begin : 200), target + begin);
  char *dot = strrchr(name, '.');
  if (dot && dot != name && strcmp(dot, ".yml") == 0) *dot = '\0';
  return ab_mem_string(out, name);
}

static ab_status find_golden(struct ab_case *c, const struct ab_request *request) {
  if (request->golden) return ab_mem_string(&c->golden_path, request->golden);
  if (!c->folder || request->ignore_golden) return AB_OK;
  AB_TRY(ab_path_join(&c->golden_path, request->target, "golden.json"));
  bool there;
  AB_TRY(ab_file_find(&there, c->golden_path));
  if (there) return AB_OK;
  ab_mem_free(c->golden_path);
  c->golden_path = NULL;
  return AB_OK;
}

static ab_status load_config(struct ab_case *c, const struct ab_request *request, bool bundle) {
  char *path = NULL;
  if (c->folder) AB_TRY(ab_path_join(&path, request->target, "config.yml"));
  struct ab_config_request wanted = {.file = c->folder ? path : request->target,
                                     .overrides = request->overrides,
                                     .override_count = request->override_count,
                                     .ignore_environment = bundle,
                                     .devices = request->devices};
  ab_status status = ab_config_load(&c->config, &wanted);
  ab_mem_free(path);
  return status;
}

static ab_status count_steps(struct ab_case *c, const struct ab_request *request) {
  if (c->bundle && c->bundle->train && c->config->steps < ab_bundle_steps(c->bundle))
    return AB_FAIL(AB_ECONFIG, "key 'steps' is %lld, the bundle has %lld; expected --steps N to run its first N",
                   (long long)c->config->steps, (long long)ab_bundle_steps(c->bundle));
  int64_t most = c->bundle ? ab_bundle_steps(c->bundle) : c->config->steps;
  c->steps = request->steps ? request->steps : most;
  if (c->steps > most)
    return AB_FAIL(AB_ECONFIG, "--steps is %ld; expected at most the %lld steps of the %s", request->steps,
                   (long long)most, c->bundle ? "bundle" : "config");
  return AB_OK;
}

static ab_status check_data(const struct ab_case *c) {
  const char *type = ab_config_value(c->config, "dataset_type");
  if (c->bundle || !type || strcmp(type, "synthetic") == 0) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "key 'dataset_type' is '%s'; expected synthetic (or a bundle with its own batch)", type);
}

static ab_status open_case(struct ab_case *c, const struct ab_request *request) {
  bool bundle;
  AB_TRY(ab_folder_find(&c->folder, request->target));
  AB_TRY(ab_bundle_find(&bundle, request->target));
  AB_TRY(name_of(&c->name, request->target));
  if (request->numerics) AB_TRY(ab_numerics_find(&c->numerics, request->numerics));
  AB_TRY(load_config(c, request, bundle));
  if (bundle) AB_TRY(ab_bundle_open(&c->bundle, request->target, c->config));
  AB_TRY(find_golden(c, request));
  AB_TRY(check_data(c));
  AB_TRY(count_steps(c, request));
  return AB_OK;
}

ab_status ab_case_open(struct ab_case *out, const struct ab_request *request) {
  struct ab_case c = {0};
  ab_status status = open_case(&c, request);
  if (status == AB_OK) *out = c;
  else ab_case_close(&c);
  return status;
}

void ab_case_close(struct ab_case *opened) {
  ab_bundle_free(opened->bundle);
  ab_config_free(opened->config);
  ab_mem_free(opened->golden_path);
  ab_mem_free(opened->name);
  *opened = (struct ab_case){0};
}
