#include "circular_pipeline.h"

/* Reverse mode, window by window from the last. With H_curr, H_next the sums that the iterations of window k leave in
 * the cotangents of its two slots, from +0 and in falling t, and iota the prefetch index:
 *
 *   drain         carried = H of its one buffer
 *   k = R-1 .. 0  G[iota(k, s), s] += H_next + carried;  carried = H_curr
 *
 * What is carried out of window 0 belongs to the zeros that it began with. Between windows both slots hold zeros. */

/* A state of [S, ...] like one repeat of the parameters, all zero. */
static ab_status take_cotangents(struct nnx_state *out, struct nnx_run *run) {
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_state of_repeat;
  AB_TRY(nnx_index_axis(&of_repeat, p->exec.book, &run->dparams, &p->repeat_axis, 0));
  AB_TRY(nnx_abstract_like(out, p->exec.book, &of_repeat));
  AB_TRY(nnx_materialize(out, p->exec.arena));
  nnx_zero(out, p->exec.kernels);
  return AB_OK;
}

static struct ab_view leaf_of_stage(const struct nnx_state *state, size_t i, int s) {
  return ab_view_index(&state->leaf[i].variable.value, 0, s);
}

/* The two sums at the start of a window, of its prefetched buffer and of the parameters. What was read becomes zero. */
static void prefetch_pullback(void *ctx, int s) {
  const struct nnx_run *run = ctx;
  const struct ab_kernels *k = run->pipeline->exec.kernels;
  const struct nnx_bsw *bsw = &run->pipeline->circular->bsw;
  int repeat = nnx_prefetch_repeat(run->pipeline, bsw->window, s);
  for (size_t i = 0; i < run->dparams.count; i++) {
    struct ab_view direct = leaf_of_stage(&bsw->dslot[NNX_W_NEXT], i, s), carried = leaf_of_stage(&bsw->carried, i, s);
    struct ab_view of_repeat = ab_view_index(&run->dparams.leaf[i].variable.value, 0, repeat);
    struct ab_view grad = ab_view_index(&of_repeat, 0, s);
    size_t count = ab_view_count(&direct);
    k->add(direct.data, direct.data, carried.data, count);
    k->add(grad.data, grad.data, direct.data, count);
    k->zero(direct.data, count);
    k->zero(carried.data, count);
  }
}

static void swap(struct nnx_state *a, struct nnx_state *b) {
  struct nnx_state was = *a;
  *a = *b;
  *b = was;
}

static ab_status window_pullback(void *ctx, int k) {
  struct nnx_run *run = ctx;
  struct nnx_pipeline *p = run->pipeline;
  struct nnx_bsw *bsw = &p->circular->bsw;
  int microbatches = p->schedule.num_microbatches;
  if (p->remat.remat_windows) nnx_bsw_all_gather(run, k);
  nnx_bsw_slide(run, k);
  AB_TRY(nnx_scan_window_pullback(run, k * microbatches, microbatches));
  nnx_vmap_stages(p->exec.mesh->stage_begin, p->exec.mesh->stage_end, p->exec.kernels->dry, prefetch_pullback, run);
  swap(&bsw->carried, &bsw->dslot[NNX_W_CURR]);
  return AB_OK;
}

/* One buffer was passed twice: the cotangents of both slots go to one sum. */
static ab_status drain_pullback(struct nnx_run *run) {
  const struct nnx_schedule *schedule = &run->pipeline->schedule;
  struct nnx_bsw *bsw = &run->pipeline->circular->bsw;
  nnx_bsw_slide(run, schedule->num_repeats);
  bsw->dslot[NNX_W_CURR] = bsw->dslot[NNX_W_NEXT] = bsw->carried;
  return nnx_scan_window_pullback(run, schedule->num_repeats * schedule->num_microbatches, schedule->depth);
}

ab_status nnx_circular_pullback(struct nnx_run *run) {
  static const struct nnx_scan_body window = {.pullback = window_pullback};
  struct nnx_bsw *bsw = &run->pipeline->circular->bsw;
  AB_TRY(take_cotangents(&bsw->carried, run));
  AB_TRY(drain_pullback(run));
  for (int slot = 0; slot < NNX_SLOTS; slot++) AB_TRY(take_cotangents(&bsw->dslot[slot], run));
  return nnx_scan_pullback(&window, run, run->pipeline->schedule.num_repeats, run->pipeline->exec.book);
}
