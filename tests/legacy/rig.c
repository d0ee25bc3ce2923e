#include "rig.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "tap.h"

enum { LENGTH = 5, MAX_TOKENS = 4096, VOCAB = 11 };

static char llama2[] = "llama2", full[] = "full", simple[] = "simple", simple_mlp[] = "simple_mlp", adamw[] = "adamw";

static char *block_name(const char *block) {
  if (block && !strcmp(block, simple)) return simple;
  return block && !strcmp(block, simple_mlp) ? simple_mlp : llama2;
}

struct ab_config rig_config(const struct rig_shape *s) {
  int pipelined = s->stages * s->repeats * s->layers_per_stage;
  struct ab_config c = {.decoder_block = block_name(s->block), .emb_dim = 8, .num_query_heads = 2, .num_kv_heads = 1,
                        .head_dim = 4, .mlp_dim = 12, .vocab_size = VOCAB, .max_target_length = LENGTH,
                        .normalization_layer_epsilon = 1e-5, .rope_min_timescale = 1, .rope_max_timescale = 10000,
                        .rope_linear_scaling_factor = 1, .gradient_accumulation_steps = 1, .steps = 1,
                        .remat_policy = full, .opt_type = adamw, .param_scan_axis = 1, .scan_layers = true,
                        .scan_pipeline_iterations = true, .set_remat_policy_on_pipeline_iterations = true,
                        .pipelined = true, .z_loss_multiplier = 1e-3};
  c.num_stages = s->stages;
  c.num_pipeline_microbatches = s->microbatches;
  c.num_pipeline_repeats = s->repeats;
  c.num_layers_per_pipeline_stage = s->layers_per_stage;
  c.pipeline_parallel_layers = pipelined;
  c.num_decoder_layers = pipelined + s->outside;
  c.pipeline_delay_activation_forwarding = s->delay;
  c.scan_layers_per_stage = s->scanned_stage;
  c.pipeline_fsdp_ag_per_repeat = s->circular;
  c.micro_batch_size_to_train_on = 2 * s->microbatches;
  return c;
}

const char *rig_name(const struct ab_config *c) {
  static char text[128];
  snprintf(text, sizeof text, "S%d M%d R%d K%d d%d scanned%d circular%d outside%d %s", (int)c->num_stages,
           (int)c->num_pipeline_microbatches, (int)c->num_pipeline_repeats, (int)c->num_layers_per_pipeline_stage,
           (int)ab_forwarding_delay(c), c->scan_layers_per_stage, c->pipeline_fsdp_ag_per_repeat,
           (int)(c->num_decoder_layers - c->pipeline_parallel_layers), c->decoder_block);
  return text;
}

static uint32_t next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static float number(uint32_t *state) { return (float)next(state) / (float)(1 << 23) - 1.0f; }

void *rig_numbers(size_t n, uint32_t seed, const struct ab_kernels *kernels) {
  void *out;
  uint32_t state = seed;
  ck_ok(ab_mem_new(&out, n, kernels->element));
  for (size_t i = 0; i < n; i++) {
    float x = number(&state);
    if (kernels->dtype == AB_F64)
      ((double *)out)[i] = (double)x;
    else
      ((float *)out)[i] = x;
  }
  return out;
}

static int32_t positions[MAX_TOKENS], segments[MAX_TOKENS], tokens[MAX_TOKENS], targets[MAX_TOKENS];

/* Rows of two segments with different borders, some rows ending in padding. */
static void fill_batch(const struct ab_config *c) {
  uint32_t state = 7;
  int length = (int)c->max_target_length, count = (int)c->micro_batch_size_to_train_on * length;
  ck_assert_int_le(count, MAX_TOKENS);
  for (int i = 0; i < count; i++) {
    int row = i / length, at = i % length;
    positions[i] = at + row % 3;
    segments[i] = at < 1 + row % 4 ? 1 : 2;
    if (row % 5 == 4 && at == length - 1) segments[i] = 0;
    tokens[i] = (int32_t)(next(&state) % VOCAB);
    targets[i] = (int32_t)(next(&state) % VOCAB);
  }
}

struct ab_batch rig_batch(const struct ab_config *c) {
  return (struct ab_batch){c->micro_batch_size_to_train_on, c->max_target_length, tokens, positions, segments,
                           targets, positions, segments};
}

static size_t element_count(const struct ab_config *c) {
  return (size_t)(c->micro_batch_size_to_train_on * c->max_target_length * c->emb_dim);
}

