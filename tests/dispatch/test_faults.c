/* Every hand fault turns the verdict red, in either engine, and the first divergence is the one that
 * tests/fixtures/faults/faults.txt states beforehand; without a fault the same sides are equal. */
#include <stdio.h>
#include <string.h>

#include "cause.h"
#include "faults.h"
#include "mem.h"
#include "tap.h"

enum { ROWS_MAX = 64, CASES_MAX = 16, ROUTES = 3 };
enum route { LINEN, NNX, ORACLE };
static const char *const route_name[ROUTES] = {"linen", "nnx", "sequential"};

/* A case and its clean sides, each run once. */
struct clean_case {
  char name[64];
  struct ab_case opened;
  struct ab_recording *side[ROUTES];
};
static struct clean_case cases[CASES_MAX];
static int case_count;

static struct clean_case *find_case(const char *name) {
  for (int i = 0; i < case_count; i++)
    if (!strcmp(cases[i].name, name)) return &cases[i];
  if (case_count == CASES_MAX) abort();
  struct clean_case *found = &cases[case_count++];
  snprintf(found->name, sizeof found->name, "%s", name);
  return found;
}

static const struct ab_case *opened(struct clean_case *c) {
  if (!c->opened.config) side_case_open(&c->opened, c->name);
  return &c->opened;
}

static const struct ab_recording *clean(struct clean_case *c, enum route route) {
  if (!c->side[route]) ck_ok(side_run(&c->side[route], opened(c), side_route(route_name[route]), NULL));
  return c->side[route];
}

static void free_cases(void) {
  for (int i = 0; i < case_count; i++) {
    for (int r = 0; r < ROUTES; r++) ab_recording_free(cases[i].side[r]);
    if (cases[i].opened.config) ab_case_close(&cases[i].opened);
  }
}

/* A line of the data file. */
struct row {
  char fault[32], phase[16];
  struct clean_case *in;
  struct fault_place place;
  int exit;
  struct ab_identity first;
};
static struct row rows[ROWS_MAX];
static int row_count;

static bool read_row(struct row *row, const char *line) {
  char name[64];
  int fields = sscanf(line, "%31s %63s %d %d %95s %d %d %d %d %95s %15s", row->fault, name, &row->place.layer,
                      &row->place.microbatch, row->place.tensor, &row->exit, &row->first.step, &row->first.microbatch,
                      &row->first.layer, row->first.tensor, row->phase);
  if (fields == 11) row->in = find_case(name);
  return fields == 11;
}

