#include "layer.h"

#include <stdio.h>

#include "block_ops.h"
#include "observed.h"

enum pass { PASS_FORWARD, PASS_BACKWARD }; /* recomputation fills the values of backward */

static void *at(const struct ab_layer *layer, void *base, size_t offset) {
  return (unsigned char *)base + offset * layer->kernels->element;
}

/* Where a slot other than the input has its value. */
static void *value_of(const struct ab_layer *layer, const struct ab_layer_call *call, enum pass pass, int slot) {
  if (slot == layer->block->output && pass == PASS_FORWARD) return call->y;
  return at(layer, layer->keep >> slot & 1 ? call->saved : call->work, layer->offset[slot]);
}

static const void *read_value(const struct ab_layer *layer, const struct ab_layer_call *call, enum pass pass,
                              int slot) {
  return slot == 0 ? call->x : value_of(layer, call, pass, slot);
}

/* Where a slot's cotangent is written; the result's is dy and belongs to the caller. */
static void *cotangent_of(const struct ab_layer *layer, const struct ab_layer_call *call, int slot) {
  if (layer->block->slot[slot].internal) return NULL;
  return slot == 0 ? call->dx : at(layer, call->work, layer->cotangent[slot]);
}

static const void *read_cotangent(const struct ab_layer *layer, const struct ab_layer_call *call, int slot) {
  return slot == layer->block->output ? call->dy : cotangent_of(layer, call, slot);
}

static struct ab_op_call op_call(const struct ab_layer *layer, const struct ab_layer_call *call, enum pass pass,
                                 const struct ab_op *op) {
  struct ab_op_call c = {.k = layer->kernels, .dims = &layer->dims, .positions = call->positions,
                         .segment_ids = call->segment_ids, .scratch = at(layer, call->work, layer->scratch)};
  for (int i = 0; i < AB_OP_IN && op->in[i] >= 0; i++) c.in[i] = read_value(layer, call, pass, op->in[i]);
  for (int i = 0; i < AB_OP_OUT && op->out[i] >= 0; i++) c.out[i] = value_of(layer, call, pass, op->out[i]);
  for (int i = 0; i < AB_OP_PARAM && op->param[i] >= 0; i++) {
    c.param_row[i] = &layer->block->param[op->param[i]];
    c.param[i] = call->param[op->param[i]];
  }
  return c;
}

static void add_cotangents(struct ab_op_call *c, const struct ab_layer *layer, const struct ab_layer_call *call,
                           const struct ab_op *op) {
  for (int i = 0; i < AB_OP_OUT && op->out[i] >= 0; i++) c->dout[i] = read_cotangent(layer, call, op->out[i]);
  for (int i = 0; i < AB_OP_IN && op->in[i] >= 0; i++) c->din[i] = cotangent_of(layer, call, op->in[i]);
}

static int parts_of(const struct ab_layer_call *call) {
  return call->microbatches > 1 ? call->microbatches : 1;
}

/* The recorder only reads the view; slots have no const views. */
static struct ab_view slot_view(const struct ab_layer *layer, int slot, const void *value, int parts, int part) {
  int64_t rows = layer->dims.rows / parts, length = layer->dims.length;
  int64_t width = (int64_t)layer->block->slot[slot].count(&layer->dims) / (layer->dims.rows * length);
  size_t offset = (size_t)(part * rows * length * width) * layer->kernels->element;
  struct ab_view view = {.dtype = layer->kernels->dtype,
                         .shape = {3, {rows, length, width}},
                         .data = (unsigned char *)(uintptr_t)value + offset};
  ab_view_contiguous(&view);
  return view;
}

static void observe(const struct ab_layer *layer, const struct ab_layer_call *call, enum ab_phase phase, int slot,
                    const void *value) {
  if (call->rewrite) call->rewrite(call->rewrite_ctx, phase, slot, (void *)(uintptr_t)value);
  if (!call->recorder || layer->kernels->dry) return;
  int parts = parts_of(call);
  struct ab_identity id = call->id;
  id.phase = phase;
  snprintf(id.tensor, sizeof id.tensor, "%s", layer->block->slot[slot].name);
  for (int part = 0; part < parts; part++, id.microbatch++) {
    struct ab_view view = slot_view(layer, slot, value, parts, part);
    ab_record(call->recorder, &id, &call->at, &view);
  }
}

