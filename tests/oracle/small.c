#include "small.h"

#include <string.h>

#include "mem.h"
#include "tap.h"

static char llama2[] = "llama2", full[] = "full", sgd[] = "sgd", cosine[] = "cosine", linear[] = "linear";

struct ab_config small_config(void) {
  return (struct ab_config){
      .decoder_block = llama2, .emb_dim = 10, .num_query_heads = 4, .num_kv_heads = 2, .head_dim = 6, .mlp_dim = 14,
      .vocab_size = 17, .max_target_length = 7, .num_decoder_layers = 5, .normalization_layer_epsilon = 1e-5,
      .rope_min_timescale = 1, .rope_max_timescale = 10000, .rope_linear_scaling_factor = 1, .devices = 2,
      .steps = 1, .learning_rate_schedule_steps = 1, .micro_batch_size_to_train_on = 6,
      .gradient_accumulation_steps = 1,
      .pipelined = true, .num_stages = 2, .num_pipeline_microbatches = 3, .num_pipeline_repeats = 2,
      .num_layers_per_pipeline_stage = 1, .pipeline_parallel_layers = 4, .scan_layers = true, .param_scan_axis = 1,
      .set_remat_policy_on_pipeline_iterations = true, .remat_policy = full, .z_loss_multiplier = 0.01,
      .gradient_clipping_threshold = 1, .opt_type = sgd, .learning_rate = 0.1, .learning_rate_final_fraction = 0.1,
      .lr_schedule_type = cosine, .wsd_decay_style = linear,
  };
}

void small_derive(struct ab_config *c) {
  c->num_layers_per_pipeline_stage = c->pipeline_parallel_layers / (c->num_stages * c->num_pipeline_repeats);
  c->global_batch_size_to_train_on = c->micro_batch_size_to_train_on * c->gradient_accumulation_steps;
  c->global_batch_size_to_load = c->global_batch_size_to_train_on;
}

static double next_uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0 - 0.5;
}

static void put(const struct ab_view *view, size_t i, double value) {
  if (view->dtype == AB_F64)
    ((double *)view->data)[i] = value;
  else
    ((float *)view->data)[i] = (float)value;
}

/* Leaves may come in any order and layout: the seed is the leaf's own, values are placed through a packed copy. */
static ab_status fill(void *ctx, int layer, const char *name, const struct ab_view *view) {
  (void)ctx;
  uint64_t seed = (uint64_t)(layer + 2);
  for (const char *p = name; *p; p++) seed = seed * 31 + (unsigned char)*p;
  size_t count = ab_view_count(view);
  struct ab_view packed = *view;
  AB_TRY(ab_mem_new(&packed.data, count, ab_dtype_size(view->dtype)));
  for (size_t i = 0; i < count; i++) {
    double value = next_uniform(&seed);
    put(&packed, i, strstr(name, "scale") ? 1 + 0.5 * value : value);
  }
  ab_view_unpack(view, packed.data);
  ab_mem_free(packed.data);
  return AB_OK;
}

void small_params(const struct reference_side *s) {
  if (s->side.pipeline_ops)
    ck_ok(s->side.pipeline_ops->leaves(s->side.pipeline, AB_PARAMS, fill, NULL));
  else
    ck_ok(s->side.model_ops->leaves(s->side.model, AB_PARAMS, fill, NULL));
}

static int32_t segment_at(int64_t row, int64_t t, int64_t length) {
  if (row % 3 == 2 && t == length - 1) return 0;
  return t * 2 < length + row ? 1 : 2;
}

struct small_batch small_batch_new(const struct ab_config *c) {
  int64_t rows = c->micro_batch_size_to_train_on, length = c->max_target_length, n = rows * length;
  struct small_batch b;
  uint64_t seed = 99;
  ck_ok(ab_mem_new(&b.ids, (size_t)(6 * n), sizeof *b.ids));
  for (int64_t i = 0; i < n; i++) {
    int64_t row = i / length, t = i % length;
    b.ids[i] = (int32_t)((next_uniform(&seed) + 0.5) * (double)c->vocab_size);
    b.ids[n + i] = b.ids[4 * n + i] = (int32_t)(t + row);
    b.ids[2 * n + i] = b.ids[5 * n + i] = segment_at(row, t, length);
    b.ids[3 * n + i] = (int32_t)((next_uniform(&seed) + 0.5) * (double)c->vocab_size);
  }
  b.batch = (struct ab_batch){rows, length, b.ids, b.ids + n, b.ids + 2 * n, b.ids + 3 * n, b.ids + 4 * n,
                              b.ids + 5 * n};
  return b;
}

void small_batch_free(struct small_batch *batch) {
  ab_mem_free(batch->ids);
}

void small_run_new(struct small_run *out, const struct ab_model_ops *ops, const struct ab_kernels *kernels,
                   const struct ab_config *config, const struct ab_batch *batch, struct ab_probe *probe) {
  reference_model_new(&out->s, ops, kernels, config, probe);
  small_params(&out->s);
  ck_ok(ops->step(out->s.side.model, batch, &out->terms));
}

void small_run_free(struct small_run *run) {
  reference_side_free(&run->s);
}

size_t small_side_gradients(void **out, const struct reference_side *s, const struct ab_config *config) {
  struct ab_leaf_table table;
  unsigned char *bytes;
  size_t used = 0, total = 0, element = s->exec.kernels->element;
  ck_ok(ab_leaf_table_new(&table, config, s->exec.kernels, s->side.pipeline_ops != NULL));
  ck_ok(ab_leaf_table_fill(&table, &s->side, AB_GRADS));
  for (size_t i = 0; i < table.leaves; i++) total += table.leaf[i].count;
  ck_ok(ab_mem_new(&bytes, total, element));
  for (size_t i = 0; i < table.leaves; used += table.leaf[i++].count)
    ab_view_pack(bytes + used * element, &table.leaf[i].view);
  ab_leaf_table_free(&table);
  *out = bytes;
  return total;
}

size_t small_gradients(void **out, const struct small_run *run, const struct ab_config *config) {
  return small_side_gradients(out, &run->s, config);
}
