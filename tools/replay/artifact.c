#include "artifact.h"

#include <stdio.h>
#include <string.h>

#include "dispatch.h"
#include "file.h"
#include "json.h"
#include "mem.h"
#include "safetensors.h"

#define JSON_NAME "artifact.json"
static const char *const files[] = {JSON_NAME, "config.yml", "inputs.safetensors", "recorded.safetensors"};
enum { FILES = sizeof files / sizeof *files, NAMES_MAX = 1000 };

const char *const ab_artifact_keys[AB_ARTIFACT_SIDES] = {"a", "b", "reference"};

int ab_artifact_part(const struct ab_artifact *a) { return a->at.microbatch < 0 ? 0 : a->at.microbatch; }

const struct ab_tensor *ab_artifact_recorded(const struct ab_artifact *a, int side, int part, enum ab_phase phase,
                                             const char *slot) {
  char path[AB_NAME_MAX + 64];
  snprintf(path, sizeof path, "%s/%d/%s/%s", ab_artifact_keys[side], part, ab_phase_name(phase), slot);
  return ab_tree_find(a->recorded, path);
}

const struct ab_tensor *ab_artifact_gradient(const struct ab_artifact *a, int side, const char *name) {
  char path[AB_NAME_MAX + 64];
  snprintf(path, sizeof path, "%s/gradient/%s", ab_artifact_keys[side], name);
  return ab_tree_find(a->recorded, path);
}

const struct ab_tensor *ab_artifact_input(const struct ab_artifact *a, const char *what, int part) {
  char path[64];
  snprintf(path, sizeof path, "%s/%d", what, part);
  return ab_tree_find(a->inputs, path);
}

static bool is_artifact(const char *folder) {
  struct ab_json *json;
  const char *schema;
  char *path;
  bool is = false;
  if (ab_path_join(&path, folder, JSON_NAME) != AB_OK) return false;
  if (ab_json_read(&json, path, NULL) == AB_OK) {
    is = ab_json_get_string(&schema, json, "schema") == AB_OK &&
         strncmp(schema, AB_ARTIFACT_FAMILY, strlen(AB_ARTIFACT_FAMILY)) == 0;
    ab_json_free(json);
  }
  ab_mem_free(path);
  ab_status_clear();
  return is;
}

static bool is_ours(const char *name) {
  for (int i = 0; i < FILES; i++)
    if (strcmp(files[i], name) == 0) return true;
  return false;
}

ab_status ab_artifact_check(const char *folder) {
  struct ab_names names;
  if (!ab_file_exists(folder)) return AB_OK;
  AB_TRY(ab_folder_list(&names, folder, NAMES_MAX));
  bool free = names.count == 0 || is_artifact(folder);
  for (size_t i = 0; i < names.count; i++) free &= is_ours(names.name[i]);
  ab_names_free(&names);
  if (free) return AB_OK;
  return AB_FAIL(AB_EIO, "--save-artifact '%.300s' is there and holds something else; expected a new folder or an "
                 "older artifact", folder);
}

static ab_status remove_old(const char *folder) {
  AB_TRY(ab_artifact_check(folder));
  for (int i = 0; i < FILES; i++) {
    char *path;
    AB_TRY(ab_path_join(&path, folder, files[i]));
    ab_status status = ab_file_exists(path) ? ab_file_remove(path) : AB_OK;
    ab_mem_free(path);
    AB_TRY(status);
  }
  return AB_OK;
}

static void put_names(struct ab_json_writer *w, const struct ab_artifact *a) {
  ab_json_put_object(w, "sides", false);
  for (int i = 0; i < AB_ARTIFACT_SIDES; i++) ab_json_put_string(w, ab_artifact_keys[i], a->name[i]);
  ab_json_put_end(w);
}

static void put_operators(struct ab_json_writer *w, const struct ab_config *config) {
  const struct ab_block *block = ab_block_find(config->decoder_block);
  ab_json_put_array(w, "operators", true);
  for (int i = 0; block && i < block->op_count; i++) ab_json_put_string(w, NULL, block->op[i].name);
  ab_json_put_end(w);
}

/* How far an operator may be off where the reference itself does not come out bit for bit. */
static void put_bounds(struct ab_json_writer *w) {
  struct ab_bound least = ab_tier_bound(AB_PAIR_MIXED, AB_Q_ACTIVATION, -1, -1);
  ab_json_put_object(w, "bounds", false);
  ab_json_put_string(w, "here", "bitwise");
  ab_json_put_string(w, "elsewhere", ab_rule_name(AB_RULE_UNCALIBRATED));
  ab_json_put_double(w, "least", least.limit);
  ab_json_put_end(w);
}

/* Of the files that were written before this one. */
static ab_status put_digests(struct ab_json_writer *w, const char *folder) {
  ab_json_put_object(w, "files", false);
  for (int i = 1; i < FILES; i++) {
    char *path, digest[AB_ARTIFACT_DIGEST];
    AB_TRY(ab_path_join(&path, folder, files[i]));
    ab_status status = ab_artifact_digest(digest, path);
    ab_mem_free(path);
    AB_TRY(status);
    ab_json_put_string(w, files[i], digest);
  }
  ab_json_put_end(w);
  return AB_OK;
}

