#include "divergence.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "tap.h"

enum { COUNT = 6 };

/* One tensor of a doctored recording. */
struct doctored {
  int step, microbatch, layer, iteration;
  const char *tensor;
  enum ab_phase phase;
  float value;
};

/* In pipeline order: microbatch 1 of layer 0 comes beside microbatch 0 of layer 1. */
static const struct doctored right[] = {
    {0, 0, 0, 0, "query_raw", AB_FORWARD, 1},       {0, 0, 0, 0, "layer_output", AB_FORWARD, 2},
    {0, 1, 0, 1, "query_raw", AB_FORWARD, 3},       {0, 1, 0, 1, "layer_output", AB_FORWARD, 4},
    {0, 0, 1, 1, "query_raw", AB_FORWARD, 5},       {0, 0, 1, 1, "layer_output", AB_FORWARD, 6},
    {0, 0, 1, 3, "layer_output", AB_BACKWARD, 7},   {0, -1, 1, -1, "mlp/wo/kernel", AB_BACKWARD, 8},
    {0, -1, 1, -1, "mlp/wo/kernel", AB_UPDATE, 9},
};
enum { RIGHT = sizeof right / sizeof *right };

static void observe(struct ab_recording *r, const struct doctored *d) {
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = d->value * (float)(i + 1);
  struct ab_view view = {.dtype = AB_F32, .shape = {2, {2, 3}}, .data = values};
  struct ab_observation o = {.id = {.step = d->step, .microbatch = d->microbatch, .layer = d->layer, .phase = d->phase},
                             .at = {d->iteration, d->layer, 0, false}, .dtype = AB_F32, .shape = view.shape};
  ab_view_contiguous(&view);
  strcpy(o.id.tensor, d->tensor);
  ab_summarize(&o.summary, &view);
  ck_ok(ab_recording_observe(r, &o));
}

static struct ab_recording *record(const char *name, const struct doctored *rows, int count) {
  struct ab_recording *r;
  ck_ok(ab_recording_new(&r, name));
  for (int i = 0; i < count; i++) observe(r, &rows[i]);
  ab_recording_complete(r);
  return r;
}

static struct ab_divergence find(const struct doctored *rows, int count) {
  struct ab_recording *reference = record("sequential", right, RIGHT), *got = record("nnx", rows, count);
  struct ab_divergence d;
  ab_divergence_find(&d, got, reference);
  ab_recording_free(got);
  ab_recording_free(reference);
  return d;
}

static void copy(struct doctored rows[RIGHT]) { memcpy(rows, right, sizeof right); }

START_TEST(equal_sides_do_not_part) {
  struct ab_divergence d = find(right, RIGHT);
  ck_assert(!d.bit.known && !d.above.known && d.good.known);
  ck_assert_str_eq(d.side, "nnx");
  ck_assert_str_eq(d.reference, "sequential");
}
END_TEST

START_TEST(the_first_in_the_sides_own_order_is_found) {
  for (int wrong = 0; wrong < RIGHT; wrong++) {
    struct doctored rows[RIGHT];
    copy(rows);
    for (int i = wrong; i < RIGHT; i++) rows[i].value *= 1.5f; /* what follows is wrong too */
    struct ab_divergence d = find(rows, RIGHT);
    ck_assert_msg(d.bit.known && d.bit.id.layer == right[wrong].layer && d.bit.id.phase == right[wrong].phase &&
                      d.bit.id.microbatch == right[wrong].microbatch && !strcmp(d.bit.id.tensor, right[wrong].tensor),
                  "row %d", wrong);
    ck_assert_msg(d.above.known && ab_identity_equal(&d.above.id, &d.bit.id), "row %d", wrong);
    ck_assert_msg(fabs(d.bit.distance - 0.5) < 1e-6, "row %d: the norms prove %g", wrong, d.bit.distance);
    ck_assert_msg(d.good.known == (wrong > 0), "row %d", wrong);
    if (wrong) ck_assert_msg(!strcmp(d.good.id.tensor, right[wrong - 1].tensor), "row %d: %s", wrong, d.good.id.tensor);
    ck_assert_int_eq(d.bit.at.iteration, right[wrong].iteration);
  }
}
END_TEST

START_TEST(the_order_is_that_of_the_side_and_not_of_the_reference) {
  struct doctored rows[RIGHT];
  copy(rows);
  rows[2].value = rows[4].value = 50;
  struct doctored keep = rows[2];
  rows[2] = rows[4];
  rows[4] = keep;
  struct ab_divergence d = find(rows, RIGHT);
  ck_assert_int_eq(d.bit.id.layer, 1);
  ck_assert_int_eq(d.bit.id.microbatch, 0);
}
END_TEST

