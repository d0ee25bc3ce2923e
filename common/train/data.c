#include <stdlib.h>

#include "batch.h"
#include "distributions.h"
#include "mem.h"

struct ab_synthetic {
  struct ab_batch batch;
  int64_t rows; /* drawn: global_batch_size_to_load; the batch is the first of them */
  int32_t *tokens, *inputs, *targets, *input_position, *target_position, *segments;
};

/* argsort of one row's scores; ties keep their order, as jnp.argsort (stable) does. */
struct scored {
  float score;
  int32_t position;
};

static int by_score(const void *a, const void *b) {
  const struct scored *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  return (x->position > y->position) - (x->position < y->position);
}

/* The count - 1 positions of lowest score begin a segment; ids are 1 .. count. */
static void segment_row(int32_t *segment, struct scored *order, const float *score, int64_t length, int32_t count) {
  for (int64_t p = 1; p < length; p++) {
    order[p - 1] = (struct scored){score[p - 1], (int32_t)p};
    segment[p] = 0;
  }
  qsort(order, (size_t)(length - 1), sizeof *order, by_score);
  for (int32_t i = 0; i < count - 1; i++) segment[order[i].position] = 1;
  segment[0] = 1;
  for (int64_t p = 1; p < length; p++) segment[p] += segment[p - 1];
}

static ab_status draw_segments(struct ab_synthetic *data, int64_t most) {
  int64_t length = data->batch.length;
  size_t rows = (size_t)data->rows, gaps = (size_t)(length - 1);
  struct ab_key half[2];
  ab_key_split(half, ab_key(42), 2);
  struct scored *order = NULL;
  float *score = NULL;
  int32_t *count = NULL;
  ab_status status = ab_mem_new(&order, gaps, sizeof *order);
  if (status == AB_OK) status = ab_mem_new(&score, rows * gaps, sizeof *score);
  if (status == AB_OK) status = ab_mem_new(&count, rows, sizeof *count);
  if (status == AB_OK) {
    ab_random_randint(count, half[0], rows, 2, (int32_t)(most < length ? most : length) + 1);
    ab_random_uniform(score, half[1], rows * gaps, 0.0f, 1.0f);
    for (size_t r = 0; r < rows; r++)
      segment_row(data->segments + r * (size_t)length, order, score + r * gaps, length, count[r]);
  }
  ab_mem_free(order);
  ab_mem_free(score);
  ab_mem_free(count);
  AB_TRY(status);
  return AB_OK;
}

static void place_tokens(struct ab_synthetic *data) {
  int64_t length = data->batch.length;
  for (int64_t r = 0; r < data->rows; r++) {
    for (int64_t p = 0; p < length; p++) {
      int64_t at = r * length + p;
      data->inputs[at] = data->tokens[r * (length + 1) + p];
      data->targets[at] = data->tokens[r * (length + 1) + p + 1];
      data->input_position[at] = (int32_t)p;
      data->target_position[at] = (int32_t)p + 1;
      data->segments[at] = 1;
    }
  }
}

static ab_status allocate(struct ab_synthetic *data) {
  size_t cells, tokens;
  AB_TRY(ab_size_mul(&tokens, (size_t)data->rows, (size_t)data->batch.length + 1));
  cells = tokens - (size_t)data->rows;
  AB_TRY(ab_mem_new(&data->tokens, tokens, sizeof *data->tokens));
  int32_t **array[] = {&data->inputs, &data->targets, &data->input_position, &data->target_position, &data->segments};
  for (size_t i = 0; i < sizeof array / sizeof *array; i++) AB_TRY(ab_mem_new(array[i], cells, sizeof **array[i]));
  return AB_OK;
}

static ab_status fill(struct ab_synthetic *data, const struct ab_config *c) {
  AB_TRY(allocate(data));
  size_t tokens = (size_t)data->rows * (size_t)(data->batch.length + 1);
  ab_random_randint(data->tokens, ab_key(0), tokens, 0, (int32_t)c->vocab_size);
  place_tokens(data);
  if (c->packing && c->max_segments_per_seq >= 2 && data->batch.length >= 2)
    AB_TRY(draw_segments(data, c->max_segments_per_seq));
  return AB_OK;
}

ab_status ab_synthetic_new(struct ab_synthetic **out, const struct ab_config *config) {
  struct ab_synthetic *data;
  AB_TRY(ab_mem_new(&data, 1, sizeof *data));
  data->rows = config->global_batch_size_to_load;
  data->batch.rows =
      config->global_batch_size_to_train_on < data->rows ? config->global_batch_size_to_train_on : data->rows;
  data->batch.length = config->max_target_length;
  ab_status status = fill(data, config);
  if (status != AB_OK) {
    ab_synthetic_free(data);
    AB_TRY(status);
  }
  data->batch.inputs = data->inputs;
  data->batch.inputs_position = data->input_position;
  data->batch.targets = data->targets;
  data->batch.targets_position = data->target_position;
  data->batch.inputs_segmentation = data->batch.targets_segmentation = data->segments;
  *out = data;
  return AB_OK;
}

void ab_synthetic_free(struct ab_synthetic *data) {
  if (!data) return;
  int32_t *array[] = {data->tokens,         data->inputs,          data->targets,
                      data->input_position, data->target_position, data->segments};
  for (size_t i = 0; i < sizeof array / sizeof *array; i++) ab_mem_free(array[i]);
  ab_mem_free(data);
}

struct ab_batch ab_synthetic_batch(const struct ab_synthetic *data) {
  return data->batch;
}