static ab_status put_artifact(struct ab_json_writer *w, const struct ab_artifact *a, const char *folder) {
  const struct {
    const char *key;
    int64_t value;
  } number[] = {{"step", a->at.step}, {"microbatch", a->at.microbatch}, {"layer", a->at.layer},
                {"iteration", a->where.iteration}, {"stage", a->where.stage}, {"repeat", a->where.repeat},
                {"parts", a->parts}, {"devices", a->devices}};
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "schema", AB_ARTIFACT_SCHEMA);
  AB_TRY(put_digests(w, folder));
  ab_json_put_string(w, "version", a->version);
  ab_json_put_string(w, "kind", a->sum ? "sum" : "cell");
  put_names(w, a);
  ab_json_put_string(w, "wrong", ab_artifact_keys[a->wrong]);
  for (size_t i = 0; i < sizeof number / sizeof *number; i++) ab_json_put_int64(w, number[i].key, number[i].value);
  ab_json_put_string(w, "tensor", a->at.tensor);
  ab_json_put_string(w, "phase", ab_phase_name(a->at.phase));
  ab_json_put_string(w, "block", a->config->decoder_block);
  put_operators(w, a->config);
  ab_json_put_string(w, "numerics", a->numerics);
  ab_json_put_string(w, "fed", a->fed);
  put_bounds(w);
  ab_divergence_put(w, NULL, a->said);
  ab_json_put_end(w);
  return AB_OK;
}

static ab_status write_json(const struct ab_artifact *a, const char *folder, const char *path) {
  struct ab_json_writer *w;
  AB_TRY(ab_json_writer_new(&w));
  ab_status status = put_artifact(w, a, folder);
  if (status == AB_OK) return ab_json_writer_file(w, path, ab_file_write);
  ab_json_writer_free(w);
  return status;
}

static ab_status write_one(const struct ab_artifact *a, const char *folder, const char *name) {
  char *path;
  AB_TRY(ab_path_join(&path, folder, name));
  ab_status status = AB_OK;
  if (strcmp(name, JSON_NAME) == 0) status = write_json(a, folder, path);
  else if (strcmp(name, "config.yml") == 0) status = ab_dump_config(a->config, folder);
  else status = ab_safetensors_write(path, strcmp(name, "inputs.safetensors") ? a->recorded : a->inputs);
  ab_mem_free(path);
  return status;
}

ab_status ab_artifact_write(const struct ab_artifact *artifact, const char *folder) {
  char *scratch;
  AB_TRY(ab_scratch_beside(&scratch, folder));
  ab_status status = AB_OK;
  for (int i = FILES; i-- > 0 && status == AB_OK;) status = write_one(artifact, scratch, files[i]);
  if (status == AB_OK && ab_file_exists(folder)) status = remove_old(folder);
  if (status == AB_OK) status = ab_scratch_place(scratch, folder);
  if (status != AB_OK) (void)ab_scratch_remove(scratch);
  ab_mem_free(scratch);
  AB_TRY(status);
  return AB_OK;
}

/* A name out of a table; AB_EFORMAT otherwise. */
static ab_status read_choice(int *out, const struct ab_json *json, const char *key, const char *const *names,
                             int count) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, json, key));
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], text) == 0) {
      *out = i;
      return AB_OK;
    }
  return AB_FAIL(AB_EFORMAT, "artifact.json: '%s' is '%.79s', which this version does not know", key, text);
}

static ab_status read_text(char *out, size_t size, const struct ab_json *json, const char *key) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, json, key));
  if (strlen(text) >= size) return AB_FAIL(AB_EFORMAT, "artifact.json: '%s' is longer than %zu bytes", key, size - 1);
  memcpy(out, text, strlen(text) + 1);
  return AB_OK;
}

static ab_status read_number(int *out, const struct ab_json *json, const char *key, int least) {
  int64_t value;
  AB_TRY(ab_json_get_int64(&value, json, key));
  if (value < least || value > INT32_MAX)
    return AB_FAIL(AB_EFORMAT, "artifact.json: '%s' is %lld; expected at least %d", key, (long long)value, least);
  *out = (int)value;
  return AB_OK;
}

static ab_status read_place(struct ab_artifact *a, const struct ab_json *json) {
  static const char *const phases[] = {"forward", "recompute", "backward", "update"};
  int phase, devices;
  AB_TRY(read_number(&a->at.step, json, "step", 0));
  AB_TRY(read_number(&a->at.microbatch, json, "microbatch", -1));
  AB_TRY(read_number(&a->at.layer, json, "layer", 0));
  AB_TRY(read_number(&a->where.iteration, json, "iteration", -1));
  AB_TRY(read_number(&a->where.stage, json, "stage", -1));
  AB_TRY(read_number(&a->where.repeat, json, "repeat", -1));
  AB_TRY(read_number(&a->parts, json, "parts", 1));
  AB_TRY(read_number(&devices, json, "devices", 0));
  AB_TRY(read_text(a->at.tensor, sizeof a->at.tensor, json, "tensor"));
  AB_TRY(read_choice(&phase, json, "phase", phases, 3));
  a->at.phase = (enum ab_phase)phase;
  a->devices = devices;
  if (a->at.microbatch >= a->parts)
    return AB_FAIL(AB_EFORMAT, "artifact.json: 'microbatch' is %d of %d", a->at.microbatch, a->parts);
  return AB_OK;
}

