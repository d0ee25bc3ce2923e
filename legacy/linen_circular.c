/* CircularPipeline but for its backward. */
#include "linen_circular.h"

#include "observed.h"
#include "upstream.h"

struct linen_window linen_window_of(const struct linen_schedule *schedule, int k) {
  struct linen_window window = {k * schedule->microbatches, schedule->microbatches};
  if (k == schedule->repeats) window.length = schedule->iterations - window.first;
  return window;
}

static ab_status setup(struct linen_pipeline *base) {
  struct linen_circular_pipeline *self = (struct linen_circular_pipeline *)base;
  const struct linen_schedule *schedule = &base->schedule;
  if (schedule->repeats < 2 || schedule->layers_per_stage != 1 || schedule->forwarding_delay != 1)
    return AB_FAIL(AB_ECONFIG, "key 'pipeline_fsdp_ag_per_repeat' is true, expected false: CircularPipeline wants 2 or "
                   "more repeats of 1 layer a stage without a delay, not %d of %d with a delay of %d",
                   schedule->repeats, schedule->layers_per_stage, schedule->forwarding_delay - 1);
  self->prefetch_defect = ab_faithful(base->config, AB_DEFECT_B1);
  linen_bsw_layout(self);
  size_t bytes = (size_t)schedule->stages * self->stage_count * base->exec->kernels->element;
  return linen_residuals_new(&self->carried, base->exec, bytes, schedule->repeats,
                             base->config->scan_pipeline_repeats);
}

static ab_status take_residuals(struct linen_pipeline *base) {
  AB_TRY(linen_pipeline_take_residuals(base));
  return linen_residuals_take(&((struct linen_circular_pipeline *)base)->carried, base->exec);
}

static ab_status get_current_weights_from_bsw(struct linen_pipeline *base, int t, int s, bool backward) {
  (void)backward;
  const struct linen_circular_pipeline *self = (const struct linen_circular_pipeline *)base;
  void *buffer = linen_bsw_buffer(self, linen_bsw_slot_of(&base->schedule, t, s));
  for (int p = 0; p < base->layers.leaves; p++) base->weights[s].param[p] = linen_bsw_leaf(self, buffer, s, p);
  return AB_OK;
}

static ab_status run_microbatch(void *ctx, int64_t i) {
  struct linen_circular_pipeline *self = ctx;
  return linen_run_one_iteration(&self->base, linen_window_of(&self->base.schedule, self->window).first + (int)i);
}

/* What the window gathered is w_curr of the next one, whose backward reads it again. */
static ab_status count_carried(const struct linen_circular_pipeline *self) {
  const struct ab_mesh *mesh = self->base.exec->mesh;
  if (self->window == self->base.schedule.repeats) return AB_OK;
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++)
    AB_TRY(linen_count_fetched(&self->base, AB_COUNT_W_CURR, self->window, s));
  return AB_OK;
}

static ab_status run_window(void *ctx, int64_t k) {
  struct linen_circular_pipeline *self = ctx;
  AB_TRY(linen_bsw_begin_window(self, (int)k));
  AB_TRY(count_carried(self));
  return linen_scan_call(run_microbatch, self, linen_window_of(&self->base.schedule, (int)k).length);
}

static ab_status scan_windows(struct linen_pipeline *base) {
  struct linen_circular_pipeline *self = (struct linen_circular_pipeline *)base;
  AB_TRY(linen_bsw_take(self, &self->spare));
  return linen_scan_call(run_window, self, base->schedule.repeats + 1);
}

const struct linen_pipeline_class linen_pipeline_circular = {
    .module = {.class_name = "CircularPipeline", .lift = linen_pipeline_lift},
    .place = LINEN_REMAT_STEP,
    .setup = setup,
    .take_residuals = take_residuals,
    .loop = scan_windows,
    .loop_vjp = linen_circular_loop_vjp,
    .weights = get_current_weights_from_bsw,
    .accumulators = linen_circular_accumulators};

ab_status linen_create_pipeline(struct linen_pipeline **out, struct linen_module *parent, const char *name,
                                const struct ab_config *config, const struct ab_exec *exec) {
  bool circular = config->pipeline_fsdp_ag_per_repeat;
  size_t size = circular ? sizeof(struct linen_circular_pipeline) : sizeof(struct linen_pipeline);
  AB_TRY(ab_arena_take_zeroed(exec->book, out, 1, size)); /* the base comes first */
  return linen_pipeline_new(*out, circular ? &linen_pipeline_circular : &linen_pipeline_per_iteration, parent, name,
                            config, exec);
}
