#include <string.h>

#include "loss.h"
#include "mem.h"
#include "reference.h"
#include "tap.h"
#include "trainer.h"
#include "upstream.h"

enum { BOOK_BYTES = 1 << 20 };

static void exec_init(struct reference_side *s, const struct ab_kernels *kernels, const struct ab_config *config,
                      struct ab_probe *probe) {
  ck_ok(ab_arena_init(&s->book, "book", BOOK_BYTES));
  ck_ok(ab_mesh_init_local(&s->mesh, kernels, config->pipelined ? (int)config->num_stages : 1));
  s->exec = (struct ab_exec){.kernels = kernels, .slab = &s->slab, .arena = &s->arena, .book = &s->book,
                             .mesh = &s->mesh, .probe = probe};
}

void reference_side_free(struct reference_side *s) {
  ab_mesh_free(&s->mesh);
  ab_arena_free(&s->slab);
  ab_arena_free(&s->arena);
  ab_arena_free(&s->book);
}

static size_t batch_tokens(const struct ab_config *config) {
  return (size_t)(config->micro_batch_size_to_train_on * config->max_target_length);
}

/* A batch of made-up addresses: the dry run touches no tensor, and ids are read by kernels only. */
static void dry_pass(struct reference_side *s, const struct ab_config *config, int32_t *tokens) {
  if (s->side.pipeline_ops) {
    void *x;
    ck_ok(ab_arena_take(&s->slab, &x, 0, 1));
    ck_ok(s->side.pipeline_ops->forward(s->side.pipeline, x, x, tokens, tokens));
    ck_ok(s->side.pipeline_ops->backward(s->side.pipeline, x, x));
    return;
  }
  struct ab_trainer trainer;
  struct ab_metrics metrics;
  struct ab_batch batch = {config->micro_batch_size_to_train_on, config->max_target_length, tokens, tokens, tokens,
                           tokens, tokens, tokens};
  ck_ok(ab_trainer_init(&trainer, config, &s->exec, s->side.model_ops, s->side.model));
  ck_ok(ab_trainer_step(&trainer, &batch, &metrics));
  ab_trainer_free(&trainer);
}

static void create(struct reference_side *s, const struct ab_config *config) {
  if (s->side.pipeline_ops) ck_ok(s->side.pipeline_ops->create(&s->side.pipeline, config, &s->exec));
  if (s->side.model_ops) ck_ok(s->side.model_ops->create(&s->side.model, config, &s->exec));
}

static void plan(size_t *slab, size_t *arena, const struct ab_side *side, enum ab_dtype dtype,
                 const struct ab_config *config) {
  struct reference_side dry = {.side = *side};
  int32_t *tokens;
  ck_ok(ab_mem_new(&tokens, batch_tokens(config), sizeof *tokens));
  exec_init(&dry, ab_kernels_dry(dtype), config, NULL);
  ab_arena_init_measuring(&dry.slab, "slab");
  ab_arena_init_measuring(&dry.arena, "arena");
  create(&dry, config);
  dry_pass(&dry, config, tokens);
  *slab = dry.slab.high;
  *arena = dry.arena.high;
  reference_side_free(&dry);
  ab_mem_free(tokens);
}

static void side_new(struct reference_side *out, const struct ab_side *side, const struct ab_kernels *kernels,
                     const struct ab_config *config, struct ab_probe *probe) {
  size_t slab, arena;
  *out = (struct reference_side){.side = *side};
  plan(&slab, &arena, side, kernels->dtype, config);
  exec_init(out, kernels, config, probe);
  ck_ok(ab_arena_init(&out->slab, "slab", slab));
  ck_ok(ab_arena_init(&out->arena, "arena", arena));
  create(out, config);
}

void reference_pipeline_new(struct reference_side *out, const struct ab_pipeline_ops *ops,
                            const struct ab_kernels *kernels, const struct ab_config *config, struct ab_probe *probe) {
  struct ab_side side = {.pipeline_ops = ops};
  side_new(out, &side, kernels, config, probe);
}

void reference_model_new(struct reference_side *out, const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                         const struct ab_config *config, struct ab_probe *probe) {
  struct ab_side side = {.model_ops = ops};
  side_new(out, &side, kernels, config, probe);
}

/* An F32 tensor of the batch in the kernels' dtype; ab_mem_free. */
static void *cast_tensor(const struct reference_case *c, const struct ab_tree *batch, const char *name,
                         const struct ab_kernels *kernels) {
  struct ab_tensor *tensor;
  void *out;
  ck_ok(ab_tree_get(&tensor, batch, name, c->name));
  ck_ok(ab_mem_new(&out, tensor->count, kernels->element));
  for (size_t i = 0; i < tensor->count; i++) {
    float value = ((const float *)tensor->data)[i];
    if (kernels->dtype == AB_F64)
      ((double *)out)[i] = (double)value;
    else
      ((float *)out)[i] = value;
  }
  return out;
}