static ab_status check_schema(const struct ab_json *json) {
  const char *schema;
  AB_TRY(ab_json_get_string(&schema, json, "schema"));
  if (strcmp(schema, AB_ARTIFACT_SCHEMA) == 0) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "artifact.json: 'schema' is '%.79s', this program reads " AB_ARTIFACT_SCHEMA ": save the "
                 "cell again", schema);
}

static ab_status read_digests(char digest[FILES][AB_ARTIFACT_DIGEST], const struct ab_json *json) {
  const struct ab_json *object;
  AB_TRY(ab_json_get_object(&object, json, "files"));
  for (int i = 1; i < FILES; i++) AB_TRY(read_text(digest[i], AB_ARTIFACT_DIGEST, object, files[i]));
  return AB_OK;
}

static ab_status read_json(struct ab_artifact *a, char digest[FILES][AB_ARTIFACT_DIGEST], const struct ab_json *json) {
  static const char *const kinds[] = {"cell", "sum"};
  const struct ab_json *sides;
  int kind;
  AB_TRY(check_schema(json));
  AB_TRY(read_digests(digest, json));
  AB_TRY(read_choice(&kind, json, "kind", kinds, 2));
  a->sum = kind == 1;
  AB_TRY(read_choice(&a->wrong, json, "wrong", ab_artifact_keys, 2));
  AB_TRY(ab_json_get_object(&sides, json, "sides"));
  for (int i = 0; i < AB_ARTIFACT_SIDES; i++)
    AB_TRY(read_text(a->name[i], sizeof a->name[i], sides, ab_artifact_keys[i]));
  AB_TRY(read_text(a->numerics, sizeof a->numerics, json, "numerics"));
  AB_TRY(read_text(a->version, sizeof a->version, json, "version"));
  AB_TRY(read_text(a->fed, sizeof a->fed, json, "fed"));
  return read_place(a, json);
}

/* The first file says what the others must be. */
static ab_status read_one(struct ab_artifact *a, char digest[FILES][AB_ARTIFACT_DIGEST], const char *path, int file) {
  struct ab_json *json;
  const char *name = files[file];
  if (file) AB_TRY(ab_artifact_check_file(path, digest[file]));
  if (strcmp(name, "config.yml") == 0) {
    struct ab_config_request wanted = {.file = path, .ignore_environment = true, .devices = a->devices};
    AB_TRY(ab_config_load(&a->own_config, &wanted));
    a->config = a->own_config;
    return AB_OK;
  }
  if (file)
    return ab_safetensors_load(strcmp(name, "inputs.safetensors") ? &a->recorded : &a->inputs, path);
  AB_TRY(ab_json_read(&json, path, NULL));
  ab_status status = read_json(a, digest, json);
  ab_json_free(json);
  return status;
}

/* Nothing seals artifact.json: its numbers must be those of a place in the step of config.yml. */
static ab_status check_place(const struct ab_artifact *a) {
  int64_t layers = a->config->num_decoder_layers, parts = a->config->num_pipeline_microbatches;
  if (a->parts != 1 && a->parts != parts)
    return AB_FAIL(AB_EFORMAT, "artifact.json: 'parts' is %d; expected 1 or the %lld microbatches of its config.yml",
                   a->parts, (long long)parts);
  if (a->at.layer >= layers)
    return AB_FAIL(AB_EFORMAT, "artifact.json: 'layer' is %d; its config.yml has %lld layers", a->at.layer,
                   (long long)layers);
  return AB_OK;
}

ab_status ab_artifact_read(struct ab_artifact *out, const char *folder) {
  struct ab_artifact a = {0};
  char digest[FILES][AB_ARTIFACT_DIGEST] = {{0}};
  ab_status status = AB_OK;
  for (int i = 0; i < FILES && status == AB_OK; i++) {
    char *path;
    status = ab_path_join(&path, folder, files[i]);
    if (status == AB_OK) status = read_one(&a, digest, path, i);
    ab_mem_free(path);
  }
  if (status == AB_OK) status = check_place(&a);
  if (status == AB_OK) *out = a;
  else ab_artifact_free(&a);
  return status;
}

void ab_artifact_free(struct ab_artifact *artifact) {
  ab_config_free(artifact->own_config);
  ab_tree_free(artifact->inputs);
  ab_tree_free(artifact->recorded);
  artifact->own_config = NULL;
  artifact->inputs = artifact->recorded = NULL;
}
