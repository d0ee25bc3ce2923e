/* Every vector of prng.json that we implement, for both settings of jax_threefry_partitionable. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "distributions.h"
#include "fixture.h"
#include "tap.h"

static cJSON *prng;

static const cJSON *member(const cJSON *object, const char *name) {
  const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
  ck_assert_msg(found != NULL, "prng.json lacks '%s'", name);
  return found;
}

static double number(const cJSON *object, const char *name) { return member(object, name)->valuedouble; }

static uint32_t word_of(const cJSON *item) {
  return cJSON_IsString(item) ? (uint32_t)strtoul(item->valuestring, NULL, 16) : (uint32_t)item->valuedouble;
}

static size_t size_of(const cJSON *row) {
  size_t n = 1;
  const cJSON *extent;
  cJSON_ArrayForEach(extent, member(row, "shape")) n *= (size_t)extent->valuedouble;
  return n;
}

/* The two settings, as the loop index of the tests. */
static const cJSON *section(int original) {
  return member(prng, original ? "partitionable_false" : "partitionable_true");
}

static struct ab_key key_of(const cJSON *row, int original) {
  struct ab_key key = ab_key((int64_t)number(row, "seed"));
  key.original = original;
  return key;
}

static void check_key(struct ab_key key, const cJSON *expected) {
  for (int i = 0; i < 2; i++) ck_assert_uint_eq(key.word[i], word_of(cJSON_GetArrayItem(expected, i)));
}

START_TEST(block_cipher) {
  const cJSON *row;
  cJSON_ArrayForEach(row, member(prng, "threefry2x32_block")) {
    uint32_t key[2], count[2], out[2];
    for (int i = 0; i < 2; i++) {
      key[i] = word_of(cJSON_GetArrayItem(member(row, "key"), i));
      count[i] = word_of(cJSON_GetArrayItem(member(row, "count"), i));
    }
    ab_threefry2x32(out, key, count);
    for (int i = 0; i < 2; i++) ck_assert_uint_eq(out[i], word_of(cJSON_GetArrayItem(member(row, "out"), i)));
  }
}
END_TEST

START_TEST(keys_and_fold_in) {
  const cJSON *row;
  cJSON_ArrayForEach(row, member(section(_i), "key")) check_key(key_of(row, _i), member(row, "key"));
  cJSON_ArrayForEach(row, member(section(_i), "fold_in"))
      check_key(ab_key_fold_in(key_of(row, _i), (uint32_t)number(row, "data")), member(row, "key"));
}
END_TEST

static void check_split(const cJSON *row, int original, size_t n) {
  struct ab_key keys[64];
  ck_assert_uint_le(n, 64);
  ab_key_split(keys, key_of(row, original), n);
  ck_assert_int_eq(cJSON_GetArraySize(member(row, "keys")), (int)n);
  for (size_t i = 0; i < n; i++) check_key(keys[i], cJSON_GetArrayItem(member(row, "keys"), (int)i));
}

START_TEST(split_keys) {
  const cJSON *row;
  cJSON_ArrayForEach(row, member(section(_i), "split")) check_split(row, _i, (size_t)number(row, "n"));
  cJSON_ArrayForEach(row, member(section(_i), "split_shape")) check_split(row, _i, size_of(row));
}
END_TEST

START_TEST(random_bits) {
  const cJSON *row, *value;
  uint32_t words[64];
  uint16_t halves[64];
  uint8_t bytes[64];
  size_t i = 0;
  cJSON_ArrayForEach(row, member(section(_i), "bits32")) {
    ab_random_bits32(words, key_of(row, _i), size_of(row));
    i = 0;
    cJSON_ArrayForEach(value, member(row, "bits")) ck_assert_uint_eq(words[i++], word_of(value));
  }
  cJSON_ArrayForEach(row, member(section(_i), "bits16")) {
    ab_random_bits16(halves, key_of(row, _i), size_of(row));
    i = 0;
    cJSON_ArrayForEach(value, member(row, "bits")) ck_assert_uint_eq(halves[i++], word_of(value));
  }
  cJSON_ArrayForEach(row, member(section(_i), "bits8")) {
    ab_random_bits8(bytes, key_of(row, _i), size_of(row));
    i = 0;
    cJSON_ArrayForEach(value, member(row, "bits")) ck_assert_uint_eq(bytes[i++], word_of(value));
  }
  ck_assert_uint_gt(i, 0);
}
END_TEST

