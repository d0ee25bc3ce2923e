#include "rig.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "tap.h"

struct ab_config rig_config(int stages, int microbatches, int repeats, int layers_per_stage, int delay) {
  struct ab_config c = small_config();
  c.num_stages = stages;
  c.num_pipeline_microbatches = microbatches;
  c.num_pipeline_repeats = repeats;
  c.num_layers_per_pipeline_stage = layers_per_stage;
  c.pipeline_parallel_layers = c.num_decoder_layers = stages * repeats * layers_per_stage;
  c.pipeline_delay_activation_forwarding = delay == 2;
  c.scan_pipeline_iterations = true;
  c.micro_batch_size_to_train_on = 2 * microbatches;
  c.devices = stages;
  return c;
}

static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0 - 0.5;
}

static void put(void *values, enum ab_dtype dtype, size_t i, double value) {
  if (dtype == AB_F64) ((double *)values)[i] = value;
  else if (dtype == AB_M61) ((uint64_t *)values)[i] = (uint64_t)((value + 1) * 1e18); /* any residue */
  else ((float *)values)[i] = (float)value;
}

static double get(const void *values, enum ab_dtype dtype, size_t i) {
  if (dtype == AB_M61) return (double)((const uint64_t *)values)[i];
  return dtype == AB_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* The same values whatever the layout and the order of leaves. */
static ab_status fill_leaf(void *ctx, int layer, const char *name, const struct ab_view *view) {
  size_t *weights = ctx, count = ab_view_count(view);
  uint64_t seed = (uint64_t)layer + 11;
  struct ab_view packed = *view;
  for (const char *p = name; *p; p++) seed = seed * 131 + (unsigned char)*p;
  AB_TRY(ab_mem_new(&packed.data, count, ab_dtype_size(view->dtype)));
  for (size_t i = 0; i < count; i++) {
    double value = uniform(&seed);
    put(packed.data, view->dtype, i, strstr(name, "scale") ? 1 + 0.5 * value : value);
  }
  ab_view_unpack(view, packed.data);
  ab_mem_free(packed.data);
  *weights += count;
  return AB_OK;
}

static void *activations(const struct rig *rig, uint64_t seed) {
  const struct ab_kernels *k = rig->s.exec.kernels;
  void *values;
  ck_ok(ab_mem_new(&values, rig->elements, k->element));
  for (size_t i = 0; i < rig->elements; i++) put(values, k->dtype, i, 2 * uniform(&seed));
  return values;
}

static void fill_ids(struct rig *rig, const struct ab_config *config) {
  int64_t rows = config->micro_batch_size_to_train_on, length = config->max_target_length;
  ck_ok(ab_mem_new(&rig->positions, (size_t)(rows * length), sizeof *rig->positions));
  ck_ok(ab_mem_new(&rig->segment_ids, (size_t)(rows * length), sizeof *rig->segment_ids));
  for (int64_t i = 0; i < rows * length; i++) {
    int64_t row = i / length, t = i % length;
    rig->positions[i] = (int32_t)(t + row);
    rig->segment_ids[i] = row % 3 == 2 && t == length - 1 ? 0 : t * 2 < length + row % 4 ? 1 : 2;
  }
}

void rig_new(struct rig *out, const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels,
             const struct ab_config *config, struct ab_probe *probe) {
  *out = (struct rig){0};
  reference_pipeline_new(&out->s, ops, kernels, config, probe);
  out->elements = (size_t)(config->micro_batch_size_to_train_on * config->max_target_length * config->emb_dim);
  out->inputs = activations(out, 3);
  out->d_outputs = activations(out, 4);
  out->outputs = activations(out, 5);
  out->d_inputs = activations(out, 6);
  fill_ids(out, config);
  ck_ok(ops->leaves(out->s.side.pipeline, AB_PARAMS, fill_leaf, &out->weights));
}

void rig_free(struct rig *rig) {
  void *blocks[] = {rig->inputs, rig->outputs, rig->d_outputs, rig->d_inputs, rig->positions, rig->segment_ids};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ab_mem_free(blocks[i]);
  reference_side_free(&rig->s);
}

ab_status rig_forward(struct rig *rig) {
  return rig->s.side.pipeline_ops->forward(rig->s.side.pipeline, rig->outputs, rig->inputs, rig->positions,
                                           rig->segment_ids);
}

ab_status rig_backward(struct rig *rig) {
  return rig->s.side.pipeline_ops->backward(rig->s.side.pipeline, rig->d_inputs, rig->d_outputs);
}

struct rig_result rig_result_of(const struct rig *rig, const struct ab_config *config) {
  const struct ab_kernels *k = rig->s.exec.kernels;
  struct rig_result result = {.dtype = k->dtype};
  struct ab_leaf_table table;
  unsigned char *bytes;
  ck_ok(ab_leaf_table_new(&table, config, k, true));
  ck_ok(ab_leaf_table_fill(&table, &rig->s.side, AB_GRADS));
  ck_ok(ab_mem_new(&bytes, 2 * rig->elements + rig->weights, k->element));
  memcpy(bytes, rig->outputs, rig->elements * k->element);
  memcpy(bytes + rig->elements * k->element, rig->d_inputs, rig->elements * k->element);
  result.count = 2 * rig->elements;
  for (size_t i = 0; i < table.leaves; result.count += table.leaf[i++].count)
    ab_view_pack(bytes + result.count * k->element, &table.leaf[i].view);
  ck_assert_uint_eq(result.count, 2 * rig->elements + rig->weights);
  ab_leaf_table_free(&table);
  result.values = bytes;
  return result;
}

struct rig_result rig_run(const struct ab_pipeline_ops *ops, const struct ab_kernels *kernels,
                          const struct ab_config *config, struct ab_probe *probe) {
  struct rig rig;
  rig_new(&rig, ops, kernels, config, probe);
  ck_ok(rig_forward(&rig));
  ck_ok(rig_backward(&rig));
  struct rig_result result = rig_result_of(&rig, config);
  rig_free(&rig);
  return result;
}

static bool same_element(const void *a, const void *b, enum ab_dtype dtype, size_t i) {
  if (dtype == AB_M61) return ((const uint64_t *)a)[i] == ((const uint64_t *)b)[i];
  return isfinite(get(a, dtype, i)) && get(a, dtype, i) == get(b, dtype, i);
}

void rig_check_same(const char *what, struct rig_result a, struct rig_result b) {
  ck_assert_msg(a.count == b.count && a.dtype == b.dtype, "%s: %zu and %zu values", what, a.count, b.count);
  for (size_t i = 0; i < a.count; i++)
    ck_assert_msg(same_element(a.values, b.values, a.dtype, i), "%s: value %zu of %zu is %.9g and %.9g", what, i,
                  a.count, get(a.values, a.dtype, i), get(b.values, b.dtype, i));
  ab_mem_free(a.values);
  ab_mem_free(b.values);
}

static void check_same(const char *name, const char *what, const void *a, const void *b, enum ab_dtype dtype,
                       size_t n) {
  for (size_t i = 0; i < n; i++)
    ck_assert_msg(same_element(a, b, dtype, i), "%s: element %zu of %s differs", name, i, what);
}

void rig_check_same_run(const char *name, const struct reference_run *a, const struct reference_run *b,
                        enum ab_dtype dtype) {
  check_same(name, "outputs", a->outputs, b->outputs, dtype, a->elements);
  check_same(name, "d_inputs", a->d_inputs, b->d_inputs, dtype, a->elements);
  ck_assert_uint_eq(ab_tree_size(a->grads), ab_tree_size(b->grads));
  for (size_t i = 0; i < ab_tree_size(a->grads); i++) {
    const struct ab_tensor *x = ab_tree_at(a->grads, i), *y = ab_tree_find(b->grads, x->name);
    check_same(name, x->name, x->data, y->data, dtype, x->count);
  }
}

void rig_check_repeats(const char *what, const struct ab_pipeline_ops *ops, const struct ab_config *config) {
  struct rig_result results[2];
  struct rig rig;
  rig_new(&rig, ops, &ab_kernels_f32, config, NULL);
  for (int i = 0; i < 2; i++) {
    size_t arena = ab_arena_mark(&rig.s.arena), book = ab_arena_mark(&rig.s.book), calls = ab_mem_stats().calls;
    ck_ok(rig_forward(&rig));
    ck_ok(rig_backward(&rig));
    ck_assert_uint_eq(ab_mem_stats().calls, calls);
    ck_assert_uint_eq(ab_arena_mark(&rig.s.book), book);
    ab_arena_release(&rig.s.arena, arena);
    results[i] = rig_result_of(&rig, config);
  }
  rig_check_same(what, results[0], results[1]);
  rig_free(&rig);
}

double rig_distance(struct rig_result a, struct rig_result b) {
  double wrong = 0, all = 0;
  ck_assert_uint_eq(a.count, b.count);
  for (size_t i = 0; i < a.count; i++) {
    double x = get(a.values, a.dtype, i), y = get(b.values, b.dtype, i);
    wrong += (x - y) * (x - y);
    all += y * y;
  }
  ab_mem_free(a.values);
  ab_mem_free(b.values);
  return sqrt(wrong / all);
}
