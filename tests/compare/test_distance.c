#include "distance.h"

#include <math.h>
#include <string.h>

#include "tap.h"

static struct ab_identity named(const char *tensor) {
  struct ab_identity id = {.microbatch = -1, .layer = 1, .phase = AB_BACKWARD};
  strcpy(id.tensor, tensor);
  return id;
}

START_TEST(the_farthest_tensor_is_kept_with_both_ratios) {
  struct ab_distance d = {0};
  struct ab_identity near = named("near"), far = named("far"), after = named("after");
  ab_distance_add(&d, &near, false, 2e-6, 1e-6, 1e-6);
  ab_distance_add(&d, &far, false, 1e-6, 3e-1, 1e-6);
  ab_distance_add(&d, &after, false, 8e-6, 8e-6, 1e-6);
  ck_assert(d.known && !d.metric);
  ck_assert_str_eq(d.worst.tensor, "far");
  ck_assert_double_eq_tol(d.a, 1, 1e-12);
  ck_assert_double_eq_tol(d.b, 3e5, 1e-6);
}
END_TEST

/* Whichever side is the far one, before and after; of two as far the first stays. */
START_TEST(the_farther_of_both_sides_decides) {
  for (int side = 0; side < 2; side++)
    for (int before = 0; before < 2; before++) {
      struct ab_distance d = {0};
      struct ab_identity first = named("first"), then = named("then"), tie = named("tie");
      double far[] = {before ? 9e-6 : 2e-6, before ? 2e-6 : 9e-6};
      ab_distance_add(&d, &first, false, side ? 1e-6 : far[0], side ? far[0] : 1e-6, 1e-6);
      ab_distance_add(&d, &then, true, side ? 1e-6 : far[1], side ? far[1] : 1e-6, 1e-6);
      ab_distance_add(&d, &tie, false, side ? 9e-6 : 1e-6, side ? 1e-6 : 9e-6, 1e-6);
      ck_assert_str_eq(d.worst.tensor, before ? "first" : "then");
      ck_assert(d.metric == !before);
      ck_assert_double_eq_tol(side ? d.b : d.a, 9, 1e-12);
      ck_assert_double_eq_tol(side ? d.a : d.b, 1, 1e-12);
    }
}
END_TEST

START_TEST(an_oracle_without_error_is_not_divided_by) {
  struct ab_distance d = {0};
  struct ab_identity id = named("x");
  ab_distance_add(&d, &id, false, 0, 0x1p-22, 0);
  ck_assert_double_eq(d.a, 0);
  ck_assert_double_eq(d.b, AB_DISTANCE_NEAR);
}
END_TEST

START_TEST(what_is_not_a_number_is_infinitely_far) {
  struct ab_distance d = {0};
  struct ab_identity id = named("x");
  ab_distance_add(&d, &id, false, (double)NAN, 1e-6, 1e-6);
  ck_assert(isinf(d.a) && d.b < AB_DISTANCE_NEAR);
}
END_TEST

START_TEST(distances_print_short) {
  char text[24];
  ab_distance_print(text, 1);
  ck_assert_str_eq(text, "1.0");
  ab_distance_print(text, 999.9);
  ck_assert_str_eq(text, "999.9");
  ab_distance_print(text, 1000);
  ck_assert_str_eq(text, "1.0e+03");
  ab_distance_print(text, 312345);
  ck_assert_str_eq(text, "3.1e+05");
  ab_distance_print(text, (double)INFINITY);
  ck_assert_str_eq(text, "infinite");
}
END_TEST

START_TEST(a_slope_is_off_in_parts_of_the_gradients_size) {
  struct ab_slope s = {.known = true, .truth = 2, .by = {2.5, (double)NAN}, .scale = 10};
  ck_assert_double_eq_tol(ab_slope_error(&s, 0), 0.05, 1e-15);
  s.by[0] = 1.5;
  ck_assert_double_eq_tol(ab_slope_error(&s, 0), 0.05, 1e-15);
  ck_assert(isinf(ab_slope_error(&s, 1)));
  s = (struct ab_slope){.known = true, .by = {1, 0}};
  ck_assert(isinf(ab_slope_error(&s, 0)) && isinf(ab_slope_error(&s, 1)));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("distance");
  TCase *c = tcase_create("distance");
  tcase_add_test(c, the_farthest_tensor_is_kept_with_both_ratios);
  tcase_add_test(c, the_farther_of_both_sides_decides);
  tcase_add_test(c, an_oracle_without_error_is_not_divided_by);
  tcase_add_test(c, what_is_not_a_number_is_infinitely_far);
  tcase_add_test(c, distances_print_short);
  tcase_add_test(c, a_slope_is_off_in_parts_of_the_gradients_size);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
