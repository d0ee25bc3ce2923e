#include "bundle.h"

#include <stdio.h>
#include <string.h>

#include "bundle_file.h"
#include "file.h"
#include "json.h"
#include "mem.h"
#include "safetensors.h"

/* What a batch holds: train arrays are [steps, B, L], engine arrays [B, L] or, of floats, [B, L, E]. */
struct array {
  const char *name;
  enum ab_dtype dtype;
  bool token; /* below vocab_size; other integers are not negative */
};
static const struct array train_arrays[] = {
    {"inputs", AB_I32, true},  {"inputs_position", AB_I32, false},  {"inputs_segmentation", AB_I32, false},
    {"targets", AB_I32, true}, {"targets_position", AB_I32, false}, {"targets_segmentation", AB_I32, false},
};
static const struct array loss_arrays[] = {
    {"inputs", AB_F32, false},
    {"targets", AB_F32, false},
    {"positions", AB_I32, false},
    {"segment_ids", AB_I32, false},
};
static const struct array cotangent_arrays[] = {
    {"inputs", AB_F32, false},
    {"output_cotangent", AB_F32, false},
    {"positions", AB_I32, false},
    {"segment_ids", AB_I32, false},
};
enum { MOST_ARRAYS = 6, ENGINE_ARRAYS = 4 };

static const struct array *arrays_of(size_t *count, const struct ab_bundle *b) {
  *count = b->train ? MOST_ARRAYS : ENGINE_ARRAYS;
  return b->train ? train_arrays : b->loss_kind == AB_LOSS_GIVEN ? cotangent_arrays : loss_arrays;
}

static const char *const kinds[] = {"engine", "engine_vjp", "train"};

static ab_status read_kind(struct ab_bundle *b, const struct ab_json *meta) {
  const char *kind, *loss_kind;
  size_t i = 0;
  AB_TRY(ab_json_get_string(&kind, meta, "kind"));
  AB_TRY(ab_json_get_string(&loss_kind, meta, "loss_kind"));
  while (i < 3 && strcmp(kinds[i], kind) != 0) i++;
  if (i == 3)
    return AB_FAIL(AB_EFORMAT, "%s/meta.json: kind '%.64s' is unknown, expected engine, engine_vjp or train", b->folder,
                   kind);
  b->train = i == 2;
  AB_TRY(ab_loss_kind_find(&b->loss_kind, loss_kind));
  if (b->train != (b->loss_kind == AB_LOSS_TRAIN))
    return AB_FAIL(AB_EFORMAT, "%s/meta.json: kind '%s' does not go with loss_kind '%.64s'", b->folder, kind,
                   loss_kind);
  return AB_OK;
}

static ab_status read_meta(struct ab_bundle *b) {
  char path[AB_FOLDER_MAX];
  struct ab_json *meta;
  AB_TRY(ab_bundle_path(path, b->folder, "meta.json"));
  AB_TRY(ab_json_read(&meta, path, NULL));
  ab_status status = read_kind(b, meta);
  b->maxtext = ab_json_find(meta, "maxtext_commit_nnx") != NULL;
  ab_json_free(meta);
  AB_TRY(status);
  return AB_OK;
}

static ab_status read_params(struct ab_bundle *b) {
  char path[AB_FOLDER_MAX];
  AB_TRY(ab_bundle_path(path, b->folder, "params.safetensors"));
  AB_TRY(ab_layout_new(&b->layout, b->config, !b->train));
  AB_TRY(ab_wanted_read_layout(&b->params, path, &b->layout));
  for (size_t i = 0; i < ab_tree_size(b->params); i++) AB_TRY(ab_check_finite(ab_tree_at(b->params, i), path));
  return AB_OK;
}

/* The number of steps is the file's own; everything else is the config's. */
static ab_status count_steps(int64_t *out, const char *path) {
  struct ab_safetensors *file;
  AB_TRY(ab_safetensors_open(&file, path));
  const struct ab_safetensor *inputs = ab_safetensors_find(file, "inputs");
  *out = inputs && inputs->shape.rank == 3 && inputs->shape.dim[0] > 0 ? inputs->shape.dim[0] : 1;
  ab_safetensors_close(file);
  return AB_OK;
}

static struct ab_shape array_shape(const struct ab_bundle *b, const struct array *array, int64_t steps) {
  const struct ab_config *c = b->config;
  if (b->train) return (struct ab_shape){3, {steps, c->global_batch_size_to_train_on, c->max_target_length}};
  return (struct ab_shape){array->dtype == AB_F32 ? 3 : 2,
                           {c->micro_batch_size_to_train_on, c->max_target_length, c->emb_dim}};
}

static ab_status check_batch(const struct ab_bundle *b, const struct array *array, const char *path) {
  const struct ab_tensor *tensor = ab_tree_find(b->batch, array->name);
  if (array->dtype == AB_F32)
    AB_TRY(ab_check_finite(tensor, path));
  else
    AB_TRY(ab_check_range(tensor, 0, array->token ? b->config->vocab_size - 1 : INT32_MAX, path));
  return AB_OK;
}