static void observe_outputs(const struct ab_layer *layer, const struct ab_layer_call *call, enum ab_phase phase,
                            const struct ab_op *op, const struct ab_op_call *c) {
  for (int i = 0; i < AB_OP_OUT && op->out[i] >= 0; i++) {
    if (layer->block->slot[op->out[i]].internal) continue;
    observe(layer, call, phase, op->out[i], phase == AB_BACKWARD ? c->dout[i] : c->out[i]);
  }
}

static void count(const struct ab_layer_call *call, const char *prefix, const char *name, size_t amount) {
  char counter[AB_NAME_MAX];
  if (!call->recorder) return;
  snprintf(counter, sizeof counter, "%s%s", prefix, name);
  struct ab_identity id = call->id;
  for (int part = 0; part < parts_of(call); part++, id.microbatch++)
    ab_record_count(call->recorder, counter, &id, &call->at, (int64_t)amount / parts_of(call));
}

static size_t slot_bytes(const struct ab_layer *layer, int slot) {
  return layer->block->slot[slot].count(&layer->dims) * layer->kernels->element;
}

static void copy_out(const struct ab_layer *layer, const struct ab_layer_call *call) {
  for (int i = 1; i < layer->block->slot_count; i++) {
    if (!(layer->offload >> i & 1)) continue;
    layer->kernels->copy(at(layer, call->offloaded, layer->offloaded[i]), at(layer, call->work, layer->offset[i]),
                         layer->block->slot[i].count(&layer->dims));
    count(call, AB_COUNT_OFFLOAD_OUT, layer->block->slot[i].name, slot_bytes(layer, i));
  }
}

static void copy_back(const struct ab_layer *layer, const struct ab_layer_call *call) {
  for (int i = 1; i < layer->block->slot_count; i++) {
    if (!(layer->offload >> i & 1)) continue;
    layer->kernels->copy(at(layer, call->work, layer->offset[i]), at(layer, call->offloaded, layer->offloaded[i]),
                         layer->block->slot[i].count(&layer->dims));
    count(call, AB_COUNT_OFFLOAD_BACK, layer->block->slot[i].name, slot_bytes(layer, i));
  }
}

/* What came back from the host and is not computed again beside it. */
static void observe_returned(const struct ab_layer *layer, const struct ab_layer_call *call) {
  ab_keep computed = 0;
  for (int i = 0; i < layer->block->op_count; i++)
    for (int j = 0; j < AB_OP_OUT && layer->block->op[i].out[j] >= 0; j++)
      if (layer->recompute >> i & 1) computed |= (ab_keep)1 << layer->block->op[i].out[j];
  for (int i = 1; i < layer->block->slot_count; i++)
    if ((layer->offload & ~computed) >> i & 1 && !layer->block->slot[i].internal)
      observe(layer, call, AB_RECOMPUTE, i, at(layer, call->work, layer->offset[i]));
}

void ab_layer_forward(const struct ab_layer *layer, const struct ab_layer_call *call) {
  observe(layer, call, AB_FORWARD, 0, call->x);
  for (int i = 0; i < layer->block->op_count; i++) {
    const struct ab_op *op = &layer->block->op[i];
    struct ab_op_call c = op_call(layer, call, PASS_FORWARD, op);
    op->forward(&c);
    observe_outputs(layer, call, AB_FORWARD, op, &c);
  }
  copy_out(layer, call);
}

static void count_recompute(const struct ab_layer_call *call, const struct ab_op *op) {
  count(call, AB_COUNT_RECOMPUTE, op->name, (size_t)parts_of(call)); /* 1 each */
}

void ab_layer_replay(const struct ab_layer *layer, const struct ab_layer_call *call) {
  copy_back(layer, call);
  for (int i = 0; i < layer->block->op_count; i++) {
    if (!(layer->replay >> i & 1)) continue;
    struct ab_op_call c = op_call(layer, call, PASS_FORWARD, &layer->block->op[i]);
    layer->block->op[i].forward(&c);
    count_recompute(call, &layer->block->op[i]);
  }
}

