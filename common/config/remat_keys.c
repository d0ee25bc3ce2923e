#include <string.h>

#include "config_values.h"

/* The tensors that MaxText's configuration collects for remat_policy custom. `engram` has a key, but is not
 * collected. */
static const char *const tensors[] = {
    "decoder_layer_input", "indexer_cutoff_threshold", "context", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo",
    "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo", "query_proj", "key_proj", "value_proj", "kv_proj", "qkv_proj",
    "out_proj", "query_wa_proj", "kv_wa_proj", "mla_q", "mla_kv", "attention_out",
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

static ab_status check_place(const struct ab_config *config, const char *key) {
  const char *text = ab_values_string(config->values, key);
  if (!strcmp(text, "device") || !strcmp(text, "offload") || !strcmp(text, "remat")) return AB_OK;
  return ab_value_refuse(config->values, ab_key_find(key), "device, offload or remat");
}

ab_status ab_config_fill_remat(struct ab_config *config) {
  AB_TRY(check_place(config, "engram"));
  for (int i = 0; i < TENSORS; i++) {
    const char *text = ab_values_string(config->values, tensors[i]);
    AB_TRY(check_place(config, tensors[i]));
    if (!strcmp(text, "device")) config->remat_device |= UINT32_C(1) << i;
    if (!strcmp(text, "offload")) config->remat_offload |= UINT32_C(1) << i;
  }
  return AB_OK;
}

enum ab_tensor_remat ab_config_tensor_remat(const struct ab_config *config, const char *name) {
  for (int i = 0; i < TENSORS; i++) {
    if (strcmp(tensors[i], name) != 0) continue;
    if (config->remat_device >> i & 1) return AB_TENSOR_DEVICE;
    return config->remat_offload >> i & 1 ? AB_TENSOR_OFFLOAD : AB_TENSOR_REMAT;
  }
  return AB_TENSOR_REMAT;
}