static void read_rows(void) {
  char path[512], line[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(path, sizeof path, "%s/tests/fixtures/faults/faults.txt", root ? root : ".");
  FILE *file = fopen(path, "r");
  if (!file) return;
  while (row_count < ROWS_MAX && fgets(line, sizeof line, file)) {
    if (line[0] == '#' || line[0] == '\n') continue;
    if (read_row(&rows[row_count], line)) row_count++;
    else fprintf(stderr, "faults.txt: not a row: %s", line);
  }
  fclose(file);
}

static void same_identity(const struct ab_identity *found, const struct row *row, const char *what) {
  char text[AB_IDENTITY_TEXT];
  ab_identity_print(text, found);
  const struct ab_identity *first = &row->first;
  bool same = found->step == first->step && found->microbatch == first->microbatch && found->layer == first->layer &&
              !strcmp(found->tensor, first->tensor) && !strcmp(ab_phase_name(found->phase), row->phase);
  ck_assert_msg(same, "%s: first divergence is %s; expected step %d microbatch %d layer %d %s %s", what, text,
                first->step, first->microbatch, first->layer, first->tensor, row->phase);
}

static struct ab_recording *run_faulty(const struct row *row, enum route victim) {
  struct ab_recording *faulty;
  const struct side_hooks *hooks = fault_put(row->fault, &row->place, opened(row->in));
  ck_assert_msg(hooks != NULL, "no fault is called '%s'", row->fault);
  ck_ok(side_run(&faulty, opened(row->in), side_route(route_name[victim]), hooks));
  fault_remove();
  return faulty;
}

static void check_cause(const struct row *row, const struct ab_recording *faulty, const struct ab_verdict *verdict,
                        enum route healthy, const char *what) {
  const struct ab_recording *oracle = clean(row->in, ORACLE);
  struct ab_verdict at = side_verdict(faulty, oracle, opened(row->in));
  struct ab_verdict bt = side_verdict(clean(row->in, healthy), oracle, opened(row->in));
  enum ab_cause expected = row->exit == AB_EXIT_INCOMPARABLE ? AB_CAUSE_STRUCTURE : AB_CAUSE_A_WRONG;
  struct ab_facts facts = {0};
  ab_fact_verdict(&facts, AB_FACT_AB, verdict);
  ab_fact_verdict(&facts, AB_FACT_A_ORACLE, &at);
  ab_fact_verdict(&facts, AB_FACT_B_ORACLE, &bt);
  enum ab_cause cause = ab_cause_of(&facts);
  ck_assert_msg(cause == expected, "%s: cause is '%s', expected '%s'", what, ab_cause_name(cause),
                ab_cause_name(expected));
  ab_verdict_free(&at);
  ab_verdict_free(&bt);
}

START_TEST(a_fault_shows_where_the_data_file_says) {
  const struct row *row = &rows[_i / 2];
  enum route victim = _i % 2 ? NNX : LINEN, healthy = _i % 2 ? LINEN : NNX;
  char what[128];
  snprintf(what, sizeof what, "%s in %s, %s", row->fault, route_name[victim], row->in->name);
  struct ab_recording *faulty = run_faulty(row, victim);
  struct ab_verdict verdict = side_verdict(faulty, clean(row->in, healthy), opened(row->in));
  ck_assert_msg((int)verdict.exit == row->exit, "%s: exit %d, expected %d", what, (int)verdict.exit, row->exit);
  if (row->exit == AB_EXIT_DIFFERENT) {
    ck_assert_uint_gt(verdict.failing, 0);
    same_identity(&verdict.first.id, row, what);
  } else {
    ck_assert_uint_eq(verdict.group[0].change, AB_CHANGE_MISSING);
    same_identity(&verdict.group[0].example, row, what);
  }
  check_cause(row, faulty, &verdict, healthy, what);
  ab_verdict_free(&verdict);
  ab_recording_free(faulty);
}
END_TEST

static void check_equal(struct clean_case *c, enum route a, enum route b) {
  struct ab_verdict verdict = side_verdict(clean(c, a), clean(c, b), opened(c));
  ck_assert_msg(verdict.exit == AB_EXIT_EQUAL && !verdict.any_difference && verdict.tensors.compared > 100,
                "%s: %s against %s is %s after %zu tensors", c->name, route_name[a], route_name[b],
                ab_exit_reason(verdict.exit), verdict.tensors.compared);
  ab_verdict_free(&verdict);
}

START_TEST(without_a_fault_all_routes_are_equal) {
  for (int i = 0; i < case_count; i++) {
    check_equal(&cases[i], LINEN, NNX);
    check_equal(&cases[i], LINEN, ORACLE);
    check_equal(&cases[i], NNX, ORACLE);
  }
}
END_TEST

START_TEST(every_fault_has_a_row) {
  ck_assert_int_gt(row_count, 0);
  for (int i = 0; fault_names[i]; i++) {
    int found = 0;
    for (int j = 0; j < row_count; j++) found += !strcmp(rows[j].fault, fault_names[i]);
    ck_assert_msg(found > 0, "faults.txt has no row for '%s'", fault_names[i]);
  }
}
END_TEST

/* An engine whose parameters lack a leaf. */
enum { LOST_LAYER = 3 };
static const char lost_name[] = "mlp/wi_0/kernel";
static const struct ab_pipeline_ops *whole_ops;
struct filter {
  ab_leaf_fn fn;
  void *ctx;
};

static ab_status pass_on(void *ctx, int layer, const char *name, const struct ab_view *view) {
  const struct filter *filter = ctx;
  return layer == LOST_LAYER && !strcmp(name, lost_name) ? AB_OK : filter->fn(filter->ctx, layer, name, view);
}

static ab_status leaves_but_one(struct ab_pipeline *pipeline, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  return whole_ops->leaves(pipeline, kind, pass_on, &(struct filter){fn, ctx});
}

START_TEST(a_leaf_that_the_loader_misses_is_named) {
  struct clean_case *c = find_case("p04_llama2");
  struct ab_route route = *side_route(route_name[_i]);
  whole_ops = route.pipeline;
  struct ab_pipeline_ops ops = *route.pipeline;
  ops.leaves = leaves_but_one;
  route.pipeline = &ops;
  struct ab_recording *recording;
  ck_fails(side_run(&recording, opened(c), &route, NULL), AB_EMISMATCH, "leaf 'layers/3/mlp/wi_0/kernel' is missing");
  ab_recording_free(recording);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("faults");
  TCase *tc = tcase_create("faults");
  tcase_set_timeout(tc, 120);
  read_rows();
  tcase_add_test(tc, every_fault_has_a_row);
  tcase_add_test(tc, without_a_fault_all_routes_are_equal);
  tcase_add_loop_test(tc, a_fault_shows_where_the_data_file_says, 0, 2 * row_count);
  tcase_add_loop_test(tc, a_leaf_that_the_loader_misses_is_named, LINEN, ORACLE);
  suite_add_tcase(suite, tc);
  int code = ab_run_suite(suite);
  free_cases();
  return code;
}
