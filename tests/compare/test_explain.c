/* Every row of the table of explanations, on recordings whose mistake is known; and what is not explained. */
#include "explain_rig.h"
#include "float_bits.h"

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
static void keep_bits(float *got, const float *truth, uint32_t mask) {
  for (int i = 0; i < COUNT; i++) got[i] = ab_float_of_bits(ab_bits_of_float(truth[i]) & mask);
}
static void round_to_16(float *got, const float *truth) { keep_bits(got, truth, 0xffff0000u); }
static void put_nan(float *got, const float *truth) {
  memcpy(got, truth, COUNT * sizeof *got);
  got[5] = NAN;
}
/* What is wrong at the end leaves the best factor as it is. */
static void quarter_but_for_the_last(float *got, const float *truth) {
  times_quarter(got, truth);
  got[COUNT - 2] += 0.01f * truth[COUNT - 1];
  got[COUNT - 1] -= 0.01f * truth[COUNT - 2];
}
static void quarter_with_noise(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] * 0.25f + 5e-6f * noise(99, i);
}
static void nearly_a_quarter(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] * 0.2500075f;
}
static void transpose_but_for_the_last(float *got, const float *truth) {
  transpose(got, truth);
  got[COUNT - 1] += 1;
}
static void copy_a_row(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i + (i / COLUMNS == 1 ? 3 * COLUMNS : 0)];
}
static void round_to_half(float *got, const float *truth) { keep_bits(got, truth, 0xffffe000u); }
static void round_but_for_the_last(float *got, const float *truth) {
  round_to_16(got, truth);
  got[COUNT - 1] = truth[COUNT - 1];
}
static void disturb_the_last(float *got, const float *truth) {
  memcpy(got, truth, COUNT * sizeof *got);
  got[COUNT - 1] += 1;
}
static void disturb(float *got, const float *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i] + 1e-3f * noise(99, i);
}

static const struct shape_row shape_rows[] = {
    {"constant-factor", "is the truth times 0.25 (= 1/M); residual", times_quarter},
    {"constant-factor", "is the truth times 3; residual", times_three},
    {"zero", "is zero in all 48 elements", zero},
    {"transposed", "is the truth transposed, as a matrix of 6 by 8 (all 48 values)", transpose},
    {"permuted", "with 2 of the 6 slices of axis 0 in other places: 1 is that of 4 (all 48 values)", swap_rows},
    {"permuted", "with 8 of the 8 slices of axis 1 in other places: 0 is that of 2", rotate_columns},
    {"16-bit-accumulator", "every one of its 48 values fits into bfloat16", round_to_16},
    {"not-finite", "has 1 values that are NaN or infinite; the first tensor with one is step 0", put_nan},
    {"none", "no explanation found, at a relative L2 of 0.001; tried: not-finite, zero, norms", disturb},
    {"none", "no explanation found", quarter_but_for_the_last},
    {"none", "no explanation found", quarter_with_noise},
    {"constant-factor", "is the truth times 0.250008; residual", nearly_a_quarter},
    {"none", "no explanation found", transpose_but_for_the_last},
    {"none", "no explanation found", copy_a_row},
    {"16-bit-accumulator", "every one of its 48 values fits into half precision", round_to_half},
    {"none", "no explanation found", round_but_for_the_last},
    {"none", "no explanation found, at a relative L2 of 0.26;", disturb_the_last},
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

/* Made-up norms {l2, largest, sum} of the wrong tensor and of the truth. */
static const struct {
  double got[3], truth[3];
  int count;
  const char *id;
} made_up[] = {
    {{1, 0.25, 0.5}, {4, 1, 2}, 48, "constant-factor"},          {{1, 0.25, 0.5}, {4, 1, 2}, 8, "constant-factor"},
    {{1, 0.25, 0.5}, {4, 1, 2}, 7, "none"},                      {{1, 0.25, 0}, {4, 1, 0}, 48, "constant-factor"},
    {{1, 0.25 + 4e-6, 0.5}, {4, 1, 2}, 48, "none"},              {{1, 0.25 - 4e-6, 0.5}, {4, 1, 2}, 48, "none"},
    {{1, 0.25, 0.5 + 1e-5}, {4, 1, 2}, 48, "constant-factor"},   {{1, 0.25, 0.5 + 5e-5}, {4, 1, 2}, 48, "none"},
    {{4, 1, 2}, {4, 1, 2}, 48, "permuted"},                      {{4, 1, 2 + 1e-11}, {4, 1, 2}, 48, "permuted"},
    {{4, 1, 2 - 1e-9}, {4, 1, 2}, 48, "none"},                   {{4 * (1 - 1e-6), 1, 2}, {4, 1, 2}, 48, "none"},
};

START_TEST(norms_must_agree) {
  struct rig rig;
  struct ab_identity id = identity(0, 1, "mlpwo", AB_FORWARD);
  rig_new(&rig);
  rig.question.values = no_values;
  for (int i = 0; i < 2; i++) {
    const double *n = i ? made_up[_i].truth : made_up[_i].got;
    struct ab_observation o = {.id = id, .dtype = AB_F32, .shape = {1, {made_up[_i].count}}};
    o.summary = (struct ab_summary){.digest = {(uint64_t)i}, .count = (uint64_t)made_up[_i].count, .l2 = n[0],
                                    .max_abs = n[1], .sum = n[2]};
    ck_ok(ab_recording_observe(rig.side[i].recording, &o));
  }
  ask(&rig, id);
  expect(&rig, made_up[_i].id, "");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* A tensor of another shape or type, and what is said of it. */
static void as_it_is(double *got, const double *truth) { memcpy(got, truth, COUNT * sizeof *got); }
static void three_times(double *got, const double *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = 3 * truth[i];
}
static void turn_6_by_8(double *got, const double *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i % 6 * 8 + i / 6];
}
static void turn_2_by_24(double *got, const double *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i % 2 * 24 + i / 2];
}
static void turn_24_by_2(double *got, const double *truth) {
  for (int i = 0; i < COUNT; i++) got[i] = truth[i % 24 * 2 + i / 24];
}
static void swap_two(double *got, const double *truth) {
  as_it_is(got, truth);
  got[0] = truth[1];
  got[1] = truth[0];
}

