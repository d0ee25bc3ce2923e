/* Which sides a judgement runs, with what, and what it makes of those that fail: never a verdict. Nothing runs here: an
 * order is written down as a line, with "+" before what runs at the same time. */
#include <stdio.h>
#include <string.h>

#include "judgement.h"
#include "mem.h"
#include "memory_limit.h"
#include "tap.h"

/* What the world around a judgement does, and what was asked of it. */
static struct {
  const char *fails;    /* label of the side that fails */
  enum ab_exit exit;    /* how */
  uint64_t plan_bytes;  /* what every side says it needs */
  ab_status results, verdict; /* of a bundle's results, and of judging */
  char text[4096];      /* the orders */
  size_t judged, pended, live;
  const struct ab_side_result *a;
} world;

static void say(const char *before, const char *text) {
  size_t used = strlen(world.text);
  snprintf(world.text + used, sizeof world.text - used, "%s%s", before, text);
}

static void write_down(const struct ab_side_order *o) {
  say(o->label, " ");
  say(o->route, o->against == world.a && o->against ? " against-a" : "");
  if (o->params_from) say(o->params_from == world.a ? " at-a" : " at-another", "");
  if (o->state) say(" state", "");
  if (o->terms) say(" terms", "");
  if (o->fingerprints) say(" fingerprints", "");
  if (o->window) say(" window", "");
  if (o->what_if) say(" what-if=", o->what_if);
  if (o->shake) say(" shake=", o->shake);
  if (o->command) say(" command=", o->command);
  for (const char *const *word = o->case_arguments + 1; *word; word++) say(" ", *word);
  say("\n", "");
}

ab_status __wrap_ab_sides_run(struct ab_side_result *out, const struct ab_side_order *orders, size_t count);
ab_status __wrap_ab_sides_run(struct ab_side_result *out, const struct ab_side_order *orders, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *label = orders[i].label;
    if (strcmp(label, "a") == 0) world.a = out;
    snprintf(out[i].name, sizeof out[i].name, "%s", label);
    if (world.fails && strcmp(label, world.fails) == 0) out[i].exit = world.exit;
    AB_TRY(ab_recording_new(&out[i].recording, label));
    out[i].recording->plan_bytes = world.plan_bytes;
    say(i ? "+ " : "", "");
    write_down(&orders[i]);
  }
  return AB_OK;
}

ab_status __wrap_ab_judge_all(struct ab_judgement *j);
ab_status __wrap_ab_judge_all(struct ab_judgement *j) {
  (void)j;
  world.judged++;
  return world.verdict;
}

ab_status __wrap_ab_judgement_pend(struct ab_judgement *j);
ab_status __wrap_ab_judgement_pend(struct ab_judgement *j) {
  (void)j;
  world.pended++;
  return AB_OK;
}

ab_status __wrap_ab_reference_open(struct ab_reference **out, const struct ab_case *c);
ab_status __wrap_ab_reference_open(struct ab_reference **out, const struct ab_case *c) {
  (void)out;
  return world.results ? AB_FAIL(world.results, "results of %s", c->name) : AB_OK;
}

static ab_status begin(struct ab_judgement *j, struct ab_request request) {
  static char target[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  memset(&world, 0, sizeof world);
  world.live = ab_mem_stats().live_blocks;
  snprintf(target, sizeof target, "%s/%s", root ? root : ".",
           request.target ? request.target : "tests/fixtures/faults/circ.yml");
  request.target = target;
  while (request.overrides && request.overrides[request.override_count]) request.override_count++;
  return ab_judgement_open(j, &request);
}

static void end(struct ab_judgement *j) {
  ab_judgement_close(j);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, world.live);
}

