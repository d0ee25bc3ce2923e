/* One layer call with guarded memory: values from a counter, saved and work filled with NaN, guards around every
 * output. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layer.h"
#include "mem.h"
#include "tap.h"

enum { RIG_GUARD = 64, RIG_GUARD_BYTE = 0xA5 };

struct rig {
  struct ab_layer layer;
  struct ab_layer_call call;
  size_t param_count[AB_MAX_PARAMS];
  void *param[AB_MAX_PARAMS], *dparam[AB_MAX_PARAMS];
  void *x, *y, *dy, *dx;
  int32_t *positions, *segment_ids;
};

static inline double rig_uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0 - 0.5;
}

static inline void rig_set(const struct ab_kernels *k, void *array, size_t i, double value) {
  if (k->dtype == AB_F64)
    ((double *)array)[i] = value;
  else
    ((float *)array)[i] = (float)value;
}

static inline double rig_get(const struct ab_kernels *k, const void *array, size_t i) {
  return k->dtype == AB_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

/* count elements between two guards. */
static inline void *rig_guarded(const struct ab_kernels *k, size_t count) {
  unsigned char *block;
  size_t bytes = count * k->element;
  ck_ok(ab_mem_new(&block, bytes + 2 * RIG_GUARD, 1));
  memset(block, RIG_GUARD_BYTE, bytes + 2 * RIG_GUARD);
  for (size_t i = 0; i < count; i++) rig_set(k, block + RIG_GUARD, i, (double)NAN);
  return block + RIG_GUARD;
}

static inline void rig_check_guard(const struct ab_kernels *k, const void *array, size_t count, const char *what) {
  const unsigned char *at = array;
  for (int i = 0; i < RIG_GUARD; i++) {
    ck_assert_msg(at[-1 - i] == RIG_GUARD_BYTE, "%s: written %d bytes before its start", what, i + 1);
    ck_assert_msg(at[count * k->element + (size_t)i] == RIG_GUARD_BYTE, "%s: written past its end", what);
  }
}

static inline void rig_release(void *array) {
  if (array) ab_mem_free((unsigned char *)array - RIG_GUARD);
}

static inline void rig_random(const struct ab_kernels *k, void *array, size_t count, double scale, uint64_t seed) {
  for (size_t i = 0; i < count; i++) rig_set(k, array, i, 2 * scale * rig_uniform(&seed));
}

/* Packed segments with padding at the end of odd rows; positions that differ per row. */
static inline void rig_tokens(struct rig *rig, const struct ab_layer_dims *d) {
  ck_ok(ab_mem_new(&rig->positions, (size_t)(d->rows * d->length), sizeof(int32_t)));
  ck_ok(ab_mem_new(&rig->segment_ids, (size_t)(d->rows * d->length), sizeof(int32_t)));
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t t = 0; t < d->length; t++) {
      rig->positions[r * d->length + t] = (int32_t)(t * (r + 1) + 3 * r);
      rig->segment_ids[r * d->length + t] = t * 2 < d->length + r ? 1 : r % 2 == 1 && t + 2 > d->length ? 0 : 2;
    }
}

static inline struct rig rig_of(const struct ab_block *block, const struct ab_kernels *k,
                                const struct ab_layer_dims *dims, const struct ab_remat *remat) {
  struct rig rig = {0};
  ck_ok(ab_layer_plan(&rig.layer, block, k, dims, remat));
  for (int i = 0; i < block->param_count; i++) {
    rig.param_count[i] = ab_param_count(&block->param[i], dims);
    rig.param[i] = rig_guarded(k, rig.param_count[i]);
    rig.dparam[i] = rig_guarded(k, rig.param_count[i]);
    rig_random(k, rig.param[i], rig.param_count[i], 0.5, 17 + (uint64_t)i);
    k->zero(rig.dparam[i], rig.param_count[i]);
  }
  size_t n = rig.layer.tokens_count;
  rig.x = rig_guarded(k, n);
  rig.y = rig_guarded(k, n);
  rig.dy = rig_guarded(k, n);
  rig.dx = rig_guarded(k, n);
  rig_random(k, rig.x, n, 1.0, 5);
  rig_random(k, rig.dy, n, 1.0, 6);
  rig_tokens(&rig, dims);
  rig.call = (struct ab_layer_call){.x = rig.x, .y = rig.y, .dy = rig.dy, .dx = rig.dx, .positions = rig.positions,
                                    .segment_ids = rig.segment_ids, .at = {-1, -1, -1, false}};
  rig.call.saved = rig_guarded(k, rig.layer.saved_count);
  rig.call.offloaded = rig_guarded(k, rig.layer.offloaded_count);
  rig.call.work = rig_guarded(k, rig.layer.work_count);
  return rig;
}

static inline struct rig rig_new(const struct ab_block *block, const struct ab_kernels *k,
                                 const struct ab_layer_dims *dims, ab_keep keep) {
  struct ab_remat remat = {.keep = keep};
  return rig_of(block, k, dims, &remat);
}

/* The parameter tables of the call; after the rig has its final address. */
static inline void rig_bind(struct rig *rig) {
  rig->call.param = (const void *const *)rig->param;
  rig->call.dparam = rig->dparam;
}

static inline void rig_check_guards(const struct rig *rig) {
  const struct ab_kernels *k = rig->layer.kernels;
  rig_check_guard(k, rig->call.saved, rig->layer.saved_count, "saved");
  rig_check_guard(k, rig->call.offloaded, rig->layer.offloaded_count, "offloaded");
  rig_check_guard(k, rig->call.work, rig->layer.work_count, "work");
  rig_check_guard(k, rig->y, rig->layer.tokens_count, "y");
  rig_check_guard(k, rig->dx, rig->layer.tokens_count, "dx");
  for (int i = 0; i < rig->layer.block->param_count; i++)
    rig_check_guard(k, rig->dparam[i], rig->param_count[i], rig->layer.block->param[i].name);
}

static inline void rig_free(struct rig *rig) {
  for (int i = 0; i < rig->layer.block->param_count; i++) {
    rig_release(rig->param[i]);
    rig_release(rig->dparam[i]);
  }
  void *arrays[] = {rig->x, rig->y, rig->dy, rig->dx, rig->call.saved, rig->call.offloaded, rig->call.work};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) rig_release(arrays[i]);
  ab_mem_free(rig->positions);
  ab_mem_free(rig->segment_ids);
}

/* Odd sizes; query heads in groups where heads != kv_heads. */
static const struct ab_layer_dims rig_dims[] = {
    {.rows = 3, .length = 7, .emb = 9, .heads = 4, .kv_heads = 2, .head_dim = 6, .mlp = 11, .vocab = 13,
     .epsilon = 1e-5, .rope_min = 1, .rope_max = 10000, .rope_linear = 1},
    {.rows = 1, .length = 1, .emb = 5, .heads = 1, .kv_heads = 1, .head_dim = 2, .mlp = 3, .vocab = 13,
     .epsilon = 1e-5, .rope_min = 1, .rope_max = 10000, .rope_linear = 1},
    {.rows = 2, .length = 5, .emb = 7, .heads = 3, .kv_heads = 1, .head_dim = 4, .mlp = 6, .vocab = 13,
     .epsilon = 1e-6, .rope_min = 1, .rope_max = 500, .rope_linear = 2},
};
enum { RIG_DIMS = sizeof rig_dims / sizeof rig_dims[0], RIG_BLOCKS = 3 };