static ab_status read_batch(struct ab_bundle *b) {
  char path[AB_FOLDER_MAX];
  struct ab_wanted wanted[MOST_ARRAYS];
  size_t count;
  int64_t steps = 1;
  const struct array *array = arrays_of(&count, b);
  AB_TRY(ab_bundle_path(path, b->folder, "batch.safetensors"));
  if (b->train) AB_TRY(count_steps(&steps, path));
  for (size_t i = 0; i < count; i++)
    wanted[i] = (struct ab_wanted){array[i].name, array[i].dtype, array_shape(b, &array[i], steps)};
  AB_TRY(ab_wanted_read(&b->batch, &b->ignored, path, wanted, count));
  for (size_t i = 0; i < count; i++) AB_TRY(check_batch(b, &array[i], path));
  return AB_OK;
}

static const char *const known_files[] = {
    "batch.safetensors",
    "config.yml",
    "expected.json",
    "golden.json",
    "grads.safetensors",
    "meta.json",
    "outputs.safetensors",
    "params.safetensors",
    "params_final.safetensors",
    "params_step1.safetensors",
    "grads_sequential.safetensors",
    "outputs_sequential.safetensors",
};

static ab_status count_files(struct ab_bundle *b) {
  struct ab_names names;
  AB_TRY(ab_folder_list(&names, b->folder, 10000));
  for (size_t i = 0; i < names.count; i++) {
    bool known = false;
    for (size_t j = 0; j < sizeof known_files / sizeof *known_files; j++)
      known |= strcmp(names.name[i], known_files[j]) == 0;
    b->ignored += !known;
  }
  ab_names_free(&names);
  return AB_OK;
}

static ab_status open_inputs(struct ab_bundle *b, const char *folder) {
  AB_TRY(ab_mem_string(&b->folder, folder));
  AB_TRY(read_meta(b));
  AB_TRY(read_params(b));
  AB_TRY(read_batch(b));
  AB_TRY(count_files(b));
  return AB_OK;
}

ab_status ab_bundle_open(struct ab_bundle **out, const char *folder, const struct ab_config *config) {
  struct ab_bundle *b;
  AB_TRY(ab_mem_new(&b, 1, sizeof *b));
  b->config = config;
  ab_status status = open_inputs(b, folder);
  if (status != AB_OK) {
    ab_bundle_free(b);
    AB_TRY(status);
  }
  *out = b;
  return AB_OK;
}

void ab_bundle_free(struct ab_bundle *bundle) {
  if (!bundle) return;
  ab_layout_free(&bundle->layout);
  ab_tree_free(bundle->params);
  ab_tree_free(bundle->batch);
  ab_mem_free(bundle->folder);
  ab_mem_free(bundle);
}

bool ab_bundle_is_engine(const struct ab_bundle *bundle) { return bundle && !bundle->train; }

ab_status ab_bundle_find(bool *out, const char *folder) {
  char path[AB_FOLDER_MAX];
  AB_TRY(ab_folder_find(out, folder));
  if (!*out) return AB_OK;
  AB_TRY(ab_bundle_path(path, folder, "meta.json"));
  return ab_file_find(out, path);
}

int64_t ab_bundle_steps(const struct ab_bundle *bundle) {
  return bundle->train ? ab_tree_find(bundle->batch, "inputs")->shape.dim[0] : 1;
}

static const int32_t *step_of(const struct ab_bundle *b, const char *name, size_t offset) {
  return (const int32_t *)ab_tree_find(b->batch, name)->data + offset;
}

ab_status ab_bundle_batch(struct ab_batch *out, const struct ab_bundle *bundle, int64_t step) {
  int64_t steps = ab_bundle_steps(bundle);
  if (step < 0 || step >= steps)
    return AB_FAIL(AB_ESHAPE, "%s/batch.safetensors holds %lld steps, but the run needs step %lld", bundle->folder,
                   (long long)steps, (long long)step + 1);
  const struct ab_shape *shape = &ab_tree_find(bundle->batch, "inputs")->shape;
  size_t offset = (size_t)step * (size_t)(shape->dim[1] * shape->dim[2]);
  *out = (struct ab_batch){.rows = shape->dim[1],
                           .length = shape->dim[2],
                           .inputs = step_of(bundle, "inputs", offset),
                           .inputs_position = step_of(bundle, "inputs_position", offset),
                           .inputs_segmentation = step_of(bundle, "inputs_segmentation", offset),
                           .targets = step_of(bundle, "targets", offset),
                           .targets_position = step_of(bundle, "targets_position", offset),
                           .targets_segmentation = step_of(bundle, "targets_segmentation", offset)};
  return AB_OK;
}

struct ab_activations ab_bundle_activations(const struct ab_bundle *bundle) {
  const char *other = bundle->loss_kind == AB_LOSS_GIVEN ? "output_cotangent" : "targets";
  const struct ab_tensor *inputs = ab_tree_find(bundle->batch, "inputs");
  return (struct ab_activations){.count = inputs->count,
                                 .inputs = inputs->data,
                                 .other = ab_tree_find(bundle->batch, other)->data,
                                 .positions = ab_tree_find(bundle->batch, "positions")->data,
                                 .segment_ids = ab_tree_find(bundle->batch, "segment_ids")->data};
}

ab_status ab_bundle_load(const struct ab_bundle *bundle, const struct ab_side *side, const struct ab_kernels *kernels) {
  AB_TRY(ab_leaves_load(side, bundle->config, kernels, &bundle->layout, bundle->params));
  return AB_OK;
}
