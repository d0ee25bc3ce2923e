#include <string.h>

#include "bundle.h"
#include "bundle_file.h"
#include "file.h"
#include "json.h"
#include "mem.h"

enum { EXPECTED_SCHEMA = 1 };

static ab_status read_value(double *out, const struct ab_json *metric) {
  const struct ab_json *value;
  AB_TRY(ab_json_get(&value, metric, "value"));
  AB_TRY(ab_json_double_or_nonfinite(out, value));
  return AB_OK;
}

static ab_status read_step(struct ab_results *e, struct ab_results_step *step, const struct ab_json *object) {
  for (size_t i = 0; ab_metric_fields[i].name; i++) {
    const struct ab_json *metric = ab_json_find(object, ab_metric_fields[i].name);
    if (!metric) continue;
    AB_TRY(read_value((double *)((char *)&step->metrics + ab_metric_fields[i].offset), metric));
    step->present |= 1u << i;
  }
  e->ignored += ab_json_size(object) - (size_t)__builtin_popcount(step->present);
  if (!ab_json_find(object, "loss")) AB_TRY(ab_json_fail(object, "lacks 'loss'"));
  return AB_OK;
}

static ab_status read_steps(struct ab_results *e, const struct ab_json *root) {
  const struct ab_json *steps;
  AB_TRY(ab_json_get_array(&steps, root, "steps"));
  if (ab_json_size(steps) == 0) AB_TRY(ab_json_fail(steps, "holds no step"));
  AB_TRY(ab_mem_new(&e->step, ab_json_size(steps), sizeof *e->step));
  for (const struct ab_json *step = ab_json_first(steps); step; step = ab_json_next(step)) {
    if (ab_json_type(step) != AB_JSON_OBJECT) AB_TRY(ab_json_fail(step, "is not an object"));
    AB_TRY(read_step(e, &e->step[e->steps++], step));
  }
  return AB_OK;
}

static ab_status check_schema(const struct ab_json *root) {
  int64_t schema;
  if (!ab_json_find(root, "schema")) return AB_OK;
  AB_TRY(ab_json_get_int64(&schema, root, "schema"));
  if (schema > EXPECTED_SCHEMA)
    AB_TRY(ab_json_fail(ab_json_find(root, "schema"), "is newer than this build reads (1)"));
  return AB_OK;
}

/* Of the layers run one after another, for bundles that have their gradients. */
static ab_status read_loss_sequential(struct ab_results *e, const struct ab_json *root) {
  const struct ab_json *loss = ab_json_find(root, "loss_sequential");
  if (!e->grads_sequential) return AB_OK;
  if (!loss) AB_TRY(ab_json_fail(root, "lacks 'loss_sequential' beside grads_sequential.safetensors"));
  e->ignored--;
  AB_TRY(read_value(&e->loss_sequential, loss));
  return AB_OK;
}

static ab_status read_numbers(struct ab_results *e, const struct ab_bundle *b, const struct ab_json *root) {
  const struct ab_json *loss;
  if (ab_json_type(root) != AB_JSON_OBJECT) AB_TRY(ab_json_fail(root, "is not an object"));
  AB_TRY(check_schema(root));
  for (const struct ab_json *member = ab_json_first(root); member; member = ab_json_next(member)) {
    const char *key = ab_json_key(member);
    e->ignored +=
        strcmp(key, "schema") != 0 && strcmp(key, "kind") != 0 && strcmp(key, b->train ? "steps" : "loss") != 0;
  }
  if (b->train) AB_TRY(read_steps(e, root));
  if (b->train || b->loss_kind == AB_LOSS_GIVEN) return AB_OK;
  AB_TRY(ab_json_get_object(&loss, root, "loss"));
  AB_TRY(read_value(&e->loss, loss));
  AB_TRY(read_loss_sequential(e, root));
  return AB_OK;
}

static ab_status read_json(struct ab_results *e, const struct ab_bundle *b) {
  char path[AB_FOLDER_MAX];
  struct ab_json *root;
  AB_TRY(ab_bundle_path(path, b->folder, "expected.json"));
  AB_TRY(ab_json_read(&root, path, NULL));
  ab_status status = read_numbers(e, b, root);
  ab_json_free(root);
  AB_TRY(status);
  return AB_OK;
}

