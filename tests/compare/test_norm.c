/* A mean whose terms cancel is measured against what it is a mean of: near zero it is judged like any other, and a fault
 * of a millionth of the layer's output is still one. */
#include "norm.h"
#include "judge.h"
#include "sides.h"

/* What a layer sowed: {mean, stdev} of a side. */
static void sow(struct side *s, double mean, double stdev, const char *deviation) {
  const char *const names[] = {"intermediates/activation_mean", deviation};
  const double values[] = {mean, stdev};
  for (int i = 0; i < 2; i++) {
    struct ab_identity id = identity(0, 1, names[i], AB_FORWARD);
    struct ab_tensor *tensor = side_tensor(s, &id, AB_F64, (struct ab_shape){1, {1}});
    *(double *)tensor->data = values[i];
    side_observe(s, &id);
  }
  ab_recording_complete(s->recording);
}

/* And frees both. */
static struct ab_verdict judge_pair(struct side *a, struct side *b, enum ab_pair pair, bool values) {
  struct both both;
  struct ab_verdict v;
  struct ab_comparison c = comparison_of(&both, a, b);
  c.pair = pair;
  c.expected = ab_expected_none();
  if (!values) c.values = NULL;
  ck_ok(ab_verdict(&v, &c));
  side_free(a);
  side_free(b);
  return v;
}

static struct ab_verdict judge_means(double mean_a, double mean_b, double stdev, const char *deviation, bool values) {
  struct side a = side_new("a"), b = side_new("b");
  sow(&a, mean_a, stdev, deviation);
  sow(&b, mean_b, stdev, deviation);
  return judge_pair(&a, &b, AB_PAIR_F64, values);
}

/* {mean of a, of b, stdev, distance}: sqrt(3^2 + 4^2) = 5. */
static const double rows[][4] = {{3 + 5e-14, 3, 4, 1e-14},  {3 + 5e-12, 3, 4, 1e-12},  {1e-16, 0, 1, 1e-16},
                                 {1e-12, 0, 1, 1e-12},      {1e-16, -1e-16, 1, 2e-16}, {1e-6, 2e-6, 1, 1e-6},
                                 {1, 1 + 1e-14, 0, 1e-14},  {1e-30, 0, 0, INFINITY},   {1e-20, 2e-20, 0, 0.5}};
enum { ROWS = sizeof rows / sizeof *rows };

START_TEST(a_mean_is_measured_against_the_root_mean_square) {
  const double *row = rows[_i];
  struct ab_verdict v = judge_means(row[0], row[1], row[2], "intermediates/activation_stdev", true);
  double apart = v.worst.distance;
  ck_assert_msg(apart == row[3] || fabs(apart - row[3]) <= 0.02 * row[3], "row %d: %g, expected %g", _i, apart, row[3]);
  ck_assert_int_eq((int)v.failing, row[3] > 1e-13);
  ck_assert_int_eq(v.exit, row[3] > 1e-13 ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL);
  ab_verdict_free(&v);
}
END_TEST

/* Not kept values: what the norms prove is measured against the same. */
START_TEST(without_values_too) {
  struct ab_verdict v = judge_means(1e-9, 0, 1, "intermediates/activation_stdev", false);
  ck_assert_int_eq((int)v.failing, 1);
  ck_assert_double_eq_tol(v.first.distance, 1e-9, 1e-15);
  ab_verdict_free(&v);
}
END_TEST

START_TEST(alone_or_beside_a_deviation_that_is_none_it_keeps_its_own_norm) {
  struct ab_verdict v = judge_means(1e-16, 2e-16, 1, "intermediates/activation_fraction_zero", true);
  ck_assert_int_eq((int)v.failing, 1);
  ck_assert_double_eq_tol(v.first.distance, 0.5, 1e-12);
  ab_verdict_free(&v);
  v = judge_means(1e-16, 2e-16, INFINITY, "intermediates/activation_stdev", true);
  ck_assert_int_eq((int)v.failing, 2);
  ck_assert_double_eq_tol(v.first.distance, 0.5, 1e-12);
  ab_verdict_free(&v);
  v = judge_means(NAN, 1, 1, "intermediates/activation_stdev", true);
  ck_assert_int_eq((int)v.failing, 1);
  ck_assert(isinf(v.first.distance));
  ab_verdict_free(&v);
}
END_TEST

