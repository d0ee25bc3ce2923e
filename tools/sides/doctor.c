#include <string.h>

#include "mem.h"
#include "what_if.h"

struct ab_doctor {
  const struct ab_what_if_plan *plan;
  const struct ab_case *opened;
  struct ab_leaf_table table;
  unsigned char *saved; /* every leaf as it was, in the table's order */
  size_t *offset;       /* [leaves], bytes */
  int32_t *changed;     /* array of the pass, [rows, length] */
  double z_loss;        /* the config's multiplier */
};

ab_status ab_doctor_new(struct ab_doctor **out, const struct ab_what_if_plan *plan, const struct ab_case *c) {
  AB_TRY(ab_mem_new(out, 1, sizeof **out));
  (*out)->plan = plan;
  (*out)->opened = c;
  (*out)->z_loss = c->config->z_loss_multiplier;
  return AB_OK;
}

void ab_doctor_free(struct ab_doctor *doctor) {
  if (!doctor) return;
  ab_leaf_table_free(&doctor->table);
  ab_mem_free(doctor->saved);
  ab_mem_free(doctor->offset);
  ab_mem_free(doctor->changed);
  ab_mem_free(doctor);
}

static ab_status save(struct ab_doctor *d, const struct ab_side *side, const struct ab_kernels *k) {
  size_t bytes = 0;
  unsigned char *scratch;
  AB_TRY(ab_leaf_table_new(&d->table, d->opened->config, k, side->model_ops == NULL));
  AB_TRY(ab_leaf_table_fill(&d->table, side, AB_PARAMS));
  AB_TRY(ab_mem_new(&d->offset, d->table.leaves, sizeof *d->offset));
  for (size_t i = 0; i < d->table.leaves; i++) {
    d->offset[i] = bytes;
    bytes += d->table.leaf[i].count * k->element;
  }
  AB_TRY(ab_mem_new(&d->saved, bytes, 1));
  AB_TRY(ab_mem_new(&scratch, d->table.largest, k->element));
  for (size_t i = 0; i < d->table.leaves; i++)
    k->copy(d->saved + d->offset[i], ab_leaf_pack(&d->table.leaf[i], scratch, k), d->table.leaf[i].count);
  ab_mem_free(scratch);
  return AB_OK;
}

/* Whose weights a layer has in a pass. */
static int source(const struct ab_what_if_pass *pass, int layer, const struct ab_config *c) {
  int per_stage = (int)c->num_layers_per_pipeline_stage, stages = (int)c->num_stages, period = stages * per_stage;
  int stage = layer / per_stage % stages;
  if (layer < 0) return layer;
  if (pass->kind == AB_IF_LAYER) return layer == pass->x ? pass->y : layer;
  if (pass->kind == AB_IF_REPEAT && layer < period * (int)c->num_pipeline_repeats)
    return pass->x * period + layer % period;
  if (pass->kind == AB_IF_STAGES && layer < period * (int)c->num_pipeline_repeats) {
    if (stage == pass->x) return layer + (pass->y - pass->x) * per_stage;
    if (stage == pass->y) return layer + (pass->x - pass->y) * per_stage;
  }
  return layer;
}

static size_t find(const struct ab_doctor *d, int layer, const char *name) {
  for (size_t i = 0; i < d->table.leaves; i++)
    if (d->table.leaf[i].layer == layer && strcmp(d->table.leaf[i].param->name, name) == 0) return i;
  return d->table.leaves;
}

/* As the loader would have it that takes [rows, columns] for [columns, rows]. */
static ab_status transpose(struct ab_doctor *d, const struct ab_what_if_pass *pass, const struct ab_kernels *k) {
  const struct ab_block *block = ab_block_find(d->opened->config->decoder_block);
  const struct ab_param *param = &block->param[pass->y / AB_PARAM_RANK];
  size_t i = find(d, pass->x, param->name), rows = 1, size = k->element;
  unsigned char *turned;
  if (i == d->table.leaves) return AB_OK;
  const struct ab_leaf *leaf = &d->table.leaf[i];
  for (int axis = 0; axis < pass->y % AB_PARAM_RANK; axis++) rows *= (size_t)leaf->view.shape.dim[axis];
  size_t columns = leaf->count / rows;
  AB_TRY(ab_mem_new(&turned, leaf->count, size));
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < columns; c++)
      memcpy(turned + (c * rows + r) * size, d->saved + d->offset[i] + (r * columns + c) * size, size);
  ab_leaf_unpack(leaf, turned, k);
  ab_mem_free(turned);
  return AB_OK;
}

