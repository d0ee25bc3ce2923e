#include "cell_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "block_ops.h"
#include "mem.h"
#include "metrics.h"

/* Everything one run holds. */
struct cell {
  const struct ab_cell_order *order;
  struct ab_cell_result *result;
  struct ab_layer layer;
  struct ab_layer_call call;
  void *x, *dy, *y, *dx, *saved, *work;
  void *param[AB_CELL_PHASES][AB_MAX_PARAMS], *dparam[AB_MAX_PARAMS];
  const int32_t *positions[AB_CELL_PHASES], *segments[AB_CELL_PHASES];
  int32_t *one_segment;
  enum ab_phase at; /* what runs: forward again, with what recomputation is fed, is recomputation */
  bool again;       /* it does */
  ab_status failed; /* of the rewriting, which cannot say so itself */
};

static void append(char *text, size_t size, const char *name) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? "/" : "", name);
}

void ab_cell_operators(char text[AB_WRITER_NAME], const struct ab_block *block, enum ab_phase phase, int slot) {
  text[0] = '\0';
  for (int i = 0; i < block->op_count; i++) {
    const struct ab_op *op = &block->op[i];
    const int8_t *list = phase == AB_BACKWARD ? op->in : op->out;
    for (int k = 0; k < AB_OP_IN && list[k] >= 0; k++)
      if (list[k] == slot && (phase != AB_BACKWARD || op->input)) append(text, AB_WRITER_NAME, op->name);
  }
}

ab_status ab_cell_elements(void **out, const struct ab_kernels *k, const struct ab_tensor *tensor) {
  const float *from = tensor->data;
  unsigned char *to;
  AB_TRY(ab_mem_new(&to, tensor->count + 1, k->element));
  for (size_t i = 0; i < tensor->count; i++) {
    double wide = from[i];
    memcpy(to + i * k->element, k->dtype == AB_F64 ? (const void *)&wide : &from[i], k->element);
  }
  *out = to;
  return AB_OK;
}

ab_status ab_cell_distance(double *out, const struct ab_tensor *recorded, void *value, const struct ab_kernels *k) {
  struct ab_difference difference;
  struct ab_view a = ab_view_of(recorded), b = a;
  b.dtype = k->dtype;
  b.data = value;
  AB_TRY(ab_difference(&difference, &a, &b));
  *out = difference.rel_l2;
  return AB_OK;
}

static bool same(const struct ab_tensor *recorded, const void *value, const struct ab_kernels *k) {
  const float *a = recorded->data, *b = value;
  if (k->dtype != AB_F32) return false;
  for (size_t i = 0; i < recorded->count; i++)
    if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i]))) return false;
  return true;
}

static void put_in(const struct ab_tensor *recorded, void *value, const struct ab_kernels *k) {
  const float *from = recorded->data;
  if (k->dtype == AB_F32) memcpy(value, from, recorded->count * sizeof *from);
  else
    for (size_t i = 0; i < recorded->count; i++) ((double *)value)[i] = from[i];
}

static void compare(struct cell *c, enum ab_phase phase, int slot, void *value, bool replace) {
  const struct ab_cell_order *o = c->order;
  const struct ab_slot *row = &o->block->slot[slot];
  const struct ab_tensor *recorded = ab_artifact_recorded(o->artifact, o->side, o->part, phase, row->name);
  struct ab_slot_seen *seen = &c->result->slot[phase][slot];
  if (!recorded || c->failed != AB_OK) return;
  if (recorded->dtype != AB_F32 || recorded->count != row->count(&c->layer.dims)) {
    c->failed = AB_FAIL(AB_EFORMAT, "'%s' in recorded.safetensors has %zu elements; expected %zu of F32",
                        recorded->name, recorded->count, row->count(&c->layer.dims));
    return;
  }
  seen->seen = true;
  seen->equal = same(recorded, value, o->kernels);
  if (!seen->equal) c->failed = ab_cell_distance(&seen->distance, recorded, value, o->kernels);
  if (replace) put_in(recorded, value, o->kernels);
}

