/* Every row of the table of explanations, on recordings whose mistake is known; and what is not explained. */
#include "explain.h"

#include "judge.h"
#include "sides.h"

enum { ROWS = 6, COLUMNS = 8, COUNT = ROWS * COLUMNS, PARTS = 4, MICROBATCHES = 4 };

/* A wrong side, the truth and passes, whose tensors are [ROWS, COLUMNS]. */
struct rig {
  struct side side[AB_EXPLAIN_SIDES];
  struct ab_what_if what_if[PARTS + 1];
  struct ab_explain question;
  struct ab_finding finding;
  struct ab_explained_list list;
};

static const char leaf[] = "mlp/wo/kernel";
static const struct ab_explain_number numbers[] = {{"M", 4}, {"1/M", 0.25}, {"S", 2}, {"2", 2}};

static ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct rig *rig = ctx;
  char path[AB_IDENTITY_TEXT];
  struct ab_tensor *tensor;
  ab_identity_print(path, &observation->id);
  AB_TRY(ab_tree_get(&tensor, rig->side[side].tree, path, "side"));
  *out = ab_view_of(tensor);
  return AB_OK;
}

static double rate(const void *ctx, int64_t step) {
  (void)ctx;
  return 0.01 * (double)(step + 1);
}

static void rig_new(struct rig *rig) {
  *rig = (struct rig){0};
  static const char *const names[] = {"linen", "sequential", "passes"};
  for (int i = 0; i < AB_EXPLAIN_SIDES; i++) rig->side[i] = side_new(names[i]);
  rig->question = (struct ab_explain){.got = rig->side[0].recording,
                                      .truth = rig->side[1].recording,
                                      .values = values,
                                      .ctx = rig,
                                      .number = numbers,
                                      .numbers = 4,
                                      .layers = 4,
                                      .layers_per_stage = 1,
                                      .stages = 2,
                                      .update = {true, true, 0.9, 0.95, 1e-8, 0.1, 0, rate, NULL}};
}

static void rig_free(struct rig *rig) {
  for (int i = 0; i < AB_EXPLAIN_SIDES; i++) side_free(&rig->side[i]);
}

/* Reproducible values in (-1, 1) without pattern. */
static float noise(uint32_t seed, int i) {
  uint32_t x = seed * 2654435761u + (uint32_t)i * 40503u + 12345u;
  for (int round = 0; round < 3; round++) x = (x ^ (x >> 15)) * 2246822519u + seed;
  return (float)(x >> 8) / 8388608.0f - 1.0f;
}

static float *put(struct rig *rig, int side, struct ab_identity id, uint32_t seed) {
  struct ab_tensor *t = side_tensor(&rig->side[side], &id, AB_F32, (struct ab_shape){2, {ROWS, COLUMNS}});
  for (int i = 0; i < COUNT; i++) ((float *)t->data)[i] = noise(seed, i);
  return t->data;
}

static struct ab_identity gradient(int layer) { return identity(0, layer, leaf, AB_BACKWARD); }

/* Observes what was put and asks about `id`. */
static void ask(struct rig *rig, struct ab_identity id) {
  rig->finding = (struct ab_finding){.id = id, .quantity = ab_quantity_of(&id)};
  ck_ok(ab_explain(&rig->list, &rig->question, &rig->finding));
}

static bool says(const struct rig *rig, const char *id, const char *text) {
  for (size_t i = 0; i < rig->list.lines; i++)
    if (!strcmp(rig->list.line[i].id, id) && strstr(rig->list.line[i].text, text)) return true;
  return false;
}

static void expect(const struct rig *rig, const char *id, const char *text) {
  const struct ab_explained_line *line = rig->list.line;
  ck_assert_msg(says(rig, id, text), "expected [%s] %s; %zu lines, first [%s] %s", id, text, rig->list.lines,
                line[0].id, line[0].text);
  for (size_t i = 0; i < rig->list.lines; i++) {
    bool known = false;
    for (int v = 0; ab_explain_vocabulary[v]; v++) known |= !strcmp(ab_explain_vocabulary[v], line[i].id);
    ck_assert_msg(known, "'%s' is not of the vocabulary", line[i].id);
  }
}

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
  ask(&rig, gradient(1));
  ck_assert_msg(rig.list.lines == 1, "the same tensor is told of twice");
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

