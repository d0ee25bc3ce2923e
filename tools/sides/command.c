#include "command.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"
#include "observed.h"

/* Results on their way into a recording and a values file. */
struct taking {
  struct ab_side_result *result;
  const struct ab_case *opened;
  struct ab_bundle bundle; /* of the results: its folder is the command's */
  struct ab_results results;
  int fd;
  unsigned char *packed;
  size_t room;
};

static ab_status make_room(struct taking *t, size_t bytes) {
  if (bytes <= t->room) return AB_OK;
  AB_TRY(ab_mem_resize(&t->packed, bytes, 1));
  t->room = bytes;
  return AB_OK;
}

static ab_status put_view(struct taking *t, const struct ab_identity *id, const struct ab_view *view) {
  struct ab_observation o = {.id = *id, .at = {-1, -1, -1, false}, .dtype = view->dtype, .shape = view->shape};
  size_t bytes = ab_view_count(view) * ab_dtype_size(view->dtype);
  ab_summarize(&o.summary, view);
  AB_TRY(make_room(t, bytes));
  ab_view_pack(t->packed, view);
  AB_TRY(ab_file_put(t->fd, t->packed, bytes, "the values file"));
  return ab_recording_observe(t->result->recording, &o);
}

static ab_status put_leaves(struct taking *t, const struct ab_tree *tree, int step, enum ab_phase phase) {
  struct ab_inventory inventory;
  AB_TRY(ab_inventory_new(&inventory, t->opened->config, !t->bundle.train));
  ab_status status = AB_OK;
  for (size_t i = 0; i < inventory.rows && status == AB_OK; i++) {
    const struct ab_inventory_row *row = &inventory.row[i];
    struct ab_identity id = {.step = step, .microbatch = -1, .layer = row->layer, .phase = phase};
    struct ab_view view;
    snprintf(id.tensor, sizeof id.tensor, "%s", row->param->name);
    status = ab_layout_view(&view, &t->bundle.layout, tree, row->layer, row->param->name);
    if (status == AB_OK) status = put_view(t, &id, &view);
  }
  ab_inventory_free(&inventory);
  return status;
}

static ab_status put_whole(struct taking *t, const char *path, const char *name, enum ab_phase phase) {
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = phase};
  struct ab_view view = ab_view_of(ab_tree_find(t->results.outputs, path));
  snprintf(id.tensor, sizeof id.tensor, "%s", name);
  return put_view(t, &id, &view);
}

static ab_status put_metric(struct taking *t, int step, const char *name, double value) {
  struct ab_metric metric = {.step = step, .value = value, .f32 = true};
  snprintf(metric.name, sizeof metric.name, "%s", name);
  return ab_recording_add_metric(t->result->recording, &metric);
}

/* Every step states the same metrics as the first one: what only some state would be counted as if all did. */
static ab_status put_metrics(struct taking *t) {
  const struct ab_results *e = &t->results;
  int64_t steps = t->opened->steps;
  if (!t->bundle.train) {
    t->result->given.metrics = t->bundle.loss_kind != AB_LOSS_GIVEN;
    return t->result->given.metrics ? put_metric(t, 0, "loss", e->loss) : AB_OK;
  }
  if ((int64_t)e->steps != steps)
    return AB_FAIL(AB_EMISMATCH, "expected.json of the command holds %zu steps; expected %lld", e->steps,
                   (long long)steps);
  t->result->given.metrics = e->step[0].present;
  for (int64_t s = 0; s < steps; s++) {
    if (e->step[s].present != e->step[0].present)
      return AB_FAIL(AB_EMISMATCH, "expected.json of the command states other metrics in step %lld than in step 0",
                     (long long)s);
    for (int i = 0; ab_metric_fields[i].name; i++) {
      double value;
      if (!(e->step[s].present >> i & 1)) continue;
      memcpy(&value, (const char *)&e->step[s].metrics + ab_metric_fields[i].offset, sizeof value);
      AB_TRY(put_metric(t, (int)s, ab_metric_fields[i].name, value));
    }
  }
  return AB_OK;
}