START_TEST(a_bit_comes_before_what_is_above_the_bound) {
  struct doctored rows[RIGHT];
  copy(rows);
  rows[3].value = nextafterf(rows[3].value, 9);
  rows[5].value *= 1.0f + 1e-4f;
  struct ab_divergence d = find(rows, RIGHT);
  ck_assert_int_eq(d.bit.id.microbatch, 1);
  ck_assert_str_eq(d.bit.id.tensor, "layer_output");
  ck_assert(d.bit.distance <= d.limit);
  ck_assert(d.above.known && d.above.id.microbatch == 0 && d.above.id.layer == 1);
  ck_assert_str_eq(d.good.id.tensor, "query_raw");
}
END_TEST

START_TEST(what_is_not_finite_is_no_good_tensor) {
  struct doctored rows[RIGHT];
  copy(rows);
  rows[1].value = NAN;
  struct ab_divergence d = find(rows, RIGHT);
  ck_assert_str_eq(d.bit.id.tensor, "layer_output");
  ck_assert(isinf(d.bit.distance) && d.above.known);
}
END_TEST

START_TEST(what_only_one_has_is_passed_over) {
  struct doctored rows[RIGHT];
  copy(rows);
  rows[0].tensor = "unheard_of";
  rows[4].value = 0;
  struct ab_divergence d = find(rows, RIGHT - 1);
  ck_assert_int_eq(d.bit.id.layer, 1);
  ck_assert_str_eq(d.bit.id.tensor, "query_raw");
}
END_TEST

START_TEST(a_metric_has_its_place_among_the_tensors) {
  struct ab_recording *side[2];
  struct ab_divergence d;
  for (int i = 0; i < 2; i++) {
    struct ab_metric m = {.step = 0, .name = "loss", .value = i ? 2 : 3, .f32 = true};
    struct doctored late = right[2];
    side[i] = record(i ? "sequential" : "linen", right, 2);
    ck_ok(ab_recording_add_metric(side[i], &m));
    late.value += (float)i;
    observe(side[i], &late);
  }
  ab_divergence_find(&d, side[0], side[1]);
  ck_assert(d.bit.metric && d.above.metric);
  ck_assert_str_eq(d.bit.id.tensor, "loss");
  ck_assert_double_eq_tol(d.bit.distance, 0.5, 1e-12);
  ck_assert_str_eq(d.good.id.tensor, "layer_output");
  for (int i = 0; i < 2; i++) ab_recording_free(side[i]);
}
END_TEST

/* What norms prove: {l2, largest, sum} of a and of b, the number of elements, and the distance. */
static const struct {
  double a[3], b[3];
  int64_t count;
  double distance;
} norms[] = {{{1, 0.2, 0}, {1, 0.5, 0}, 4, 0.3},  {{1, 0.5, 0}, {1, 0.2, 0}, 4, 0.3}, {{2, 1, 0}, {1, 1, 0}, 4, 1},
             {{1, 1, 0}, {2, 1, 0}, 4, 0.5},      {{1, 1, -2}, {1, 1, 0}, 4, 1},      {{1, 1, 2}, {1, 1, 0}, 2, 1.4142136},
             {{1, 1, 0}, {1, 1, 2}, 16, 0.5},     {{1, 1e-6, 0}, {1, 0, 0}, 4, 1e-6}, {{1, 2e-6, 0}, {1, 0, 0}, 4, 2e-6}};

START_TEST(norms_prove_a_least_distance) {
  struct ab_recording *side[2];
  struct ab_divergence d;
  for (int i = 0; i < 2; i++) {
    const double *n = i ? norms[_i].b : norms[_i].a;
    struct ab_observation o = {.id = {.tensor = "x"}, .dtype = AB_F32, .shape = {1, {norms[_i].count}}};
    o.summary = (struct ab_summary){.digest = {(uint64_t)i}, .count = (uint64_t)norms[_i].count, .l2 = n[0],
                                    .max_abs = n[1], .sum = n[2]};
    ck_ok(ab_recording_new(&side[i], "x"));
    ck_ok(ab_recording_observe(side[i], &o));
    ab_recording_complete(side[i]);
  }
  ab_divergence_find(&d, side[0], side[1]);
  ck_assert_double_eq_tol(d.bit.distance, norms[_i].distance, 1e-7 * norms[_i].distance);
  ck_assert_int_eq(d.above.known, norms[_i].distance > d.limit);
  for (int i = 0; i < 2; i++) ab_recording_free(side[i]);
}
END_TEST