/* Parts of a gradient: the truth has each `right` times, the wrong one `times` times that. */
struct parts_row {
  const char *id, *text;
  double times[PARTS], right[PARTS];
};
#define EVEN {0.25, 0.25, 0.25, 0.25}
#define UNEVEN {0.4, 0.1, 0.3, 0.2}
static const struct parts_row parts_rows[] = {
    {"missing-microbatch", "without microbatch 2; residual", {1, 1, 0, 1}, UNEVEN},
    {"missing-microbatch", "without microbatches 0, 1; residual", {0, 0, 1, 1}, EVEN},
    {"missing-microbatch", "without microbatch 3, times 4 (= M); residual", {4, 4, 4, 0}, EVEN},
    {"doubled-microbatch", "with microbatch 1 counted twice; residual", {1, 2, 1, 1}, UNEVEN},
    {"doubled-microbatch", "with microbatch 1 counted twice and without 3; residual", {1, 2, 1, 0}, UNEVEN},
    {"only-microbatch", "is microbatch 3 alone, of 4; residual", {0, 0, 0, 1}, UNEVEN},
    {"only-microbatch", "is microbatch 0 alone, of 4, times 4 (= M); residual", {4, 0, 0, 0}, EVEN},
    {"wrong-denominator", "is the mean of the 4 microbatches' own means", {0.625, 2.5, 0.25 / 0.3, 1.25}, UNEVEN},
    {"constant-factor", "is the truth times 2 (= S = 2)", {2, 2, 2, 2}, UNEVEN},
    {"none", "no explanation found", {1, 0.7, 1, 1.3}, UNEVEN},
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
    part[m] = put(&rig, 2, id, 60 + (uint32_t)m);
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
    got[i] = (float)wrong;
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

/* AdamW in double on the rig's numbers, with things done wrongly. */
struct update_row {
  const char *id, *text;
  int rate_off, count_off;
  double decay;
  bool corrected;
};
static const struct update_row update_rows[] = {
    {"lr-of-step", "learning rate of the next step", 1, 0, 0.1, true},
    {"lr-of-step", "learning rate of the step before", -1, 0, 0.1, true},
    {"bias-correction", "without the bias correction of both moments", 0, 0, 0.1, false},
    {"bias-correction", "bias correction of the next step's count", 0, 1, 0.1, true},
    {"weight-decay", "without weight decay", 0, 0, 0, true},
    {"none", "no explanation found", 0, 0, 0.17, true},
};

static float updated(double before, const double g[2], double p_decay, const struct update_row *row, int step) {
  const double b1 = 0.9, b2 = 0.95;
  double mu = 0, nu = 0;
  for (int s = 0; s <= step; s++) {
    mu = b1 * mu + (1 - b1) * g[s];
    nu = b2 * nu + (1 - b2) * g[s] * g[s];
  }
  int k = step + 1 + row->count_off;
  double c1 = row->corrected ? 1 - pow(b1, k) : 1, c2 = row->corrected ? 1 - pow(b2, k) : 1;
  double update = mu / c1 / (sqrt(nu / c2) + 1e-8) + p_decay * before;
  return (float)(before - rate(NULL, step + row->rate_off) * update);
}

START_TEST(a_wrong_update_is_named) {
  static const struct update_row right = {.decay = 0.1, .corrected = true};
  const struct update_row *row = &update_rows[_i];
  struct rig rig;
  rig_new(&rig);
  float *g[2], *p[2], *got;
  for (int s = 0; s < 2; s++) {
    g[s] = put(&rig, 1, identity(s, 1, leaf, AB_BACKWARD), 30 + (uint32_t)s);
    p[s] = put(&rig, 1, identity(s, 1, leaf, AB_UPDATE), 33);
  }
  got = put(&rig, 0, identity(1, 1, leaf, AB_UPDATE), 33);
  for (int i = 0; i < COUNT; i++) {
    double before = (double)p[0][i], all[2] = {(double)g[0][i], (double)g[1][i]};
    p[1][i] = updated(before, all, right.decay, &right, 1);
    got[i] = updated(before, all, row->decay, row, 1);
  }
  for (int s = 0; s < 2; s++) {
    struct ab_identity id = identity(s, 1, leaf, AB_BACKWARD);
    side_observe(&rig.side[1], &id);
    id.phase = AB_UPDATE;
    side_observe(&rig.side[1], &id);
  }
  struct ab_identity id = identity(1, 1, leaf, AB_UPDATE);
  side_observe(&rig.side[0], &id);
  ask(&rig, id);
  expect(&rig, row->id, row->text);
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* Metrics: name, wrong value, right value, raw norm of both. */
static const struct {
  const char *id, *text, *name;
  float got, truth;
} metric_rows[] = {
    {"constant-factor", "times 0.25 (= 1/M)", "loss", 1.5f, 6},
    {"not-clipped", "is the norm before clipping, 5; expected 1", "grad_norm", 5, 1},
    {"none", "no explanation found; tried: lr-of-step, not-clipped", "loss", 6.1f, 6},
};

START_TEST(a_wrong_metric_is_named) {
  struct rig rig;
  rig_new(&rig);
  rig.question.update.clip = 1;
  side_metric(&rig.side[0], 0, "raw_grad_norm", 5);
  side_metric(&rig.side[0], 0, metric_rows[_i].name, metric_rows[_i].got);
  side_metric(&rig.side[1], 0, metric_rows[_i].name, metric_rows[_i].truth);
  struct ab_metric metric = {.step = 0};
  snprintf(metric.name, sizeof metric.name, "%s", metric_rows[_i].name);
  rig.finding = (struct ab_finding){.metric = true, .id = ab_metric_identity(&metric)};
  ck_ok(ab_explain(&rig.list, &rig.question, &rig.finding));
  expect(&rig, metric_rows[_i].id, metric_rows[_i].text);
  rig_free(&rig);
}
END_TEST

START_TEST(a_learning_rate_of_another_step_is_named) {
  struct rig rig;
  rig_new(&rig);
  struct ab_metric metric = {.step = 1, .name = "lr", .value = rate(NULL, 2)};
  ck_ok(ab_recording_add_metric(rig.side[0].recording, &metric));
  metric.value = rate(NULL, 1);
  ck_ok(ab_recording_add_metric(rig.side[1].recording, &metric));
  rig.finding = (struct ab_finding){.metric = true, .id = ab_metric_identity(&metric)};
  ck_ok(ab_explain(&rig.list, &rig.question, &rig.finding));
  expect(&rig, "lr-of-step", "is the learning rate of step 2, 0.03; expected that of step 1, 0.02");
  rig_free(&rig);
}
END_TEST

#define LENGTH(x) ((int)(sizeof(x) / sizeof *(x)))

int main(void) {
  Suite *suite = suite_create("explain");
  TCase *tc = tcase_create("explain");
  tcase_add_loop_test(tc, a_changed_tensor_is_named, 0, LENGTH(shape_rows));
  tcase_add_test(tc, the_gradient_of_another_layer_is_named);
  tcase_add_test(tc, the_input_of_another_microbatch_is_named);
  tcase_add_test(tc, the_value_of_the_step_before_is_named);
  tcase_add_loop_test(tc, a_sum_of_parts_is_taken_apart, 0, LENGTH(parts_rows));
  tcase_add_test(tc, the_pass_that_reproduces_most_is_named);
  tcase_add_loop_test(tc, a_wrong_update_is_named, 0, LENGTH(update_rows));
  tcase_add_loop_test(tc, a_wrong_metric_is_named, 0, LENGTH(metric_rows));
  tcase_add_test(tc, a_learning_rate_of_another_step_is_named);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
