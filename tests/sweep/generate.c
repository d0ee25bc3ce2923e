#include "generate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "mem.h"

uint64_t sweep_word(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

int64_t sweep_below(uint64_t *state, int64_t n) { return (int64_t)(sweep_word(state) % (uint64_t)n); }

double sweep_unit(uint64_t *state) { return ldexp((double)(sweep_word(state) >> 11), -53); }

void sweep_key(struct sweep_case *c, const char *format, ...) {
  va_list args;
  if (c->keys == SWEEP_KEYS) abort();
  va_start(args, format);
  vsnprintf(c->text[c->keys], sizeof c->text[0], format, args);
  va_end(args);
  c->key[c->keys] = c->text[c->keys];
  c->keys++;
}

void sweep_pipeline(struct sweep_case *c, int64_t S, int64_t M, int64_t R, int64_t K, int64_t rows, int64_t length) {
  sweep_key(c, "ici_pipeline_parallelism=%d", (int)S);
  sweep_key(c, "num_pipeline_microbatches=%d", (int)M);
  sweep_key(c, "num_pipeline_repeats=%d", (int)R);
  sweep_key(c, "num_layers_per_pipeline_stage=%d", (int)K);
  sweep_key(c, "pipeline_parallel_layers=%d", (int)(S * R * K));
  sweep_key(c, "per_device_batch_size=%d.0", (int)(M * rows / S));
  sweep_key(c, "max_target_length=%d", (int)length);
}

/* Values on their way into the bundle. */
struct draw {
  struct sweep_case *c;
  enum sweep_fill fill;
  uint64_t state;
  double growth; /* how much larger than its input the largest activation may have become */
};

static float normal(uint64_t *state) {
  double r = sqrt(-2 * log(1 - sweep_unit(state)));
  return (float)(r * cos(6.283185307179586 * sweep_unit(state)));
}

static float integer(uint64_t *state, int64_t most) { return (float)(sweep_below(state, 2 * most + 1) - most); }

static float activation(struct draw *d) {
  if (d->fill == SWEEP_NORMAL) return normal(&d->state);
  return integer(&d->state, d->fill == SWEEP_RESIDUES ? (1 << 24) - 1 : 3);
}

enum { GROWTH_MOST = 1024, COLUMNS_MOST = 64 };

/* A signed selection, one +-1 per row with as few as possible in a column, keeps sums small; now and then one entry
 * more, as long as the product of all row and column sums stays small. */
static void small_weights(struct draw *d, float *w, int64_t rows, int64_t columns) {
  int64_t order[COLUMNS_MOST];
  if (columns > COLUMNS_MOST) abort();
  memset(w, 0, (size_t)(rows * columns) * sizeof *w);
  for (int64_t i = 0; i < columns; i++) order[i] = i;
  for (int64_t i = columns - 1; i > 0; i--) {
    int64_t other = sweep_below(&d->state, i + 1), keep = order[i];
    order[i] = order[other];
    order[other] = keep;
  }
  int64_t most = rows > columns ? rows : columns;
  for (int64_t i = 0; i < most; i++) w[i % rows * columns + order[i % columns]] = sweep_below(&d->state, 2) ? 1 : -1;
  d->growth *= (double)((most + rows - 1) / rows * ((most + columns - 1) / columns));
  if (2 * d->growth > GROWTH_MOST || sweep_below(&d->state, 3)) return;
  d->growth *= 2;
  w[sweep_below(&d->state, rows * columns)] += 1;
}

/* Long products of random matrices lose digits that no order of additions can keep: these stay near the identity. */
static void well_conditioned(float *w, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows * columns; i++) w[i] = 0.5f * w[i] + (float)(i / columns == i % columns);
}

static void draw_leaf(struct draw *d, float *out, const struct ab_inventory_row *row, const struct ab_layer_dims *dims) {
  struct ab_shape shape = ab_param_shape(row->param, dims);
  if (d->fill == SWEEP_SMALL_INTEGERS) {
    small_weights(d, out, shape.dim[0], shape.dim[1]);
    return;
  }
  if (d->fill == SWEEP_NORMAL)
    ab_init_draw(out, row->param, dims, (int64_t)(d->c->seed & INT32_MAX), row->layer);
  bool linear = ab_block_find(d->c->opened.config->decoder_block)->polynomial && row->layer >= 0;
  if (d->fill == SWEEP_NORMAL && linear)
    well_conditioned(out, shape.dim[0], shape.dim[1]);
  for (size_t i = 0; i < row->count; i++) {
    if (d->fill == SWEEP_RESIDUES) out[i] = integer(&d->state, (1 << 24) - 1);
    else if (row->param->init == AB_INIT_ONES) out[i] += 0.2f * normal(&d->state);
  }
}

static ab_status draw_params(struct draw *d, struct ab_bundle *b) {
  struct ab_inventory inventory;
  struct ab_layer_dims dims = ab_layer_dims_of(b->config, 1);
  ab_status status = AB_OK;
  AB_TRY(ab_inventory_new(&inventory, b->config, !b->train));
  for (size_t i = 0; i < inventory.rows && status == AB_OK; i++) {
    const struct ab_inventory_row *row = &inventory.row[i];
    struct ab_view view;
    float *values;
    status = ab_mem_new(&values, row->count, sizeof *values);
    if (status == AB_OK) status = ab_layout_view(&view, &b->layout, b->params, row->layer, row->param->name);
    if (status != AB_OK) break;
    draw_leaf(d, values, row, &dims);
    ab_view_unpack(&view, values);
    ab_mem_free(values);
  }
  ab_inventory_free(&inventory);
  return status;
}

