/* Schedule facts and buffer moves that Pipeline needs; MaxText utils/pipeline_utils.py and the helpers of
 * PipelineBase. */
#pragma once

#include "scope.h"

/* Numbers of a pipeline in MaxText's terms; pipeline.py: PipelineBase.setup. */
struct linen_schedule {
  int stages, repeats, microbatches, layers_per_stage;
  int microbatches_per_stage, forwarding_delay, iterations;
  bool use_circ_storage;
  int64_t rows;     /* of a microbatch */
  size_t rotations; /* columns that the finished outputs lie off their place: permute_output_micro_per_stage_dim */
};
/* AB_ECONFIG when the numbers do not divide. */
ab_status linen_schedule_of(struct linen_schedule *out, const struct ab_config *config);

/* What stage s does in iteration t. Bubbles have valid ids too: warm-up those of microbatch 0 and repeat 0, drain the
 * last repeat, as a clamped dynamic slice gives. pipeline.py: get_microbatch_and_repeat_ids. */
struct linen_ids {
  int microbatch, repeat;
  bool bubble;
};
struct linen_ids linen_get_microbatch_and_repeat_ids(const struct linen_schedule *schedule, int t, int s);
/* Column of circ_storage that iteration t writes. */
int linen_circ_storage_index(const struct linen_schedule *schedule, int t);

/* Stage-major buffers [S, columns, count] as the loop state holds them. */
struct linen_buffer {
  void *data;
  int columns;
  size_t count; /* elements of one activation */
};
void *linen_buffer_at(const struct linen_buffer *buffer, const struct ab_kernels *kernels, int stage, int column);
/* column[S, count] = buffer[:, c]; and back. */
void linen_take_column(void *column, const struct linen_buffer *buffer, const struct ab_mesh *mesh, int c);
void linen_put_column(const struct linen_buffer *buffer, const void *column, const struct ab_mesh *mesh, int c);
/* to[s][c] = from[s][(c + left) mod columns]. */
void linen_roll_columns(const struct linen_buffer *to, const struct linen_buffer *from, const struct ab_mesh *mesh,
                        size_t left);
