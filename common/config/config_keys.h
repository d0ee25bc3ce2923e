/* Every key that MaxText knows, and ours: default, kind of value, what this build makes of it and why. */
#pragma once

#include <stddef.h>

enum ab_key_class {
  AB_KEY_IMPLEMENTED, /* read; a row of `supported` in support.c may narrow its values */
  AB_KEY_NO_EFFECT,   /* accepted with any value: no number depends on it here */
  AB_KEY_UNSUPPORTED  /* accepted with its default only */
};

enum ab_key_kind {
  AB_KIND_BOOL,
  AB_KIND_INT,
  AB_KIND_FLOAT, /* an integer will do */
  AB_KIND_STRING,
  AB_KIND_LIST,
  AB_KIND_MAP,
  AB_KIND_MAYBE_INT, /* or null */
  AB_KIND_MAYBE_FLOAT,
  AB_KIND_ANY
};

enum ab_key_why {
  AB_WHY_MERGE,
  AB_WHY_MODEL,
  AB_WHY_BATCH,
  AB_WHY_PIPELINE,
  AB_WHY_MESH,
  AB_WHY_ROUTE,
  AB_WHY_TRAINING,
  AB_WHY_DERIVED,
  AB_WHY_QUANTIZATION,
  AB_WHY_ARCHITECTURE,
  AB_WHY_MODALITY,
  AB_WHY_BATCHES,
  AB_WHY_OBJECTIVE,
  AB_WHY_OPTIMIZER,
  AB_WHY_DILOCO,
  AB_WHY_WEIGHTS,
  AB_WHY_DEFECT,
  AB_WHY_NAME,
  AB_WHY_PRECISION,
  AB_WHY_QUANT,
  AB_WHY_CHECKPOINT,
  AB_WHY_EMBEDDING,
  AB_WHY_LOGGING,
  AB_WHY_PROFILING,
  AB_WHY_COMPILER,
  AB_WHY_PLACEMENT,
  AB_WHY_REMAT,
  AB_WHY_UNREAD,
  AB_WHY_KERNEL,
  AB_WHY_ATTENTION,
  AB_WHY_MLA,
  AB_WHY_MOE,
  AB_WHY_MTP,
  AB_WHY_BLOCKS,
  AB_WHY_ROPE,
  AB_WHY_ADAPTIVE,
  AB_WHY_DILOCO_OFF,
  AB_WHY_INPUT,
  AB_WHY_RAMPUP,
  AB_WHY_EVALUATION,
  AB_WHY_OBJECTIVE_OFF,
  AB_WHY_SERVING,
  AB_WHY_MULTIMODAL
};

struct ab_key {
  const char *name, *initial; /* initial: the default as canonical YAML */
  enum ab_key_kind kind;
  enum ab_key_class class;
  enum ab_key_why why;
};

extern const struct ab_key ab_keys[]; /* sorted by name */
extern const size_t ab_key_count;

/* Index into ab_keys; ab_key_count for an unknown name. */
size_t ab_key_find(const char *name);
/* The known key at the smallest edit distance. */
const char *ab_key_nearest(const char *name);
/* The reason as half a sentence, e.g. "read only with num_experts > 1". */
const char *ab_key_why_text(enum ab_key_why why);
/* True when results may depend on the key: it belongs to the digest. What is kept and what is computed again changes
 * no bit, so the tensors' remat keys do not. */
int ab_key_is_numeric(const struct ab_key *key);