/* A file that may be absent: *there says whether it is. */
static ab_status find_file(bool *there, char *path, const struct ab_bundle *b, const char *name) {
  struct ab_file file = {0};
  AB_TRY(ab_bundle_path(path, b->folder, name));
  ab_status status = ab_file_open(&file, path);
  ab_file_close(&file);
  *there = status == AB_OK;
  if (status == AB_ENOTFOUND)
    ab_status_clear();
  else
    AB_TRY(status);
  return AB_OK;
}

static ab_status read_leaves(struct ab_tree **out, const struct ab_bundle *b, const char *name) {
  char path[AB_FOLDER_MAX];
  bool there;
  AB_TRY(find_file(&there, path, b, name));
  if (there) AB_TRY(ab_wanted_read_layout(out, path, &b->layout));
  return AB_OK;
}

static ab_status read_outputs(struct ab_results *e, struct ab_tree **out, const struct ab_bundle *b, const char *name) {
  char path[AB_FOLDER_MAX];
  bool there;
  const struct ab_config *c = b->config;
  const struct ab_shape shape = {3, {c->micro_batch_size_to_train_on, c->max_target_length, c->emb_dim}};
  const struct ab_wanted wanted[] = {{"outputs", AB_F32, shape}, {"d_inputs", AB_F32, shape}};
  AB_TRY(find_file(&there, path, b, name));
  if (there) AB_TRY(ab_wanted_read(out, &e->ignored, path, wanted, 2));
  return AB_OK;
}

/* Gradients of what was meant beside outputs of what was not would judge a run by two models. */
static ab_status check_meant(const struct ab_results *e, const struct ab_bundle *b) {
  const char *const name[] = {"grads_sequential", "outputs_sequential"};
  bool lacks_outputs = e->grads_sequential && !e->outputs_sequential;
  if (!e->outputs || !e->grads_sequential == !e->outputs_sequential) return AB_OK;
  return AB_FAIL(AB_ENOTFOUND, "%s/%s.safetensors is missing, expected beside %s.safetensors", b->folder,
                 name[lacks_outputs], name[!lacks_outputs]);
}

static ab_status read_all(struct ab_results *e, const struct ab_bundle *b) {
  AB_TRY(read_leaves(&e->grads_sequential, b, "grads_sequential.safetensors"));
  AB_TRY(read_json(e, b));
  AB_TRY(read_leaves(&e->grads, b, "grads.safetensors"));
  AB_TRY(read_leaves(&e->params_final, b, "params_final.safetensors"));
  AB_TRY(read_leaves(&e->params_step1, b, "params_step1.safetensors"));
  AB_TRY(read_outputs(e, &e->outputs, b, "outputs.safetensors"));
  AB_TRY(read_outputs(e, &e->outputs_sequential, b, "outputs_sequential.safetensors"));
  return check_meant(e, b);
}

ab_status ab_bundle_expect(struct ab_results *out, const struct ab_bundle *bundle) {
  struct ab_results expected = {0};
  ab_status status = read_all(&expected, bundle);
  if (status != AB_OK) {
    ab_results_free(&expected);
    AB_TRY(status);
  }
  *out = expected;
  return AB_OK;
}

void ab_results_free(struct ab_results *expected) {
  struct ab_tree *tree[] = {expected->grads,   expected->params_final,     expected->params_step1,
                            expected->outputs, expected->grads_sequential, expected->outputs_sequential};
  for (size_t i = 0; i < sizeof tree / sizeof *tree; i++) ab_tree_free(tree[i]);
  ab_mem_free(expected->step);
  *expected = (struct ab_results){0};
}

static void swap_trees(struct ab_tree **a, struct ab_tree **b) {
  struct ab_tree *held = *a;
  *a = *b;
  *b = held;
}

bool ab_results_as_meant(struct ab_results *results) {
  if (!results->grads_sequential) return false;
  double real = results->loss;
  results->loss = results->loss_sequential;
  results->loss_sequential = real;
  swap_trees(&results->grads, &results->grads_sequential);
  if (results->outputs_sequential) swap_trees(&results->outputs, &results->outputs_sequential);
  return true;
}
