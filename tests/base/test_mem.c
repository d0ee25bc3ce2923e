#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <string.h>

#include "arena_ledger.h"
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
  ck_ok(ab_mem_resize(&block, 5, 1));
  ck_ok(ab_mem_resize(&block, 20, 1));
  for (int i = 0; i < 20; i++) ck_assert_uint_eq(block[i], i < 5 ? 7 : 0);
  ab_mem_free(block);
}
END_TEST

#ifdef __SANITIZE_ADDRESS__
START_TEST(a_step_beyond_the_block_is_seen) {
  unsigned char *block = NULL;
  ck_ok(ab_mem_new(&block, 9, 1));
  for (int i = -1; i < 64; i++) ck_assert_int_eq(__asan_address_is_poisoned(block + i), i < 0 || i >= 9);
  ab_mem_free(block);
}
END_TEST
#endif

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

static void check_item(const struct ab_arena_ledger *ledger, size_t i, const char *pointer, size_t bytes) {
  ck_assert_str_eq(ledger->peak[i].taker.pointer, pointer);
  ck_assert_uint_eq(ledger->peak[i].bytes, bytes);
}

/* Many small blocks, released, and then one that makes the peak or not. */
START_TEST(a_ledger_names_the_bytes_at_the_peak) {
  struct ab_arena plan;
  struct ab_arena_ledger ledger = {0};
  void *stays, *goes, *later;
  ab_arena_init_measuring(&plan, "plan");
  plan.ledger = &ledger;
  for (int i = 0; i < 2; i++) ck_ok(ab_arena_take(&plan, &stays, 10, 1));
  size_t mark = ab_arena_mark(&plan);
  for (int i = 0; i < 2000; i++) ck_ok(ab_arena_take(&plan, &goes, 1, 1));
  ab_arena_release(&plan, mark);
  ck_ok(ab_arena_take(&plan, &later, _i ? 2001 : 1999, 64));
  ab_arena_ledger_close(&ledger);
  ck_assert_uint_eq(ledger.peak_bytes, plan.high);
  ck_assert_uint_eq(ledger.peak_count, 2);
  check_item(&ledger, 0, "&stays", 128);
  check_item(&ledger, 1, _i ? "&later" : "&goes", _i ? 2001 * 64 : 2000 * 64);
  ab_arena_ledger_free(&ledger);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("mem");
  TCase *c = tcase_create("mem");
  tcase_add_test(c, blocks_are_zeroed_aligned_and_counted);
  tcase_add_test(c, resize_keeps_old_and_zeroes_new);
#ifdef __SANITIZE_ADDRESS__
  tcase_add_test(c, a_step_beyond_the_block_is_seen);
#endif
  tcase_add_test(c, overflow_is_refused_and_leaves_the_output_alone);
  tcase_add_test(c, a_measuring_arena_plans_a_real_one);
  tcase_add_loop_test(c, a_ledger_names_the_bytes_at_the_peak, 0, 2);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
