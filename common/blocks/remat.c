#include <string.h>

#include "layer.h"

/* layers/nnx_decoders.py: get_remat_policy. Names that a block does not have keep nothing; a policy whose names are
 * offloaded to the host keeps them here. */
struct policy {
  const char *name;
  const char *kept; /* checkpoint names, each between blanks */
};

#define QKV " query_proj key_proj value_proj kv_proj qkv_proj "
#define MINIMAL QKV "out_proj mlpwi mlpwi_0 mlpwi_1 mlpwo "

static const struct policy policies[] = {
    {"none", " "},
    {"full", " "},
    {"minimal", MINIMAL},
    {"minimal_offloaded", MINIMAL},
    {"minimal_with_context", MINIMAL "context "},
    {"minimal_flash", MINIMAL "context "},
    {"minimal_with_quantization", MINIMAL "quantization "},
    {"minimal_with_context_and_quantization", MINIMAL "context quantization "},
    {"save_dot_with_context_except_mlp", QKV "context out_proj "},
    {"save_dot_except_mlpwi", QKV "out_proj mlpwo "},
    {"save_dot_except_mlp", QKV "out_proj "},
    {"save_qkv_proj", QKV},
    {"qkv_proj_offloaded", QKV},
    {"save_out_proj", " out_proj "},
};

static bool lists(const char *kept, const char *name) {
  size_t length = strlen(name);
  for (const char *at = strstr(kept, name); at; at = strstr(at + 1, name))
    if (at[-1] == ' ' && at[length] == ' ') return true;
  return false;
}

static ab_keep keep_of(const struct policy *policy, const struct ab_block *block) {
  ab_keep keep = AB_KEEP_NONE;
  for (int i = 0; i < block->slot_count; i++)
    if (block->slot[i].checkpoint && lists(policy->kept, block->slot[i].name)) keep |= (ab_keep)1 << i;
  return keep;
}

ab_status ab_remat_keep(ab_keep *out, const struct ab_block *block, const char *remat_policy, bool iteration_remat) {
  for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
    if (strcmp(policies[i].name, remat_policy) != 0) continue;
    *out = iteration_remat ? keep_of(&policies[i], block) : AB_KEEP_ALL;
    return AB_OK;
  }
  return AB_FAIL(AB_ECONFIG, "key 'remat_policy': '%s' is not a policy with a fixed set of names (expected %s)",
                 remat_policy, "none, full, minimal, save_qkv_proj, ...");
}

ab_status ab_remat_keep_outside(ab_keep *out, const struct ab_block *block, const struct ab_config *config) {
  bool checkpointed = config->scan_layers || strcmp(config->remat_policy, "none") != 0;
  AB_TRY(ab_remat_keep(out, block, config->remat_policy, checkpointed));
  return AB_OK;
}

ab_status ab_remat_keep_pipeline(ab_keep *out, const struct ab_block *block, const struct ab_config *config) {
  bool checkpointed = config->set_remat_policy_on_pipeline_iterations || config->pipeline_fsdp_ag_per_repeat;
  AB_TRY(ab_remat_keep(out, block, config->remat_policy, checkpointed));
  return AB_OK;
}