static const char *const lr[] = {"learning_rate=0.02", "steps=2", NULL}, *const b1[] = {"upstream_faithful=B1", NULL};
static const struct {
  struct ab_request request;
  bool scarce;  /* each side needs all memory that there is */
  size_t sides; /* a, b, oracle, truth */
  const char *orders;
} runs[] = {
    {{.overrides = lr}, false, 4, "a linen learning_rate=0.02 steps=2\nb nnx against-a learning_rate=0.02 steps=2\n"
     "+ oracle sequential against-a learning_rate=0.02 steps=2\n"
     "+ truth sequential64 at-a state learning_rate=0.02 steps=2\n"},
    {{0}, true, 4, "a linen\nb nnx against-a\noracle sequential against-a\ntruth sequential64 at-a state\n"},
    {{.a = "linen64", .b = "nnx64"}, false, 4, "a linen64\n"
     "b nnx64 against-a\n+ oracle sequential against-a\n+ truth sequential64\n"},
    {{.a = "linen-exact", .b = "nnx-exact"}, false, 3, "a linen-exact\n"
     "b nnx-exact against-a\n+ oracle sequential-exact against-a\n"},
    {{.a = "linen-exact", .b = "nnx-exact"}, true, 3, "a linen-exact\n"
     "b nnx-exact against-a\noracle sequential-exact against-a\n"},
    {{.a_cmd = "one"}, false, 4, "a a-cmd command=one\nb nnx\n+ oracle sequential\n+ truth sequential64 state\n"},
    {{.b_cmd = "two"}, false, 4, "a linen\nb b-cmd command=two\n+ oracle sequential\n+ truth sequential64 state\n"},
    {{.target = "golden/unpipelined"}, false, 4, "a linen fingerprints --numerics portable\n"
     "b nnx against-a fingerprints --numerics portable\n+ oracle sequential against-a fingerprints --numerics portable\n"
     "+ truth sequential64 at-a state fingerprints --numerics portable\n"},
    {{.overrides = b1, .intended_oracle = true}, false, 4, "a linen upstream_faithful=B1\n"
     "b nnx against-a upstream_faithful=B1\n+ oracle sequential against-a upstream_faithful=B1 upstream_faithful=\n"
     "+ truth sequential64 at-a state upstream_faithful=B1 upstream_faithful=\n"}};
enum { RUNS = sizeof runs / sizeof *runs };

static void begin_run(struct ab_judgement *j, int row) {
  struct ab_memory_limit limit;
  ck_ok(begin(j, runs[row].request));
  ck_ok(ab_memory_available(&limit, ""));
  if (runs[row].scarce) world.plan_bytes = limit.available;
}

START_TEST(a_comparison_runs_all_its_sides) {
  struct ab_judgement j;
  begin_run(&j, _i);
  ck_ok(ab_judgement_run(&j));
  ck_assert_str_eq(world.text, runs[_i].orders);
  ck_assert(world.judged == 1 && world.pended == 1 && j.extra == AB_EXIT_EQUAL && !j.failures);
  end(&j);
}
END_TEST

START_TEST(a_side_that_fails_is_never_judged) {
  static const char *const labels[] = {"a", "b", "oracle", "truth"};
  static const enum ab_exit exits[] = {AB_EXIT_USAGE, AB_EXIT_SIDE, AB_EXIT_INCOMPARABLE};
  for (size_t l = 0; l < runs[_i].sides; l++)
    for (size_t e = 0; e < sizeof exits / sizeof *exits; e++) {
      struct ab_judgement j;
      bool failure = exits[e] == AB_EXIT_SIDE;
      begin_run(&j, _i);
      world.fails = labels[l];
      world.exit = exits[e];
      ck_ok(ab_judgement_run(&j));
      ck_assert_msg(world.judged == 0, "run %d, side %s", _i, labels[l]);
      ck_assert_msg(j.failures == failure, "run %d, side %s: %zu failures", _i, labels[l], j.failures);
      if (failure) ck_assert_str_eq(j.failure[0].side, labels[l]);
      ck_assert_int_eq(j.extra, failure ? AB_EXIT_EQUAL : exits[e]);
      end(&j);
    }
}
END_TEST

static ab_status at_a(struct ab_judgement *j) { return ab_judgement_run_oracle_at_a(j); }
static ab_status with_terms(struct ab_judgement *j) { return ab_judgement_run_terms(j); }
static ab_status what_if(struct ab_judgement *j) { return ab_judgement_run_what_if(j, "words"); }
static ab_status slope(struct ab_judgement *j) { return ab_judgement_run_slope(j, "up", "down"); }

static ab_status what_if_of_command(struct ab_judgement *j) {
  j->side[AB_SIDE_A].given.outside = true;
  return what_if(j);
}

static ab_status free_runs(struct ab_judgement *j) {
  struct ab_golden golden = {.numerics = (char[]){"fast"}};
  j->golden = &golden;
  ab_status status = ab_judgement_run_free(j);
  j->golden = NULL;
  return status;
}

static ab_status window(struct ab_judgement *j) {
  j->fingerprints = true;
  return ab_judgement_run_window(j, &(struct ab_kept_window){.step = 1, .microbatch = -1});
}