/* What was not recomputed was kept from forward, whose sizes have been looked at. */
static void rewrite_recomputed(struct cell *c, int slot, void *value) {
  const struct ab_cell_order *o = c->order;
  const char *name = o->block->slot[slot].name;
  const struct ab_tensor *kept = ab_artifact_recorded(o->artifact, o->side, o->part, AB_FORWARD, name);
  compare(c, AB_RECOMPUTE, slot, value, true);
  if (kept && !c->result->slot[AB_RECOMPUTE][slot].seen && c->failed == AB_OK) put_in(kept, value, o->kernels);
}

/* x and dy are what was recorded in the first place. */
static void rewrite(void *ctx, enum ab_phase phase, int slot, void *value) {
  struct cell *c = ctx;
  if (phase == AB_RECOMPUTE || (phase == AB_FORWARD && slot == 0)) return;
  if (phase == AB_BACKWARD && slot == c->order->block->output) return;
  if (c->at == AB_RECOMPUTE) {
    rewrite_recomputed(c, slot, value);
    return;
  }
  if (phase == AB_FORWARD && !c->again) compare(c, AB_RECOMPUTE, slot, value, false);
  compare(c, phase, slot, value, true);
}

static ab_status missing(const char *what) {
  return AB_FAIL(AB_EFORMAT, "the artifact has no '%s'", what);
}

/* The side's own input; the reference's where the side recorded none. */
static ab_status take(void **out, struct cell *c, enum ab_phase phase, int slot, const char *input) {
  const struct ab_cell_order *o = c->order;
  const struct ab_tensor *t = ab_artifact_recorded(o->artifact, o->side, o->part, phase, o->block->slot[slot].name);
  if (!t) t = ab_artifact_input(o->artifact, input, o->part);
  if (!t) return missing(input);
  if (t->dtype != AB_F32 || t->count != c->layer.tokens_count)
    return AB_FAIL(AB_EFORMAT, "'%s' has %zu elements; expected %zu of F32", t->name, t->count, c->layer.tokens_count);
  return ab_cell_elements(out, o->kernels, t);
}

static ab_status take_params_of(void **param, const struct cell *c, int layer) {
  const struct ab_cell_order *o = c->order;
  for (int p = 0; p < o->block->param_count; p++) {
    char path[AB_NAME_MAX + 64], other[32];
    const struct ab_param *row = &o->block->param[p];
    snprintf(other, sizeof other, "other/%d", layer);
    snprintf(path, sizeof path, "%s/%s", layer < 0 ? "params" : other, row->name);
    const struct ab_tensor *t = ab_tree_find(o->artifact->inputs, path);
    size_t count = ab_param_count(row, &c->layer.dims);
    if (!t) return missing(path);
    if (t->dtype != AB_F32 || t->count != count)
      return AB_FAIL(AB_EFORMAT, "'%s' has %zu elements; expected %zu of F32", path, t->count, count);
    AB_TRY(ab_cell_elements(&param[p], o->kernels, t));
  }
  return AB_OK;
}

static ab_status take_params(struct cell *c) {
  const struct ab_cell_order *o = c->order;
  for (int i = 0; i < AB_CELL_PHASES; i++) AB_TRY(take_params_of(c->param[i], c, o->feed[i].weights));
  for (int p = 0; p < o->block->param_count; p++)
    AB_TRY(ab_mem_new(&c->dparam[p], ab_param_count(&o->block->param[p], &c->layer.dims), o->kernels->element));
  c->call.dparam = o->dparam ? o->dparam : c->dparam;
  return AB_OK;
}

static ab_status take_tokens(const int32_t **out, const struct cell *c, const char *what, int part) {
  const struct ab_tensor *t = ab_artifact_input(c->order->artifact, what, part);
  size_t tokens = (size_t)(c->layer.dims.rows * c->layer.dims.length);
  if (!t) return missing(what);
  if (t->dtype != AB_I32 || t->count != tokens)
    return AB_FAIL(AB_EFORMAT, "'%s' has %zu elements; expected %zu of I32", t->name, t->count, tokens);
  *out = t->data;
  return AB_OK;
}

