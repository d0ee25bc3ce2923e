/* Random pipelines in floating point: both engines bit for bit, the oracle bit for bit in float32 and within 1e-13 in
 * float64. All blocks, grouped query heads, several packed segments per row, layers outside the pipeline, every remat
 * policy.
 */
#include "frame.h"

#include <string.h>

enum { S_MOST = 5, M_MOST = 12, R_MOST = 4, K_MOST = 3, CASES = 2000, SAMPLE = 60 };

static bool per_repeat_is_there;

static const char *const blocks[] = {"llama2", "simple", "simple_mlp"};

static const char *const policies[] = {
    "none", "full", "minimal", "minimal_offloaded", "minimal_with_context", "minimal_flash",
    "minimal_with_quantization", "minimal_with_context_and_quantization", "save_dot_with_context_except_mlp",
    "save_dot_except_mlpwi", "save_dot_except_mlp", "save_qkv_proj", "qkv_proj_offloaded", "save_out_proj", "custom",
    "custom"};
enum { POLICIES = sizeof policies / sizeof *policies };

static const char *coin(uint64_t *state, int64_t sides) { return sweep_below(state, sides) ? "true" : "false"; }

static void choose_sizes(struct sweep_case *c, uint64_t *state) {
  int64_t kv_heads = 1 + sweep_below(state, 2);
  sweep_key(c, "decoder_block=%s", blocks[c->seed % 3]);
  sweep_key(c, "base_emb_dim=%d", 4 * (2 + (int)sweep_below(state, 3)));
  sweep_key(c, "base_mlp_dim=%d", 16 + (int)sweep_below(state, 12));
  sweep_key(c, "base_num_kv_heads=%d", (int)kv_heads);
  sweep_key(c, "base_num_query_heads=%d", (int)(kv_heads * (1 + sweep_below(state, 3))));
  sweep_key(c, "head_dim=%d", 2 * (1 + (int)sweep_below(state, 3)));
  sweep_key(c, "vocab_size=%d", 7 + (int)sweep_below(state, 40));
}

/* A place for each tensor that the blocks have. */
static void choose_places(struct sweep_case *c, uint64_t *state) {
  static const char *const tensors[] = {"decoder_layer_input", "query_proj", "key_proj", "value_proj", "out_proj",
                                        "mlpwi_0", "mlpwi_1", "mlpwo"};
  static const char *const places[] = {"device", "offload", "remat"};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
    sweep_key(c, "%s=%s", tensors[i], places[sweep_below(state, 3)]);
}

static void choose_policy(struct sweep_case *c, uint64_t *state) {
  const char *policy = policies[sweep_below(state, POLICIES)];
  sweep_key(c, "remat_policy=%s", policy);
  if (strcmp(policy, "custom") == 0) choose_places(c, state);
  sweep_key(c, "set_remat_policy_on_pipeline_iterations=%s", coin(state, 4));
  sweep_key(c, "set_remat_policy_on_layers_per_stage=%s", coin(state, 2));
  sweep_key(c, "scan_pipeline_iterations=%s", coin(state, 4));
  sweep_key(c, "ab_compute_bubbles=%s", coin(state, 2));
  sweep_key(c, "record_internal_nn_metrics=%d", (int)sweep_below(state, 2));
}

static void choose(struct sweep_case *c, int index) {
  *c = (struct sweep_case){.seed = UINT64_C(0x5eed0000) + (uint64_t)index};
  uint64_t state = c->seed;
  int64_t S = 2 + sweep_below(&state, S_MOST - 1), M = S * (1 + sweep_below(&state, M_MOST / S)),
          R = 1 + sweep_below(&state, R_MOST), K = 1 + sweep_below(&state, K_MOST);
  bool delay = M >= 2 * S && sweep_below(&state, 3) == 0;
  bool per_repeat = per_repeat_is_there && sweep_below(&state, 2) && R > 1 && !delay;
  if (per_repeat) K = 1;
  choose_sizes(c, &state);
  sweep_pipeline(c, S, M, R, K, 1 + sweep_below(&state, 2), 4 + sweep_below(&state, 7));
  sweep_key(c, "base_num_decoder_layers=%d", (int)(S * R * K + sweep_below(&state, 3)));
  if (delay) sweep_key(c, "pipeline_delay_activation_forwarding=true");
  if (per_repeat) sweep_key(c, "pipeline_fsdp_ag_per_repeat=true");
  if (K > 1) sweep_key(c, "scan_layers_per_stage=%s", coin(&state, 2));
  choose_policy(c, &state);
  sweep_key(c, "dtype=float32");
  sweep_key(c, "attention=dot_product");
  sweep_key(c, "steps=1");
}

static const char *const routes32[] = {"linen", "nnx", "linen+nnx-pipeline", "sequential"};
static const char *const routes64[] = {"linen64", "nnx64", "linen+nnx-pipeline64", "sequential64"};

static ab_status check_arithmetic(char sentence[SWEEP_SENTENCE], const struct sweep_case *c,
                                  const char *const routes[SWEEP_ROUTES], enum ab_numerics numerics) {
  struct sweep_side side[SWEEP_ROUTES] = {0};
  bool wide = routes == routes64;
  ab_status status = sweep_run_all(side, c, routes, numerics, wide ? AB_LEVEL_VALUES : AB_LEVEL_DIGEST);
  if (status == AB_OK) status = sweep_compare_all(sentence, c, side, wide ? AB_PAIR_F64 : AB_PAIR_SAME);
  sweep_free_all(side);
  return status;
}

/* Whole models and pipelines alone, portable and fast kernels in turn. */
static void check(struct sweep_case *c) {
  static const enum ab_loss_kind losses[] = {AB_LOSS_TRAIN, AB_LOSS_NORM, AB_LOSS_GIVEN};
  char sentence[SWEEP_SENTENCE] = "";
  ab_status status = sweep_open(c, SWEEP_NORMAL, losses[c->seed / 3 % 3]);
  if (status == AB_OK) status = check_arithmetic(sentence, c, routes32, (enum ab_numerics)(c->seed / 9 % 2));
  if (status == AB_OK && !sentence[0]) status = check_arithmetic(sentence, c, routes64, AB_NUMERICS_FAST);
  sweep_close(c);
  sweep_expect(c, status, sentence);
}

int main(int argc, char **argv) {
  struct sweep sweep = {"numeric_sweep", CASES, SAMPLE, choose, check};
  per_repeat_is_there = sweep_supports_per_repeat();
  return sweep_main(&sweep, argc, argv);
}