START_TEST(values_give_the_true_distance) {
  float a[] = {1, -2, 3}, b[] = {1, 2, 3};
  struct ab_view va = {.dtype = AB_F32, .shape = {1, {3}}, .data = a}, vb = va;
  struct ab_divergent p = {.known = true};
  vb.data = b;
  ab_view_contiguous(&va);
  ab_view_contiguous(&vb);
  ck_ok(ab_divergence_measure(&p, &va, &vb));
  ck_assert_double_eq_tol(p.distance, 4 / sqrt(14), 1e-7);
  ck_assert_uint_eq(p.difference.first.index, 1);
}
END_TEST

START_TEST(lines_name_place_operator_and_values) {
  struct doctored rows[RIGHT];
  struct ab_replayed replayed = {.known = true, .kind = "cell"};
  char *text;
  copy(rows);
  rows[4].value = 2;
  struct ab_divergence d = find(rows, RIGHT);
  strcpy(d.bit.writer, "query");
  d.bit.difference = ab_difference_scalar(10, 25, true);
  ab_replayed_say(&replayed, "replay: cell (%s)\x1b", "here");
  ck_ok(ab_divergence_text(&text, &d, &replayed));
  const char *const says[] = {"first differing bit: nnx: step 0 microbatch 0 layers/1/query_raw forward (iteration 1, ",
                              ", stage 1, repeat 0), written by query; 1 of 1 elements, the first at [0, 0]: nnx 10 ",
                              "first above bound: the same, relative L2 0.6 or more (rounding: 1e-06)\n",
                              "last good tensor: step 0 microbatch 1 layers/0/layer_output forward (iteration 1",
                              "replay: cell (here)\\x1b\n"};
  for (int i = 0; i < 5; i++) ck_assert_msg(strstr(text, says[i]) != NULL, "no '%s' in:\n%s", says[i], text);
  ab_mem_free(text);
}
END_TEST

static void expect_text(const struct ab_divergence *d, const char *part) {
  char *text;
  ck_ok(ab_divergence_text(&text, d, NULL));
  ck_assert_msg(strstr(text, part) != NULL, "no '%s' in:\n%s", part, text);
  ab_mem_free(text);
}

START_TEST(a_distance_that_is_known_is_no_lower_bound) {
  float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 2, 3, 4, 4, 6};
  struct ab_view va = {.dtype = AB_F32, .shape = {2, {2, 3}}, .data = a}, vb = va;
  struct doctored rows[RIGHT];
  copy(rows);
  rows[0].value = NAN;
  struct ab_divergence d = find(rows, RIGHT);
  expect_text(&d, "query_raw forward (iteration 0, stage 0, repeat 0)\n");
  expect_text(&d, "first above bound: the same, relative L2 inf (rounding: 1e-06)\n");
  expect_text(&d, "last good tensor: none\n");
  vb.data = b;
  ab_view_contiguous(&va);
  ab_view_contiguous(&vb);
  ck_ok(ab_divergence_measure(&d.bit, &va, &vb));
  d.above.difference = ab_difference_scalar(1, 2, true);
  d.above.distance = 0.5;
  expect_text(&d, "; 1 of 6 elements, the first at [1, 1]: nnx 5 (0x40a00000), sequential 4 (0x40800000)\n");
  expect_text(&d, "first above bound: the same, relative L2 0.5 (rounding: 1e-06)\n");
}
END_TEST

static void check_json(const char *expected, const struct ab_divergence *d, const struct ab_replayed *r) {
  struct ab_json_writer *w;
  char *text;
  ck_ok(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, false);
  ab_divergence_put(w, d, r);
  ab_json_put_end(w);
  ck_ok(ab_json_writer_text(&text, w));
  ck_assert_str_eq(text, expected);
  ab_mem_free(text);
}

