/* Sown variables: type Intermediate, scalars in the module of each decoder layer, at the layer's own path. What they
 * hold: sown.h. flax nnx.Module.sow; MaxText nnx_decoders.py: NNXDecoderLayer.
 *
 * A pass begins with the abstract state of a stack of layers, gives it the axes that a scan stacks its outputs along,
 * and storage in exec->arena. A call of the stack writes one slice of it.
 */
#pragma once

#include "model.h"
#include "sown.h"
#include "stack.h"
#include "transforms.h"

/* The variables of every layer, all zero; `axes` innermost first, beside that of scanned layers, which is the last. The
 * state is in exec->book. */
ab_status nnx_sown_new(struct nnx_state *out, const struct ab_exec *exec, const struct nnx_stack *stack,
                       const struct nnx_axis *axes, int count);
/* nnx_stack_call.sown: where the layers write, in a state whose other axes are indexed away. */
ab_status nnx_sown_targets(nnx_sown_target **out, struct ab_arena *book, const struct nnx_stack *stack,
                           const struct nnx_state *slice);
/* The variable that layer i sows, the layers' own axis included. AB_ENOTFOUND. */
ab_status nnx_sown_variable(struct ab_view *out, const struct nnx_stack *stack, const struct nnx_state *state, int i,
                            enum ab_sown which);
