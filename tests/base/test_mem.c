#include <stdint.h>
#include <string.h>

#include "arena.h"
#include "mem.h"
#include "tap.h"

START_TEST(blocks_are_zeroed_aligned_and_counted) {
  size_t before = ab_mem_stats().live_blocks;
  unsigned char *block = NULL;
  ck_ok(ab_mem_new(&block, 3, 100));
  ck_assert_uint_eq((uintptr_t)block % AB_ALIGN, 0);
  for (int i = 0; i < 300; i++) ck_assert_uint_eq(block[i], 0);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before + 1);
  ab_mem_free(block);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

START_TEST(resize_keeps_old_and_zeroes_new) {
  unsigned char *block = NULL;
  ck_ok(ab_mem_new(&block, 10, 1));
  memset(block, 7, 10);
  ck_ok(ab_mem_resize(&block, 1000, 1));
  for (int i = 0; i < 1000; i++) ck_assert_uint_eq(block[i], i < 10 ? 7 : 0);
  ab_mem_free(block);
}
END_TEST

START_TEST(overflow_is_refused_and_leaves_the_output_alone) {
  int marker;
  void *block = &marker;
  ck_fails(ab_mem_new(&block, SIZE_MAX, 2), AB_ENOMEM, "does not fit");
  ck_assert_ptr_eq(block, &marker);
}
END_TEST

START_TEST(a_measuring_arena_plans_a_real_one) {
  struct ab_arena plan, real;
  void *block;
  ab_arena_init_measuring(&plan, "plan");
  ck_ok(ab_arena_take(&plan, &block, 10, 4));
  size_t mark = ab_arena_mark(&plan);
  ck_ok(ab_arena_take(&plan, &block, 1000, 4));
  ab_arena_release(&plan, mark);
  ck_ok(ab_arena_take(&plan, &block, 1, 1));
  ck_assert_uint_eq(plan.high, 64 + 4032);
  ck_ok(ab_arena_init(&real, "step", plan.high));
  ck_ok(ab_arena_take(&real, &block, 10, 4));
  ck_ok(ab_arena_take(&real, &block, 1000, 4));
  ck_fails(ab_arena_take(&real, &block, 1, 1), AB_ENOMEM, "step arena");
  ab_arena_free(&real);
  ab_arena_free(&plan);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("mem");
  TCase *c = tcase_create("mem");
  tcase_add_test(c, blocks_are_zeroed_aligned_and_counted);
  tcase_add_test(c, resize_keeps_old_and_zeroes_new);
  tcase_add_test(c, overflow_is_refused_and_leaves_the_output_alone);
  tcase_add_test(c, a_measuring_arena_plans_a_real_one);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
