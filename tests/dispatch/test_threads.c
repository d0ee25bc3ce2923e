/* The same bits from every route and any number of threads, with 1024 tokens per microbatch and three stages. */
#include <stdatomic.h>

#include "both_sides.h"
#include "tap.h"
#include "threads.h"

enum { ROUTES = 3 };
static const char *const route_name[ROUTES] = {"linen", "nnx", "sequential"};
static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* A table that notes how many threads its gemm is called by: the team's size, and who of the team came. */
static struct {
  const struct ab_kernels *table;
  atomic_int team;
  atomic_uint came;
} noted;

static void note_thread(void) {
  if (noted.team < team_size()) noted.team = team_size();
  noted.came |= 1u << team_place();
}

static void noting_gemm(void *c, const void *a, const void *b, const struct ab_gemm *dims) {
  note_thread();
  noted.table->gemm(c, a, b, dims);
}

static struct ab_recording *run(const struct ab_case *c, const struct ab_kernels *table, const char *route) {
  struct ab_recording *recording;
  struct ab_kernels noting = *table;
  noting.gemm = noting_gemm;
  noted.table = table;
  noted.team = 0;
  noted.came = 0;
  ck_ok(side_run(&recording, c, side_route(route), &(struct side_hooks){.kernels = &noting}));
  return recording;
}

static void same(const struct ab_recording *a, const struct ab_recording *b, const struct ab_case *c, int threads) {
  struct ab_verdict verdict = side_verdict(a, b, c);
  char first[AB_IDENTITY_TEXT] = "none";
  if (verdict.any_difference) ab_identity_print(first, &verdict.first_difference.id);
  ck_assert_msg(verdict.exit == AB_EXIT_EQUAL && !verdict.any_difference, "%s with %d threads: %s, first difference %s",
                a->name, threads, ab_exit_reason(verdict.exit), first);
  ck_assert_uint_gt(verdict.tensors.compared, 100);
  ab_verdict_free(&verdict);
}

static void check_team(const char *route, int threads) {
  ck_assert_msg(noted.team == threads, "%s: a team of %d, expected %d", route, noted.team, threads);
  ck_assert_msg(threads == 1 || __builtin_popcount(noted.came) > 1, "%s: only one of %d threads worked", route,
                threads);
}

START_TEST(routes_and_thread_counts_give_the_same_bits) {
  struct ab_case c;
  side_case_open(&c, "long.yml");
  ck_assert_int_ge(c.config->num_stages, 3);
  ck_assert_int_ge(c.config->micro_batch_size_to_train_on / c.config->num_pipeline_microbatches *
                       c.config->max_target_length, 1024);
  use_threads(1);
  struct ab_recording *truth = run(&c, tables[_i], "sequential");
  for (int asked = 1; asked <= 4; asked *= 2) {
    for (int r = 0; r < ROUTES; r++) {
      int threads = use_threads(asked);
      struct ab_recording *side = run(&c, tables[_i], route_name[r]);
      if (r < 2) check_team(route_name[r], threads);
      same(side, truth, &c, threads);
      ab_recording_free(side);
    }
  }
  ab_recording_free(truth);
  ab_case_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("threads");
  TCase *tc = tcase_create("threads");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, routes_and_thread_counts_give_the_same_bits, 0, TABLES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