/* In the order of execution. With one step both files would hold the same parameters: the final ones count. */
static ab_status put_results(struct taking *t) {
  const struct ab_results *e = &t->results;
  struct ab_given *given = &t->result->given;
  int last = (int)t->opened->steps - 1;
  given->params_final = t->bundle.train && e->params_final;
  given->params_step1 = t->bundle.train && e->params_step1 && !(last == 0 && given->params_final);
  AB_TRY(put_metrics(t));
  if (!t->bundle.train) AB_TRY(put_whole(t, "outputs", AB_OBS_OUTPUTS, AB_FORWARD));
  if (!t->bundle.train) AB_TRY(put_whole(t, "d_inputs", AB_OBS_D_INPUTS, AB_BACKWARD));
  AB_TRY(put_leaves(t, e->grads, 0, AB_BACKWARD));
  if (given->params_step1) AB_TRY(put_leaves(t, e->params_step1, 0, AB_UPDATE));
  if (given->params_final) AB_TRY(put_leaves(t, e->params_final, last, AB_UPDATE));
  return AB_OK;
}

static ab_status take_bundle(struct taking *t) {
  AB_TRY(ab_layout_new(&t->bundle.layout, t->opened->config, !t->bundle.train));
  AB_TRY(ab_bundle_expect(&t->results, &t->bundle));
  const char *missing = !t->results.grads ? "grads" : !t->bundle.train && !t->results.outputs ? "outputs" : NULL;
  if (missing) return AB_FAIL(AB_ENOTFOUND, "the command wrote no %s.safetensors to $AB_OUT", missing);
  AB_TRY(ab_file_create(&t->fd, t->result->values_path));
  AB_TRY(put_results(t));
  ab_recording_complete(t->result->recording);
  return AB_OK;
}

static ab_status take_stream(struct ab_side_result *result, const char *path, const char *out) {
  struct ab_stream_reader *reader;
  struct ab_file file;
  result->given.stream = true;
  AB_TRY(ab_file_open(&file, path));
  ab_status status = ab_stream_reader_new(&reader, &ab_recording_handler, result->recording);
  if (status == AB_OK) {
    status = ab_stream_read(reader, file.fd);
    ab_stream_reader_free(reader);
  }
  ab_file_close(&file);
  AB_TRY(status);
  if (result->recording->error != AB_OK) return AB_FAIL(AB_ECOMM, "%s", result->recording->error_sentence);
  ab_mem_free(result->values_path);
  result->values_path = NULL;
  return ab_path_join(&result->values_path, out, "values");
}

static ab_status take_results(struct ab_side_result *result, const struct ab_case *c, const char *out) {
  char stream[4096], folder[4096];
  snprintf(stream, sizeof stream, "%s/stream", out);
  if (ab_file_exists(stream)) return take_stream(result, stream, out);
  snprintf(folder, sizeof folder, "%s", out);
  struct taking t = {.result = result, .opened = c, .fd = -1};
  t.bundle = (struct ab_bundle){.folder = folder,
                                .config = c->config,
                                .train = !ab_bundle_is_engine(c->bundle),
                                .loss_kind = c->bundle ? c->bundle->loss_kind : AB_LOSS_TRAIN};
  ab_status status = take_bundle(&t);
  if (t.fd >= 0) close(t.fd);
  ab_mem_free(t.packed);
  ab_results_free(&t.results);
  ab_layout_free(&t.bundle.layout);
  return status;
}

static bool is_empty(const char *out) {
  struct ab_names names;
  if (ab_folder_list(&names, out, 10000) != AB_OK) return false;
  size_t count = names.count;
  ab_names_free(&names);
  return count == 0;
}

ab_status ab_command_take(struct ab_side_result *result, const struct ab_case *c, const char *out) {
  ab_status status;
  if (is_empty(out))
    status = AB_FAIL(AB_ENOTFOUND, "it ended well, but wrote nothing to $AB_OUT; expected expected.json and "
                     "grads.safetensors, or stream and values");
  else
    status = take_results(result, c, out);
  if (status == AB_OK) status = ab_kept_open(&result->values, result->recording, result->values_path, NULL, NULL);
  if (status == AB_OK) status = ab_kept_check(result->values);
  if (status == AB_OK) return AB_OK;
  if (status == AB_ENOMEM) return status;
  bool other = status == AB_EMISMATCH || status == AB_ESHAPE;
  result->exit = other ? AB_EXIT_INCOMPARABLE : AB_EXIT_SIDE;
  snprintf(result->reason, sizeof result->reason, "%s%s%s", other ? result->name : "", other ? ": " : "",
           ab_status_message());
  ab_status_clear();
  return AB_OK;
}