ab_status ab_doctor_weights(struct ab_doctor *d, const struct ab_side *side, const struct ab_kernels *k, int pass) {
  if (!d->saved) AB_TRY(save(d, side, k));
  AB_TRY(ab_leaf_table_fill(&d->table, side, AB_PARAMS));
  for (size_t i = 0; i < d->table.leaves; i++) {
    const struct ab_leaf *leaf = &d->table.leaf[i];
    size_t from = find(d, source(&d->plan->pass[pass], leaf->layer, d->opened->config), leaf->param->name);
    if (from < d->table.leaves && d->table.leaf[from].count == leaf->count)
      ab_leaf_unpack(leaf, d->saved + d->offset[from], k);
  }
  if (d->plan->pass[pass].kind == AB_IF_TRANSPOSED) AB_TRY(transpose(d, &d->plan->pass[pass], k));
  return AB_OK;
}

static ab_status take_copy(int32_t **out, struct ab_doctor *d, const int32_t *from, size_t count) {
  AB_TRY(ab_mem_resize(&d->changed, count, sizeof **out));
  memcpy(d->changed, from, count * sizeof **out);
  *out = d->changed;
  return AB_OK;
}

/* Rows of every microbatch become those of microbatch m. */
static void repeat_rows(int32_t *x, size_t count, int64_t microbatches, int m) {
  size_t size = count / (size_t)microbatches;
  for (int64_t i = 0; i < microbatches; i++)
    if (i != m) memcpy(x + (size_t)i * size, x + (size_t)m * size, size * sizeof *x);
}

/* Rows of every microbatch become those of the one that is `by` after it, of the first ones after the last. */
static void turn_rows(int32_t *to, const int32_t *from, size_t count, int64_t microbatches, int by) {
  size_t ahead = count / (size_t)microbatches * (size_t)by;
  memcpy(to, from + ahead, (count - ahead) * sizeof *to);
  memcpy(to + count - ahead, from, ahead * sizeof *to);
}

static void shift_rows(int32_t *x, int64_t rows, int64_t length, bool keep_last) {
  for (int64_t r = 0; r < rows; r++) {
    int32_t *row = x + r * length;
    memmove(row, row + 1, (size_t)(length - 1) * sizeof *row);
    if (!keep_last) row[length - 1] = 0;
  }
}

/* Positions or segments, of a batch or of activations. */
static ab_status change_places(struct ab_doctor *d, const int32_t **x, size_t count,
                               const struct ab_what_if_pass *pass) {
  int32_t *copy;
  AB_TRY(take_copy(&copy, d, *x, count));
  if (pass->kind == AB_IF_NO_SEGMENTS)
    for (size_t i = 0; i < count; i++) copy[i] = 1;
  else
    repeat_rows(copy, count, d->opened->config->num_pipeline_microbatches, pass->x);
  *x = copy;
  return AB_OK;
}

static ab_status change_labels(struct ab_doctor *d, struct ab_batch *b, const struct ab_what_if_pass *pass) {
  size_t count = (size_t)(b->rows * b->length);
  int32_t *copy;
  AB_TRY(take_copy(&copy, d, pass->kind == AB_IF_LABELS_INPUTS ? b->inputs : b->targets, count));
  if (pass->kind == AB_IF_LABELS) repeat_rows(copy, count, d->opened->config->num_pipeline_microbatches, pass->x);
  if (pass->kind == AB_IF_LABELS_TURNED)
    turn_rows(copy, b->targets, count, d->opened->config->num_pipeline_microbatches, pass->x);
  if (pass->kind == AB_IF_LABELS_SHIFTED && pass->x < 2) shift_rows(copy, b->rows, b->length, pass->x == 1);
  if (pass->kind == AB_IF_LABELS_SHIFTED && pass->x == 2) shift_rows(copy, 1, b->rows * b->length, false);
  b->targets = copy;
  return AB_OK;
}

