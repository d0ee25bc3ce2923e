#include "faults.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "tap.h"

enum { WORDS = 8 }; /* elements by which a weight is recognised wherever it was copied */

/* Kernels and doors carry no context. */
static struct {
  const struct ab_case *opened;
  const struct fault_place *place;
  struct side_hooks hooks;
  struct ab_kernels kernels;
  struct ab_mesh_ops mesh, plain;
  struct ab_leaf_table weights;
  void (*on_load)(float *values, size_t count); /* what is done to the weight of the place */
  float content[WORDS];
  const int32_t *positions, *segment_ids; /* of the whole batch: those of the first call */
  int calls;
  atomic_int met, lost;
} fault;

static _Thread_local int microbatch_here;

static struct ab_leaf *leaf_at(int layer, const char *name) {
  for (size_t i = 0; i < fault.weights.leaves; i++)
    if (fault.weights.leaf[i].layer == layer && !strcmp(fault.weights.leaf[i].param->name, name))
      return &fault.weights.leaf[i];
  ck_abort_msg("no weight '%s' in layer %d", name, layer);
  return NULL;
}

static struct ab_leaf *leaf_of_place(void) { return leaf_at(fault.place->layer, fault.place->tensor); }

/* The weight's values packed, changed and put back. */
static ab_status change(void (*how)(float *values, size_t count)) {
  const struct ab_leaf *leaf = leaf_of_place();
  float *values;
  AB_TRY(ab_mem_new(&values, leaf->count, sizeof *values));
  ab_view_pack(values, &leaf->view);
  how(values, leaf->count);
  ab_view_unpack(&leaf->view, values);
  ab_mem_free(values);
  return AB_OK;
}

/* Notes where every weight lies. */
static ab_status loaded(void *ctx, const struct ab_side *side, const struct ab_kernels *kernels) {
  (void)ctx;
  AB_TRY(ab_leaf_table_new(&fault.weights, fault.opened->config, kernels, side->model_ops == NULL));
  AB_TRY(ab_leaf_table_fill(&fault.weights, side, AB_PARAMS));
  return fault.on_load ? change(fault.on_load) : AB_OK;
}

/* Of a small element one ulp is lost in the sums. */
static void add_ulp(float *x, size_t count) {
  size_t largest = 0;
  for (size_t i = 1; i < count; i++)
    if (fabsf(x[i]) > fabsf(x[largest])) largest = i;
  x[largest] = nextafterf(x[largest], 2 * x[largest]);
  fault.met++;
}

static void transpose(float *x, size_t count) {
  size_t n = (size_t)lround(sqrt((double)count));
  ck_assert_uint_eq(n * n, count);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++) {
      float keep = x[i * n + j];
      x[i * n + j] = x[j * n + i];
      x[j * n + i] = keep;
    }
  fault.met++;
}

static void note_content(float *x, size_t count) {
  ck_assert_uint_ge(count, WORDS);
  memcpy(fault.content, x, sizeof fault.content);
}

static int stages(void) { return (int)fault.opened->config->num_stages; }
static int layers_per_stage(void) { return (int)fault.opened->config->num_layers_per_pipeline_stage; }

static int other_stage(int stage) {
  int one = fault.place->layer / layers_per_stage() % stages(), two = (one + 1) % stages();
  if (stage == one) return two;
  return stage == two ? one : stage;
}

/* Same leaf, same layer of the stage, other cell. */
static const void *weights_of(const void *src, int repeat, int stage) {
  for (size_t i = 0; i < fault.weights.leaves; i++) {
    const struct ab_leaf *leaf = &fault.weights.leaf[i];
    if (leaf->view.data != src) continue;
    int layer = (repeat * stages() + stage) * layers_per_stage() + leaf->layer % layers_per_stage();
    fault.met += layer != leaf->layer;
    return leaf_at(layer, leaf->param->name)->view.data;
  }
  fault.lost++;
  return src;
}

static const void *gather_swapped(struct ab_mesh *mesh, const void *src, size_t count, int repeat, int stage) {
  return weights_of(fault.plain.gather(mesh, src, count, repeat, stage), repeat, other_stage(stage));
}

static const void *gather_stale(struct ab_mesh *mesh, const void *src, size_t count, int repeat, int stage) {
  return weights_of(fault.plain.gather(mesh, src, count, repeat, stage), 0, stage);
}

static void ring_too_far(struct ab_mesh *mesh, void *dst, const void *src, size_t count, int shift) {
  fault.met += shift > 0;
  fault.plain.ring(mesh, dst, src, count, shift > 0 ? shift + 1 : shift);
}

/* In the first iteration only the first stage runs, on microbatch 0. */
static void rope_table_of_first(void *table, const int32_t *positions, const struct ab_rope_dims *dims) {
  if (!fault.positions) fault.positions = positions;
  fault.met += positions != fault.positions;
  ab_kernels_f32.rope_table(table, fault.positions, dims);
}

static void attention_noting(void *out, void *row_max, void *row_sum, const void *q, const void *k, const void *v,
                             const int32_t *segment_ids, void *work, const struct ab_attention_dims *dims) {
  if (!fault.segment_ids) fault.segment_ids = segment_ids;
  ab_kernels_f32.attention(out, row_max, row_sum, q, k, v, segment_ids, work, dims);
}

