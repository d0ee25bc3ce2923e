#include "remat.h"

#include <string.h>

#include "upstream.h"

/* layers/nnx_decoders.py: get_remat_policy. Names that a block does not have keep nothing. */
struct policy {
  const char *name;
  const char *kept; /* checkpoint names, each between blanks */
  bool offloaded;   /* to the host */
};

#define QKV " query_proj key_proj value_proj kv_proj qkv_proj "
#define MINIMAL QKV "out_proj mlpwi mlpwi_0 mlpwi_1 mlpwo "

static const struct policy policies[] = {
    {.name = "none", .kept = " "},
    {.name = "full", .kept = " "},
    {.name = "minimal", .kept = MINIMAL},
    {.name = "minimal_offloaded", .kept = MINIMAL, .offloaded = true},
    {.name = "minimal_with_context", .kept = MINIMAL "context "},
    {.name = "minimal_flash", .kept = MINIMAL "context "},
    {.name = "minimal_with_quantization", .kept = MINIMAL "quantization "},
    {.name = "minimal_with_context_and_quantization", .kept = MINIMAL "context quantization "},
    {.name = "save_dot_with_context_except_mlp", .kept = QKV "context out_proj "},
    {.name = "save_dot_except_mlpwi", .kept = QKV "out_proj mlpwo "},
    {.name = "save_dot_except_mlp", .kept = QKV "out_proj "},
    {.name = "save_qkv_proj", .kept = QKV},
    {.name = "qkv_proj_offloaded", .kept = " query_proj key_proj value_proj kv_proj ", .offloaded = true},
    {.name = "save_out_proj", .kept = " out_proj "},
};

static bool lists(const char *kept, const char *name) {
  size_t length = strlen(name);
  for (const char *at = strstr(kept, name); at; at = strstr(at + 1, name))
    if (at[-1] == ' ' && at[length] == ' ') return true;
  return false;
}

/* Slots that carry a checkpoint name; the layer's input is no part of a set. */
static ab_keep keep_of(const struct policy *policy, const struct ab_block *block) {
  ab_keep keep = AB_KEEP_NONE;
  for (int i = 1; i < block->slot_count; i++)
    if (block->slot[i].checkpoint && lists(policy->kept, block->slot[i].name)) keep |= (ab_keep)1 << i;
  return keep;
}

ab_status ab_remat_fixed(struct ab_remat *out, const struct ab_block *block, const char *remat_policy,
                         bool checkpointed) {
  for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
    if (strcmp(policies[i].name, remat_policy) != 0) continue;
    *out = (struct ab_remat){.keep = AB_KEEP_ALL};
    if (!checkpointed) return AB_OK;
    out->keep = keep_of(&policies[i], block);
    if (policies[i].offloaded) out->offload = out->keep;
    return AB_OK;
  }
  return AB_FAIL(AB_ECONFIG, "key 'remat_policy' is '%s', expected a policy with a fixed set of names, such as full or "
                 "minimal", remat_policy);
}

/* get_remat_policy, branch custom. */
static struct ab_remat custom(const struct ab_block *block, const struct ab_config *config) {
  static const enum ab_inputs inputs[] = {[AB_TENSOR_REMAT] = AB_INPUTS_RECOMPUTED,
                                          [AB_TENSOR_DEVICE] = AB_INPUTS_BY_NAME,
                                          [AB_TENSOR_OFFLOAD] = AB_INPUTS_OFFLOADED};
  struct ab_remat remat = {.keep = AB_KEEP_NONE};
  for (int i = 1; i < block->slot_count; i++) {
    if (!block->slot[i].checkpoint) continue;
    enum ab_tensor_remat place = ab_config_tensor_remat(config, block->slot[i].name);
    if (place != AB_TENSOR_REMAT) remat.keep |= (ab_keep)1 << i;
    if (place == AB_TENSOR_OFFLOAD) remat.offload |= (ab_keep)1 << i;
  }
  if (block->slot[0].checkpoint) remat.inputs = inputs[ab_config_tensor_remat(config, block->slot[0].name)];
  return remat;
}

static ab_status sets_of(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config,
                         bool checkpointed) {
  bool by_key = strcmp(config->remat_policy, "custom") == 0;
  if (by_key && checkpointed)
    *out = custom(block, config);
  else
    AB_TRY(ab_remat_fixed(out, block, by_key ? "full" : config->remat_policy, checkpointed));
  return AB_OK;
}

ab_status ab_remat_outside(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config) {
  AB_TRY(sets_of(out, block, config, config->scan_layers || strcmp(config->remat_policy, "none") != 0));
  out->inputs = AB_INPUTS_ONCE;
  return AB_OK;
}

ab_status ab_remat_pipeline(struct ab_remat *out, const struct ab_block *block, const struct ab_config *config) {
  bool iterations = config->set_remat_policy_on_pipeline_iterations || config->pipeline_fsdp_ag_per_repeat;
  bool named = strcmp(config->remat_policy, "custom") != 0 && block->slot[0].checkpoint;
  AB_TRY(sets_of(out, block, config, iterations || config->set_remat_policy_on_layers_per_stage));
  if (iterations && named && ab_faithful(config, AB_DEFECT_B29)) out->inputs = AB_INPUTS_TWICE;
  if (!iterations && out->inputs == AB_INPUTS_RECOMPUTED) out->inputs = AB_INPUTS_ONCE;
  return AB_OK;
}