void ab_layer_recompute(const struct ab_layer *layer, const struct ab_layer_call *call) {
  if (layer->recompute) observe(layer, call, AB_RECOMPUTE, 0, call->x);
  copy_back(layer, call);
  observe_returned(layer, call);
  for (int i = 0; i < layer->block->op_count; i++) {
    if (!(layer->recompute >> i & 1)) continue;
    const struct ab_op *op = &layer->block->op[i];
    struct ab_op_call c = op_call(layer, call, PASS_BACKWARD, op);
    op->forward(&c);
    count_recompute(call, op);
    observe_outputs(layer, call, AB_RECOMPUTE, op, &c);
  }
}

/* One operator's input part. The first contribution to a cotangent is written, later ones are added: by the operator
 * itself where it can, else through the contribution buffer. At most one input of such an operator may be shared. */
static void run_input(const struct ab_layer *layer, const struct ab_layer_call *call, const struct ab_op *op,
                      struct ab_op_call *c, uint32_t *written) {
  void *target = NULL;
  size_t count = 0;
  for (int i = 0; i < AB_OP_IN && op->in[i] >= 0; i++) {
    int slot = op->in[i];
    if (!c->din[i] || !(*written >> slot & 1)) continue;
    c->add[i] = op->adds;
    if (op->adds) continue;
    target = c->din[i];
    count = layer->block->slot[slot].count(&layer->dims);
    c->din[i] = at(layer, call->work, layer->contribution);
  }
  op->input(c);
  if (target) layer->kernels->add(target, target, at(layer, call->work, layer->contribution), count);
  for (int i = 0; i < AB_OP_IN && op->in[i] >= 0; i++) *written |= 1u << op->in[i];
}

void ab_layer_backward_input(const struct ab_layer *layer, const struct ab_layer_call *call) {
  uint32_t written = 0;
  for (int i = layer->block->op_count - 1; i >= 0; i--) {
    const struct ab_op *op = &layer->block->op[i];
    if (!op->input) continue;
    struct ab_op_call c = op_call(layer, call, PASS_BACKWARD, op);
    add_cotangents(&c, layer, call, op);
    observe_outputs(layer, call, AB_BACKWARD, op, &c);
    run_input(layer, call, op, &c, &written);
  }
  observe(layer, call, AB_BACKWARD, 0, call->dx);
}

void ab_layer_backward_weight(const struct ab_layer *layer, const struct ab_layer_call *call) {
  for (int i = layer->block->op_count - 1; i >= 0; i--) {
    const struct ab_op *op = &layer->block->op[i];
    if (!op->weight) continue;
    struct ab_op_call c = op_call(layer, call, PASS_BACKWARD, op);
    add_cotangents(&c, layer, call, op);
    for (int p = 0; p < AB_OP_PARAM && op->param[p] >= 0; p++) c.dparam[p] = call->dparam[op->param[p]];
    op->weight(&c);
  }
}

void ab_layer_backward(const struct ab_layer *layer, const struct ab_layer_call *call) {
  ab_layer_recompute(layer, call);
  ab_layer_backward_input(layer, call);
  ab_layer_backward_weight(layer, call);
}

void ab_layer_count_residuals(const struct ab_layer *layer, struct ab_recorder *recorder, const struct ab_identity *id,
                              const struct ab_where *where, int layers) {
  struct ab_layer_call call = {.recorder = recorder, .id = *id, .at = *where};
  for (int i = 1; i < layer->block->slot_count; i++) {
    bool device = layer->keep >> i & 1, host = layer->offload >> i & 1;
    if (device || host)
      count(&call, device ? AB_COUNT_RESIDUAL : AB_COUNT_HOST, layer->block->slot[i].name,
            (size_t)layers * slot_bytes(layer, i));
  }
}

/* Residuals and an engine's own counters; of a cell, counted for every layer of it. */
enum { ENGINE_COUNTERS = 8 };

size_t ab_layer_forward_events(const struct ab_layer *layer) {
  return 3 * (size_t)layer->block->slot_count + ENGINE_COUNTERS;
}

size_t ab_layer_backward_events(const struct ab_layer *layer) {
  return 4 * (size_t)layer->block->slot_count + 2 * (size_t)layer->block->op_count + ENGINE_COUNTERS;
}
