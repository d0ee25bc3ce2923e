/* Every row of the table of explanations, on recordings whose mistake is known; and what is not explained. */
#include "explain_rig.h"

/* One gradient of the truth and a wrong one made from it. */
struct shape_row {
  const char *id, *text;
  void (*change)(float *got, const float *truth);
};

static void times_quarter(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] * 0.25f;
}
static void times_three(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] * 3;
}
static void zero(float *got, const float *truth) {
  (void)truth;
  for (int i = 0; i < COUNT; i++) got[i] = 0;
}
static void transpose(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i % ROWS * COLUMNS + i / ROWS];
}
static void swap_rows(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[(i + (i / COLUMNS == 1 ? 3 : i / COLUMNS == 4 ? -3 : 0) * COLUMNS)];
}
static void rotate_columns(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i / COLUMNS * COLUMNS + (i + 2) % COLUMNS];
}
static void round_to_16(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) {
    uint32_t bits;
    memcpy(&bits, &truth[i], sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&got[i], &bits, sizeof bits);
  }
}
static void put_nan(float *got, const float *truth) {
  memcpy(got, truth, COUNT * sizeof *got);
  got[5] = NAN;
}
static void disturb(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] + 1e-3f * noise(99, i);
}

static const struct shape_row shape_rows[] = {
    {"constant-factor", "is the truth times 0.25 (= 1/M); residual", times_quarter},
    {"constant-factor", "is the truth times 3; residual", times_three},
    {"zero", "is zero in all 48 elements", zero},
    {"transposed", "is the truth transposed, as a matrix of 6 by 8", transpose},
    {"permuted", "with 2 of the 6 slices of axis 0 in other places: 1 is that of 4", swap_rows},
    {"permuted", "with 8 of the 8 slices of axis 1 in other places: 0 is that of 2", rotate_columns},
    {"16-bit-accumulator", "every one of its 48 values fits into bfloat16", round_to_16},
    {"not-finite", "has 1 values that are NaN or infinite; the first tensor with one is step 0", put_nan},
    {"none", "no explanation found, at a relative L2 of 0.001; tried: not-finite, zero, norms", disturb},
};

START_TEST(a_changed_tensor_is_named) {
  const struct shape_row *row = &shape_rows[_i];
  struct rig rig;
  rig_new(&rig);
  float *truth = put(&rig, 1, gradient(1), 7), *got = put(&rig, 0, gradient(1), 7);
  row->change(got, truth);
  for (int i = 0; i < 2; i++) side_observe(&rig.side[i], &(struct ab_identity){.layer = 1, .microbatch = -1,
                                           .phase = AB_BACKWARD, .tensor = "mlp/wo/kernel"});
  ask(&rig, gradient(1));
  expect(&rig, row->id, row->text);
  ck_assert_uint_eq(rig.list.lines, 1);
  ck_assert_msg(!strstr(rig.list.line[0].text, "iteration"), "a gradient has none: %s", rig.list.line[0].text);
  ask(&rig, gradient(1));
  ck_assert_msg(rig.list.lines == 1, "the same tensor is told of twice");
  rig_free(&rig);
}
END_TEST

/* Without values three numbers of a tensor are left. */
static ab_status no_values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  (void)ctx, (void)side, (void)out;
  return AB_FAIL(AB_ENOTFOUND, "'%s' was not kept", observation->id.tensor);
}

static const struct shape_row norm_rows[] = {
    {"constant-factor", "is the truth times 0.25 (= 1/M), by norm, sum and largest value", times_quarter},
    {"permuted", "has the truth's values in other places", swap_rows},
    {"none", "no explanation found; tried: not-finite, zero, norms, other-microbatch, other-layer, stale (its", times_three},
    {"none", "no explanation found", disturb},
};

