#include "outputs.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "mem.h"

static bool is_taken(const char *name) {
  static const char *const endings[] = {".yml", ".yaml", ".safetensors", ".npz"};
  static const char *const names[] = {"golden.json", "golden.pending.json", "expected.json",
                                      "meta.json", "manifest.json", "artifact.json"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
    if (strcmp(dot, endings[i]) == 0) return true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static const char *leaf(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Of the path as given and of the file behind it. */
static ab_status check_name(const struct ab_output *o) {
  char *real = realpath(o->path, NULL);
  bool taken = is_taken(leaf(o->path)) || (real && is_taken(leaf(real)));
  free(real);
  if (!taken) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "--%s '%s' has the name of a file that is read (a config, a golden, a tensor file or a "
                 "bundle's JSON); expected a name of its own", o->option, o->path);
}

/* The input itself, or a folder that is replaced with its config. */
static ab_status is_input(bool *out, const struct ab_output *o, const char *input) {
  char *config;
  AB_TRY(ab_file_same(out, o->path, input));
  if (*out || !o->folder) return AB_OK;
  AB_TRY(ab_path_join(&config, o->path, "config.yml"));
  ab_status status = ab_file_same(out, config, input);
  ab_mem_free(config);
  return status;
}

static ab_status check_inputs(const struct ab_output *o, const char *const *input, size_t inputs) {
  for (size_t i = 0; i < inputs; i++) {
    bool same = false;
    if (input[i]) AB_TRY(is_input(&same, o, input[i]));
    if (same)
      return AB_FAIL(AB_ECONFIG, "--%s '%s' is what is read, '%s'; expected another place", o->option, o->path,
                     input[i]);
  }
  return AB_OK;
}

static ab_status check_others(const struct ab_output *output, size_t before, const struct ab_output *o) {
  for (size_t i = 0; i < before; i++) {
    bool same = false;
    if (output[i].path) AB_TRY(ab_file_same(&same, o->path, output[i].path));
    if (same)
      return AB_FAIL(AB_ECONFIG, "--%s '%s' and --%s '%s' are one place; expected one for each", output[i].option,
                     output[i].path, o->option, o->path);
  }
  return AB_OK;
}

static ab_status check_file(const struct ab_output *o) {
  AB_TRY(check_name(o));
  ab_status status = ab_file_check_write(o->path);
  return status == AB_OK ? AB_OK : AB_FAIL(status, "--%s: %s", o->option, ab_status_message());
}

ab_status ab_outputs_check(const struct ab_output *output, size_t outputs, const char *const *input, size_t inputs) {
  for (size_t i = 0; i < outputs; i++) {
    if (!output[i].path) continue;
    AB_TRY(check_inputs(&output[i], input, inputs));
    AB_TRY(check_others(output, i, &output[i]));
    if (!output[i].folder) AB_TRY(check_file(&output[i]));
  }
  return AB_OK;
}
