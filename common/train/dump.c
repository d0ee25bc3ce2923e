#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bundle.h"
#include "bundle_file.h"
#include "file.h"
#include "float_bits.h"
#include "json.h"
#include "mem.h"
#include "number.h"
#include "probe.h"
#include "safetensors.h"

/* {value, f32, hex, bits}: the nearest float32 in three spellings beside the value itself. */
static void put_number(struct ab_json_writer *w, const char *key, double value) {
  char text[64];
  float nearest = (float)value;
  ab_json_put_object(w, key, true);
  ab_json_put_double(w, "value", value);
  ab_number_print_float(text, nearest);
  ab_json_put_string(w, "f32", text);
  snprintf(text, sizeof text, "%.13a", (double)nearest);
  ab_json_put_string(w, "hex", text);
  snprintf(text, sizeof text, "0x%08x", ab_bits_of_float(nearest));
  ab_json_put_string(w, "bits", text);
  ab_json_put_end(w);
}

static void put_summary(struct ab_json_writer *w, const struct ab_tensor *tensor) {
  struct ab_view view = ab_view_of(tensor);
  struct ab_summary summary;
  ab_summarize(&summary, &view);
  ab_json_put_object(w, tensor->name, true);
  ab_json_put_double(w, "l2", summary.l2);
  ab_json_put_double(w, "sum", summary.sum);
  ab_json_put_double(w, "max_abs", summary.max_abs);
  ab_json_put_end(w);
}

static void put_summaries(struct ab_json_writer *w, const char *key, const struct ab_tree *tree) {
  if (!tree) return;
  ab_json_put_object(w, key, false);
  for (size_t i = 0; i < ab_tree_size(tree); i++) put_summary(w, ab_tree_at(tree, i));
  ab_json_put_end(w);
}