/* A layer's weight parts run after its input parts, on the same thread. */
static void attention_input_noting(void *dq, void *dk, void *dv, const void *dout, const void *row_max,
                                   const void *row_sum, const void *out, const void *q, const void *k, const void *v,
                                   const int32_t *segment_ids, void *work, const struct ab_attention_dims *dims) {
  microbatch_here = (int)((segment_ids - fault.segment_ids) / (dims->rows * dims->length));
  ab_kernels_f32.attention_input(dq, dk, dv, dout, row_max, row_sum, out, q, k, v, segment_ids, work, dims);
}

static bool is_weight_gradient(const struct ab_gemm *dims) { return dims->trans_a && dims->accumulate; }

static void gemm_dropping(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  bool drop = is_weight_gradient(dims) && microbatch_here == fault.place->microbatch;
  fault.met += drop;
  if (!drop) ab_kernels_f32.gemm(c, a, b, dims);
}

static void norm_weight_dropping(void *dscale, const void *dy, const void *rstd, const void *x,
                                 const struct ab_norm_dims *dims) {
  if (microbatch_here != fault.place->microbatch) ab_kernels_f32.norm_weight(dscale, dy, rstd, x, dims);
}

static void gemm_unordered(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  struct ab_gemm half = *dims;
  int64_t middle = dims->k / 2;
  if (!is_weight_gradient(dims)) {
    ab_kernels_f32.gemm(c, a, b, dims);
    return;
  }
  fault.met++;
  half.k = dims->k - middle;
  ab_kernels_f32.gemm(c, (const float *)a + middle * dims->lda, (const float *)b + middle * dims->ldb, &half);
  half.k = middle;
  ab_kernels_f32.gemm(c, a, b, &half);
}

/* Microbatches come to a layer in their order; later calls are recomputation. */
static void gemm_poisoned(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  ab_kernels_f32.gemm(c, a, b, dims);
  bool forward = !dims->trans_a && !dims->trans_b && !dims->accumulate;
  if (!forward || memcmp(b, fault.content, sizeof fault.content) != 0) return;
  if (fault.calls++ != fault.place->microbatch) return;
  *(float *)c = NAN;
  fault.met++;
}

static bool hides_leaf(const struct ab_identity *id) {
  bool hidden = id->phase == AB_BACKWARD && id->layer == fault.place->layer && !strcmp(id->tensor, fault.place->tensor);
  fault.met += hidden;
  return hidden;
}

static void put_ulp(void) { fault.on_load = add_ulp; }
static void put_transposed(void) { fault.on_load = transpose; }
static void put_swapped(void) { fault.mesh.gather = gather_swapped; }
static void put_stale(void) { fault.mesh.gather = gather_stale; }
static void put_ring(void) { fault.mesh.ring = ring_too_far; }
static void put_positions(void) { fault.kernels.rope_table = rope_table_of_first; }
static void put_unordered(void) { fault.kernels.gemm = gemm_unordered; }
static void put_hidden(void) { fault.hooks.hides = hides_leaf; }

static void put_nan(void) {
  fault.on_load = note_content;
  fault.kernels.gemm = gemm_poisoned;
}

static void put_dropped(void) {
  fault.kernels.gemm = gemm_dropping;
  fault.kernels.norm_weight = norm_weight_dropping;
  fault.kernels.attention = attention_noting;
  fault.kernels.attention_input = attention_input_noting;
}

static void (*const put[])(void) = {put_ulp,       put_transposed, put_swapped, put_stale,     put_ring,
                                    put_positions, put_nan,        put_dropped, put_unordered, put_hidden};
const char *const fault_names[] = {"one_ulp",          "transposed_leaf",    "swapped_stages",     "stale_gather",
                                   "wrong_ring_shift", "positions_of_first", "nan",                "dropped_microbatch",
                                   "unordered_sum",    "missing_leaf",       NULL};

static void take_local_doors(void) {
  struct ab_mesh local;
  ck_ok(ab_mesh_init_local(&local, &ab_kernels_f32, 1));
  fault.plain = fault.mesh = *local.ops;
  ab_mesh_free(&local);
}

const struct side_hooks *fault_put(const char *name, const struct fault_place *place, const struct ab_case *c) {
  memset(&fault, 0, sizeof fault);
  microbatch_here = -1;
  take_local_doors();
  fault.opened = c;
  fault.place = place;
  fault.kernels = ab_kernels_f32;
  fault.hooks = (struct side_hooks){.kernels = &fault.kernels, .mesh = &fault.mesh, .loaded = loaded};
  for (int i = 0; fault_names[i]; i++) {
    if (strcmp(fault_names[i], name) != 0) continue;
    put[i]();
    return &fault.hooks;
  }
  return NULL;
}

void fault_remove(void) {
  ab_leaf_table_free(&fault.weights);
  ck_assert_msg(fault.met > 0, "the fault was never met");
  ck_assert_msg(fault.lost == 0, "%d weights were fetched from unknown places", fault.lost);
}
