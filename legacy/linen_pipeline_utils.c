#include "linen_pipeline_utils.h"

static ab_status check_divides(int64_t n, int64_t by, const char *what) {
  if (by > 0 && n > 0 && n % by == 0) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "%s: %lld is not a positive multiple of %lld", what, (long long)n, (long long)by);
}

ab_status linen_schedule_of(struct linen_schedule *out, const struct ab_config *c) {
  int64_t m = c->num_pipeline_microbatches;
  AB_TRY(check_divides(m, c->num_stages, "num_pipeline_microbatches over the stages"));
  AB_TRY(check_divides(c->micro_batch_size_to_train_on, m, "micro_batch_size_to_train_on over the microbatches"));
  AB_TRY(check_divides(c->pipeline_parallel_layers,
                       c->num_stages * c->num_pipeline_repeats * c->num_layers_per_pipeline_stage,
                       "pipeline_parallel_layers over stages, repeats and layers per stage"));
  int64_t per_stage = m / c->num_stages;
  *out = (struct linen_schedule){.stages = (int)c->num_stages,
                                 .repeats = (int)c->num_pipeline_repeats,
                                 .microbatches = (int)m,
                                 .layers_per_stage = (int)c->num_layers_per_pipeline_stage,
                                 .microbatches_per_stage = (int)per_stage,
                                 .forwarding_delay = (int)ab_forwarding_delay(c),
                                 .iterations = (int)ab_total_iterations(c),
                                 .use_circ_storage = ab_use_circ_storage(c),
                                 .rows = c->micro_batch_size_to_train_on / m};
  out->rotations = (size_t)((m * (c->num_pipeline_repeats - 1) + ab_pipeline_depth(c)) % per_stage);
  return AB_OK;
}

struct linen_ids linen_get_microbatch_and_repeat_ids(const struct linen_schedule *schedule, int t, int s) {
  int processed = t - schedule->forwarding_delay * s, last = schedule->repeats - 1;
  struct linen_ids ids = {.bubble = processed < 0 || processed >= schedule->microbatches * schedule->repeats};
  if (processed < 0) processed = 0;
  ids.microbatch = processed % schedule->microbatches;
  ids.repeat = processed / schedule->microbatches;
  if (ids.repeat > last) ids.repeat = last;
  return ids;
}

int linen_circ_storage_index(const struct linen_schedule *schedule, int t) {
  int m = schedule->microbatches, depth = schedule->forwarding_delay * (schedule->stages - 1);
  return ((t - depth - 1) % m + m) % m;
}

void *linen_buffer_at(const struct linen_buffer *buffer, const struct ab_kernels *kernels, int stage, int column) {
  size_t slot = (size_t)stage * (size_t)buffer->columns + (size_t)column;
  return (unsigned char *)buffer->data + slot * buffer->count * kernels->element;
}

void linen_take_column(void *column, const struct linen_buffer *buffer, const struct ab_mesh *mesh, int c) {
  struct linen_buffer to = {column, 1, buffer->count};
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++)
    mesh->kernels->copy(linen_buffer_at(&to, mesh->kernels, s, 0), linen_buffer_at(buffer, mesh->kernels, s, c),
                        buffer->count);
}

void linen_put_column(const struct linen_buffer *buffer, const void *column, const struct ab_mesh *mesh, int c) {
  size_t bytes = buffer->count * mesh->kernels->element;
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++)
    mesh->kernels->copy(linen_buffer_at(buffer, mesh->kernels, s, c), (const unsigned char *)column + (size_t)s * bytes,
                        buffer->count);
}

void linen_roll_columns(const struct linen_buffer *to, const struct linen_buffer *from, const struct ab_mesh *mesh,
                        size_t left) {
  for (int s = mesh->stage_begin; s < mesh->stage_end; s++)
    for (int c = 0; c < to->columns; c++) {
      int source = (int)(((size_t)c + left) % (size_t)to->columns);
      mesh->kernels->copy(linen_buffer_at(to, mesh->kernels, s, c), linen_buffer_at(from, mesh->kernels, s, source),
                          to->count);
    }
}
