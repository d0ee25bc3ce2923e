#include "init.h"

#include <math.h>

#include "distributions.h"

static uint32_t fnv1a32(const char *text) {
  uint32_t hash = 2166136261u;
  for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 16777619u;
  return hash;
}

static void fill(float *out, size_t n, float value) {
  for (size_t i = 0; i < n; i++) out[i] = value;
}

static void scale(float *out, size_t n, float factor) {
  for (size_t i = 0; i < n; i++) out[i] *= factor;
}

static double fan_in(const struct ab_param *param, const struct ab_layer_dims *dims) {
  double product = 1.0;
  for (int i = 0; i < param->fan_in_axes; i++) product *= (double)ab_axis_size(param->axis[i], dims);
  return product;
}

static void draw_ones(float *out, size_t n, struct ab_key key, double inputs) {
  (void)key, (void)inputs;
  fill(out, n, 1.0f);
}

static void draw_zeros(float *out, size_t n, struct ab_key key, double inputs) {
  (void)key, (void)inputs;
  fill(out, n, 0.0f);
}

static void draw_normal(float *out, size_t n, struct ab_key key, double inputs) {
  ab_random_normal(out, key, n);
  scale(out, n, (float)sqrt(1.0 / inputs));
}

static void draw_truncated(float *out, size_t n, struct ab_key key, double inputs) {
  ab_random_truncated_normal(out, key, n, -2.0f, 2.0f);
  scale(out, n, (float)(sqrt(1.0 / inputs) / 0.87962566103423978));
}

static void draw_unit_normal(float *out, size_t n, struct ab_key key, double inputs) {
  (void)inputs;
  ab_random_normal(out, key, n);
}

static void (*const draw[])(float *out, size_t n, struct ab_key key, double inputs) = {
    [AB_INIT_ONES] = draw_ones,
    [AB_INIT_ZEROS] = draw_zeros,
    [AB_INIT_NORMAL] = draw_normal,
    [AB_INIT_TRUNCATED] = draw_truncated,
    [AB_INIT_UNIT_NORMAL] = draw_unit_normal,
};

void ab_init_draw(float *out, const struct ab_param *param, const struct ab_layer_dims *dims, int64_t seed, int layer) {
  struct ab_key key = ab_key_fold_in(ab_key_fold_in(ab_key(seed), fnv1a32(param->name)), (uint32_t)(layer + 1));
  size_t n = ab_param_count(param, dims);
  draw[param->init](out, n, key, fan_in(param, dims));
  float divisor = (float)sqrt((double)dims->head_dim);
  for (size_t i = 0; i < n && param->query_scale; i++) out[i] /= divisor;
}

static ab_status set_all(struct ab_leaf_table *table, struct ab_leaf_values *buffer, const struct ab_side *side,
                         const struct ab_config *config, const struct ab_kernels *kernels) {
  AB_TRY(ab_leaf_table_fill(table, side, AB_PARAMS));
  if (kernels->dry) return AB_OK;
  AB_TRY(ab_leaf_values_new(buffer, table));
  for (size_t i = 0; i < table->leaves; i++) {
    const struct ab_leaf *leaf = &table->leaf[i];
    ab_init_draw(buffer->values, leaf->param, &table->dims, config->init_weights_seed, leaf->layer);
    AB_TRY(ab_leaf_set(leaf, buffer, kernels));
  }
  return AB_OK;
}

ab_status ab_init_weights(const struct ab_side *side, const struct ab_config *config,
                          const struct ab_kernels *kernels) {
  struct ab_leaf_table table;
  struct ab_leaf_values buffer = {0};
  AB_TRY(ab_leaf_table_new(&table, config, kernels, side->model_ops == NULL));
  ab_status status = set_all(&table, &buffer, side, config, kernels);
  ab_leaf_values_free(&buffer);
  ab_leaf_table_free(&table);
  AB_TRY(status);
  return AB_OK;
}