static void create(struct rig_side *s, const struct ab_config *config) {
  if (s->side.model_ops)
    ck_ok(s->side.model_ops->create(&s->side.model, config, &s->exec));
  else
    ck_ok(s->side.pipeline_ops->create(&s->side.pipeline, config, &s->exec));
}

static void pass(struct rig_side *s, const struct ab_config *config, struct rig_run *run, const void *inputs,
                 const void *d_outputs) {
  struct ab_batch batch = rig_batch(config);
  const struct ab_pipeline_ops *ops = s->side.pipeline_ops;
  if (s->side.model_ops) {
    ck_ok(s->side.model_ops->step(s->side.model, &batch, &run->terms));
    return;
  }
  size_t mark = ab_arena_mark(&s->arena), book = ab_arena_mark(&s->book);
  ck_ok(ops->forward(s->side.pipeline, run->outputs, inputs, positions, segments));
  ck_ok(ops->backward(s->side.pipeline, run->d_inputs, d_outputs));
  ab_arena_release(&s->arena, mark);
  ab_arena_release(&s->book, book);
}

static void plan(struct rig_side *out, const struct ab_side *ops, const struct ab_kernels *kernels,
                 const struct ab_config *config) {
  struct rig_side dry = {.side = *ops};
  struct rig_run nothing = {0};
  ck_ok(ab_mesh_init_local(&dry.mesh, ab_kernels_dry(kernels->dtype), (int)config->num_stages));
  dry.exec = (struct ab_exec){.kernels = ab_kernels_dry(kernels->dtype), .slab = &dry.slab, .arena = &dry.arena,
                              .book = &dry.book, .mesh = &dry.mesh};
  ab_arena_init_measuring(&dry.slab, "slab");
  ab_arena_init_measuring(&dry.arena, "arena");
  ck_ok(ab_arena_init(&dry.book, "book", 1 << 22));
  create(&dry, config);
  ck_ok(ab_arena_take(&dry.slab, &nothing.outputs, 0, 1));
  nothing.d_inputs = nothing.outputs;
  pass(&dry, config, &nothing, nothing.outputs, nothing.outputs);
  out->planned[0] = dry.slab.high;
  out->planned[1] = dry.arena.high;
  out->planned[2] = dry.book.high;
  rig_free(&dry);
}

static void set_params(struct rig_side *s, const struct ab_config *config) {
  struct ab_leaf_table table;
  ck_ok(ab_leaf_table_new(&table, config, s->exec.kernels, s->side.model_ops == NULL));
  ck_ok(ab_leaf_table_fill(&table, &s->side, AB_PARAMS));
  struct ab_leaf_values buffer;
  ck_ok(ab_leaf_values_new(&buffer, &table));
  uint32_t state = 3;
  for (size_t i = 0; i < table.leaves; i++) {
    float offset = strstr(table.leaf[i].param->name, "scale") ? 1.0f : 0.0f;
    for (size_t j = 0; j < table.leaf[i].count; j++) buffer.values[j] = offset + 0.5f * number(&state);
    ab_leaf_set(&table.leaf[i], &buffer, s->exec.kernels);
  }
  ab_leaf_values_free(&buffer);
  ab_leaf_table_free(&table);
}

void rig_new(struct rig_side *out, const struct ab_side *ops, const struct ab_kernels *kernels,
             const struct ab_config *config, struct ab_probe *probe) {
  *out = (struct rig_side){.side = *ops};
  fill_batch(config);
  plan(out, ops, kernels, config);
  ck_ok(ab_mesh_init_local(&out->mesh, kernels, (int)config->num_stages));
  ck_ok(ab_arena_init(&out->slab, "slab", out->planned[0]));
  ck_ok(ab_arena_init(&out->arena, "arena", out->planned[1]));
  ck_ok(ab_arena_init(&out->book, "book", out->planned[2]));
  out->exec = (struct ab_exec){.kernels = kernels, .slab = &out->slab, .arena = &out->arena, .book = &out->book,
                               .mesh = &out->mesh, .probe = probe};
  create(out, config);
  set_params(out, config);
}

void rig_free(struct rig_side *s) {
  ab_mesh_free(&s->mesh);
  ab_arena_free(&s->slab);
  ab_arena_free(&s->arena);
  ab_arena_free(&s->book);
}

