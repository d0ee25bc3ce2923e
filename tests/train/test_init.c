/* Initial weights: the documented scheme, MaxText's distributions, and the same values in every layout. */
#include <math.h>
#include <string.h>

#include "distributions.h"
#include "fixture.h"
#include "init.h"
#include "mem.h"
#include "tap.h"

static const struct ab_layer_dims dims = {.emb = 4, .heads = 2, .kv_heads = 1, .head_dim = 3, .mlp = 6, .vocab = 8};

START_TEST(draws_follow_the_documented_scheme) {
  const struct ab_param param = {
      .name = "mlp/wi_0/kernel", .axis = {AB_AXIS_EMB, AB_AXIS_MLP}, .init = AB_INIT_NORMAL, .fan_in_axes = 1};
  float got[24], expected[24];
  const uint32_t name_hash = 0x412979ea; /* FNV-1a of the name, computed elsewhere */
  struct ab_key key = ab_key_fold_in(ab_key_fold_in(ab_key(11), name_hash), 3 + 1);
  ab_random_normal(expected, key, 24);
  ab_init_draw(got, &param, &dims, 11, 3);
  for (int i = 0; i < 24; i++) ck_assert_msg(got[i] == expected[i] * 0.5f, "element %d", i);
}
END_TEST

START_TEST(layers_names_and_seeds_have_keys_of_their_own) {
  struct ab_param param = {
      .name = "weights", .axis = {AB_AXIS_EMB, AB_AXIS_MLP}, .init = AB_INIT_NORMAL, .fan_in_axes = 1};
  float one[24], other[24];
  ab_init_draw(one, &param, &dims, 0, 0);
  ab_init_draw(other, &param, &dims, 0, 1);
  ck_assert_mem_ne(one, other, sizeof one);
  ab_init_draw(other, &param, &dims, 1, 0);
  ck_assert_mem_ne(one, other, sizeof one);
  param.name = "weight";
  ab_init_draw(other, &param, &dims, 0, 0);
  ck_assert_mem_ne(one, other, sizeof one);
}
END_TEST

/* The extents that in_axis names: 4 of [4, 6] and [4, 2, 3], 2 x 3 of [2, 3, 4]. */
static double fan_in_of(const cJSON *row) {
  const cJSON *in = cJSON_GetObjectItem(row, "in_axis"), *shape = cJSON_GetObjectItem(row, "shape"), *axis;
  double product = 1;
  if (cJSON_IsNumber(in)) return cJSON_GetArrayItem(shape, in->valueint)->valuedouble;
  cJSON_ArrayForEach(axis, in) product *= cJSON_GetArrayItem(shape, axis->valueint)->valuedouble;
  return product;
}

static void check_variance(const cJSON *row) {
  bool truncated = strcmp(cJSON_GetObjectItem(row, "distribution")->valuestring, "normal") != 0;
  struct ab_key key = ab_key((int64_t)cJSON_GetObjectItem(row, "seed")->valuedouble);
  float draw[24], factor = (float)(sqrt(1 / fan_in_of(row)) / (truncated ? 0.87962566103423978 : 1.0));
  int i = 0;
  if (truncated)
    ab_random_truncated_normal(draw, key, 24, -2.0f, 2.0f);
  else
    ab_random_normal(draw, key, 24);
  const cJSON *value;
  cJSON_ArrayForEach(value, cJSON_GetObjectItem(row, "f32")) {
    uint32_t bits = (uint32_t)strtoul(value->valuestring, NULL, 16);
    float expected, got = draw[i++] * factor;
    memcpy(&expected, &bits, sizeof expected);
    ck_assert_msg(fabsf(got - expected) <= 1.2e-7f * fabsf(expected), "%.9g, expected %.9g", (double)got,
                  (double)expected);
  }
  ck_assert_int_eq(i, 24);
}

/* jax.nn.initializers.variance_scaling's own numbers: the key there is the plain seed. */
START_TEST(variances_are_jaxs) {
  cJSON *prng = fixture_json("prng.json"), *row;
  const cJSON *section = cJSON_GetObjectItem(prng, "partitionable_true");
  int rows = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(section, "variance_scaling_fan_in")) check_variance(row), rows++;
  ck_assert_int_eq(rows, 3);
  cJSON_Delete(prng);
}
END_TEST

static double deviation(const struct ab_param *param, const struct ab_layer_dims *sizes, double *largest) {
  size_t n = ab_param_count(param, sizes);
  float *values;
  double squares = 0;
  ck_ok(ab_mem_new(&values, n, sizeof *values));
  ab_init_draw(values, param, sizes, 3, -1);
  *largest = 0;
  for (size_t i = 0; i < n; i++) {
    squares += (double)values[i] * (double)values[i];
    *largest = fmax(*largest, fabs((double)values[i]));
  }
  ab_mem_free(values);
  return sqrt(squares / (double)n);
}

START_TEST(each_kind_has_its_deviation) {
  const struct ab_layer_dims wide = {.emb = 64, .heads = 4, .head_dim = 16, .mlp = 100, .vocab = 128};
  struct ab_param p = {.name = "p", .axis = {AB_AXIS_EMB, AB_AXIS_MLP}, .init = AB_INIT_TRUNCATED, .fan_in_axes = 1};
  double largest;
  ck_assert_double_eq_tol(deviation(&p, &wide, &largest), 1.0 / 8, 0.003);
  ck_assert_double_le(largest, 2.0 / 8 / 0.87962566103423978);
  p.init = AB_INIT_UNIT_NORMAL;
  ck_assert_double_eq_tol(deviation(&p, &wide, &largest), 1.0, 0.03);
  p = (struct ab_param){.name = "q",
                        .axis = {AB_AXIS_EMB, AB_AXIS_HEADS, AB_AXIS_HEAD_DIM},
                        .init = AB_INIT_NORMAL,
                        .fan_in_axes = 1,
                        .query_scale = true};
  ck_assert_double_eq_tol(deviation(&p, &wide, &largest), 1.0 / 8 / 4, 0.001);
  p = (struct ab_param){
      .name = "o", .axis = {AB_AXIS_HEADS, AB_AXIS_HEAD_DIM, AB_AXIS_EMB}, .init = AB_INIT_NORMAL, .fan_in_axes = 2};
  ck_assert_double_eq_tol(deviation(&p, &wide, &largest), 1.0 / 8, 0.004);
  p.init = AB_INIT_ONES;
  ck_assert_double_eq(deviation(&p, &wide, &largest), 1.0);
  p.init = AB_INIT_ZEROS;
  ck_assert_double_eq(deviation(&p, &wide, &largest), 0.0);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("init");
  TCase *c = tcase_create("init");
  tcase_add_test(c, draws_follow_the_documented_scheme);
  tcase_add_test(c, layers_names_and_seeds_have_keys_of_their_own);
  tcase_add_test(c, variances_are_jaxs);
  tcase_add_test(c, each_kind_has_its_deviation);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