#define ENGINE_BUNDLE "tests/fixtures/reference/e01_simple"
static const struct {
  ab_status (*run)(struct ab_judgement *j);
  const char *a, *b, *target, *orders;
  const char *needed[2]; /* without these there is no verdict */
} later[] = {
    {at_a, "linen", "nnx", NULL, "oracle-at-a sequential at-a\n", {"oracle-at-a"}},
    {free_runs, "linen", "nnx", NULL, "free-truth sequential64\n+ free-golden sequential --numerics fast\n",
     {"free-truth", "free-golden"}},
    {slope, "linen", "nnx", NULL, "slope-up sequential64 at-a shake=up\n+ slope-down sequential64 at-a shake=down\n",
     {"slope-up", "slope-down"}},
    {with_terms, "linen", "nnx", NULL, "terms sequential-exact terms\n", {0}},
    {what_if, "linen", "nnx", NULL, "what-if sequential at-a what-if=words\n", {0}},
    {what_if, "linen", "nnx", ENGINE_BUNDLE, "what-if sequential what-if=words\n", {0}},
    {what_if, "linen64", "nnx64", NULL, "what-if sequential64 what-if=words\n", {0}},
    {what_if_of_command, "linen", "nnx", NULL, "what-if sequential what-if=words\n", {0}},
    {window, "linen", "nnx", NULL, "a-again linen window --steps 2\nb-again nnx window --steps 2\n"
     "oracle-again sequential window --steps 2\n", {0}},
    {window, "linen-exact", "nnx-exact", NULL, "a-again linen-exact window --steps 2\n"
     "b-again nnx-exact window --steps 2\noracle-again sequential-exact window --steps 2\n", {0}}};
enum { LATER = sizeof later / sizeof *later };

START_TEST(a_later_run_is_the_right_one) {
  for (int failing = -1; failing < 2; failing++) {
    struct ab_judgement j;
    const char *fails = failing < 0 ? NULL : later[_i].needed[failing];
    ck_ok(begin(&j, (struct ab_request){.a = later[_i].a, .b = later[_i].b, .target = later[_i].target}));
    world.a = &j.side[AB_SIDE_A];
    world.fails = fails;
    world.exit = AB_EXIT_SIDE;
    ck_ok(later[_i].run(&j));
    ck_assert_str_eq(world.text, later[_i].orders);
    ck_assert_msg(j.failures == (fails != NULL), "run %d: %zu failures", _i, j.failures);
    end(&j);
  }
}
END_TEST

START_TEST(a_program_that_was_not_built_is_a_failed_side) {
  for (int side = 0; side < 2; side++) {
    struct ab_judgement j;
    ck_ok(begin(&j, (struct ab_request){0}));
    ck_ok(ab_mem_string(&j.program[side].trouble, "no compiler"));
    ck_ok(ab_judgement_run(&j));
    ck_assert_str_eq(world.text, "");
    ck_assert_uint_eq(j.failures, 1);
    ck_assert_str_eq(j.failure[0].side, side ? "b" : "a");
    end(&j);
  }
}
END_TEST