/* Order-preserving integers, so that the difference counts representable values. */
static int64_t ordered(uint32_t bits) { return bits >> 31 ? -(int64_t)(bits & 0x7fffffffu) : (int64_t)bits; }

/* The same bits: normal and truncated_normal promise 2 ulp, but nothing in them depends on the machine. */
static void check_floats(const float *values, const cJSON *row, const char *what) {
  const cJSON *expected;
  size_t i = 0;
  cJSON_ArrayForEach(expected, member(row, "f32")) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    int64_t distance = llabs(ordered(bits) - ordered(word_of(expected)));
    ck_assert_msg(distance == 0, "%s[%zu] = %08x, expected %s: %lld ulp", what, i, bits, expected->valuestring,
                  (long long)distance);
    i++;
  }
  ck_assert_uint_eq(i, size_of(row));
}

START_TEST(float_distributions) {
  const cJSON *row;
  float values[64];
  cJSON_ArrayForEach(row, member(section(_i), "uniform")) {
    ab_random_uniform(values, key_of(row, _i), size_of(row), (float)number(row, "minval"),
                      (float)number(row, "maxval"));
    check_floats(values, row, "uniform");
  }
  cJSON_ArrayForEach(row, member(section(_i), "normal")) {
    ab_random_normal(values, key_of(row, _i), size_of(row));
    check_floats(values, row, "normal");
  }
  cJSON_ArrayForEach(row, member(section(_i), "truncated_normal")) {
    ab_random_truncated_normal(values, key_of(row, _i), size_of(row), (float)number(row, "lower"),
                               (float)number(row, "upper"));
    check_floats(values, row, "truncated_normal");
  }
}
END_TEST

START_TEST(integer_distributions) {
  const cJSON *row, *value;
  uint8_t coins[64];
  int32_t dice[64];
  cJSON_ArrayForEach(row, member(section(_i), "bernoulli")) {
    ab_random_bernoulli(coins, key_of(row, _i), size_of(row), (float)number(row, "p"));
    size_t i = 0;
    cJSON_ArrayForEach(value, member(row, "value")) ck_assert_int_eq(coins[i++], (int)value->valuedouble);
    ck_assert_uint_eq(i, size_of(row));
  }
  cJSON_ArrayForEach(row, member(section(_i), "randint")) {
    ab_random_randint(dice, key_of(row, _i), size_of(row), (int32_t)number(row, "minval"),
                      (int32_t)number(row, "maxval"));
    size_t i = 0;
    cJSON_ArrayForEach(value, member(row, "value")) ck_assert_int_eq(dice[i++], (int)value->valuedouble);
    ck_assert_uint_eq(i, size_of(row));
  }
}
END_TEST

/* Both polynomial pieces of the inverse error function against libm's erf, over many draws. */
START_TEST(normal_inverts_erf) {
  enum { N = 20000 };
  static float u[N], z[N];
  ab_random_uniform(u, ab_key(7), N, nextafterf(-1.0f, 0.0f), 1.0f);
  ab_random_normal(z, ab_key(7), N);
  double largest = 0.0;
  for (int i = 0; i < N; i++) {
    ck_assert_msg(fabs(erf(z[i] / sqrt(2.0)) - u[i]) < 1e-6, "u = %.9g, z = %.9g", u[i], z[i]);
    largest = fmax(largest, fabs(z[i]));
  }
  ck_assert_double_gt(largest, 3.5);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("random");
  TCase *c = tcase_create("prng.json");
  tcase_add_test(c, block_cipher);
  tcase_add_loop_test(c, keys_and_fold_in, 0, 2);
  tcase_add_loop_test(c, split_keys, 0, 2);
  tcase_add_loop_test(c, random_bits, 0, 2);
  tcase_add_loop_test(c, float_distributions, 0, 2);
  tcase_add_loop_test(c, integer_distributions, 0, 2);
  tcase_add_test(c, normal_inverts_erf);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  prng = fixture_json("prng.json");
  int code = ab_run_suite(suite());
  cJSON_Delete(prng);
  return code;
}
