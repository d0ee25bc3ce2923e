/* What a judgement takes for a golden, and what it makes of counts: every fault must reach the exit code and the
 * cause. Sides run in this process. */
#include "judgement.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "both_sides.h"
#include "observed.h"
#include "sown.h"
#include "sweep.h"
#include "tap.h"

enum { OVERRIDES = 2, CHECKS = 11 };

/* Both sides of a small case, as ab_judge_counts finds them once every value has been judged. */
struct rig {
  struct ab_judgement j;
  struct ab_side_result side[AB_SIDES];
  struct ab_facts facts;
};

static void rig_new(struct rig *rig, const char *const *overrides) {
  static const char *const routes[] = {"linen", "nnx"};
  *rig = (struct rig){.j = {.extra = AB_EXIT_EQUAL}};
  side_case_open_with(&rig->j.opened, "circ.yml", overrides);
  rig->j.side = rig->side;
  rig->j.facts = &rig->facts;
  rig->j.a = side_route(routes[0]);
  rig->j.b = side_route(routes[1]);
  for (int i = 0; i < 2; i++) {
    snprintf(rig->side[i].name, sizeof rig->side[i].name, "%s", routes[i]);
    ck_ok(side_run(&rig->side[i].recording, &rig->j.opened, side_route(routes[i]), NULL));
  }
}

static void rig_free(struct rig *rig) {
  for (int i = 0; i < 2; i++) ab_recording_free(rig->side[i].recording);
  ab_case_close(&rig->j.opened);
}

static void add_at(struct rig *rig, int side, const char *name, int stage) {
  struct ab_counter more = {.id = {.microbatch = -1, .layer = -1}, .at = {-1, stage, 0, false}, .amount = 1};
  snprintf(more.id.tensor, sizeof more.id.tensor, "%s", name);
  ck_ok(ab_recording_add_counter(rig->side[side].recording, &more));
}

static void add(struct rig *rig, int side, const char *name) { add_at(rig, side, name, 0); }

static void sow(struct rig *rig, int side) {
  struct ab_observation o = {.id = {.step = 0, .microbatch = -1, .layer = 99, .phase = AB_FORWARD}};
  snprintf(o.id.tensor, sizeof o.id.tensor, "intermediates/%s", ab_sown_names[0]);
  ck_ok(ab_recording_observe(rig->side[side].recording, &o));
}

static const char *const once[OVERRIDES + 1] = {"pipeline_fsdp_ag_once=true"};
static const char *const per_repeat[OVERRIDES + 1] = {"pipeline_fsdp_ag_per_repeat=true"}; /* the engines fetch apart */

START_TEST(clean_counts_are_green) {
  struct rig rig;
  rig_new(&rig, _i ? per_repeat : once);
  ck_ok(ab_judge_counts(&rig.j));
  ck_assert_msg(rig.j.extra == AB_EXIT_EQUAL, "%s", rig.j.extra_sentence);
  ck_assert_uint_eq(rig.j.counts_checked, CHECKS);
  ck_assert_uint_eq(rig.j.counts_wrong, 0);
  ck_assert_int_eq(rig.facts.known[AB_FACT_COUNTERS], AB_HOLDS);
  ck_assert_str_eq(rig.facts.reason[AB_FACT_COUNTERS], "as the config asks");
  ck_assert_int_eq(rig.facts.known[AB_FACT_A_RECOMPUTE], AB_HOLDS);
  ck_assert_int_eq(rig.facts.known[AB_FACT_B_RECOMPUTE], AB_HOLDS);
  ck_assert_uint_eq(rig.j.explained.lines, 0);
  rig_free(&rig);
}
END_TEST

/* The checks that must see one more of a name in one side, and in both. */
static const struct {
  const char *name; /* NULL: a metric that nobody sows */
  size_t one, both;
  int stage;
} more[] = {{AB_COUNT_EXECUTE, 2, 2, 0},   {"gather/calls", 2, 2, 0},  {"recompute/mystery", 2, 2, 0},
            {"recompute/mlp_residual", 2, 2, 0}, {"residual/mystery", 1, 2, 0}, {"ring/messages", 1, 0, 0},
            {AB_COUNT_RNG_KEY_0, 1, 2, 99}, {NULL, 1, 2, 0}};