/* What a bundle's results are worth, and what then runs. */
START_TEST(results_that_do_not_fit_are_never_green) {
  static const struct {
    ab_status status;
    enum ab_exit extra;
    bool runs;
  } rows[] = {{AB_OK, AB_EXIT_EQUAL, true}, {AB_EMISMATCH, AB_EXIT_INCOMPARABLE, true},
              {AB_ESHAPE, AB_EXIT_INCOMPARABLE, true}, {AB_EFORMAT, AB_EXIT_GOLDEN, false},
              {AB_ENOTFOUND, AB_EXIT_GOLDEN, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_judgement j;
    ck_ok(begin(&j, (struct ab_request){.target = ENGINE_BUNDLE}));
    world.results = rows[i].status;
    ck_ok(ab_judgement_run(&j));
    ck_assert_msg(j.extra == rows[i].extra, "row %zu: %d", i, (int)j.extra);
    ck_assert_msg(world.judged == rows[i].runs && (world.text[0] != '\0') == rows[i].runs, "row %zu", i);
    end(&j);
  }
}
END_TEST

START_TEST(what_is_no_finding_is_a_failure) {
  struct ab_judgement j;
  ck_ok(begin(&j, (struct ab_request){.target = ENGINE_BUNDLE}));
  world.results = AB_ENOMEM;
  ck_fails(ab_judgement_run(&j), AB_ENOMEM, "results of e01_simple");
  ck_assert_str_eq(world.text, "");
  world.results = AB_OK;
  world.verdict = AB_ENOMEM;
  ck_assert_int_eq(ab_judgement_run(&j), AB_ENOMEM);
  ck_assert_uint_eq(world.pended, 0);
  end(&j);
}
END_TEST

/* Under a stale golden sides run for a pending one alone, which only the case's own golden can have. */
START_TEST(a_stale_golden_runs_for_a_pending_one) {
  for (int stale = 0; stale < 2; stale++)
    for (int wanted = 0; wanted < 2; wanted++) {
      struct ab_judgement j;
      ck_ok(begin(&j, (struct ab_request){.target = "golden/unpipelined", .no_pending = !wanted}));
      j.stale = stale;
      j.extra = AB_EXIT_GOLDEN;
      ck_ok(ab_judgement_run(&j));
      ck_assert_uint_eq(world.judged, stale && wanted);
      end(&j);
    }
}
END_TEST

static const char *const old[] = {"enable_nnx=false", "pure_nnx=false", "pure_nnx_decoder=false", NULL};
static const struct {
  struct ab_request request;
  const char *a, *refused; /* one of the two */
  const char *b;
} choices[] = {
    {{0}, "linen", NULL, "nnx"},
    {{.a = "nnx"}, "nnx", NULL, "linen"},
    {{.a = "sequential"}, "sequential", NULL, "nnx"},
    {{.a = "sequential", .overrides = old}, "sequential", NULL, "linen"},
    {{.a = "nnx", .b = "linen"}, "nnx", NULL, "linen"},
    {{.a = "linen", .b = "linen", .allow_same = true}, "linen", NULL, "linen"},
    {{.a = "linen", .b = "linen"}, NULL, "nothing would be compared", NULL},
    {{.a = "linen", .b = "nnx64"}, NULL, "different arithmetic", NULL},
    {{.dump = "folder"}, "linen", NULL, "nnx"},
    {{.a = "linen64", .b = "nnx64", .dump = "folder"}, NULL, "--dump of route 'linen64'", NULL},
    {{.intended_oracle = true}, NULL, "names no defect", NULL},
    {{.a_bin = "/no/such"}, NULL, "--a-bin '/no/such'", NULL},
    {{.b_bin = "/no/such"}, NULL, "--b-bin '/no/such'", NULL},
    {{.b_bin = "/no/such", .b_rev = "HEAD"}, NULL, "--b-bin and --b-rev were both given", NULL},
    {{.b_rev = "HEAD", .source = "/no/such"}, NULL, "/no/such", NULL},
    {{.a_cmd = "true", .a = "nnx"}, NULL, "--a-cmd and a route were both given", NULL},
    {{.b_cmd = "true", .dump = "folder"}, NULL, "--b-cmd does not go with --dump", NULL},
    {{.target = "golden/unpipelined", .b_cmd = "true"}, "linen", NULL, "b-cmd"}};
enum { CHOICES = sizeof choices / sizeof *choices };

START_TEST(two_sides_are_chosen_or_refused) {
  struct ab_judgement j;
  ab_status status = begin(&j, choices[_i].request);
  ck_assert_msg((status == AB_OK) == (choices[_i].a != NULL), "row %d: %s", _i, ab_status_message());
  if (choices[_i].a) {
    ck_assert_str_eq(j.a->name, choices[_i].a);
    ck_assert_str_eq(j.b->name, choices[_i].b);
    ck_assert_uint_eq(j.notes, choices[_i].request.b_cmd ? 1 : 0);
    ck_assert_ptr_null(j.golden);
  } else {
    ck_assert_int_eq(status, AB_ECONFIG);
    ck_assert_msg(strstr(ab_status_message(), choices[_i].refused), "row %d: %s", _i, ab_status_message());
  }
  end(&j);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("orders");
  TCase *tests = tcase_create("orders");
  tcase_add_loop_test(tests, a_comparison_runs_all_its_sides, 0, RUNS);
  tcase_add_loop_test(tests, a_side_that_fails_is_never_judged, 0, RUNS);
  tcase_add_loop_test(tests, a_later_run_is_the_right_one, 0, LATER);
  tcase_add_test(tests, a_program_that_was_not_built_is_a_failed_side);
  tcase_add_test(tests, results_that_do_not_fit_are_never_green);
  tcase_add_test(tests, what_is_no_finding_is_a_failure);
  tcase_add_test(tests, a_stale_golden_runs_for_a_pending_one);
  tcase_add_loop_test(tests, two_sides_are_chosen_or_refused, 0, CHOICES);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
