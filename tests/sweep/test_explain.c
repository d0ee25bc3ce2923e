/* A whole comparison whose side B loses a microbatch: the report says which. This program is both ends: the parent of
 * the sides, and, spawned with --side, a side; the linker puts a fault between its engines and the exact gemm.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "judgement.h"
#include "side_mode.h"
#include "tap.h"

/* TOKENS of a microbatch: products of other lengths are those of the self-test, which would find the fault. */
enum { M = 8, TOKENS = 24, VICTIM = 3, ACCUMULATORS = 64 };

typedef void gemm_block_fn(uint64_t *c, const uint64_t *a, const uint64_t *b, const struct ab_gemm *block);
gemm_block_fn __real_ab_exact_gemm_block, __wrap_ab_exact_gemm_block;

static bool faulty;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Every accumulator takes its microbatches from the last to the first. */
static int microbatch_of(const void *accumulator) {
  static const void *known[ACCUMULATORS];
  static int added[ACCUMULATORS];
  pthread_mutex_lock(&lock);
  int i = 0;
  while (known[i] && known[i] != accumulator) i++;
  known[i] = accumulator;
  int microbatch = M - 1 - added[i]++;
  pthread_mutex_unlock(&lock);
  return microbatch;
}

void __wrap_ab_exact_gemm_block(uint64_t *c, const uint64_t *a, const uint64_t *b, const struct ab_gemm *block) {
  bool weights = block->trans_a && block->accumulate && block->k == TOKENS;
  if (faulty && weights && microbatch_of(c) == VICTIM) return;
  __real_ab_exact_gemm_block(c, a, b, block);
}

static void open_case(struct ab_judgement *j, struct ab_request *request, char path[512], const char *name) {
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(path, 512, "%s/tests/fixtures/reference/%s", root ? root : ".", name);
  *request = (struct ab_request){.target = path, .a = "linen-exact", .b = "nnx-exact"};
  ck_ok(ab_judgement_open(j, request));
  ck_ok(ab_judgement_run(j));
  ck_assert_msg(j->failures == 0, "%s: %s", j->failure[0].side, j->failure[0].reason);
}

static size_t notes_with(const struct ab_judgement *j, const char *text) {
  size_t n = 0;
  for (size_t i = 0; i < j->notes; i++) n += strstr(j->note[i], text) != NULL;
  return n;
}

START_TEST(a_lost_microbatch_is_named) {
  struct ab_judgement j;
  struct ab_request request;
  char path[512];
  setenv("AB_TEST_FAULT", "nnx-exact", 1);
  open_case(&j, &request, path, "e01_simple");
  ck_assert_int_eq(j.cause, AB_CAUSE_B_WRONG);
  ck_assert_uint_eq(notes_with(&j, "b (nnx-exact), gradient layers/0/weights: microbatch 3 is missing"), 1);
  ck_assert_uint_eq(notes_with(&j, "microbatch 3 is missing"), 3);
  ck_assert_uint_eq(notes_with(&j, "b (nnx-exact), 5 more gradients are wrong"), 1);
  ck_assert_uint_eq(notes_with(&j, "a (linen-exact), "), 0);
  ab_judgement_close(&j);
}
END_TEST

START_TEST(nothing_is_explained_when_all_is_right) {
  struct ab_judgement j;
  struct ab_request request;
  char path[512];
  unsetenv("AB_TEST_FAULT");
  open_case(&j, &request, path, "e01_simple");
  ck_assert_int_eq(j.cause, AB_CAUSE_EQUAL);
  ck_assert_uint_eq(notes_with(&j, "gradient"), 0);
  ck_assert_ptr_null(j.side[AB_SIDE_TERMS].recording);
  ab_judgement_close(&j);
}
END_TEST

static bool is_side(int argc, char **argv) { return argc > 2 && !strcmp(argv[1], "--" AB_SIDE_ROUTE); }

static int run_side(int argc, char **argv) {
  struct ab_request request;
  const char *fault = getenv("AB_TEST_FAULT");
  if (ab_request_parse(&request, argc, argv) != AB_OK) return AB_EXIT_USAGE;
  faulty = fault && !strcmp(request.side, fault);
  int code = ab_side_main(&request);
  ab_request_free(&request);
  return code;
}

int main(int argc, char **argv) {
  if (is_side(argc, argv)) return run_side(argc, argv);
  Suite *suite = suite_create("explain");
  TCase *tcase = tcase_create("explain");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, a_lost_microbatch_is_named);
  tcase_add_test(tcase, nothing_is_explained_when_all_is_right);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