enum { MORE = sizeof more / sizeof *more };

/* sides: a bit each. */
START_TEST(every_count_reaches_the_exit_code) {
  for (int sides = 1; sides <= 3; sides++) {
    struct rig rig;
    size_t wrong = sides == 3 ? more[_i].both : more[_i].one;
    const char *name = more[_i].name ? more[_i].name : "sown";
    rig_new(&rig, once);
    for (int side = 0; side < 2; side++) {
      if (sides >> side & 1 && more[_i].name) add_at(&rig, side, more[_i].name, more[_i].stage);
      if (sides >> side & 1 && !more[_i].name) sow(&rig, side);
    }
    ck_ok(ab_judge_counts(&rig.j));
    ck_assert_msg(rig.j.counts_wrong == wrong, "%s in %d: %zu checks saw it", name, sides, rig.j.counts_wrong);
    ck_assert_int_eq(rig.j.extra, wrong ? AB_EXIT_INCOMPARABLE : AB_EXIT_EQUAL);
    ck_assert_int_eq(ab_cause_of(&rig.facts), wrong ? AB_CAUSE_STRUCTURE : AB_CAUSE_EQUAL);
    ck_assert_uint_eq(rig.j.explained.lines, wrong ? 1 : 0);
    const struct ab_explained_line *line = &rig.j.explained.line[0];
    if (wrong) ck_assert_ptr_nonnull(strstr(line->text, "; no value differs"));
    if (wrong) ck_assert_str_eq(line->side, "nnx");
    if (wrong) ck_assert_str_eq(line->of.tensor, "counters");
    if (wrong) ck_assert(line->of.step == -1 && line->of.accumulation == -1 && line->of.microbatch == -1);
    if (wrong) ck_assert_int_eq(line->of.layer, -1);
    if (wrong) ck_assert_str_eq(rig.facts.reason[AB_FACT_COUNTERS], rig.j.extra_sentence);
    rig_free(&rig);
  }
}
END_TEST

/* A sequential side has no counters, and of a command none is asked for. */
START_TEST(only_engines_of_ours_are_counted) {
  for (int side = 0; side < 2; side++) {
    struct rig rig;
    rig_new(&rig, once);
    *(side ? &rig.j.b : &rig.j.a) = side_route("sequential");
    rig.side[side].given.outside = true;
    add(&rig, side, AB_COUNT_EXECUTE);
    add(&rig, side, "gather/calls");
    add(&rig, side, "recompute/mystery");
    sow(&rig, side);
    ck_ok(ab_judge_counts(&rig.j));
    ck_assert_msg(rig.j.extra == AB_EXIT_EQUAL, "side %d: %s", side, rig.j.extra_sentence);
    ck_assert_uint_eq(rig.j.counts_checked, 5);
    add(&rig, !side, AB_COUNT_EXECUTE);
    ck_ok(ab_judge_counts(&rig.j));
    ck_assert_int_eq(rig.j.extra, AB_EXIT_INCOMPARABLE);
    rig_free(&rig);
  }
}
END_TEST

static void recompute_otherwise(struct ab_recording *r) {
  for (size_t i = 0; i < r->observations; i++)
    if (r->observation[i].observation.id.phase == AB_RECOMPUTE) {
      r->observation[i].observation.summary.digest[0]++;
      return;
    }
  ck_abort_msg("nothing is recomputed");
}