/* Only the labels of one microbatch count, or all but those. Of activations the one is a part of the cotangent. */
static ab_status keep_part(struct ab_doctor *d, struct ab_pass_inputs *inputs, int m, bool alone) {
  int64_t parts = d->opened->config->num_pipeline_microbatches;
  struct ab_batch *b = &inputs->batch;
  if (inputs->given.count) {
    inputs->part = m;
    inputs->parts = parts;
    return AB_OK;
  }
  size_t count = (size_t)(b->rows * b->length), size = count / (size_t)parts;
  int32_t *copy;
  AB_TRY(take_copy(&copy, d, b->targets_segmentation, count));
  for (size_t i = 0; i < count; i++)
    if ((i / size == (size_t)m) != alone) copy[i] = 0;
  b->targets_segmentation = copy;
  return AB_OK;
}

/* Tokens and labels become their neighbours, positions and segments move on by one, and what counts counts not. */
static ab_status nudge(struct ab_doctor *d, struct ab_pass_inputs *inputs, int which) {
  struct ab_batch *b = &inputs->batch;
  const struct ab_config *c = d->opened->config;
  bool train = inputs->given.count == 0;
  const int32_t **of_batch[] = {&b->inputs,  &b->inputs_position,  &b->inputs_segmentation,
                                &b->targets, &b->targets_position, &b->targets_segmentation};
  const int32_t **of_given[] = {&inputs->given.positions, &inputs->given.segment_ids};
  const int32_t **x = train ? of_batch[which] : of_given[which];
  bool token = train && which % 3 == 0, counts = train && which == 5;
  int64_t length = c->max_target_length;
  size_t count = train ? (size_t)(b->rows * b->length) : inputs->given.count / (size_t)c->emb_dim;
  int32_t *copy;
  AB_TRY(take_copy(&copy, d, *x, count));
  for (size_t i = 0; i < count; i++) {
    int64_t p = (int64_t)i % length;
    if (p != length / 4 && p != length / 2 && p != 3 * length / 4) continue;
    int32_t next = copy[i] + 1;
    copy[i] = counts ? copy[i] == 0 : token ? next % (int32_t)c->vocab_size : next;
  }
  *x = copy;
  return AB_OK;
}

ab_status ab_doctor_inputs(struct ab_doctor *d, struct ab_pass_inputs *inputs, int pass) {
  const struct ab_what_if_pass *p = &d->plan->pass[pass];
  struct ab_batch *b = &inputs->batch;
  struct ab_activations *given = &inputs->given;
  bool train = given->count == 0;
  const struct ab_config *c = d->opened->config;
  size_t count = train ? (size_t)(b->rows * b->length) : given->count / (size_t)c->emb_dim;
  d->opened->config->z_loss_multiplier = p->kind == AB_IF_NO_Z_LOSS ? 0 : d->z_loss;
  switch (p->kind) {
    case AB_IF_PART:
    case AB_IF_WITHOUT:
      return keep_part(d, inputs, p->x, p->kind == AB_IF_PART);
    case AB_IF_POSITIONS:
      return change_places(d, train ? &b->inputs_position : &given->positions, count, p);
    case AB_IF_SEGMENTS:
    case AB_IF_NO_SEGMENTS:
      return change_places(d, train ? &b->inputs_segmentation : &given->segment_ids, count, p);
    case AB_IF_LABELS:
    case AB_IF_LABELS_TURNED:
    case AB_IF_LABELS_SHIFTED:
    case AB_IF_LABELS_INPUTS:
      return change_labels(d, b, p);
    case AB_IF_NUDGED:
      return p->x < 0 ? AB_OK : nudge(d, inputs, p->x);
    default:
      return AB_OK;
  }
}
