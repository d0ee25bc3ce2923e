/* What every side implements: a whole model, or the pipeline module alone. Engines and oracle fill these tables;
 * dispatch/ lists them as routes; nothing here knows who they are.
 */
#pragma once

#include "arena.h"
#include "batch.h"
#include "block.h"
#include "mesh.h"
#include "probe.h"

/* Where and with what a side runs. In the dry run `slab` and `arena` are measuring and `kernels->dry` is set: tensor
 * memory is then touched by kernels only, never by the engine itself. Allocation during a step comes from `arena`
 * (tensors) and `book` (bookkeeping structs, real memory even in the dry run), between a mark and a release. */
struct ab_exec {
  const struct ab_kernels *kernels;
  struct ab_arena *slab;  /* long-lived tensors: parameters and gradients, contiguous */
  struct ab_arena *arena; /* tensors of one step */
  struct ab_arena *book;  /* bookkeeping: create-time structs stay, a step marks and releases */
  struct ab_mesh *mesh;
  struct ab_probe *probe; /* NULL: unobserved */
};

enum ab_leaf_kind { AB_PARAMS, AB_GRADS };

/* Receives one canonical leaf - one parameter of one layer (layer -1: outside the layers) - as a window into the side's
 * own storage. view->shape is the unstacked shape of the parameter table. */
typedef ab_status (*ab_leaf_fn)(void *ctx, int layer, const char *name, const struct ab_view *view);

/* Raw terms of one forward pass over the whole batch; MaxText train.py: loss_fn. */
struct ab_loss_terms {
  double loss;          /* differentiated: xent_sum / (total_weights + 1e-8) */
  double xent_sum;      /* with its z part */
  double z_loss;        /* reported only */
  double total_weights; /* targets with a segment id other than 0 */
};

struct ab_model; /* whatever the side needs */

struct ab_model_ops {
  /* Builds the module tree and takes parameters and gradients from exec->slab. *out lives in exec->book. */
  ab_status (*create)(struct ab_model **out, const struct ab_config *config, const struct ab_exec *exec);
  /* One forward and backward pass: loss, gradients of `loss` in the AB_GRADS leaves (overwritten, accumulators start at
   * +0), no update. */
  ab_status (*step)(struct ab_model *model, const struct ab_batch *batch, struct ab_loss_terms *terms);
  /* Calls fn for every canonical leaf, each once, any order. Setting initial values is writing through AB_PARAMS views;
   * reading state back is reading them. AB_GRADS is valid until the next step. */
  ab_status (*leaves)(struct ab_model *model, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx);
};

struct ab_pipeline; /* whatever the side needs */

/* The pipeline module alone, on activations [B, L, E] of the table's dtype (bundles of kind engine). */
struct ab_pipeline_ops {
  ab_status (*create)(struct ab_pipeline **out, const struct ab_config *config, const struct ab_exec *exec);
  /* outputs [B, L, E]; keeps in exec->arena what backward needs: the caller marks before and releases after both. */
  ab_status (*forward)(struct ab_pipeline *pipeline, void *outputs, const void *inputs, const int32_t *positions,
                       const int32_t *segment_ids);
  /* d_inputs [B, L, E] overwritten; AB_GRADS leaves overwritten. */
  ab_status (*backward)(struct ab_pipeline *pipeline, void *d_inputs, const void *d_outputs);
  ab_status (*leaves)(struct ab_pipeline *pipeline, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx);
};