START_TEST(norms_speak_where_values_are_not_kept) {
  const struct shape_row *row = &norm_rows[_i];
  struct rig rig;
  rig_new(&rig);
  rig.question.values = no_values;
  struct ab_identity id = identity(0, 1, "mlpwo", AB_FORWARD);
  float *truth = put(&rig, 1, id, 7), *got = put(&rig, 0, id, 7);
  row->change(got, truth);
  for (int i = 0; i < 2; i++) side_observe(&rig.side[i], &id);
  ask(&rig, id);
  expect(&rig, row->id, row->text);
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* Digest index. */
static void put_and_observe(struct rig *rig, int side, struct ab_identity id, uint32_t seed) {
  put(rig, side, id, seed);
  side_observe(&rig->side[side], &id);
}

START_TEST(the_gradient_of_another_layer_is_named) {
  struct rig rig;
  rig_new(&rig);
  for (int layer = 0; layer < 4; layer++) put_and_observe(&rig, 1, gradient(layer), 20 + (uint32_t)layer);
  put_and_observe(&rig, 0, gradient(3), 21);
  put_and_observe(&rig, 0, gradient(2), 23);
  ask(&rig, gradient(3));
  expect(&rig, "other-layer", "is that of layer 1, expected 3 (bitwise)");
  expect(&rig, "other-repeat", "is that of repeat 0, expected 1 (bitwise)");
  ck_assert_uint_eq(rig.list.lines, 2);
  ask(&rig, gradient(2));
  expect(&rig, "other-layer", "is that of layer 3, expected 2");
  ck_assert_uint_eq(rig.list.lines, 3);
  rig_free(&rig);
}
END_TEST

static struct ab_identity activation(int layer, int microbatch) {
  struct ab_identity id = identity(0, layer, "decoder_layer_input", AB_FORWARD);
  id.microbatch = microbatch;
  return id;
}

START_TEST(the_input_of_another_microbatch_is_named) {
  struct rig rig;
  rig_new(&rig);
  for (int m = 0; m < MICROBATCHES; m++) put_and_observe(&rig, 1, activation(2, m), 40 + (uint32_t)m);
  put_and_observe(&rig, 0, activation(2, 3), 42);
  ask(&rig, activation(2, 3));
  expect(&rig, "other-microbatch", "is microbatch 2, expected 3 (bitwise)");
  rig_free(&rig);
}
END_TEST

START_TEST(the_value_of_the_step_before_is_named) {
  struct rig rig;
  struct ab_identity now = gradient(1), before = gradient(1);
  rig_new(&rig);
  now.step = 1;
  put_and_observe(&rig, 1, before, 50);
  put_and_observe(&rig, 1, now, 51);
  put_and_observe(&rig, 0, now, 50);
  ask(&rig, now);
  expect(&rig, "stale", "is the value of step 0, expected that of step 1 (bitwise)");
  rig_free(&rig);
}
END_TEST

START_TEST(a_gradient_that_was_not_cleared_is_named) {
  struct rig rig;
  struct ab_identity now = gradient(1), before = gradient(1);
  rig_new(&rig);
  now.step = 1;
  float *left = put(&rig, 1, before, 50), *truth = put(&rig, 1, now, 51), *got = put(&rig, 0, now, 51);
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] + (_i ? 0.5f : 1) * left[i];
  side_observe(&rig.side[1], &before);
  side_observe(&rig.side[1], &now);
  side_observe(&rig.side[0], &now);
  ask(&rig, now);
  expect(&rig, _i ? "none" : "stale", _i ? "no explanation" : "is the truth plus the gradient of step 0");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

START_TEST(a_parameter_that_was_not_updated_is_named) {
  struct rig rig;
  struct ab_identity after = identity(0, 1, leaf, AB_UPDATE);
  rig_new(&rig);
  put_and_observe(&rig, 1, identity(-1, 1, "input/params/mlp/wo/kernel", AB_FORWARD), 60);
  put_and_observe(&rig, 1, after, 61);
  put_and_observe(&rig, 0, after, 60 + 2 * (uint32_t)_i);
  ask(&rig, after);
  expect(&rig, _i ? "none" : "stale", _i ? "no explanation" : "is the initial value, expected that after the update");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* All ones fit into 16 bits, and are no sum. */
START_TEST(a_parameter_of_few_bits_is_no_accumulator) {
  struct rig rig;
  struct ab_identity after = identity(0, 1, leaf, AB_UPDATE);
  rig_new(&rig);
  float *truth = put(&rig, 1, after, 61), *got = put(&rig, 0, after, 61);
  round_to_16(got, truth);
  side_observe(&rig.side[1], &after);
  side_observe(&rig.side[0], &after);
  ask(&rig, after);
  expect(&rig, "none", "no explanation");
  rig_free(&rig);
}
END_TEST

/* Parts of a gradient: the truth has each `right` times, the wrong one `times` times that. */
struct parts_row {
  const char *id, *text;
  double times[PARTS], right[PARTS];
  double last; /* what is added to the last element */
  int nothing; /* this part is 0 everywhere; 0: none is */
};
#define EVEN {0.25, 0.25, 0.25, 0.25}
#define UNEVEN {0.4, 0.1, 0.3, 0.2}
static const struct parts_row parts_rows[] = {
    {"missing-microbatch", "without microbatch 2; residual", {1, 1, 0, 1}, UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatches 0, 1; residual", {0, 0, 1, 1}, EVEN, 0, 0},
    {"missing-microbatch", "without microbatch 3, times 4 (= M); residual", {4, 4, 4, 0}, EVEN, 0, 0},
    {"doubled-microbatch", "with microbatch 1 counted twice; residual", {1, 2, 1, 1}, UNEVEN, 0, 0},
    {"doubled-microbatch", "with microbatch 1 counted twice and without 3; residual", {1, 2, 1, 0}, UNEVEN, 0, 0},
    {"only-microbatch", "is microbatch 3 alone, of 4; residual", {0, 0, 0, 1}, UNEVEN, 0, 0},
    {"only-microbatch", "is microbatch 0 alone, of 4, times 4 (= M); residual", {4, 0, 0, 0}, EVEN, 0, 0},
    {"wrong-denominator", "is the mean of the 4 microbatches' own means", {0.625, 2.5, 0.25 / 0.3, 1.25}, UNEVEN, 0, 0},
    {"constant-factor", "is the truth times 2 (= S = 2)", {2, 2, 2, 2}, UNEVEN, 0, 0},
    {"none", "no explanation found", {1, 0.7, 1, 1.3}, UNEVEN, 0, 0},
    {"none", "no explanation found", {1, 0.3, 1, 1}, UNEVEN, 0, 0}, /* nearer to missing than to there */
    {"none", "no explanation found", {1, 1, 1, 1.6}, UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatch 3, times 1.33333; residual", {4 / 3., 4 / 3., 4 / 3., 0}, UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatch 0, times 0.7; residual", {0, 0.7, 0.7, 0.7}, UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatch 3, times -0.7; residual", {-0.7, -0.7, -0.7, 0}, UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatch 1, times 0.25 (= 1/M); residual", {0.25, 0, 0.25, 0.25}, UNEVEN, 0, 0},
    {"doubled-microbatch", "with microbatch 1 counted twice and without 3, times 1.5;", {1.5, 3, 1.5, 0}, UNEVEN, 0, 0},
    {"doubled-microbatch", "with microbatches 2, 3 counted twice, times 0.7;", {0.7, 0.7, 1.4, 1.4}, UNEVEN, 0, 0},
    {"doubled-microbatch", "with microbatches 0, 1 counted twice, times 0.7;", {1.4, 1.4, 0.7, 0.7}, UNEVEN, 0, 0},
    {"doubled-microbatch", "with microbatches 0, 1, 2 counted twice;", {2, 2, 2, 1}, UNEVEN, 0, 0},
    {"doubled-microbatch", "counts microbatches 0, 2 once and others several times;", {1, 3, 1, 3}, UNEVEN, 0, 0},
    {"doubled-microbatch", "counts microbatch 0 once and others several times;", {1, 3, 3, 3}, UNEVEN, 0, 0},
    {"doubled-microbatch", "counts microbatch (none) once and others several times, times 2 (= S = 2);", {-2, -2, -2, 0}, UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatch 1; residual", {1, 0, 1, 1}, UNEVEN, 0, 2},
    {"none", "no explanation found", {1, 1, 0, 1}, UNEVEN, 1e-3, 0},
    {"none", "no explanation found", {1, 1, 0, 1}, UNEVEN, 1e-2, 0},
};

START_TEST(a_sum_of_parts_is_taken_apart) {
  const struct parts_row *row = &parts_rows[_i];
  struct rig rig;
  rig_new(&rig);
  float *truth = put(&rig, 1, gradient(1), 1), *got = put(&rig, 0, gradient(1), 1);
  const float *part[PARTS];
  for (int m = 0; m < PARTS; m++) {
    struct ab_identity id = gradient(1);
    id.step = m;
    float *value = put(&rig, 2, id, 60 + (uint32_t)m);
    for (int i = 0; i < COUNT && m && m == row->nothing; i++) value[i] = 0;
    part[m] = value;
    side_observe(&rig.side[2], &id);
    rig.what_if[m].part = m;
  }
  for (int i = 0; i < COUNT; i++) {
    double sum = 0, wrong = 0;
    for (int m = 0; m < PARTS; m++) {
      sum += row->right[m] * (double)part[m][i];
      wrong += row->times[m] * row->right[m] * (double)part[m][i];
    }
    truth[i] = (float)sum;
    got[i] = (float)(wrong + (i == COUNT - 1 ? row->last : 0));
  }
  struct ab_identity id = gradient(1);
  for (int i = 0; i < 2; i++) side_observe(&rig.side[i], &id);
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = PARTS;
  ask(&rig, id);
  expect(&rig, row->id, row->text);
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* As many elements as parts: any tensor would be a sum of them. */
START_TEST(few_elements_are_no_evidence) {
  struct rig rig;
  rig_new(&rig);
  float *value[2 + PARTS];
  for (int i = 0; i < 2 + PARTS; i++) {
    struct ab_identity id = gradient(1);
    id.step = i < 2 ? 0 : i - 2;
    struct ab_tensor *t = side_tensor(&rig.side[i < 2 ? i : 2], &id, AB_F32, (struct ab_shape){1, {PARTS}});
    value[i] = t->data;
    for (int k = 0; k < PARTS; k++) value[i][k] = i < 2 ? 0 : noise((uint32_t)i, k);
    for (int k = 0; k < PARTS && i > 1; k++) {
      value[1][k] += 0.25f * value[i][k];
      value[0][k] += i == 2 ? 0 : 0.25f * value[i][k];
    }
    if (i > 1) side_observe(&rig.side[2], &id);
    if (i > 1) rig.what_if[i - 2].part = i - 2;
  }
  struct ab_identity id = gradient(1);
  for (int i = 0; i < 2; i++) side_observe(&rig.side[i], &id);
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = PARTS;
  ask(&rig, id);
  expect(&rig, "none", "no explanation found");
  rig_free(&rig);
}
END_TEST

/* Parts are larger than the threshold but for the second, or all. */
START_TEST(gradients_that_are_clipped_one_by_one_are_named) {
  struct rig rig;
  rig_new(&rig);
  rig.question.update.clip = 1;
  float *truth = put(&rig, 1, gradient(1), 1), *got = put(&rig, 0, gradient(1), 1);
  for (int i = 0; i < COUNT; i++) truth[i] = got[i] = 0;
  for (int m = 0; m < PARTS; m++) {
    struct ab_identity id = gradient(1);
    double squares = 0;
    id.step = m;
    float *part = put(&rig, 2, id, 60 + (uint32_t)m);
    for (int i = 0; i < COUNT; i++) {
      part[i] *= m == 1 && _i == 0 ? 0.01f : 1.0f;
      squares += (double)part[i] * (double)part[i];
    }
    for (int i = 0; i < COUNT; i++) {
      truth[i] += 0.25f * part[i];
      got[i] += 0.25f * part[i] / (squares > 1 ? (float)sqrt(squares) : 1.0f);
    }
    side_observe(&rig.side[2], &id);
    rig.what_if[m].part = m;
  }
  struct ab_identity id = gradient(1);
  for (int i = 0; i < 2; i++) side_observe(&rig.side[i], &id);
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = PARTS;
  ask(&rig, id);
  expect(&rig, "clipped-per-microbatch", "is the sum of the 4 microbatches' gradients, each clipped to 1 by itself");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

START_TEST(the_pass_that_reproduces_most_is_named) {
  struct rig rig;
  rig_new(&rig);
  for (int layer = 0; layer < 2; layer++) {
    put_and_observe(&rig, 1, activation(layer, 0), 70 + (uint32_t)layer);
    put_and_observe(&rig, 0, activation(layer, 0), 80 + (uint32_t)layer);
    for (int pass = 0; pass < 3; pass++) {
      struct ab_identity id = activation(layer, 0);
      bool reproduced = pass == 1 || (pass == 0 && layer == 0);
      id.step = pass;
      put_and_observe(&rig, 2, id, reproduced ? 80 + (uint32_t)layer : 90 + (uint32_t)pass);
    }
  }
  rig.what_if[0] = (struct ab_what_if){"other-layer", -1, "its weights are those of layer 3"};
  rig.what_if[1] = (struct ab_what_if){"other-repeat", -1, "every repeat has the weights of repeat 0"};
  rig.what_if[2] = (struct ab_what_if){"no-segments", -1, "segments are not seen"};
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = 3;
  ask(&rig, activation(0, 0));
  expect(&rig, "other-repeat", "every repeat has the weights of repeat 0 (the oracle with this reproduces it and 2 of");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* _i 1: got is the truth but for rounding, and the pass has changed nothing. */
START_TEST(a_pass_that_is_near_is_named_where_bits_may_differ) {
  struct rig rig;
  rig_new(&rig);
  put_and_observe(&rig, 1, gradient(1), _i ? 21 : 20);
  float *got = put(&rig, 0, gradient(1), 21);
  for (int i = 0; i < COUNT; i++) got[i] *= 1 + 1e-7f * (float)(i % 3);
  struct ab_identity id = gradient(1);
  side_observe(&rig.side[0], &id);
  put_and_observe(&rig, 2, id, 21);
  rig.what_if[0] = (struct ab_what_if){"labels-of-microbatch", -1, "every microbatch has the labels of microbatch 0"};
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = 1;
  ask(&rig, id);
  if (_i) expect(&rig, "none", "no explanation found, at a relative L2 of 1");
  else expect(&rig, "labels-of-microbatch", "of microbatch 0 (the oracle with this reproduces it; residual 1");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("explain");
  TCase *tc = tcase_create("explain");
  tcase_add_loop_test(tc, a_changed_tensor_is_named, 0, LENGTH(shape_rows));
  tcase_add_loop_test(tc, norms_speak_where_values_are_not_kept, 0, LENGTH(norm_rows));
  tcase_add_test(tc, the_gradient_of_another_layer_is_named);
  tcase_add_test(tc, the_input_of_another_microbatch_is_named);
  tcase_add_test(tc, the_value_of_the_step_before_is_named);
  tcase_add_loop_test(tc, a_gradient_that_was_not_cleared_is_named, 0, 2);
  tcase_add_loop_test(tc, a_parameter_that_was_not_updated_is_named, 0, 2);
  tcase_add_test(tc, a_parameter_of_few_bits_is_no_accumulator);
  tcase_add_loop_test(tc, a_sum_of_parts_is_taken_apart, 0, LENGTH(parts_rows));
  tcase_add_test(tc, few_elements_are_no_evidence);
  tcase_add_loop_test(tc, gradients_that_are_clipped_one_by_one_are_named, 0, 2);
  tcase_add_test(tc, the_pass_that_reproduces_most_is_named);
  tcase_add_loop_test(tc, a_pass_that_is_near_is_named_where_bits_may_differ, 0, 2);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