START_TEST(other_bits_in_recomputation_are_a_difference) {
  static const enum ab_cause causes[] = {AB_CAUSE_EQUAL, AB_CAUSE_A_WRONG, AB_CAUSE_B_WRONG, AB_CAUSE_BOTH_MOVED};
  for (int sides = 1; sides <= 3; sides++)
    for (int outside = 0; outside < 2; outside++) {
      struct rig rig;
      rig_new(&rig, once);
      for (int side = 0; side < 2; side++) {
        if (sides >> side & 1) recompute_otherwise(rig.side[side].recording);
        rig.side[side].given.outside = outside;
      }
      ck_ok(ab_judge_counts(&rig.j));
      ck_assert_int_eq(rig.j.extra, outside ? AB_EXIT_EQUAL : AB_EXIT_DIFFERENT);
      ck_assert_int_eq(ab_cause_of(&rig.facts), outside ? AB_CAUSE_EQUAL : causes[sides]);
      const char *said = sides == 2 ? "nnx recomputed 1 tensors to other bits than forward, first step 0 "
                                    : "linen recomputed 1 tensors to other bits than forward, first step 0 ";
      if (!outside) ck_assert_ptr_nonnull(strstr(rig.j.extra_sentence, said));
      rig_free(&rig);
    }
}
END_TEST

