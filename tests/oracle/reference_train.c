#include <math.h>
#include <string.h>

#include "mem.h"
#include "reference.h"
#include "tap.h"

static const int32_t *step_of(const struct reference_case *c, const struct ab_tree *batch, const char *name, int step) {
  struct ab_tensor *tensor;
  ck_ok(ab_tree_get(&tensor, batch, name, c->name));
  ck_assert_int_eq(tensor->dtype, AB_I32);
  ck_assert_int_lt(step, tensor->shape.dim[0]);
  return (const int32_t *)tensor->data + (size_t)step * (size_t)(tensor->shape.dim[1] * tensor->shape.dim[2]);
}

static struct ab_batch batch_of(const struct reference_case *c, const struct ab_tree *tree, int step) {
  return (struct ab_batch){
      .rows = c->config->micro_batch_size_to_train_on,
      .length = c->config->max_target_length,
      .inputs = step_of(c, tree, "inputs", step),
      .inputs_position = step_of(c, tree, "inputs_position", step),
      .inputs_segmentation = step_of(c, tree, "inputs_segmentation", step),
      .targets = step_of(c, tree, "targets", step),
      .targets_position = step_of(c, tree, "targets_position", step),
      .targets_segmentation = step_of(c, tree, "targets_segmentation", step),
  };
}

static void run_steps(const struct reference_case *c, struct reference_side *s, const struct ab_layout *layout,
                      struct reference_training *out) {
  struct ab_tree *tree = reference_tensors(c, "batch.safetensors");
  struct ab_trainer trainer;
  struct ab_metrics first;
  struct ab_batch batch = batch_of(c, tree, 0);
  ck_ok(ab_trainer_init(&trainer, c->config, &s->exec, s->side.model_ops, s->side.model));
  ck_ok(ab_trainer_measure(&trainer, &batch, &first));
  ck_ok(ab_leaves_store(&out->grads, &s->side, AB_GRADS, c->config, s->exec.kernels, layout));
  for (int step = 0; step < out->steps; step++) {
    batch = batch_of(c, tree, step);
    ck_ok(ab_trainer_step(&trainer, &batch, &out->metrics[step]));
  }
  ck_ok(ab_leaves_store(&out->params, &s->side, AB_PARAMS, c->config, s->exec.kernels, layout));
  ab_trainer_free(&trainer);
  ab_tree_free(tree);
}

struct reference_training reference_train(const struct reference_case *c, const struct ab_model_ops *ops,
                                          const struct ab_kernels *kernels) {
  struct reference_side s;
  struct ab_layout layout;
  struct reference_training out = {.steps = (int)c->config->steps};
  ck_ok(ab_mem_new(&out.metrics, (size_t)out.steps, sizeof *out.metrics));
  reference_model_new(&s, ops, kernels, c->config, NULL);
  ck_ok(ab_layout_new(&layout, c->config, false));
  reference_load_params(c, &s, &layout);
  run_steps(c, &s, &layout, &out);
  ab_layout_free(&layout);
  reference_side_free(&s);
  return out;
}

void reference_training_free(struct reference_training *training) {
  ab_mem_free(training->metrics);
  ab_tree_free(training->grads);
  ab_tree_free(training->params);
}

static double metric_of(const struct ab_metrics *metrics, const char *name) {
  for (const struct ab_metric_field *field = ab_metric_fields; field->name; field++) {
    double value;
    if (strcmp(field->name, name) != 0) continue;
    memcpy(&value, (const char *)metrics + field->offset, sizeof value);
    return value;
  }
  ck_abort_msg("no metric is called %s", name);
  return 0;
}

static void check_step(const struct reference_case *c, const struct ab_metrics *metrics, const cJSON *want, int step) {
  const cJSON *bound;
  const cJSON *bounds = cJSON_GetObjectItem(cJSON_GetObjectItem(c->row, "bounds"), "metrics");
  cJSON_ArrayForEach(bound, bounds) {
    double a = metric_of(metrics, bound->string), b = reference_value(want, bound->string);
    double distance = a == b ? 0 : fabs(a - b) / fabs(b);
    ck_assert_msg(distance <= cJSON_GetObjectItem(bound, "rel")->valuedouble, "%s step %d: %s is %.9g, expected %.9g",
                  c->name, step, bound->string, a, b);
  }
}

void reference_check_training(const struct reference_case *c, const struct reference_training *training) {
  cJSON *expected = reference_expected(c);
  const cJSON *steps = cJSON_GetObjectItem(expected, "steps");
  ck_assert_int_eq(cJSON_GetArraySize(steps), training->steps);
  for (int i = 0; i < training->steps; i++)
    check_step(c, &training->metrics[i], cJSON_GetArrayItem(steps, i), i);
  reference_check_tree(c, training->grads, "grads.safetensors", "gradients");
  reference_check_tree(c, training->params, "params_final.safetensors", "params_final");
  cJSON_Delete(expected);
}
