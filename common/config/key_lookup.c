#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "text.h"

static const char *const why_texts[] = {
    [AB_WHY_MERGE] = "decides which files and values are merged",
    [AB_WHY_MODEL] = "shapes the model",
    [AB_WHY_BATCH] = "shapes the batch",
    [AB_WHY_PIPELINE] = "shapes the pipeline",
    [AB_WHY_MESH] = "a factor of the device count; placement itself changes no number",
    [AB_WHY_ROUTE] = "selects the engine",
    [AB_WHY_TRAINING] = "read by the train step",
    [AB_WHY_DERIVED] = "computed from other keys; may be given only with the value it gets",
    [AB_WHY_QUANTIZATION] = "quantization and sparsity are not built",
    [AB_WHY_ARCHITECTURE] = "this variant of the decoder is not built",
    [AB_WHY_MODALITY] = "text models only",
    [AB_WHY_BATCHES] = "the batch has one size and is new in every step",
    [AB_WHY_OBJECTIVE] = "pre-training with next-token cross-entropy only",
    [AB_WHY_OPTIMIZER] = "every parameter is trained, in every step, by one rule",
    [AB_WHY_DILOCO] = "one synchronous optimizer only",
    [AB_WHY_WEIGHTS] = "weights come from init_weights_seed or a bundle",
    [AB_WHY_DEFECT] = "decides which defects of upstream are reproduced",
    [AB_WHY_NAME] = "a name of the run or of a place",
    [AB_WHY_PRECISION] = "all arithmetic is float32 or wider",
    [AB_WHY_QUANT] = "read only with quantization or sparsity",
    [AB_WHY_CHECKPOINT] = "no checkpoint is read or written",
    [AB_WHY_EMBEDDING] = "read only with logits_via_embedding or vocabulary tiling",
    [AB_WHY_LOGGING] = "logging and monitoring",
    [AB_WHY_PROFILING] = "profiling",
    [AB_WHY_COMPILER] = "set-up of JAX, XLA and the hardware",
    [AB_WHY_PLACEMENT] = "placement on devices changes no number here",
    [AB_WHY_REMAT] = "read only with remat_policy custom",
    [AB_WHY_UNREAD] = "not read by MaxText either",
    [AB_WHY_KERNEL] = "choice and tile sizes of fused attention kernels",
    [AB_WHY_ATTENTION] = "read only with another attention_type or attention variant",
    [AB_WHY_MLA] = "read only with attention_type mla",
    [AB_WHY_MOE] = "read only with num_experts > 1",
    [AB_WHY_MTP] = "read only with mtp_num_layers > 0",
    [AB_WHY_BLOCKS] = "read only by other decoder blocks",
    [AB_WHY_ROPE] = "read only with another rope_type",
    [AB_WHY_ADAPTIVE] = "read only with another opt_type or skip_step_on_spikes",
    [AB_WHY_DILOCO_OFF] = "read only with enable_diloco",
    [AB_WHY_INPUT] = "batches are synthetic or come from a bundle",
    [AB_WHY_RAMPUP] = "read only with enable_rampup_batch_size",
    [AB_WHY_EVALUATION] = "no evaluation steps are run",
    [AB_WHY_OBJECTIVE_OFF] = "read only by other training objectives",
    [AB_WHY_SERVING] = "decoding and serving",
    [AB_WHY_MULTIMODAL] = "read only by multimodal models",
};

static int by_name(const void *name, const void *key) { return strcmp(name, ((const struct ab_key *)key)->name); }

size_t ab_key_find(const char *name) {
  const struct ab_key *key = bsearch(name, ab_keys, ab_key_count, sizeof *ab_keys, by_name);
  return key ? (size_t)(key - ab_keys) : ab_key_count;
}

const char *ab_key_nearest(const char *name) {
  struct ab_nearest nearest;
  ab_nearest_start(&nearest, name);
  for (size_t i = 0; i < ab_key_count; i++) ab_nearest_offer(&nearest, ab_keys[i].name);
  return nearest.name;
}

const char *ab_key_why_text(enum ab_key_why why) { return why_texts[why]; }

int ab_key_is_numeric(const struct ab_key *key) {
  return key->class != AB_KEY_NO_EFFECT && key->why != AB_WHY_MERGE && key->why != AB_WHY_ROUTE &&
         key->why != AB_WHY_REMAT;
}