static const int32_t *integers(const struct reference_case *c, const struct ab_tree *batch, const char *name) {
  struct ab_tensor *tensor;
  ck_ok(ab_tree_get(&tensor, batch, name, c->name));
  ck_assert_int_eq(tensor->dtype, AB_I32);
  return tensor->data;
}

void reference_load_params(const struct reference_case *c, struct reference_side *s, const struct ab_layout *layout) {
  struct ab_tree *params = reference_tensors(c, "params.safetensors");
  ck_ok(ab_layout_check(layout, params, AB_F32, "params.safetensors"));
  ck_ok(ab_leaves_load(&s->side, c->config, s->exec.kernels, layout, params));
  ab_tree_free(params);
}

static void forward_backward(const struct reference_case *c, struct reference_side *s, struct reference_run *run) {
  struct ab_tree *batch = reference_tensors(c, "batch.safetensors");
  const struct ab_kernels *k = s->exec.kernels;
  enum ab_loss_kind kind;
  ck_ok(ab_loss_kind_find(&kind, c->loss_kind));
  void *inputs = cast_tensor(c, batch, "inputs", k), *d_outputs;
  void *other = cast_tensor(c, batch, kind == AB_LOSS_GIVEN ? "output_cotangent" : "targets", k);
  ck_ok(ab_mem_new(&d_outputs, run->elements, k->element));
  ck_ok(s->side.pipeline_ops->forward(s->side.pipeline, run->outputs, inputs, integers(c, batch, "positions"),
                                      integers(c, batch, "segment_ids")));
  run->loss = ab_output_loss(d_outputs, kind, run->outputs, other, run->elements, k);
  ck_ok(s->side.pipeline_ops->backward(s->side.pipeline, run->d_inputs, d_outputs));
  ab_mem_free(inputs);
  ab_mem_free(other);
  ab_mem_free(d_outputs);
  ab_tree_free(batch);
}

struct reference_run reference_run_pipeline(const struct reference_case *c, const struct ab_pipeline_ops *ops,
                                            const struct ab_kernels *kernels, struct ab_probe *probe) {
  struct reference_side s;
  struct ab_layout layout;
  struct reference_run run = {.elements = batch_tokens(c->config) * (size_t)c->config->emb_dim};
  ck_ok(ab_mem_new(&run.outputs, run.elements, kernels->element));
  ck_ok(ab_mem_new(&run.d_inputs, run.elements, kernels->element));
  reference_pipeline_new(&s, ops, kernels, c->config, probe);
  ck_ok(ab_layout_new(&layout, c->config, true));
  reference_load_params(c, &s, &layout);
  forward_backward(c, &s, &run);
  ck_ok(ab_leaves_store(&run.grads, &s.side, AB_GRADS, c->config, kernels, &layout));
  ab_layout_free(&layout);
  reference_side_free(&s);
  return run;
}

void reference_run_free(struct reference_run *run) {
  ab_mem_free(run->outputs);
  ab_mem_free(run->d_inputs);
  ab_tree_free(run->grads);
}

static void check_activation(const struct reference_case *c, const struct ab_tree *want, const char *name,
                             const void *got, const struct ab_kernels *kernels) {
  struct ab_tensor *tensor;
  ck_ok(ab_tree_get(&tensor, want, name, c->name));
  double distance = reference_distance(got, kernels->dtype, tensor->data, tensor->count);
  double bound = reference_bound(c, name, NULL, "rel_l2");
  ck_assert_msg(distance <= bound, "%s: %s is %.3g away, bound %.3g", c->name, name, distance, bound);
}

void reference_check_run(const struct reference_case *c, const struct reference_run *run,
                         const struct ab_kernels *kernels) {
  bool meant = reference_has_modes(c) && !ab_faithful(c->config, AB_DEFECT_B1);
  struct ab_tree *want = reference_tensors(c, meant ? "outputs_sequential.safetensors" : "outputs.safetensors");
  cJSON *expected = reference_expected(c);
  check_activation(c, want, "outputs", run->outputs, kernels);
  check_activation(c, want, "d_inputs", run->d_inputs, kernels);
  if (strcmp(c->kind, "engine") == 0) {
    double loss = reference_value(expected, meant ? "loss_sequential" : "loss");
    double bound = reference_bound(c, "loss", NULL, "rel");
    double distance = run->loss == loss ? 0 : (run->loss - loss) / loss;
    ck_assert_msg(distance <= bound && -distance <= bound, "%s: loss %.9g, expected %.9g", c->name, run->loss, loss);
  }
  reference_check_tree(c, run->grads, meant ? "grads_sequential.safetensors" : "grads.safetensors", "gradients");
  cJSON_Delete(expected);
  ab_tree_free(want);
}
