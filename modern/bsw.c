#include "circular_pipeline.h"

/* The rows of stage s in a buffer. */
static nnx_weight_buffer stage_buffer(const struct nnx_pipeline *p, nnx_weight_buffer buffer, int s) {
  return buffer + (size_t)s * nnx_weight_leaves(p);
}

int nnx_prefetch_repeat(const struct nnx_pipeline *p, int window, int s) {
  int ahead = window * p->schedule.num_microbatches + 1;
  if (!p->circular->prefetch_defect) return window;
  return nnx_clamp_repeat(&p->schedule, nnx_get_microbatch_and_repeat_ids(&p->schedule, ahead, s).repeat);
}

static ab_status all_gather_stage(struct nnx_run *run, int window, int s) {
  struct nnx_pipeline *p = run->pipeline;
  nnx_weight_buffer buffer = stage_buffer(p, p->circular->prefetched[window], s);
  int repeat = nnx_prefetch_repeat(p, window, s);
  struct nnx_state params;
  AB_TRY(nnx_gather_stage(&params, p, &run->params, repeat, s));
  for (size_t i = 0; i < params.count; i++) {
    const struct ab_view *value = &params.leaf[i].variable.value;
    buffer[i] = p->exec.mesh->ops->gather(p->exec.mesh, value->data, ab_view_count(value), repeat, s);
  }
  return AB_OK;
}

ab_status nnx_bsw_all_gather(struct nnx_run *run, int window) {
  const struct ab_mesh *mesh = run->pipeline->exec.mesh;
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++) AB_TRY(all_gather_stage(run, window, s));
  return AB_OK;
}

void nnx_bsw_slide(struct nnx_run *run, int window) {
  struct nnx_circular *c = run->pipeline->circular;
  bool drain = window == run->pipeline->schedule.num_repeats;
  c->bsw.window = window;
  c->bsw.slot[NNX_W_CURR] = window == 0 ? c->initial : c->prefetched[window - 1];
  c->bsw.slot[NNX_W_NEXT] = drain ? c->prefetched[window - 1] : c->prefetched[window];
}

/* Nobody writes them, so one block of zeros is enough for every leaf of every stage. */
ab_status nnx_bsw_take_initial(struct nnx_run *run) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_state params;
  size_t largest = 0;
  void *zeros;
  AB_TRY(nnx_gather_stage(&params, p, &run->params, 0, 0));
  for (size_t i = 0; i < params.count; i++) {
    size_t count = ab_view_count(&params.leaf[i].variable.value);
    if (count > largest) largest = count;
  }
  AB_TRY(ab_arena_take(p->exec.arena, &zeros, largest, p->exec.kernels->element));
  p->exec.kernels->zero(zeros, largest);
  for (size_t i = 0; i < (size_t)p->schedule.num_stages * params.count; i++) p->circular->initial[i] = zeros;
  return AB_OK;
}

enum nnx_slot nnx_bsw_slot(const struct nnx_pipeline *p, int t, int s) {
  int repeat = nnx_get_microbatch_and_repeat_ids(&p->schedule, t, s).repeat;
  return repeat == t / p->schedule.num_microbatches ? NNX_W_NEXT : NNX_W_CURR;
}

ab_status nnx_get_current_weights_from_bsw(struct nnx_state *out, struct nnx_run *run, int t, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  nnx_weight_buffer buffer = stage_buffer(p, p->circular->bsw.slot[nnx_bsw_slot(p, t, s)], s);
  AB_TRY(nnx_gather_stage(out, p, &run->params, 0, s));
  for (size_t i = 0; i < out->count; i++) nnx_read_at(&out->leaf[i].variable, buffer[i]);
  return AB_OK;
}

ab_status nnx_get_current_cotangents_of_bsw(struct nnx_state *out, struct nnx_run *run, int t, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  return nnx_index_axis(out, p->exec.book, &p->circular->bsw.dslot[nnx_bsw_slot(p, t, s)], &p->stage_axis, s);
}
