#include "observed.h"
#include "oracle.h"
#include "parts.h"

struct ab_pipeline {
  struct ab_exec exec;
  struct oracle_store store;
  struct oracle_span inside, outside; /* outside: all layers when the config has no pipeline */
  struct ab_layer_dims batch;
};

static ab_status create(struct ab_pipeline **out, const struct ab_config *config, const struct ab_exec *exec,
                        enum oracle_order order) {
  struct ab_pipeline *pipeline;
  AB_TRY(ab_arena_take_zeroed(exec->book, &pipeline, 1, sizeof *pipeline));
  pipeline->exec = *exec;
  pipeline->batch = ab_layer_dims_of(config, config->micro_batch_size_to_train_on);
  AB_TRY(oracle_store_create(&pipeline->store, config, exec, true));
  AB_TRY(oracle_span_inside(&pipeline->inside, config, &pipeline->exec, &pipeline->store, order));
  AB_TRY(oracle_span_outside(&pipeline->outside, config, &pipeline->exec, &pipeline->store));
  if (config->pipelined) pipeline->outside.begin = pipeline->outside.end;
  *out = pipeline;
  return AB_OK;
}

static ab_status create_by_dtype(struct ab_pipeline **out, const struct ab_config *config,
                                 const struct ab_exec *exec) {
  return create(out, config, exec, ORACLE_BY_DTYPE);
}

static ab_status create_by_microbatch(struct ab_pipeline **out, const struct ab_config *config,
                                      const struct ab_exec *exec) {
  return create(out, config, exec, ORACLE_BY_MICROBATCH);
}

static ab_status create_whole_batch(struct ab_pipeline **out, const struct ab_config *config,
                                    const struct ab_exec *exec) {
  return create(out, config, exec, ORACLE_WHOLE_BATCH);
}

static size_t elements(const struct ab_pipeline *p) {
  return (size_t)(p->batch.rows * p->batch.length * p->batch.emb);
}

static ab_status observe(const struct ab_pipeline *p, const char *name, enum ab_phase phase, const void *value) {
  return oracle_observe(&p->exec, name, phase, value, &p->batch, p->batch.emb);
}

static ab_status forward(struct ab_pipeline *p, void *outputs, const void *inputs, const int32_t *positions,
                         const int32_t *segment_ids) {
  void *x, *middle, *y;
  AB_TRY(ab_arena_take(p->exec.arena, &x, elements(p), p->exec.kernels->element));
  p->exec.kernels->copy(x, inputs, elements(p));
  AB_TRY(observe(p, AB_OBS_INPUTS, AB_FORWARD, x));
  AB_TRY(oracle_span_forward(&p->inside, &middle, x, positions, segment_ids));
  AB_TRY(oracle_span_forward(&p->outside, &y, middle, positions, segment_ids));
  p->exec.kernels->copy(outputs, y, elements(p));
  AB_TRY(observe(p, AB_OBS_OUTPUTS, AB_FORWARD, y));
  return AB_OK;
}

static ab_status backward(struct ab_pipeline *p, void *d_inputs, const void *d_outputs) {
  void *middle;
  oracle_store_zero_grads(&p->store);
  AB_TRY(observe(p, AB_OBS_D_OUTPUTS, AB_BACKWARD, d_outputs));
  AB_TRY(ab_arena_take(p->exec.arena, &middle, elements(p), p->exec.kernels->element));
  AB_TRY(oracle_span_backward(&p->outside, middle, d_outputs));
  AB_TRY(oracle_span_backward(&p->inside, d_inputs, middle));
  AB_TRY(observe(p, AB_OBS_D_INPUTS, AB_BACKWARD, d_inputs));
  return AB_OK;
}

static ab_status leaves(struct ab_pipeline *p, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return oracle_store_leaves(&p->store, kind, fn, ctx);
}

const struct ab_pipeline_ops ab_oracle_pipeline_ops = {create_by_dtype, forward, backward, leaves};
const struct ab_pipeline_ops ab_oracle_pipeline_ops_by_microbatch = {create_by_microbatch, forward, backward, leaves};
const struct ab_pipeline_ops ab_oracle_pipeline_ops_whole_batch = {create_whole_batch, forward, backward, leaves};