static const struct {
  struct ab_shape shape;
  void (*change)(double *got, const double *truth);
  const char *id, *text;
  enum ab_dtype dtype;
  double bound, error; /* of the tier with bounds; 0: bitwise */
} typed_rows[] = {
    {{3, {2, 3, 8}}, turn_6_by_8, "transposed", "as a matrix of 6 by 8", AB_F64, 0, 0},
    {{2, {2, 24}}, turn_2_by_24, "transposed", "as a matrix of 2 by 24", AB_F64, 0, 0},
    {{2, {24, 2}}, turn_24_by_2, "transposed", "as a matrix of 24 by 2", AB_F32, 0, 0},
    {{1, {48}}, swap_two, "none", "no explanation found", AB_F64, 0, 0}, /* of single elements there are too many */
    {{1, {48}}, three_times, "constant-factor", "is the truth times 3", AB_F64, 0, 0},
    {{1, {48}}, three_times, "none", "(its values were not kept)", AB_I64, 0, 0},
    {{1, {48}}, three_times, "none", "no explanation found", AB_F64, 0, 1e-4},
    {{1, {48}}, three_times, "constant-factor", "is the truth times 3", AB_F64, 1e-3, 1e-4},
    {{1, {48}}, three_times, "constant-factor", "is the truth times 3", AB_F64, 1e-9, 1e-7},
};

static void put_typed(struct side *side, const struct ab_identity *id, int row, const double *values) {
  enum ab_dtype dtype = typed_rows[row].dtype;
  void *data = side_tensor(side, id, dtype, typed_rows[row].shape)->data;
  for (int i = 0; i < COUNT; i++) {
    if (dtype == AB_F32) ((float *)data)[i] = (float)values[i];
    else if (dtype == AB_F64) ((double *)data)[i] = values[i];
    else ((int64_t *)data)[i] = (int64_t)(1e6 * values[i]);
  }
  side_observe(side, id);
}

