#include "circular_pipeline.h"

int nnx_prefetch_repeat(const struct nnx_pipeline *p, int window, int s) {
  if (!p->circular->prefetch_defect) return window;
  return nnx_repeat_of_cell(p, window * p->schedule.num_microbatches + 1, s);
}

void nnx_bsw_all_gather(struct nnx_run *run, int window) {
  const struct nnx_pipeline *p = run->pipeline;
  for (int s = p->exec.mesh->stage_begin; s < p->exec.mesh->stage_end; s++)
    nnx_all_gather_stage(p->gathered[window], run, nnx_prefetch_repeat(p, window, s), s);
}

void nnx_bsw_slide(struct nnx_run *run, int window) {
  const struct nnx_pipeline *p = run->pipeline;
  struct nnx_bsw *bsw = &p->circular->bsw;
  bool drain = window == p->schedule.num_repeats;
  bsw->window = window;
  bsw->slot[NNX_W_CURR] = window == 0 ? p->circular->initial : p->gathered[window - 1];
  bsw->slot[NNX_W_NEXT] = drain ? p->gathered[window - 1] : p->gathered[window];
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
  return nnx_read_weights(out, run, p->circular->bsw.slot[nnx_bsw_slot(p, t, s)], s);
}

ab_status nnx_get_current_cotangents_of_bsw(struct nnx_state *out, struct nnx_run *run, int t, int s) {
  const struct nnx_pipeline *p = run->pipeline;
  return nnx_index_axis(out, p->exec.book, &p->circular->bsw.dslot[nnx_bsw_slot(p, t, s)], &p->stage_axis, s);
}