/* Where a value differs, or a tensor is missing that is not recomputed, that is what is explained. */
START_TEST(a_count_explains_nothing_where_a_value_differs) {
  struct ab_group groups[2] = {{.example = {.phase = AB_RECOMPUTE}}, {.example = {.phase = AB_FORWARD}}};
  static const struct {
    size_t failing, groups, left_out, lines;
  } cases[] = {{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 1}, {0, 2, 0, 0}, {0, 1, 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rig rig;
    rig_new(&rig, once);
    add(&rig, 0, AB_COUNT_EXECUTE);
    rig.j.verdict[0].failing = cases[i].failing;
    rig.j.verdict[0].group = groups;
    rig.j.verdict[0].groups = cases[i].groups;
    rig.j.verdict[0].groups_left_out = cases[i].left_out;
    ck_ok(ab_judge_counts(&rig.j));
    ck_assert_int_eq(rig.j.extra, AB_EXIT_INCOMPARABLE);
    ck_assert_msg(rig.j.explained.lines == cases[i].lines, "case %zu: %zu lines", i, rig.j.explained.lines);
    rig_free(&rig);
  }
}
END_TEST

/* What becomes of a golden when a case is opened. */
static const struct {
  const char *golden, *override; /* NULL: the case's own; as recorded */
  enum ab_exit extra;
  bool usable, stale;
} opened[] = {{NULL, NULL, AB_EXIT_EQUAL, true, false},
              {NULL, "learning_rate=0.02", AB_EXIT_GOLDEN, true, true},
              {"tests/fixtures/faults/circ.yml", NULL, AB_EXIT_GOLDEN, false, false},
              {"golden/no_such.json", NULL, AB_EXIT_GOLDEN, false, false},
              {"golden/unpipelined/golden.json", NULL, AB_EXIT_GOLDEN, true, true}};
enum { OPENED = sizeof opened / sizeof *opened };

START_TEST(a_golden_of_something_else_is_never_green) {
  const char *root = getenv("AB_SOURCE_ROOT");
  char target[512], golden[512];
  struct ab_judgement j;
  snprintf(target, sizeof target, "%s/golden/layers_outside", root ? root : ".");
  snprintf(golden, sizeof golden, "%s/%s", root ? root : ".", opened[_i].golden ? opened[_i].golden : "");
  struct ab_request request = {.target = target, .overrides = &opened[_i].override,
                               .override_count = opened[_i].override ? 1 : 0,
                               .golden = opened[_i].golden ? golden : NULL};
  ck_ok(ab_judgement_open(&j, &request));
  ck_assert_msg(j.extra == opened[_i].extra, "row %d: %d, %s", _i, (int)j.extra, j.extra_sentence);
  ck_assert_msg(j.stale == opened[_i].stale, "row %d", _i);
  ck_assert_msg(j.fingerprints == opened[_i].usable, "row %d", _i);
  ck_assert_msg((j.golden_recording != NULL) == opened[_i].usable, "row %d", _i);
  if (opened[_i].usable) ck_assert_str_eq(j.request.numerics, "portable");
  if (opened[_i].usable) ck_assert_int_eq(j.opened.numerics, AB_NUMERICS_PORTABLE);
  ab_judgement_close(&j);
  ab_status_clear();
}
END_TEST

/* Every now and then an allocation fails: most of them are of the golden, without which a run would be green. */
START_TEST(a_golden_is_never_lost_for_want_of_memory) {
  enum { STRIDE = 37 };
  const char *root = getenv("AB_SOURCE_ROOT");
  char target[512];
  struct ab_request request = {.target = target};
  struct sweep_door door = {0};
  struct ab_allocator allocator = {&door, sweep_alloc, sweep_release};
  size_t before = ab_mem_stats().live_blocks;
  snprintf(target, sizeof target, "%s/golden/unpipelined", root ? root : ".");
  ab_status status = AB_ENOMEM;
  ab_mem_install(&allocator);
  for (; status != AB_OK; door.fail_at += STRIDE) {
    struct ab_judgement j;
    door.calls = 0;
    status = ab_judgement_open(&j, &request);
    bool failed = door.calls > door.fail_at, kept = status != AB_OK || (j.golden && !failed);
    if (status == AB_OK) ab_judgement_close(&j);
    if ((status == AB_ENOMEM) == failed && kept && ab_mem_stats().live_blocks == before) continue;
    ab_mem_install(NULL);
    ck_abort_msg("allocation %zu: status %d, %s", door.fail_at, (int)status, ab_status_message());
  }
  ab_mem_install(NULL);
  ck_assert_uint_gt(door.fail_at, 10 * STRIDE);
}
END_TEST

START_TEST(a_case_without_a_golden_asks_for_none) {
  const char *root = getenv("AB_SOURCE_ROOT");
  char target[512];
  struct ab_judgement j;
  snprintf(target, sizeof target, "%s/tests/fixtures/faults/circ.yml", root ? root : ".");
  ck_ok(ab_judgement_open(&j, &(struct ab_request){.target = target}));
  ck_assert_msg(j.extra == AB_EXIT_EQUAL, "%s", j.extra_sentence);
  ck_assert(!j.golden && !j.stale && !j.fingerprints);
  ab_judgement_close(&j);
}
END_TEST

/* The config as a golden keeps it, walked along the config itself. */
struct walk {
  struct ab_pair_text *pair;
  size_t met, left_out;
  bool derived;
};

static void meet(void *ctx, const char *key, const char *value, const char *source) {
  struct walk *w = ctx;
  if ((strcmp(source, "derived") == 0) != w->derived) return;
  if (strcmp(key, "run_name") == 0 || strcmp(key, "base_output_directory") == 0) {
    w->left_out++;
    return;
  }
  ck_assert_str_eq(w->pair[w->met].key, key);
  ck_assert_str_eq(w->pair[w->met++].value, value);
}

START_TEST(a_golden_keeps_every_key_that_changes_numbers) {
  struct ab_case c;
  struct walk w = {0};
  size_t count, live = ab_mem_stats().live_blocks;
  side_case_open(&c, "circ.yml");
  ck_ok(ab_config_pairs(&w.pair, &count, c.config));
  ab_config_each(c.config, meet, &w);
  w.derived = true; /* after what was given */
  ab_config_each(c.config, meet, &w);
  ck_assert_uint_eq(w.met, count);
  ck_assert_uint_eq(w.left_out, 2);
  ck_assert_uint_gt(count, 64);
  ab_mem_free(w.pair);
  ab_case_close(&c);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, live);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("judgement");
  TCase *tests = tcase_create("judgement");
  tcase_add_loop_test(tests, clean_counts_are_green, 0, 2);
  tcase_add_loop_test(tests, every_count_reaches_the_exit_code, 0, MORE);
  tcase_add_test(tests, only_engines_of_ours_are_counted);
  tcase_add_test(tests, other_bits_in_recomputation_are_a_difference);
  tcase_add_test(tests, a_count_explains_nothing_where_a_value_differs);
  tcase_add_loop_test(tests, a_golden_of_something_else_is_never_green, 0, OPENED);
  tcase_add_test(tests, a_golden_is_never_lost_for_want_of_memory);
  tcase_add_test(tests, a_golden_keeps_every_key_that_changes_numbers);
  tcase_add_test(tests, a_case_without_a_golden_asks_for_none);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
