/* ab_compare with a fault in it, to be given as --b-bin: AB_FAULT="name layer microbatch tensor" names one of faults.h
 * or of the table below. The linker puts it between the tool and its libraries; no file of theirs is another one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "layer.h"
#include "mem.h"
#include "schedule.h"

ab_status __real_ab_run_steps(const struct ab_run *run, const struct ab_run_plan *plan);
ab_status __wrap_ab_run_steps(const struct ab_run *run, const struct ab_run_plan *plan);
ab_status __real_ab_bundle_batch(struct ab_batch *out, const struct ab_bundle *bundle, int64_t step);
ab_status __wrap_ab_bundle_batch(struct ab_batch *out, const struct ab_bundle *bundle, int64_t step);
ab_status __real_ab_leaf_table_fill(struct ab_leaf_table *table, const struct ab_side *side, enum ab_leaf_kind kind);
ab_status __wrap_ab_leaf_table_fill(struct ab_leaf_table *table, const struct ab_side *side, enum ab_leaf_kind kind);
double __real_ab_learning_rate(const struct ab_config *config, int64_t step);
double __wrap_ab_learning_rate(const struct ab_config *config, int64_t step);
void __real_ab_layer_forward(const struct ab_layer *layer, const struct ab_layer_call *call);
void __wrap_ab_layer_forward(const struct ab_layer *layer, const struct ab_layer_call *call);
void __real_ab_layer_backward(const struct ab_layer *layer, const struct ab_layer_call *call);
void __wrap_ab_layer_backward(const struct ab_layer *layer, const struct ab_layer_call *call);

enum { LEAF_MOST = 1 << 16 };

static struct {
  char name[32];
  struct fault_place place;
  const struct ab_config *config;
  int32_t *changed;
  bool running, updated; /* updated: step 0 is over */
} fault;

static bool is(const char *name) { return fault.running && strcmp(fault.name, name) == 0; }

static void read_fault(void) {
  const char *text = getenv("AB_FAULT");
  if (!text || sscanf(text, "%31s %d %d %95s", fault.name, &fault.place.layer, &fault.place.microbatch,
                      fault.place.tensor) != 4)
    fault.name[0] = '\0';
}

static bool is_hand_fault(void) {
  for (int i = 0; fault_names[i]; i++)
    if (strcmp(fault_names[i], fault.name) == 0) return true;
  return false;
}

/* A backward that loses a thousandth of the values' cotangent: forward is right, and so is everything after. */
static void attention_input_short(void *dq, void *dk, void *dv, const void *dout, const void *row_max,
                                  const void *row_sum, const void *out, const void *q, const void *k, const void *v,
                                  const int32_t *segment_ids, void *work, const struct ab_attention_dims *dims) {
  ab_kernels_f32.attention_input(dq, dk, dv, dout, row_max, row_sum, out, q, k, v, segment_ids, work, dims);
  for (int64_t i = 0; i < dims->rows * dims->length * dims->kv_heads * dims->head_dim; i++)
    ((float *)dv)[i] *= 0.999f;
}

/* The same in forward, in one operator; or from step 1 on. */
static void swiglu_short(void *hidden, const void *gate, const void *up, size_t count) {
  ab_kernels_f32.swiglu(hidden, gate, up, count);
  if (is("swiglu_from_1") && !fault.updated) return;
  for (size_t i = 0; i < count; i++) ((float *)hidden)[i] *= 0.999f;
}

/* Kernels of a side that is wrong in one of them. */
static const struct ab_kernels *kernels_with_fault(const struct ab_kernels *right) {
  static struct ab_kernels wrong;
  wrong = *right;
  if (is("attention_backward")) wrong.attention_input = attention_input_short;
  if (is("swiglu") || is("swiglu_from_1")) wrong.swiglu = swiglu_short;
  return &wrong;
}

ab_status __wrap_ab_run_steps(const struct ab_run *run, const struct ab_run_plan *plan) {
  struct ab_run wrong = *run;
  struct ab_case opened = {0};
  read_fault();
  fault.config = run->config;
  fault.running = true;
  memcpy(&opened.config, &run->config, sizeof run->config);
  memcpy(&opened.bundle, &run->bundle, sizeof run->bundle);
  if (is("attention_backward") || strncmp(fault.name, "swiglu", 6) == 0) wrong.kernels = kernels_with_fault(run->kernels);
  if (!is_hand_fault()) return __real_ab_run_steps(&wrong, plan);
  const struct side_hooks *hooks = fault_put(fault.name, &fault.place, &opened);
  wrong.kernels = hooks->kernels;
  wrong.mesh = hooks->mesh;
  wrong.loaded = hooks->loaded;
  ab_status status = __real_ab_run_steps(&wrong, plan);
  fault_remove();
  return status;
}

static const int32_t *change(const int32_t *from, const struct ab_batch *b, void (*how)(int32_t *x, size_t n, size_t m)) {
  size_t n = (size_t)(b->rows * b->length), per = n / (size_t)fault.config->num_pipeline_microbatches;
  if (ab_mem_resize(&fault.changed, n, sizeof *fault.changed) != AB_OK) abort();
  memcpy(fault.changed, from, n * sizeof *from);
  how(fault.changed, n, per);
  return fault.changed;
}

