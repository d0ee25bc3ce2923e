#include "circular_pipeline.h"

#include "observed.h"
#include "residuals.h"
#include "upstream.h"

static ab_status create_circular(struct nnx_pipeline *p, const struct ab_config *config) {
  AB_TRY(ab_arena_take_zeroed(p->exec.book, &p->circular, 1, sizeof *p->circular));
  p->circular->prefetch_defect = ab_faithful(config, AB_DEFECT_B1);
  AB_TRY(nnx_take_weight_buffers(p, &p->circular->initial, 1));
  return nnx_take_gathered(p);
}

/* Iteration i of a window is iteration first + i of the pipeline. */
struct window_scan {
  struct nnx_run *run;
  int first;
};

static ab_status window_iteration(void *ctx, int i) {
  const struct window_scan *scan = ctx;
  return nnx_pipeline_iteration.forward(scan->run, scan->first + i);
}

static ab_status window_iteration_pullback(void *ctx, int i) {
  const struct window_scan *scan = ctx;
  return nnx_pipeline_iteration.pullback(scan->run, scan->first + i);
}

static const struct nnx_scan_body window_body = {.forward = window_iteration, .pullback = window_iteration_pullback};

ab_status nnx_scan_window(struct nnx_run *run, int first, int length) {
  struct window_scan scan = {.run = run, .first = first};
  return nnx_scan(&window_body, &scan, length, run->pipeline->exec.book);
}

ab_status nnx_scan_window_pullback(struct nnx_run *run, int first, int length) {
  struct window_scan scan = {.run = run, .first = first};
  return nnx_scan_pullback(&window_body, &scan, length, run->pipeline->exec.book);
}

/* A window's buffer is handed to the next one as w_curr; a window that is not rematerialised keeps it too. */
static ab_status count_window(const struct nnx_pipeline *p, int k) {
  AB_TRY(nnx_count_weights(p, AB_COUNT_W_CURR, k));
  return p->remat.remat_windows ? AB_OK : nnx_count_weights(p, AB_COUNT_W_NEXT, k);
}

/* Prefetch and iterations of window k; upstream's stage function. */
static ab_status run_window(void *ctx, int k) {
  struct nnx_run *run = ctx;
  int microbatches = run->pipeline->schedule.num_microbatches;
  nnx_bsw_all_gather(run, k);
  AB_TRY(count_window(run->pipeline, k));
  nnx_bsw_slide(run, k);
  return nnx_scan_window(run, k * microbatches, microbatches);
}

static ab_status scan_windows(struct nnx_run *run) {
  static const struct nnx_scan_body window = {.forward = run_window};
  const struct nnx_schedule *schedule = &run->pipeline->schedule;
  int repeats = schedule->num_repeats;
  AB_TRY(nnx_bsw_take_initial(run));
  AB_TRY(nnx_scan(&window, run, repeats, run->pipeline->exec.book));
  nnx_bsw_slide(run, repeats);
  return nnx_scan_window(run, repeats * schedule->num_microbatches, schedule->depth);
}

const struct nnx_pipeline_class nnx_circular_pipeline_class = {.name = "NNXCircularPipeline",
                                                               .create = create_circular,
                                                               .forward = scan_windows,
                                                               .pullback = nnx_circular_pullback,
                                                               .params = nnx_get_current_weights_from_bsw,
                                                               .dparams = nnx_get_current_cotangents_of_bsw};