START_TEST(any_shape_and_type_is_looked_at) {
  struct rig rig;
  struct ab_identity id = gradient(1);
  double truth[COUNT], got[COUNT];
  rig_new(&rig);
  for (int i = 0; i < COUNT; i++) truth[i] = (double)noise(7, i);
  typed_rows[_i].change(got, truth);
  for (int i = 0; i < COUNT; i++) got[i] *= 1 + typed_rows[_i].error * (double)noise(8, i);
  put_typed(&rig.side[1], &id, _i, truth);
  put_typed(&rig.side[0], &id, _i, got);
  rig.finding = (struct ab_finding){.id = id, .quantity = AB_Q_WEIGHT_GRADIENT};
  if (typed_rows[_i].bound > 0)
    rig.finding.bound = (struct ab_bound){AB_TIER_BOUNDED, AB_RULE_GIVEN, typed_rows[_i].bound};
  ck_ok(ab_explain(&rig.list, &rig.question, &rig.finding));
  expect(&rig, typed_rows[_i].id, typed_rows[_i].text);
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

START_TEST(layer_0_has_its_repeat_too) {
  for (int wrong = 0; wrong < 4; wrong += 2) {
    struct rig rig;
    rig_new(&rig);
    for (int layer = 0; layer < 4; layer++) put_and_observe(&rig, 1, gradient(layer), 20 + (uint32_t)layer);
    put_and_observe(&rig, 0, gradient(wrong), 22 - (uint32_t)wrong);
    ask(&rig, gradient(wrong));
    expect(&rig, "other-repeat", wrong ? "is that of repeat 0, expected 1 (bitwise)"
                                       : "is that of repeat 1, expected 0 (bitwise)");
    rig_free(&rig);
  }
}
END_TEST

START_TEST(zeros_are_nobodys) {
  struct rig rig;
  rig_new(&rig);
  memset(put(&rig, 1, gradient(0), 1), 0, COUNT * sizeof(float));
  memset(put(&rig, 0, gradient(1), 1), 0, COUNT * sizeof(float));
  struct ab_identity zeros = gradient(0), wrong = gradient(1);
  side_observe(&rig.side[1], &zeros);
  side_observe(&rig.side[0], &wrong);
  put_and_observe(&rig, 1, wrong, 3);
  ask(&rig, wrong);
  expect(&rig, "zero", "is zero in all 48 elements");
  ck_assert_uint_eq(rig.list.lines, 1);
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

/* _i 1: the layer before has it as well, and is passed over. The place is that of the wrong side. */
START_TEST(the_own_layer_goes_first_and_the_place_is_told) {
  struct rig rig;
  rig_new(&rig);
  for (int i = 0; i < 3; i++) put_and_observe(&rig, 1, activation(_i ? i : 2 - i, 2), i == 0 ? 41 : 42);
  put_and_observe(&rig, 1, activation(_i ? 2 : 0, 3), 45);
  put_and_observe(&rig, 0, activation(_i ? 2 : 0, 3), 42);
  rig.side[0].recording->observation[0].observation.at = (struct ab_where){1, 0, 0, false};
  ask(&rig, activation(_i ? 2 : 0, 3));
  expect(&rig, "other-microbatch", "is microbatch 2, expected 3 (bitwise; stage 0, iteration 1)");
  rig_free(&rig);
}
END_TEST

START_TEST(the_first_iteration_is_a_place) {
  struct rig rig;
  rig_new(&rig);
  put_and_observe(&rig, 1, activation(1, 0), 40);
  put(&rig, 0, activation(1, 0), 40)[3] = NAN;
  struct ab_identity id = activation(1, 0);
  side_observe(&rig.side[0], &id);
  rig.side[0].recording->observation[0].observation.at = (struct ab_where){0, 1, 0, false};
  ask(&rig, id);
  expect(&rig, "not-finite", "forward (iteration 0, stage 1)");
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

/* What is left of the step before, how often it is added, and what else is added to all elements and to the last. */
static const struct {
  float left, times, noise, last;
  bool named;
} left_rows[] = {{1, 1, 0, 0, true},     {1, 0.5f, 0, 0, false}, {1, 1, 0, 0.01f, false}, {1, 1, 1e-5f, 0, false},
                 {1, 1, 1e-6f, 0, true}, {100, 1, 0, 0, true}};

START_TEST(a_gradient_that_was_not_cleared_is_named) {
  struct rig rig;
  struct ab_identity now = gradient(1), before = gradient(1);
  double rest = 0, whole = 0;
  rig_new(&rig);
  now.step = 1;
  float *left = put(&rig, 1, before, 50), *truth = put(&rig, 1, now, 51), *got = put(&rig, 0, now, 51);
  for (int i = 0; i < COUNT; i++) {
    left[i] *= left_rows[_i].left;
    got[i] = truth[i] + left_rows[_i].times * left[i] + left_rows[_i].noise * noise(52, i);
    if (i == COUNT - 1) got[i] += left_rows[_i].last;
    double d = (double)got[i] - ((double)truth[i] + (double)left[i]);
    rest += d * d;
    whole += (double)left[i] * (double)left[i];
  }
  side_observe(&rig.side[1], &before);
  side_observe(&rig.side[1], &now);
  side_observe(&rig.side[0], &now);
  ask(&rig, now);
  bool named = left_rows[_i].named;
  expect(&rig, named ? "stale" : "none", named ? "is the truth plus the gradient of step 0" : "no explanation");
  ck_assert_uint_eq(rig.list.lines, 1);
  if (named && rest > 0)
    ck_assert_double_eq_tol(strtod(strstr(rig.list.line[0].text, "residual ") + 9, NULL) / sqrt(rest / whole), 1, 0.06);
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
    {"doubled-microbatch", "counts microbatch (none) once and others several times, times 2 (= S = 2);", {-2, -2, -2, 0},
     UNEVEN, 0, 0},
    {"missing-microbatch", "without microbatch 1; residual", {1, 0, 1, 1}, UNEVEN, 0, 2},
    {"only-microbatch", "is microbatch 3 alone, of 4, times 0.7; residual", {0, 0, 0, 0.7}, UNEVEN, 0, 0},
    {"doubled-microbatch", "with microbatch 1 counted twice, times 0.02;", {0.02, 0.04, 0.02, 0.02}, UNEVEN, 0, 0},
    {"none", "no explanation found", {1, 1, 0, 1}, UNEVEN, 1e-3, 0},
    {"none", "no explanation found", {1, 1, 0, 1}, UNEVEN, 1e-2, 0},
    {"none", "no explanation found", {1, 1, 0, 1}, {4e-4, 1e-4, 3e-4, 2e-4}, 1e-5, 0},
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

/* Of the truth's parts the first is missing; as many elements as parts are no evidence: any tensor is a sum of them.
 * And of more parts than are looked at nothing is known. */
enum { MOST = AB_EXPLAIN_PARTS + 2 };
static const struct {
  int parts, elements;
  const char *id, *text;
} few_rows[] = {{4, 4, "none", "no explanation found"},
                {4, 8, "missing-microbatch", "without microbatch 0;"},
                {2, 4, "only-microbatch", "is microbatch 1 alone, of 2;"},
                {AB_EXPLAIN_PARTS, 100, "missing-microbatch", "without microbatch 0;"},
                {MOST, 100, "none", "no explanation found"}};

START_TEST(few_elements_are_weak_evidence) {
  struct rig rig;
  struct ab_what_if what_if[MOST] = {{NULL, 0, ""}};
  float *value[2 + MOST];
  int sides = 2 + few_rows[_i].parts;
  rig_new(&rig);
  for (int i = 0; i < sides; i++) {
    struct ab_identity id = gradient(1);
    struct ab_shape shape = {1, {few_rows[_i].elements}};
    id.step = i < 2 ? 0 : i - 2;
    value[i] = side_tensor(&rig.side[i < 2 ? i : 2], &id, AB_F32, shape)->data;
    if (i < 2) continue;
    for (int k = 0; k < few_rows[_i].elements; k++) {
      value[i][k] = noise((uint32_t)i, k);
      value[1][k] += 0.25f * value[i][k];
      value[0][k] += i == 2 ? 0 : 0.25f * value[i][k];
    }
    side_observe(&rig.side[2], &id);
    what_if[i - 2].part = i - 2;
  }
  struct ab_identity id = gradient(1);
  for (int i = 0; i < 2; i++) side_observe(&rig.side[i], &id);
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = what_if;
  rig.question.what_ifs = (size_t)few_rows[_i].parts;
  ask(&rig, id);
  expect(&rig, few_rows[_i].id, few_rows[_i].text);
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

/* Two layers are wrong; a third is not, and comes first. The last pass reproduces both, or (_i 1) one, as another does.
 */
START_TEST(the_pass_that_reproduces_most_is_named) {
  struct rig rig;
  rig_new(&rig);
  for (int side = 0; side < 2; side++) {
    put_and_observe(&rig, side, identity(0, 0, leaf, AB_UPDATE), 60 + (uint32_t)side);
    put_and_observe(&rig, side, activation(2, 0), 72);
  }
  for (int layer = 0; layer < 3; layer++) {
    if (layer < 2) put_and_observe(&rig, 1, activation(layer, 0), 70 + (uint32_t)layer);
    if (layer < 2) put_and_observe(&rig, 0, activation(layer, 0), 80 + (uint32_t)layer);
    for (int pass = 0; pass < 4; pass++) {
      struct ab_identity id = activation(layer, 0);
      bool reproduced = (pass == 3 && !(_i && layer)) || (pass == 2 && layer == 0);
      id.step = pass;
      put_and_observe(&rig, 2, id, reproduced ? 80 + (uint32_t)layer : 90 + (uint32_t)pass);
    }
  }
  rig.what_if[0] = (struct ab_what_if){NULL, 0, "microbatch 0 alone"};
  rig.what_if[1] = (struct ab_what_if){"no-segments", -1, "segments are not seen"};
  rig.what_if[2] = (struct ab_what_if){"other-layer", -1, "its weights are those of layer 3"};
  rig.what_if[3] = (struct ab_what_if){"other-repeat", -1, "every repeat has the weights of repeat 0"};
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = 4;
  ask(&rig, activation(0, 0));
  expect(&rig, "other-repeat", _i ? "repeat 0 (the oracle with this reproduces it and 1 of the 2 wrong tensors"
                                  : "repeat 0 (the oracle with this reproduces it and 2 of the 2 wrong tensors");
  ck_assert_uint_eq(rig.list.lines, _i ? 2 : 1);
  for (size_t i = 0; i < rig.list.lines; i++) ck_assert_int_eq(rig.list.line[i].complete, !_i);
  rig_free(&rig);
}
END_TEST

/* _i 1: got is the truth but for rounding, and the pass has changed nothing; 2: the last element is another. */
START_TEST(a_pass_that_is_near_is_named_where_bits_may_differ) {
  struct rig rig;
  rig_new(&rig);
  put_and_observe(&rig, 1, gradient(1), _i == 1 ? 21 : 20);
  float *got = put(&rig, 0, gradient(1), 21);
  for (int i = 0; i < COUNT; i++) got[i] *= 1 + 1e-7f * (float)(i % 3);
  if (_i == 2) got[COUNT - 1] += 0.01f;
  struct ab_identity id = gradient(1), pass = gradient(1);
  side_observe(&rig.side[0], &id);
  pass.step = 1;
  put_and_observe(&rig, 2, pass, 21);
  rig.what_if[0] = (struct ab_what_if){NULL, 0, "microbatch 0 alone"};
  rig.what_if[1] = (struct ab_what_if){"labels-of-microbatch", -1, "every microbatch has the labels of microbatch 0"};
  rig.question.passes = rig.side[2].recording;
  rig.question.what_if = rig.what_if;
  rig.question.what_ifs = 2;
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
  tcase_add_loop_test(tc, norms_must_agree, 0, LENGTH(made_up));
  tcase_add_loop_test(tc, any_shape_and_type_is_looked_at, 0, LENGTH(typed_rows));
  tcase_add_test(tc, the_gradient_of_another_layer_is_named);
  tcase_add_test(tc, layer_0_has_its_repeat_too);
  tcase_add_test(tc, zeros_are_nobodys);
  tcase_add_loop_test(tc, the_own_layer_goes_first_and_the_place_is_told, 0, 2);
  tcase_add_test(tc, the_first_iteration_is_a_place);
  tcase_add_test(tc, the_input_of_another_microbatch_is_named);
  tcase_add_test(tc, the_value_of_the_step_before_is_named);
  tcase_add_loop_test(tc, a_gradient_that_was_not_cleared_is_named, 0, LENGTH(left_rows));
  tcase_add_loop_test(tc, a_parameter_that_was_not_updated_is_named, 0, 2);
  tcase_add_test(tc, a_parameter_of_few_bits_is_no_accumulator);
  tcase_add_loop_test(tc, a_sum_of_parts_is_taken_apart, 0, LENGTH(parts_rows));
  tcase_add_loop_test(tc, few_elements_are_weak_evidence, 0, LENGTH(few_rows));
  tcase_add_loop_test(tc, gradients_that_are_clipped_one_by_one_are_named, 0, 2);
  tcase_add_loop_test(tc, the_pass_that_reproduces_most_is_named, 0, 2);
  tcase_add_loop_test(tc, a_pass_that_is_near_is_named_where_bits_may_differ, 0, 3);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