/* Gradients of one layer, four elements each: the first of the query's is given, the value's norm is 2. */
static struct ab_verdict judge_attention(double a_value, double b_value, const char *name, enum ab_phase phase,
                                         const char *beside) {
  struct side side[2] = {side_new("linen64"), side_new("sequential64")};
  const char *const names[] = {name, beside};
  for (int i = 0; i < 4; i++) {
    struct ab_identity id = identity(0, 1, names[i % 2], phase);
    struct ab_tensor *tensor = side_tensor(&side[i / 2], &id, AB_F64, (struct ab_shape){1, {4}});
    ((double *)tensor->data)[1] = i % 2 ? 2 : i / 2 ? b_value : a_value;
    side_observe(&side[i / 2], &id);
  }
  for (int s = 0; s < 2; s++) ab_recording_complete(side[s].recording);
  return judge_pair(&side[0], &side[1], AB_PAIR_MIXED, true);
}

#define Q "self_attention/query/kernel"
#define K "self_attention/key/kernel"
#define V "self_attention/value/kernel"

/* Distance; the bound is 1e-6: 2e-7 of an element where nothing is. */
static const struct {
  double a, b;
  const char *name;
  enum ab_phase phase;
  const char *beside;
  double distance;
} gradients[] = {{1e-8, 0, Q, AB_BACKWARD, V, 5e-8},    {-1e-8, 1e-17, K, AB_BACKWARD, V, 5e-8},
                 {1e-6, 0, Q, AB_BACKWARD, V, 5e-6},    {1e-3, -1e-17, K, AB_BACKWARD, V, 5e-3},
                 {0.1 + 1e-8, 0.1, Q, AB_BACKWARD, V, 5e-8}, /* below a tenth */
                 {1 + 1e-6, 1, Q, AB_BACKWARD, V, 1e-6}, {1.5, 1, K, AB_BACKWARD, V, 0.5},
                 {1e-8, 0, Q, AB_UPDATE, V, INFINITY},  {1e-8, 0, "self_attention/out/kernel", AB_BACKWARD, V, INFINITY},
                 {1e-8, 0, V, AB_BACKWARD, Q, INFINITY}, {1e-8, 0, Q, AB_BACKWARD, "mlp/wo/kernel", INFINITY}};
enum { GRADIENTS = sizeof gradients / sizeof *gradients };

START_TEST(gradients_of_query_and_key_are_measured_against_the_values) {
  double expected = gradients[_i].distance;
  struct ab_verdict v = judge_attention(gradients[_i].a, gradients[_i].b, gradients[_i].name, gradients[_i].phase,
                                        gradients[_i].beside);
  double apart = v.worst.distance;
  ck_assert_msg(apart == expected || fabs(apart - expected) <= 1e-6 * expected, "row %d: %g, expected %g", _i, apart,
                expected);
  ck_assert_int_eq(v.exit, apart > 1e-6 ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL);
  ab_verdict_free(&v);
}
END_TEST

/* Against its own norm a distance stays what it was measured to be, where its parts are out of range. */
START_TEST(a_distance_against_its_own_norm_is_kept) {
  struct side s = side_new("b");
  struct ab_identity id = identity(0, 1, "mlp/wo/kernel", AB_BACKWARD);
  struct ab_difference d = {.l2 = INFINITY, .l2_b = 1e308, .rel_l2 = 2};
  ck_assert_double_eq(ab_distance_of(&d, s.recording, &id), 2);
  side_free(&s);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("norm");
  TCase *tcase = tcase_create("norm");
  tcase_add_loop_test(tcase, a_mean_is_measured_against_the_root_mean_square, 0, ROWS);
  tcase_add_loop_test(tcase, gradients_of_query_and_key_are_measured_against_the_values, 0, GRADIENTS);
  tcase_add_test(tcase, without_values_too);
  tcase_add_test(tcase, a_distance_against_its_own_norm_is_kept);
  tcase_add_test(tcase, alone_or_beside_a_deviation_that_is_none_it_keeps_its_own_norm);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