START_TEST(json_has_the_places_the_values_and_the_lines) {
  struct ab_divergence d = {.side = "nnx", .reference = "sequential", .limit = 1e-6};
  struct ab_replayed r = {.known = true, .kind = "cell", .side = "nnx", .line = {"one", "two"}, .lines = 2};
  d.bit = (struct ab_divergent){.known = true, .id = {.microbatch = 1, .layer = 2, .tensor = "x"}, .at = {3, 4, 5, false},
                                .writer = "query", .distance = 0.5, .difference = ab_difference_scalar(0.1, 0, true)};
  d.above = (struct ab_divergent){.known = true, .metric = true, .id = {.step = 1, .tensor = "loss"}, .distance = 0.25,
                                  .difference = ab_difference_scalar(0.1, 0, false)};
  check_json("{\n"
             "  \"divergence\": {\n"
             "    \"side\": \"nnx\",\n"
             "    \"reference\": \"sequential\",\n"
             "    \"first_bit\": {\n"
             "      \"metric\": false,\n"
             "      \"step\": 0,\n"
             "      \"microbatch\": 1,\n"
             "      \"layer\": 2,\n"
             "      \"tensor\": \"x\",\n"
             "      \"phase\": \"forward\",\n"
             "      \"iteration\": 3,\n"
             "      \"stage\": 4,\n"
             "      \"repeat\": 5,\n"
             "      \"operator\": \"query\",\n"
             "      \"distance\": 0.5,\n"
             "      \"values\": {\n"
             "        \"differing\": 1,\n"
             "        \"count\": 1,\n"
             "        \"index\": 0,\n"
             "        \"side\": {\"value\": 0.1, \"bits\": \"3dcccccd\", \"dtype\": \"F32\"},\n"
             "        \"reference\": {\"value\": 0, \"bits\": \"00000000\", \"dtype\": \"F32\"}\n"
             "      }\n"
             "    },\n"
             "    \"first_above\": {\n"
             "      \"metric\": true,\n"
             "      \"step\": 1,\n"
             "      \"microbatch\": 0,\n"
             "      \"layer\": 0,\n"
             "      \"tensor\": \"loss\",\n"
             "      \"phase\": \"forward\",\n"
             "      \"iteration\": 0,\n"
             "      \"stage\": 0,\n"
             "      \"repeat\": 0,\n"
             "      \"operator\": \"\",\n"
             "      \"distance\": 0.25,\n"
             "      \"values\": {\n"
             "        \"differing\": 1,\n"
             "        \"count\": 1,\n"
             "        \"index\": 0,\n"
             "        \"side\": {\"value\": 0.1, \"bits\": \"3fb999999999999a\", \"dtype\": \"F64\"},\n"
             "        \"reference\": {\"value\": 0, \"bits\": \"0000000000000000\", \"dtype\": \"F64\"}\n"
             "      }\n"
             "    },\n"
             "    \"last_good\": null,\n"
             "    \"limit\": 1e-06\n"
             "  },\n"
             "  \"replay\": {\n"
             "    \"kind\": \"cell\",\n"
             "    \"side\": \"nnx\",\n"
             "    \"operator\": \"\",\n"
             "    \"fed\": \"\",\n"
             "    \"explains\": \"\",\n"
             "    \"lines\": [\n"
             "      \"one\",\n"
             "      \"two\"\n"
             "    ]\n"
             "  }\n"
             "}\n", &d, &r);
  check_json("{\n"
             "  \"divergence\": null,\n"
             "  \"replay\": null\n"
             "}\n", NULL, NULL);
}
END_TEST

START_TEST(nothing_known_is_no_line) {
  struct ab_divergence d = find(right, RIGHT);
  char *text;
  ck_ok(ab_divergence_text(&text, &d, NULL));
  ck_assert_str_eq(text, "");
  ab_mem_free(text);
}
END_TEST

START_TEST(more_lines_than_fit_are_left_out) {
  struct ab_replayed r = {.known = true};
  char *text;
  for (int i = 0; i < AB_REPLAY_LINES + 3; i++) ab_replayed_say(&r, "%0*d", AB_REPLAY_TEXT + 50, i);
  ck_assert_uint_eq(r.lines, AB_REPLAY_LINES);
  ck_ok(ab_divergence_text(&text, NULL, &r));
  ck_assert_uint_eq(strlen(text), AB_REPLAY_LINES * (size_t)AB_REPLAY_TEXT);
  ab_mem_free(text);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("divergence");
  TCase *c = tcase_create("divergence");
  tcase_add_test(c, equal_sides_do_not_part);
  tcase_add_test(c, the_first_in_the_sides_own_order_is_found);
  tcase_add_test(c, the_order_is_that_of_the_side_and_not_of_the_reference);
  tcase_add_test(c, a_bit_comes_before_what_is_above_the_bound);
  tcase_add_test(c, what_is_not_finite_is_no_good_tensor);
  tcase_add_test(c, what_only_one_has_is_passed_over);
  tcase_add_test(c, a_metric_has_its_place_among_the_tensors);
  tcase_add_loop_test(c, norms_prove_a_least_distance, 0, (int)(sizeof norms / sizeof *norms));
  tcase_add_test(c, a_distance_that_is_known_is_no_lower_bound);
  tcase_add_test(c, json_has_the_places_the_values_and_the_lines);
  tcase_add_test(c, values_give_the_true_distance);
  tcase_add_test(c, lines_name_place_operator_and_values);
  tcase_add_test(c, nothing_known_is_no_line);
  tcase_add_test(c, more_lines_than_fit_are_left_out);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