static void put_steps(struct ab_json_writer *w, const struct ab_dump *d) {
  ab_json_put_array(w, "steps", false);
  for (size_t s = 0; s < d->steps; s++) {
    ab_json_put_object(w, NULL, false);
    for (const struct ab_metric_field *f = ab_metric_fields; f->name; f++)
      put_number(w, f->name, *(const double *)((const char *)&d->step[s] + f->offset));
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

static const char *kind_of(const struct ab_dump *d) {
  return d->train ? "train" : d->loss_kind == AB_LOSS_GIVEN ? "engine_vjp" : "engine";
}

static void put_expected(struct ab_json_writer *w, const struct ab_dump *d) {
  ab_json_put_string(w, "kind", kind_of(d));
  ab_json_put_string(w, "produced_by", d->produced_by);
  if (d->train) put_steps(w, d);
  if (!d->train && d->loss_kind != AB_LOSS_GIVEN) put_number(w, "loss", d->loss);
  put_summaries(w, "gradients", d->grads);
  put_summaries(w, "params_final", d->params_final);
  put_summaries(w, "outputs", d->outputs);
}

static void put_meta(struct ab_json_writer *w, const struct ab_dump *d) {
  const struct ab_config *c = d->config;
  ab_json_put_string(w, "kind", kind_of(d));
  ab_json_put_string(w, "loss_kind", ab_loss_kind_name(d->loss_kind));
  ab_json_put_string(w, "produced_by", d->produced_by);
  ab_json_put_int64(w, "S", c->pipelined ? c->num_stages : 1);
  ab_json_put_int64(w, "M", c->num_pipeline_microbatches);
  ab_json_put_int64(w, "R", c->num_pipeline_repeats);
  ab_json_put_int64(w, "K", c->num_layers_per_pipeline_stage);
}

static ab_status write_json(const struct ab_dump *d, const char *folder, const char *name,
                            void (*put)(struct ab_json_writer *w, const struct ab_dump *d)) {
  char path[AB_FOLDER_MAX];
  struct ab_json_writer *w;
  AB_TRY(ab_bundle_path(path, folder, name));
  AB_TRY(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, false);
  put(w, d);
  ab_json_put_end(w);
  AB_TRY(ab_json_writer_file(w, path, ab_file_write));
  return AB_OK;
}

static ab_status write_tree(const struct ab_tree *tree, const char *folder, const char *name) {
  char path[AB_FOLDER_MAX];
  if (!tree) return AB_OK;
  AB_TRY(ab_bundle_path(path, folder, name));
  AB_TRY(ab_safetensors_write(path, tree));
  return AB_OK;
}

/* Every key that somebody gave; the others have their defaults or follow from these. */
struct text {
  struct ab_writer *writer;
  ab_status status;
};

static void put_key(void *ctx, const char *key, const char *value, const char *source) {
  struct text *text = ctx;
  const char *part[] = {key, ": ", value, "\n"};
  if (strcmp(source, "default") == 0 || strcmp(source, "derived") == 0) return;
  for (size_t i = 0; i < 4 && text->status == AB_OK; i++)
    text->status = ab_writer_put(text->writer, part[i], strlen(part[i]));
}

ab_status ab_dump_config(const struct ab_config *config, const char *folder) {
  char path[AB_FOLDER_MAX];
  struct text text = {NULL, AB_OK};
  AB_TRY(ab_bundle_path(path, folder, "config.yml"));
  AB_TRY(ab_writer_new(&text.writer, path));
  ab_config_each(config, put_key, &text);
  if (text.status == AB_OK) text.status = ab_writer_commit(text.writer);
  ab_writer_free(text.writer);
  AB_TRY(text.status);
  return AB_OK;
}

static ab_status narrow_tree(struct ab_tree *to, const struct ab_tree *tree) {
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    const struct ab_tensor *tensor = ab_tree_at(tree, i);
    struct ab_tensor *added;
    AB_TRY(ab_tree_add(to, tensor->name, AB_F32, &tensor->shape, &added));
    for (size_t j = 0; j < tensor->count; j++) ((float *)added->data)[j] = (float)((const double *)tensor->data)[j];
  }
  return AB_OK;
}

/* Initial parameters are float32 values in every table, and a case's parameters are F32. */
static ab_status write_params(const struct ab_tree *tree, const char *folder) {
  struct ab_tree *narrow;
  if (!tree || ab_tree_size(tree) == 0 || ab_tree_at(tree, 0)->dtype != AB_F64)
    return write_tree(tree, folder, "params.safetensors");
  AB_TRY(ab_tree_new(&narrow));
  ab_status status = narrow_tree(narrow, tree);
  if (status == AB_OK) status = write_tree(narrow, folder, "params.safetensors");
  ab_tree_free(narrow);
  AB_TRY(status);
  return AB_OK;
}

static ab_status write_files(const struct ab_dump *d, const char *folder) {
  AB_TRY(ab_dump_config(d->config, folder));
  AB_TRY(write_json(d, folder, "meta.json", put_meta));
  if (!d->inputs_only) AB_TRY(write_json(d, folder, "expected.json", put_expected));
  AB_TRY(write_params(d->params, folder));
  AB_TRY(write_tree(d->batch, folder, "batch.safetensors"));
  AB_TRY(write_tree(d->grads, folder, "grads.safetensors"));
  AB_TRY(write_tree(d->outputs, folder, "outputs.safetensors"));
  AB_TRY(write_tree(d->params_final, folder, "params_final.safetensors"));
  AB_TRY(write_tree(d->params_step1, folder, "params_step1.safetensors"));
  return AB_OK;
}

ab_status ab_dump_write(const struct ab_dump *dump, const char *folder) {
  char *scratch;
  AB_TRY(ab_scratch_beside(&scratch, folder));
  ab_status status = write_files(dump, scratch);
  if (status == AB_OK) status = ab_scratch_place(scratch, folder);
  if (status != AB_OK) (void)ab_scratch_remove(scratch);
  ab_mem_free(scratch);
  AB_TRY(status);
  return AB_OK;
}

static ab_status add_array(struct ab_tree *tree, const char *name, const int32_t *values,
                           const struct ab_shape *shape) {
  struct ab_tensor *tensor;
  AB_TRY(ab_tree_add(tree, name, AB_I32, shape, &tensor));
  size_t one = (size_t)(shape->dim[1] * shape->dim[2]);
  for (int64_t s = 0; s < shape->dim[0]; s++)
    memcpy((int32_t *)tensor->data + (size_t)s * one, values, one * sizeof *values);
  return AB_OK;
}

static ab_status add_batch(struct ab_tree *tree, const struct ab_batch *b, int64_t steps) {
  const struct ab_shape shape = {3, {steps, b->rows, b->length}};
  AB_TRY(add_array(tree, "inputs", b->inputs, &shape));
  AB_TRY(add_array(tree, "inputs_position", b->inputs_position, &shape));
  AB_TRY(add_array(tree, "inputs_segmentation", b->inputs_segmentation, &shape));
  AB_TRY(add_array(tree, "targets", b->targets, &shape));
  AB_TRY(add_array(tree, "targets_position", b->targets_position, &shape));
  AB_TRY(add_array(tree, "targets_segmentation", b->targets_segmentation, &shape));
  return AB_OK;
}

ab_status ab_dump_batch(struct ab_tree **out, const struct ab_batch *batch, int64_t steps) {
  struct ab_tree *tree;
  AB_TRY(ab_tree_new(&tree));
  ab_status status = add_batch(tree, batch, steps);
  if (status != AB_OK) {
    ab_tree_free(tree);
    AB_TRY(status);
  }
  *out = tree;
  return AB_OK;
}
