/* Identities: hashing, printing, and the quantity that an observation is. */
#pragma once

#include "probe.h"

/* What an observation or metric is, as far as tiers and expected counts are concerned. */
enum ab_quantity {
  AB_Q_METRIC,          /* metric frames: loss, z_loss, grad_norm, raw_grad_norm, lr, param_norm; and what layers sow:
                           tensors intermediates/<name> */
  AB_Q_OUTPUT,          /* phase forward, layer -1: observed.h's whole-module values */
  AB_Q_INPUT_GRADIENT,  /* phase backward, layer -1: their cotangents */
  AB_Q_WEIGHT_GRADIENT, /* phase backward, a parameter's name */
  AB_Q_PARAMETER,       /* any other phase, a parameter's name */
  AB_Q_ACTIVATION,      /* phase forward inside a layer */
  AB_Q_RECOMPUTE,       /* phase recompute */
  AB_Q_COTANGENT,       /* phase backward inside a layer */
  AB_Q_INPUT,           /* tensors input/...: initial parameters and batch */
  AB_Q_STATE,           /* tensors state/...: step and optimizer's count after an update */
  AB_QUANTITIES
};
#define AB_Q_ALL ((1u << AB_QUANTITIES) - 1u)

/* A parameter's path ends in /kernel, /scale, /embedding or /bias, or in weights, ff_1 or ff_2 (the simple blocks). */
enum ab_quantity ab_quantity_of(const struct ab_identity *id);
const char *ab_quantity_name(enum ab_quantity quantity);
/* Whether a parameter's path is that of one of the optimizer's moments: mu/... or nu/.... */
bool ab_is_moment(const char *tensor);

bool ab_identity_equal(const struct ab_identity *a, const struct ab_identity *b);
uint64_t ab_identity_hash(const struct ab_identity *id);

enum { AB_IDENTITY_TEXT = 512 }; /* bytes that hold any printed identity or pattern, terminator included */

/* "step 0 microbatch 2 layers/3/query_proj forward"; parts that are -1 are left out. Escaped as by
 * ab_text_escape. */
void ab_identity_print(char text[AB_IDENTITY_TEXT], const struct ab_identity *id);
/* The name under which findings are grouped: "layers/<asterisk>/self_attention/query/kernel backward"; step, microbatch
 * and every all-digit path component are dropped. */
void ab_identity_pattern(char text[AB_IDENTITY_TEXT], const struct ab_identity *id);