static ab_status add(void *out, struct ab_bundle *b, const char *name, enum ab_dtype dtype) {
  const struct ab_config *c = b->config;
  int64_t rows = b->train ? c->global_batch_size_to_train_on : c->micro_batch_size_to_train_on;
  struct ab_shape shape = {2, {rows, c->max_target_length}};
  if (b->train) shape = (struct ab_shape){3, {1, rows, c->max_target_length}};
  if (dtype == AB_F32) shape = (struct ab_shape){3, {rows, c->max_target_length, c->emb_dim}};
  struct ab_tensor *tensor;
  AB_TRY(ab_tree_add(b->batch, name, dtype, &shape, &tensor));
  memcpy(out, &tensor->data, sizeof tensor->data);
  return AB_OK;
}

/* Several packed segments per row, numbered from 1, the last of some rows 0; positions begin anew in each, in every
 * third row somewhere else. The first has two tokens: a query that sees one key has no gradient. */
static void draw_segments(struct draw *d, int32_t *segment, int32_t *position, int64_t rows, int64_t length) {
  for (int64_t r = 0; r < rows; r++, segment += length, position += length) {
    int32_t id = 1, at = (int32_t)(sweep_below(&d->state, 3) ? 0 : sweep_below(&d->state, 9));
    bool padded = sweep_below(&d->state, 4) == 0;
    for (int64_t i = 0; i < length; i++, at++) {
      if (i > 1 && sweep_below(&d->state, 4) == 0) {
        id++;
        at = 0;
      }
      segment[i] = id;
      position[i] = at;
    }
    for (int64_t i = length; padded && i-- > (length + 1) / 2 && segment[i] == id;) segment[i] = 0;
  }
}

static ab_status draw_engine_batch(struct draw *d, struct ab_bundle *b) {
  float *inputs, *targets;
  int32_t *positions, *segments;
  AB_TRY(add(&inputs, b, "inputs", AB_F32));
  AB_TRY(add(&targets, b, b->loss_kind == AB_LOSS_GIVEN ? "output_cotangent" : "targets", AB_F32));
  AB_TRY(add(&positions, b, "positions", AB_I32));
  AB_TRY(add(&segments, b, "segment_ids", AB_I32));
  size_t count = ab_tree_find(b->batch, "inputs")->count;
  for (size_t i = 0; i < count; i++) inputs[i] = activation(d);
  for (size_t i = 0; i < count; i++) targets[i] = activation(d);
  draw_segments(d, segments, positions, b->config->micro_batch_size_to_train_on, b->config->max_target_length);
  return AB_OK;
}

static ab_status draw_train_batch(struct draw *d, struct ab_bundle *b) {
  static const char *const name[] = {"inputs",  "inputs_segmentation",  "inputs_position",
                                     "targets", "targets_segmentation", "targets_position"};
  int32_t *array[6];
  for (int i = 0; i < 6; i++) AB_TRY(add(&array[i], b, name[i], AB_I32));
  const struct ab_tensor *inputs = ab_tree_find(b->batch, "inputs");
  for (size_t i = 0; i < inputs->count; i++) {
    array[0][i] = (int32_t)sweep_below(&d->state, b->config->vocab_size);
    array[3][i] = (int32_t)sweep_below(&d->state, b->config->vocab_size);
  }
  draw_segments(d, array[1], array[2], inputs->shape.dim[1], inputs->shape.dim[2]);
  memcpy(array[4], array[1], inputs->count * sizeof *array[4]);
  memcpy(array[5], array[2], inputs->count * sizeof *array[5]);
  return AB_OK;
}

static ab_status draw_bundle(struct draw *d, struct ab_bundle *b) {
  AB_TRY(ab_mem_string(&b->folder, "generated"));
  AB_TRY(ab_layout_new(&b->layout, b->config, !b->train));
  AB_TRY(ab_layout_tree(&b->params, &b->layout, AB_F32));
  AB_TRY(draw_params(d, b));
  AB_TRY(ab_tree_new(&b->batch));
  return b->train ? draw_train_batch(d, b) : draw_engine_batch(d, b);
}

ab_status sweep_open(struct sweep_case *c, enum sweep_fill fill, enum ab_loss_kind loss) {
  struct draw d = {.c = c, .fill = fill, .state = c->seed, .growth = 1};
  struct ab_config_request request = {.overrides = c->key, .override_count = c->keys, .ignore_environment = true};
  c->opened = (struct ab_case){.steps = 1};
  AB_TRY(ab_config_load(&c->opened.config, &request));
  AB_TRY(ab_mem_new(&c->opened.bundle, 1, sizeof *c->opened.bundle));
  c->opened.bundle->config = c->opened.config;
  c->opened.bundle->train = loss == AB_LOSS_TRAIN;
  c->opened.bundle->loss_kind = loss;
  return draw_bundle(&d, c->opened.bundle);
}

void sweep_close(struct sweep_case *c) { ab_case_close(&c->opened); }

void sweep_command(char text[SWEEP_COMMAND], const struct sweep_case *c, const char *program) {
  size_t used = (size_t)snprintf(text, SWEEP_COMMAND, "%s %llu", program, (unsigned long long)c->seed);
  for (size_t i = 0; i < c->keys && used < SWEEP_COMMAND; i++)
    used += (size_t)snprintf(text + used, SWEEP_COMMAND - used, " %s", c->key[i]);
}

void sweep_parse(struct sweep_case *c, int argc, char **argv) {
  *c = (struct sweep_case){.seed = strtoull(argv[1], NULL, 0)};
  for (int i = 2; i < argc; i++) sweep_key(c, "%s", argv[i]);
}
