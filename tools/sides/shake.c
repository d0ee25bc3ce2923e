#include "shake.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "number.h"

void ab_shake_print(char text[AB_SHAKE_TEXT], const struct ab_shake *s) {
  char slope[AB_NUMBER_MAX];
  ab_number_print(slope, s->slope);
  snprintf(text, AB_SHAKE_TEXT, "seed=%" PRIu64 ",ulp=%d,order=%d,rows=%" PRId64 ",cols=%" PRId64 ",depth=%" PRId64
           ",slope=%s,at=%d", s->seed, s->ulp, s->order, s->rows, s->cols, s->depth, slope, s->at);
}

/* "name=NUMBER" and a comma or the end; *text moves behind it. */
static bool take(const char **text, const char *name, double *out) {
  size_t length = strlen(name);
  char *end;
  if (strncmp(*text, name, length) != 0 || (*text)[length] != '=') return false;
  *out = strtod(*text + length + 1, &end);
  if (end == *text + length + 1 || !isfinite(*out) || (*end && *end != ',')) return false;
  *text = *end ? end + 1 : end;
  return true;
}

ab_status ab_shake_parse(struct ab_shake *out, const char *text) {
  static const char *const names[] = {"seed", "ulp", "order", "rows", "cols", "depth", "slope", "at"};
  const char *at = text;
  double value[8] = {0};
  for (int i = 0; i < 8; i++)
    if (!take(&at, names[i], &value[i]) || (i != 6 && (value[i] < 0 || value[i] > 0x1p52)))
      return AB_FAIL(AB_ECONFIG, "'%.100s' does not say what to shake", text);
  *out = (struct ab_shake){.seed = (uint64_t)value[0], .ulp = value[1] != 0, .order = value[2] != 0,
                           .rows = (int64_t)value[3], .cols = (int64_t)value[4], .depth = (int64_t)value[5],
                           .slope = value[6], .at = (int)value[7]};
  return AB_OK;
}

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Of one leaf; elements count on from here. */
static uint64_t leaf_word(uint64_t seed, int layer, const char *name) {
  uint64_t word = mix(seed + UINT64_C(0x9e3779b97f4a7c15));
  for (; *name; name++) word = mix(word ^ (unsigned char)*name);
  return mix(word + (uint64_t)(layer + 2));
}

static uint64_t element_word(uint64_t leaf, size_t i) { return mix(leaf + (i + 1) * UINT64_C(0x9e3779b97f4a7c15)); }

uint64_t ab_shake_word(uint64_t seed, int layer, const char *name, size_t i) {
  return element_word(leaf_word(seed, layer, name), i);
}

double ab_shake_sign(uint64_t seed, int layer, const char *name, size_t i) {
  return ab_shake_word(seed, layer, name, i) >> 63 ? -1.0 : 1.0;
}

void ab_shake_ulp(float *values, size_t count, uint64_t seed, int layer, const char *name) {
  uint64_t leaf = leaf_word(seed, layer, name);
  for (size_t i = 0; i < count; i++) {
    uint64_t way = element_word(leaf, i) % 3;
    if (way == 2 || values[i] == 0 || !isfinite(values[i])) continue;
    values[i] = nextafterf(values[i], way ? INFINITY : -INFINITY);
  }
}

void ab_shake_order(int *place, int count, uint64_t seed) {
  for (int i = 0; i < count; i++) place[i] = i;
  for (int i = count - 1; i > 0; i--) {
    int other = (int)(ab_shake_word(seed, -1, "order", (size_t)i) % (uint64_t)(i + 1)), kept = place[i];
    place[i] = place[other];
    place[other] = kept;
  }
}

/* d scaled, in doubles: only the float64 table is moved along it. */
static void add_direction(double *values, double *d, const struct ab_leaf *leaf, const struct ab_shake *shake,
                          double length, const struct ab_kernels *kernels) {
  uint64_t word = leaf_word(shake->seed, leaf->layer, leaf->param->name);
  for (size_t i = 0; i < leaf->count; i++) d[i] = (element_word(word, i) >> 63 ? -1.0 : 1.0) * shake->slope / length;
  kernels->add(values, values, d, leaf->count);
}

static ab_status move_leaves(struct ab_leaf_table *table, const struct ab_shake *shake, const struct ab_side *side,
                             const struct ab_kernels *kernels, bool along, void *scratch, double *d) {
  size_t parameters = 0;
  AB_TRY(ab_leaf_table_fill(table, side, AB_PARAMS));
  for (size_t i = 0; i < table->leaves; i++) parameters += table->leaf[i].count;
  for (size_t i = 0; i < table->leaves; i++) {
    const struct ab_leaf *leaf = &table->leaf[i];
    void *values = ab_leaf_pack(leaf, scratch, kernels);
    if (along) add_direction(values, d, leaf, shake, sqrt((double)parameters), kernels);
    else ab_shake_ulp(values, leaf->count, shake->seed, leaf->layer, leaf->param->name);
    ab_leaf_unpack(leaf, values, kernels);
  }
  return AB_OK;
}

ab_status ab_shake_params(const struct ab_shake *shake, const struct ab_side *side, const struct ab_config *config,
                          const struct ab_kernels *kernels, int step) {
  bool along = shake->slope != 0;
  struct ab_leaf_table table;
  double *scratch = NULL, *d = NULL;
  if (along ? step != shake->at : !shake->ulp) return AB_OK;
  if (kernels->dtype != (along ? AB_F64 : AB_F32))
    return AB_FAIL(AB_ECONFIG, "parameters of table %s cannot be moved", kernels->name);
  AB_TRY(ab_leaf_table_new(&table, config, kernels, side->model_ops == NULL));
  ab_status status = ab_mem_new(&scratch, table.largest, sizeof *scratch);
  if (status == AB_OK) status = ab_mem_new(&d, table.largest, sizeof *d);
  if (status == AB_OK) status = move_leaves(&table, shake, side, kernels, along, scratch, d);
  ab_mem_free(scratch);
  ab_mem_free(d);
  ab_leaf_table_free(&table);
  return status;
}

ab_status ab_shake_batch(int32_t **storage, struct ab_batch *batch, const struct ab_shake *shake,
                         const struct ab_config *config) {
  int parts = config->pipelined ? (int)config->num_pipeline_microbatches : 1;
  const int32_t **array[] = {&batch->inputs,  &batch->inputs_position,  &batch->inputs_segmentation,
                             &batch->targets, &batch->targets_position, &batch->targets_segmentation};
  size_t cells = (size_t)(batch->rows * batch->length), part = cells / (size_t)parts;
  int *place = NULL;
  if (!shake->order || parts < 2) return AB_OK;
  if (!*storage) AB_TRY(ab_mem_new(storage, 6 * cells, sizeof **storage));
  AB_TRY(ab_mem_new(&place, (size_t)parts, sizeof *place));
  ab_shake_order(place, parts, shake->seed);
  for (size_t a = 0; a < 6; a++) {
    for (int m = 0; m < parts; m++)
      memcpy(*storage + a * cells + (size_t)place[m] * part, *array[a] + (size_t)m * part, part * sizeof **storage);
    *array[a] = *storage + a * cells;
  }
  ab_mem_free(place);
  return AB_OK;
}