static ab_status take_places(struct cell *c) {
  size_t tokens = (size_t)(c->layer.dims.rows * c->layer.dims.length);
  AB_TRY(ab_mem_new(&c->one_segment, tokens, sizeof *c->one_segment));
  for (size_t i = 0; i < tokens; i++) c->one_segment[i] = 1;
  for (int i = 0; i < AB_CELL_PHASES; i++) {
    const struct ab_cell_feed *feed = &c->order->feed[i];
    AB_TRY(take_tokens(&c->positions[i], c, "positions", feed->positions));
    c->segments[i] = c->one_segment;
    if (feed->segments >= 0) AB_TRY(take_tokens(&c->segments[i], c, "segment_ids", feed->segments));
  }
  return AB_OK;
}

static ab_status plan(struct cell *c) {
  const struct ab_cell_order *o = c->order;
  const struct ab_tensor *x = ab_artifact_input(o->artifact, "x", o->part);
  const struct ab_remat keep = {.keep = AB_KEEP_ALL};
  if (!x || x->shape.rank != 3) return missing("x");
  struct ab_layer_dims dims = ab_layer_dims_of(o->artifact->config, x->shape.dim[0]);
  if (x->shape.dim[1] != dims.length || x->shape.dim[2] != dims.emb || x->shape.dim[0] < 1)
    return AB_FAIL(AB_EFORMAT, "'%s' is of another shape than the config's activations", x->name);
  return ab_layer_plan(&c->layer, o->block, o->kernels, &dims, &keep);
}

static ab_status make_room(struct cell *c) {
  const struct ab_layer *l = &c->layer;
  size_t element = c->order->kernels->element;
  AB_TRY(ab_mem_new(&c->y, l->tokens_count, element));
  AB_TRY(ab_mem_new(&c->dx, l->tokens_count, element));
  AB_TRY(ab_mem_new(&c->saved, l->saved_count + 1, element));
  AB_TRY(ab_mem_new(&c->work, l->work_count + 1, element));
  return AB_OK;
}

static ab_status prepare(struct cell *c) {
  AB_TRY(plan(c));
  AB_TRY(take(&c->x, c, AB_FORWARD, 0, "x"));
  AB_TRY(take(&c->dy, c, AB_BACKWARD, c->order->block->output, "dy"));
  AB_TRY(take_params(c));
  AB_TRY(take_places(c));
  AB_TRY(make_room(c));
  c->call.x = c->x;
  c->call.dy = c->dy;
  c->call.y = c->y;
  c->call.dx = c->dx;
  c->call.saved = c->saved;
  c->call.work = c->work;
  c->call.rewrite = rewrite;
  c->call.rewrite_ctx = c;
  return AB_OK;
}

static void release(struct cell *c) {
  void *const block[] = {c->x, c->dy, c->y, c->dx, c->saved, c->work, c->one_segment};
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) ab_mem_free(block[i]);
  for (int p = 0; p < AB_MAX_PARAMS; p++) {
    for (int i = 0; i < AB_CELL_PHASES; i++) ab_mem_free(c->param[i][p]);
    ab_mem_free(c->dparam[p]);
  }
}

static const struct ab_layer_call *fed(struct cell *c, enum ab_phase phase) {
  c->at = phase;
  c->call.param = (const void *const *)c->param[phase];
  c->call.positions = c->positions[phase];
  c->call.segment_ids = c->segments[phase];
  return &c->call;
}

ab_status ab_cell_run(struct ab_cell_result *out, const struct ab_cell_order *order) {
  const struct ab_cell_feed *feed = order->feed;
  struct cell c = {.order = order, .result = out};
  *out = (struct ab_cell_result){0};
  c.again = memcmp(&feed[AB_RECOMPUTE], &feed[AB_FORWARD], sizeof *feed) != 0;
  ab_status status = prepare(&c);
  if (status == AB_OK) {
    ab_layer_forward(&c.layer, fed(&c, AB_FORWARD));
    if (c.again) ab_layer_forward(&c.layer, fed(&c, AB_RECOMPUTE));
    ab_layer_backward(&c.layer, fed(&c, AB_BACKWARD));
    status = c.failed;
  }
  release(&c);
  return status;
}
