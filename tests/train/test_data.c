/* Synthetic tokens and segments, and learning rates, against the numbers of MaxText. */
#include <math.h>
#include <string.h>

#include "batch.h"
#include "fixture.h"
#include "mem.h"
#include "schedule.h"
#include "tap.h"

static double number(const cJSON *object, const char *name) {
  const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
  ck_assert_msg(found != NULL, "no member '%s'", name);
  return found->valuedouble;
}

static const cJSON *at(const cJSON *matrix, int64_t r, int64_t p) {
  return cJSON_GetArrayItem(cJSON_GetArrayItem(matrix, (int)r), (int)p);
}

static struct ab_config config_of(const cJSON *row, int64_t vocab) {
  struct ab_config c = {.max_target_length = (int64_t)number(row, "max_target_length"), .vocab_size = vocab};
  c.global_batch_size_to_load = c.global_batch_size_to_train_on = (int64_t)number(row, "rows");
  return c;
}

static void check_tokens(const struct ab_batch *b, const cJSON *tokens) {
  for (int64_t r = 0; r < b->rows; r++) {
    for (int64_t p = 0; p < b->length; p++) {
      int64_t i = r * b->length + p;
      ck_assert_int_eq(b->inputs[i], at(tokens, r, p)->valueint);
      ck_assert_int_eq(b->targets[i], at(tokens, r, p + 1)->valueint);
      ck_assert_int_eq(b->inputs_position[i], (int)p);
      ck_assert_int_eq(b->targets_position[i], (int)p + 1);
      ck_assert_int_eq(b->inputs_segmentation[i], 1);
      ck_assert_int_eq(b->targets_segmentation[i], 1);
    }
  }
}

START_TEST(tokens_are_maxtexts) {
  cJSON *all = fixture_json("synthetic.json"), *row;
  int rows = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(all, "tokens")) {
    struct ab_config c = config_of(row, (int64_t)number(row, "vocab_size"));
    struct ab_synthetic *data;
    ck_ok(ab_synthetic_new(&data, &c));
    struct ab_batch batch = ab_synthetic_batch(data);
    check_tokens(&batch, cJSON_GetObjectItem(row, "tokens"));
    ab_synthetic_free(data);
    rows++;
  }
  ck_assert_int_eq(rows, 3);
  cJSON_Delete(all);
}
END_TEST

START_TEST(packed_segments_are_maxtexts) {
  cJSON *all = fixture_json("synthetic.json"), *row;
  int rows = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(all, "packed_segments")) {
    struct ab_config c = config_of(row, 64);
    c.packing = true;
    c.max_segments_per_seq = (int64_t)number(row, "max_segments_per_seq");
    struct ab_synthetic *data;
    ck_ok(ab_synthetic_new(&data, &c));
    struct ab_batch b = ab_synthetic_batch(data);
    for (int64_t i = 0; i < b.rows * b.length; i++)
      ck_assert_msg(
          b.inputs_segmentation[i] == at(cJSON_GetObjectItem(row, "segments"), i / b.length, i % b.length)->valueint,
          "row %d element %lld", rows, (long long)i);
    ab_synthetic_free(data);
    rows++;
  }
  ck_assert_int_eq(rows, 4);
  cJSON_Delete(all);
}
END_TEST

START_TEST(rows_beyond_the_training_batch_are_cut) {
  struct ab_config c = {
      .max_target_length = 4, .vocab_size = 9, .global_batch_size_to_load = 6, .global_batch_size_to_train_on = 2};
  struct ab_synthetic *data;
  ck_ok(ab_synthetic_new(&data, &c));
  ck_assert_int_eq(ab_synthetic_batch(data).rows, 2);
  ab_synthetic_free(data);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, 0);
}
END_TEST

static const char *const train_cases[] = {"t01", "t01b", "t02", "t03", "t03b", "t15", "t16", "t17"};

/* The schedule's keys of t*: everything else has its default. */
static struct ab_config schedule_of(double rate, double warmup, int64_t steps) {
  return (struct ab_config){.learning_rate = rate,
                            .learning_rate_final_fraction = 0.1,
                            .warmup_steps_fraction = warmup,
                            .learning_rate_schedule_steps = steps,
                            .steps = steps,
                            .lr_schedule_type = "cosine",
                            .wsd_decay_style = "linear",
                            .wsd_decay_steps_fraction = 0.1};
}

START_TEST(learning_rates_are_maxtexts_bits) {
  char path[64];
  bool long_case = strncmp(train_cases[_i], "t01", 3) == 0;
  struct ab_config c = long_case ? schedule_of(0.003, 0.1, 15) : schedule_of(0.01, 0.0, 4);
  snprintf(path, sizeof path, "%s/expected.json", train_cases[_i]);
  cJSON *expected = fixture_json(path), *row;
  int64_t step = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(expected, "steps"))
      ck_assert_msg(ab_learning_rate(&c, step++) == number(cJSON_GetObjectItem(row, "lr"), "value"), "%s step %lld",
                    train_cases[_i], (long long)step - 1);
  ck_assert_int_eq(step, c.steps);
  cJSON_Delete(expected);
}
END_TEST

static void check_rate(const struct ab_config *c, int64_t step, double expected) {
  ck_assert_msg(fabs(ab_learning_rate(c, step) - expected) <= 1e-7 * c->learning_rate, "step %lld: %.9g, expected %.9g",
                (long long)step, ab_learning_rate(c, step), expected);
}

START_TEST(warmup_stable_decay) {
  struct ab_config c = schedule_of(1.0, 0.2, 20);
  c.lr_schedule_type = "wsd";
  c.wsd_decay_steps_fraction = 0.25;
  for (int64_t t = 0; t < 4; t++) check_rate(&c, t, (double)t / 4);
  for (int64_t t = 4; t < 15; t++) check_rate(&c, t, 1.0);
  for (int64_t t = 15; t < 20; t++) check_rate(&c, t, 1.0 - 0.9 * (double)(t - 15) / 4);
  check_rate(&c, 25, 0.1);
  c.wsd_decay_style = "cosine";
  for (int64_t t = 15; t < 20; t++)
    check_rate(&c, t, 0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979 * (double)(t - 15) / 4)));
}
END_TEST

START_TEST(zero_after_the_schedule_and_extrapolated_within) {
  struct ab_config c = schedule_of(1.0, 0.1, 10);
  c.steps = 12;
  check_rate(&c, 9, 0.1);
  check_rate(&c, 10, 0.0);
  check_rate(&c, 11, 0.0);
  c.steps = 5;
  check_rate(&c, 17, 1.0);
  c = schedule_of(1.0, 0.0, 1);
  check_rate(&c, 0, 0.1);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("data");
  TCase *c = tcase_create("data");
  tcase_add_test(c, tokens_are_maxtexts);
  tcase_add_test(c, packed_segments_are_maxtexts);
  tcase_add_test(c, rows_beyond_the_training_batch_are_cut);
  tcase_add_loop_test(c, learning_rates_are_maxtexts_bits, 0, sizeof train_cases / sizeof *train_cases);
  tcase_add_test(c, warmup_stable_decay);
  tcase_add_test(c, zero_after_the_schedule_and_extrapolated_within);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
