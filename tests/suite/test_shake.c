/* What a side may change about a run: only what it says, and the same every time. */
#include "shake.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "tap.h"

START_TEST(what_is_printed_is_read_back) {
  const struct ab_shake shakes[] = {{0},
                                    {.seed = 77, .ulp = true, .order = true, .rows = 64, .cols = 128, .depth = 32},
                                    {.seed = 1, .slope = -6.055454452393343e-06, .at = 3}};
  for (size_t i = 0; i < 3; i++) {
    char text[AB_SHAKE_TEXT], again[AB_SHAKE_TEXT];
    struct ab_shake read;
    ab_shake_print(text, &shakes[i]);
    ck_ok(ab_shake_parse(&read, text));
    ab_shake_print(again, &read);
    ck_assert_str_eq(text, again);
    ck_assert_double_eq(read.slope, shakes[i].slope);
  }
}
END_TEST

START_TEST(what_is_malformed_is_refused) {
  static const char *const texts[] = {"", "seed", "seed=1", "ulp=1,seed=2",
                                      "seed=1,ulp=0,order=0,rows=-4,cols=0,depth=0,slope=0,at=0",
                                      "seed=1,ulp=0,order=0,rows=4,cols=0,depth=0,slope=nan,at=0"};
  struct ab_shake shake;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    ck_fails(ab_shake_parse(&shake, texts[i]), AB_ECONFIG, "does not say what to shake");
}
END_TEST

START_TEST(values_move_by_at_most_one_ulp_both_ways) {
  enum { COUNT = 3000 };
  static float values[COUNT], again[COUNT];
  int up = 0, down = 0, same = 0;
  for (int i = 0; i < COUNT; i++) values[i] = again[i] = 0.5f + (float)i / COUNT;
  values[0] = again[0] = 0;
  values[1] = again[1] = INFINITY;
  ab_shake_ulp(values, COUNT, 5, 2, "mlp/wo/kernel");
  ab_shake_ulp(again, COUNT, 5, 2, "mlp/wo/kernel");
  ck_assert_mem_eq(values, again, sizeof values);
  ck_assert(values[0] == 0 && isinf(values[1]));
  for (int i = 2; i < COUNT; i++) {
    float was = 0.5f + (float)i / COUNT;
    up += values[i] == nextafterf(was, 2);
    down += values[i] == nextafterf(was, 0);
    same += values[i] == was;
  }
  ck_assert_int_eq(up + down + same, COUNT - 2);
  ck_assert(up > 800 && down > 800 && same > 800);
  ab_shake_ulp(again, COUNT, 6, 2, "mlp/wo/kernel");
  ck_assert(memcmp(values, again, sizeof values) != 0);
}
END_TEST

START_TEST(an_order_is_a_permutation) {
  bool moved = false;
  for (uint64_t seed = 0; seed < 20; seed++) {
    int place[7], seen = 0;
    ab_shake_order(place, 7, seed);
    for (int i = 0; i < 7; i++) {
      ck_assert(place[i] >= 0 && place[i] < 7);
      seen |= 1 << place[i];
      moved |= place[i] != i;
    }
    ck_assert_int_eq(seen, 127);
  }
  ck_assert(moved);
}
END_TEST

START_TEST(rows_move_by_whole_microbatches) {
  int32_t given[6][4 * 2 * 3]; /* 4 microbatches of 2 rows of 3 tokens */
  int32_t *storage = NULL;
  struct ab_config config = {.pipelined = true, .num_pipeline_microbatches = 4};
  for (int a = 0; a < 6; a++)
    for (int i = 0; i < 24; i++) given[a][i] = a * 100 + i;
  struct ab_batch batch = {8, 3, given[0], given[1], given[2], given[3], given[4], given[5]};
  struct ab_shake shake = {.seed = 3, .order = true};
  int place[4];
  ab_shake_order(place, 4, 3);
  ck_ok(ab_shake_batch(&storage, &batch, &shake, &config));
  for (int m = 0; m < 4; m++)
    for (int i = 0; i < 6; i++) {
      ck_assert_int_eq(batch.inputs[place[m] * 6 + i], m * 6 + i);
      ck_assert_int_eq(batch.targets_segmentation[place[m] * 6 + i], 500 + m * 6 + i);
    }
  ab_mem_free(storage);
}
END_TEST

START_TEST(a_direction_has_signs_of_both_kinds_that_depend_on_the_leaf) {
  int sum = 0, other = 0;
  for (size_t i = 0; i < 4000; i++) {
    double sign = ab_shake_sign(1, 0, "a/kernel", i);
    ck_assert(sign == 1 || sign == -1);
    sum += (int)sign;
    other += sign == ab_shake_sign(1, 1, "a/kernel", i);
  }
  ck_assert_msg(abs(sum) < 300 && abs(other - 2000) < 300, "%d %d", sum, other);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("shake");
  TCase *c = tcase_create("shake");
  tcase_add_test(c, what_is_printed_is_read_back);
  tcase_add_test(c, what_is_malformed_is_refused);
  tcase_add_test(c, values_move_by_at_most_one_ulp_both_ways);
  tcase_add_test(c, an_order_is_a_permutation);
  tcase_add_test(c, rows_move_by_whole_microbatches);
  tcase_add_test(c, a_direction_has_signs_of_both_kinds_that_depend_on_the_leaf);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
