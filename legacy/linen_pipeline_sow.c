/* What a Pipeline does with the collection `intermediates`: one slice per cell, one report per layer. With
 * upstream_faithful=B20 it does nothing, as there: the stage is applied with nothing mutable, so no sow is recorded. */
#include "linen_pipeline.h"
#include "upstream.h"

static bool records(const struct linen_pipeline *self) {
  return ab_sows(self->config, self->exec->kernels) && !ab_faithful(self->config, AB_DEFECT_B20);
}

ab_status linen_sow_begin(struct linen_pipeline *self) {
  const struct linen_axis lifts[LINEN_SOWN_AXES] = {
      {.length = self->schedule.iterations, .index = LINEN_WHOLE, .name = "iterations"},
      {.length = self->schedule.stages, .index = LINEN_WHOLE, .name = "layers"}};
  if (!records(self)) return AB_OK;
  AB_TRY(linen_intermediates_begin(&self->intermediates, &self->layers, self->layers_scope.path, lifts,
                                   LINEN_SOWN_AXES, self->schedule.stages));
  for (int s = self->exec->mesh->stage_begin; s < self->exec->mesh->stage_end; s++)
    self->cell[s].sown = linen_intermediates_of_worker(&self->intermediates, s);
  return AB_OK;
}

ab_status linen_sow_iteration(struct linen_pipeline *self, int t) {
  if (!records(self)) return AB_OK;
  for (int s = self->exec->mesh->stage_begin; s < self->exec->mesh->stage_end; s++)
    if (linen_cell_runs(self, s))
      AB_TRY(linen_intermediates_place(&self->intermediates, s, (const int64_t[]){t, s}));
  return AB_OK;
}

/* Layer (r S + s) K + k in the iterations that its microbatches pass stage s. */
static ab_status mean_over_microbatches(struct linen_pipeline *self, int layer, enum ab_sown which) {
  const struct linen_schedule *schedule = &self->schedule;
  const struct ab_kernels *k = self->exec->kernels;
  int cell = layer / self->layers.count, s = cell % schedule->stages, repeat = cell / schedule->stages;
  void *mean = self->intermediates.reported, *of_microbatch;
  for (int m = 0; m < schedule->microbatches; m++) {
    int64_t t = repeat * schedule->microbatches + m + schedule->forwarding_delay * s;
    AB_TRY(linen_intermediates_read(&of_microbatch, &self->intermediates, layer % self->layers.count, which,
                                    (const int64_t[]){t, s}));
    if (m == 0)
      k->copy(mean, of_microbatch, 1);
    else
      k->add(mean, mean, of_microbatch, 1);
  }
  k->scale(mean, mean, 1.0 / schedule->microbatches, 1);
  return AB_OK;
}

/* upstream_faithful=B21. Layers of a sequential stage have variables of their own, in which only cells are numbered. */
static ab_status number_of_element(struct linen_pipeline *self, int layer, enum ab_sown which) {
  int k = self->layers.count, per_variable = self->layers.kind == LINEN_SEQUENTIAL ? k : 1;
  void *element;
  AB_TRY(linen_intermediates_read_flat(&element, &self->intermediates, layer % k, which, layer / per_variable));
  self->exec->kernels->copy(self->intermediates.reported, element, 1);
  return AB_OK;
}

static ab_status report(struct linen_pipeline *self, int layer, enum ab_sown which) {
  bool by_element = ab_faithful(self->config, AB_DEFECT_B21);
  AB_TRY(by_element ? number_of_element(self, layer, which) : mean_over_microbatches(self, layer, which));
  return ab_observe_sown(self->exec->probe, self->exec->kernels, layer, which, self->intermediates.reported);
}

ab_status linen_sow_end(struct linen_pipeline *self) {
  int layers = self->schedule.repeats * self->schedule.stages * self->layers.count;
  if (!records(self)) return AB_OK;
  for (int i = 0; i < layers * AB_SOWN; i++) AB_TRY(report(self, i / AB_SOWN, (enum ab_sown)(i % AB_SOWN)));
  return AB_OK;
}