static void of_first(int32_t *x, size_t n, size_t per) {
  for (size_t i = per; i < n; i++) x[i] = x[i % per];
}
static void all_one(int32_t *x, size_t n, size_t per) {
  (void)per;
  for (size_t i = 0; i < n; i++) x[i] = 1;
}
static void of_next(int32_t *x, size_t n, size_t per) {
  for (size_t i = 0; i < per; i++) {
    int32_t first = x[i];
    for (size_t k = i; k + per < n; k += per) x[k] = x[k + per];
    x[n - per + i] = first;
  }
}
static void one_on(int32_t *x, size_t n, size_t per) {
  (void)per;
  for (size_t i = 0; i < n; i++) x[i] = i + 1 < n ? x[i + 1] : 0;
}
static void only_last(int32_t *x, size_t n, size_t per) {
  for (size_t i = 0; i + per < n; i++) x[i] = 0;
}
static void without_1(int32_t *x, size_t n, size_t per) {
  for (size_t i = per; i < 2 * per && i < n; i++) x[i] = 0;
}

ab_status __wrap_ab_bundle_batch(struct ab_batch *out, const struct ab_bundle *bundle, int64_t step) {
  AB_TRY(__real_ab_bundle_batch(out, bundle, step));
  if (is("segments_of_first")) out->inputs_segmentation = change(out->inputs_segmentation, out, of_first);
  if (is("no_segments")) out->inputs_segmentation = change(out->inputs_segmentation, out, all_one);
  if (is("labels_of_first")) out->targets = change(out->targets, out, of_first);
  if (is("labels_of_next")) out->targets = change(out->targets, out, of_next);
  if (is("labels_twice_shifted")) out->targets = change(out->targets, out, one_on);
  if (is("labels_are_inputs")) out->targets = out->inputs;
  if (is("loss_of_last")) out->targets_segmentation = change(out->targets_segmentation, out, only_last);
  if (is("loss_without_1")) out->targets_segmentation = change(out->targets_segmentation, out, without_1);
  return AB_OK;
}

static void scale(const struct ab_leaf *leaf, float factor) {
  static float values[LEAF_MOST];
  if (leaf->count > LEAF_MOST) abort();
  ab_view_pack(values, &leaf->view);
  for (size_t i = 0; i < leaf->count; i++) values[i] *= factor;
  ab_view_unpack(&leaf->view, values);
}

static void copy_layer_0(const struct ab_leaf_table *table, const struct ab_leaf *to) {
  static float values[LEAF_MOST];
  for (size_t i = 0; i < table->leaves; i++) {
    const struct ab_leaf *from = &table->leaf[i];
    if (from->layer != 0 || from->param != to->param || from->count > LEAF_MOST) continue;
    ab_view_pack(values, &from->view);
    ab_view_unpack(&to->view, values);
  }
}

ab_status __wrap_ab_leaf_table_fill(struct ab_leaf_table *table, const struct ab_side *side, enum ab_leaf_kind kind) {
  AB_TRY(__real_ab_leaf_table_fill(table, side, kind));
  fault.updated |= fault.running && kind == AB_GRADS;
  for (size_t i = 0; i < table->leaves && kind == AB_GRADS; i++) {
    const struct ab_leaf *leaf = &table->leaf[i];
    if (is("gradients_over_m")) scale(leaf, 1 / (float)fault.config->num_pipeline_microbatches);
    if (leaf->layer != fault.place.layer) continue;
    if (is("zero_gradient") && strcmp(leaf->param->name, fault.place.tensor) == 0) scale(leaf, 0);
    if (is("gradient_of_layer_0")) copy_layer_0(table, leaf);
  }
  return AB_OK;
}

/* Stages after the first see no segments. */
static struct ab_layer_call in_stage(const struct ab_layer_call *call) {
  static const int32_t none[LEAF_MOST];
  struct ab_layer_call changed = *call;
  if (is("segments_in_first_stage") && call->at.stage > 0) changed.segment_ids = none;
  return changed;
}

/* Backward sees one segment everywhere: in recomputation, too, or there alone. */
static void backward_without_segments(const struct ab_layer *layer, const struct ab_layer_call *call, bool recomputed) {
  static const int32_t none[LEAF_MOST];
  struct ab_layer_call changed = *call;
  changed.segment_ids = none;
  ab_layer_recompute(layer, &changed);
  ab_layer_backward_input(layer, recomputed ? call : &changed);
  ab_layer_backward_weight(layer, recomputed ? call : &changed);
}

static float weights_of_0[AB_MAX_PARAMS][LEAF_MOST];

void __wrap_ab_layer_forward(const struct ab_layer *layer, const struct ab_layer_call *call) {
  struct ab_layer_call changed = in_stage(call);
  for (int p = 0; is("weights_of_0_backward") && call->id.layer == 0 && p < layer->block->param_count; p++)
    memcpy(weights_of_0[p], call->param[p], ab_param_count(&layer->block->param[p], &layer->dims) * sizeof(float));
  __real_ab_layer_forward(layer, &changed);
}

void __wrap_ab_layer_backward(const struct ab_layer *layer, const struct ab_layer_call *call) {
  struct ab_layer_call changed = in_stage(call);
  const void *param[AB_MAX_PARAMS];
  for (int p = 0; p < AB_MAX_PARAMS; p++) param[p] = weights_of_0[p];
  bool here = call->id.layer == fault.place.layer;
  if (is("weights_of_0_backward") && here) changed.param = param;
  if ((is("segments_backward") || is("segments_recomputed")) && here)
    backward_without_segments(layer, &changed, is("segments_recomputed"));
  else
    __real_ab_layer_backward(layer, &changed);
}

double __wrap_ab_learning_rate(const struct ab_config *config, int64_t step) {
  double rate = __real_ab_learning_rate(config, step + is("rate_of_next_step"));
  return is("rate_too_large") ? 1.5 * rate : rate;
}