static void pack_grads(struct rig_side *s, const struct ab_config *config, struct rig_run *run) {
  struct ab_leaf_table table;
  const struct ab_kernels *k = s->exec.kernels;
  ck_ok(ab_leaf_table_new(&table, config, k, s->side.model_ops == NULL));
  ck_ok(ab_leaf_table_fill(&table, &s->side, AB_GRADS));
  for (size_t i = 0; i < table.leaves; i++) run->gradients += table.leaf[i].count;
  ck_ok(ab_mem_new(&run->grads, run->gradients, k->element));
  unsigned char *to = run->grads;
  for (size_t i = 0; i < table.leaves; to += table.leaf[i].count * k->element, i++)
    ab_view_pack(to, &table.leaf[i].view);
  ab_leaf_table_free(&table);
}

/* Zeroes but microbatch m of M. */
static void mask(unsigned char *d_outputs, size_t bytes, int m, int64_t microbatches) {
  size_t part = bytes / (size_t)microbatches;
  memset(d_outputs, 0, (size_t)m * part);
  memset(d_outputs + (size_t)(m + 1) * part, 0, bytes - (size_t)(m + 1) * part);
}

struct rig_run rig_pass(struct rig_side *s, const struct ab_config *config) { return rig_pass_one(s, config, -1); }

struct rig_run rig_pass_one(struct rig_side *s, const struct ab_config *config, int microbatch) {
  const struct ab_kernels *k = s->exec.kernels;
  struct rig_run run = {.elements = element_count(config), .element = k->element};
  void *inputs = rig_numbers(run.elements, 11, k), *d_outputs = rig_numbers(run.elements, 13, k);
  if (microbatch >= 0) mask(d_outputs, run.elements * k->element, microbatch, config->num_pipeline_microbatches);
  ck_ok(ab_mem_new(&run.outputs, run.elements, k->element));
  ck_ok(ab_mem_new(&run.d_inputs, run.elements, k->element));
  pass(s, config, &run, inputs, d_outputs);
  pack_grads(s, config, &run);
  ab_mem_free(inputs);
  ab_mem_free(d_outputs);
  return run;
}

static struct rig_run run_once(const struct ab_side *ops, const struct ab_kernels *kernels,
                               const struct ab_config *config, struct ab_probe *probe) {
  struct rig_side side;
  rig_new(&side, ops, kernels, config, probe);
  struct rig_run run = rig_pass(&side, config);
  rig_free(&side);
  return run;
}

struct rig_run rig_run_pipeline(const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels,
                                const struct ab_config *config, struct ab_probe *probe) {
  struct ab_side side = {.pipeline_ops = ops};
  return run_once(&side, kernels, config, probe);
}

struct rig_run rig_run_model(const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                             const struct ab_config *config, struct ab_probe *probe) {
  struct ab_side side = {.model_ops = ops};
  return run_once(&side, kernels, config, probe);
}

void rig_run_free(struct rig_run *run) {
  ab_mem_free(run->outputs);
  ab_mem_free(run->d_inputs);
  ab_mem_free(run->grads);
}

static double value_at(const void *x, size_t i, size_t element) {
  return element == 8 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void same(const void *a, const void *b, size_t n, size_t element, const char *name, const char *what,
                 const char *tensor) {
  for (size_t i = 0; i < n; i++) {
    double x = value_at(a, i, element), y = value_at(b, i, element);
    ck_assert_msg(isfinite(x) && x == y, "%s, %s: %s[%zu] is %a on one side, %a on the other", name, what, tensor, i,
                  x, y);
  }
}

void rig_same_bits(const struct rig_run *a, const struct rig_run *b, const struct ab_config *config,
                   const char *what) {
  const char *name = rig_name(config);
  ck_assert_uint_eq(a->gradients, b->gradients);
  same(a->outputs, b->outputs, a->elements, a->element, name, what, "outputs");
  same(a->d_inputs, b->d_inputs, a->elements, a->element, name, what, "d_inputs");
  same(a->grads, b->grads, a->gradients, a->element, name, what, "gradients");
  ck_assert_msg(a->terms.loss == b->terms.loss, "%s, %s: loss %a, %a", name, what, a->terms.loss, b->terms.loss);
}

static double distance(const void *a, const void *b, size_t n) {
  double apart = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    double x = value_at(a, i, 8), y = value_at(b, i, 8);
    apart += (x - y) * (x - y);
    all += y * y;
  }
  return all > 0 ? sqrt(apart / all) : sqrt(apart);
}

double rig_distance(const struct rig_run *a, const struct rig_run *b) {
  double worst = distance(a->outputs, b->outputs, a->elements);
  worst = fmax(worst, distance(a->d_inputs, b->d_inputs, a->elements));
  return fmax(worst, distance(a->grads, b->grads, a->gradients));
}
