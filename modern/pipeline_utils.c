#include "pipeline_utils.h"

#include <string.h>

#include "threefry.h"
#include "upstream.h"

struct nnx_schedule nnx_schedule_of(const struct ab_config *config) {
  return (struct nnx_schedule){
      .num_stages = (int)config->num_stages,
      .num_microbatches = (int)config->num_pipeline_microbatches,
      .num_repeats = (int)config->num_pipeline_repeats,
      .forwarding_delay = (int)ab_forwarding_delay(config),
      .microbatches_per_stage = (int)(config->num_pipeline_microbatches / config->num_stages),
      .iterations = (int)ab_total_iterations(config),
      .depth = (int)ab_pipeline_depth(config),
      .use_circ_storage = ab_use_circ_storage(config),
  };
}

struct nnx_cell_ids nnx_get_microbatch_and_repeat_ids(const struct nnx_schedule *schedule, int t, int s) {
  int visits = t - schedule->forwarding_delay * s;
  int done = visits > 0 ? visits : 0;
  bool real = visits >= 0 && visits < schedule->num_microbatches * schedule->num_repeats;
  return (struct nnx_cell_ids){.microbatch = done % schedule->num_microbatches,
                               .repeat = done / schedule->num_microbatches,
                               .bubble = !real};
}

int nnx_clamp_repeat(const struct nnx_schedule *schedule, int repeat) {
  return repeat < schedule->num_repeats ? repeat : schedule->num_repeats - 1;
}

int nnx_circ_write_index(const struct nnx_schedule *schedule, int t) {
  int index = (t - schedule->depth - 1) % schedule->num_microbatches;
  return index < 0 ? index + schedule->num_microbatches : index;
}

ab_status nnx_get_pipeline_remat_policy(struct nnx_remat_policy *out, const struct ab_block *block,
                                        const struct ab_config *config) {
  out->remat_iterations = config->set_remat_policy_on_pipeline_iterations;
  out->remat_windows = out->remat_iterations || !ab_faithful(config, AB_DEFECT_B13);
  struct ab_config seen = *config;
  if (ab_faithful(config, AB_DEFECT_B15)) seen.set_remat_policy_on_layers_per_stage = false;
  return ab_remat_pipeline(&out->layer, block, &seen);
}

enum { KEY_WORDS = 2, DROPOUT_STREAM = 1 }; /* streams params, dropout, aqt: fold_in(base, 0 / 1 / 2) */

ab_status nnx_set_rng_stream(struct nnx_node *stage, struct ab_arena *book) {
  struct nnx_variable key = {.type = NNX_RNG_KEY, .value = {.dtype = AB_I32, .shape = {1, {KEY_WORDS}}}};
  struct nnx_variable count = {.type = NNX_RNG_COUNT, .value = {.dtype = AB_I32, .shape = {0, {0}}}};
  ab_view_contiguous(&key.value);
  AB_TRY(nnx_set_variable(book, stage, "rngs/dropout/key", &key));
  return nnx_set_variable(book, stage, "rngs/dropout/count", &count);
}

static ab_status init_keys(const struct ab_view *value, struct ab_arena *book, int64_t seed) {
  size_t slots = ab_view_count(value) / KEY_WORDS, mark = ab_arena_mark(book);
  uint32_t *words = value->data;
  struct ab_key *keys;
  AB_TRY(ab_arena_take(book, &keys, slots, sizeof *keys));
  ab_key_split(keys, ab_key_fold_in(ab_key(seed), DROPOUT_STREAM), slots);
  for (size_t i = 0; i < slots; i++) memcpy(words + KEY_WORDS * i, keys[i].word, sizeof keys[i].word);
  ab_arena_release(book, mark);
  return AB_OK;
}

ab_status nnx_init_rng_state(const struct nnx_state *rng, struct ab_arena *book, int64_t seed) {
  for (size_t i = 0; i < rng->count; i++) {
    const struct nnx_variable *variable = &rng->leaf[i].variable;
    if (variable->type == NNX_RNG_KEY) AB_TRY(init_keys(&variable->value, book, seed));
    else memset(variable->value.data, 0, ab_view_count(&variable->value) * ab_dtype_size(variable->value.dtype));
  }
  return AB_OK;
}

static void fold_keys(uint32_t *words, size_t count, uint32_t data) {
  for (size_t i = 0; i + KEY_WORDS <= count; i += KEY_WORDS) {
    struct ab_key key = {.word = {words[i], words[i + 1]}};
    key = ab_key_fold_in(key, data);
    memcpy(words + i, key.word, sizeof key.word);
  }
}

void nnx_advance_rng_state(const struct nnx_state *rng, int t) {
  for (size_t i = 0; i < rng->count; i++) {
    const struct nnx_variable *variable = &rng->leaf[i].variable;
    if (variable->type == NNX_RNG_KEY)
      fold_keys(variable->value.data, ab_view_count(&variable->value), (uint32_t)t);
  }
}

ab_status nnx_state_detach(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state) {
  AB_TRY(nnx_state_copy(out, book, state));
  for (size_t i = 0; i < out->count; i++) {
    struct ab_view *value = &out->leaf[i].variable.value;
    void *own;
    AB_TRY(ab_arena_take(book, &own, ab_view_count(value), ab_dtype_size(value->dtype)));
    ab_view_pack(own, value);
    value->data = own;
    ab_view_contiguous(value);
  }
  return AB_OK;
}

void nnx_state_store(const struct nnx_state *to, const struct nnx_state *from) {
  for (size_t i = 0; i < to->count; i++) ab_view_unpack(&to->leaf[i].variable.value, from->leaf[i].variable.value.data);
}
