/* Counters by hand: the right number passes, one more and one less are refused, wherever they are. */
#include <stdio.h>
#include <string.h>

#include "expectation.h"
#include "mem.h"
#include "observed.h"
#include "sown.h"
#include "tap.h"
#include "threefry.h"
#include "version.h"

enum { OVERRIDES = 3 };

static void open_case(struct ab_case *out, const char *target, const char *const *overrides) {
  char path[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  struct ab_request request = {.target = path, .overrides = overrides, .ignore_golden = true};
  snprintf(path, sizeof path, "%s/%s", root ? root : ".", target);
  while (request.override_count < OVERRIDES && overrides[request.override_count]) request.override_count++;
  ck_ok(ab_case_open(out, &request));
}

static void add(struct ab_recording *r, const char *name, int step, int stage, int repeat, int64_t amount) {
  struct ab_counter counter = {.id = {.step = step, .microbatch = -1, .layer = -1}, .at = {-1, stage, repeat, false},
                               .amount = amount};
  snprintf(counter.id.tensor, sizeof counter.id.tensor, "%s", name);
  ck_ok(ab_recording_add_counter(r, &counter));
}

static struct ab_recording *empty(const char *name) {
  struct ab_recording *r;
  ck_ok(ab_recording_new(&r, name));
  return r;
}

/* R, S, M and the layers outside, as the config files say; bubbles are S - 1 per stage, for every delay is 1. */
static const struct grid {
  const char *target, *override[OVERRIDES];
  int repeats, stages, microbatches, outside, steps;
} grids[] = {{"tests/fixtures/faults/circ.yml", {NULL}, 2, 2, 4, 0, 2},
             {"golden/layers_outside/config.yml", {NULL}, 1, 2, 4, 2, 2},
             {"golden/unpipelined/config.yml", {"steps=3"}, 0, 0, 0, 3, 3},
             {"tests/fixtures/reference/p08_llama2", {NULL}, 2, 4, 8, 0, 1}};
enum { GRIDS = sizeof grids / sizeof *grids };

static struct ab_recording *executed(const struct grid *g) {
  struct ab_recording *r = empty("linen");
  for (int step = 0; step < g->steps; step++) {
    if (g->outside) add(r, AB_COUNT_EXECUTE, step, -1, -1, g->outside);
    for (int repeat = 0; repeat < g->repeats; repeat++)
      for (int stage = 0; stage < g->stages; stage++) add(r, AB_COUNT_EXECUTE, step, stage, repeat, g->microbatches);
    for (int stage = 0; stage < g->stages; stage++)
      add(r, AB_COUNT_BUBBLE, step, stage, stage % g->repeats, g->stages - 1);
  }
  return r;
}

START_TEST(executions_are_m_per_cell_and_step) {
  const struct grid *g = &grids[_i];
  struct ab_case c;
  open_case(&c, g->target, g->override);
  struct ab_recording *r = executed(g);
  ck_ok(ab_check_executions(r, &c));
  add(r, AB_COUNT_EXECUTE, 0, -1, -1, 1);
  ck_fails(ab_check_executions(r, &c), AB_EMISMATCH, "executions, expected");
  add(r, AB_COUNT_EXECUTE, 0, -1, -1, -2);
  ck_fails(ab_check_executions(r, &c), AB_EMISMATCH, "executions, expected");
  add(r, AB_COUNT_EXECUTE, 0, -1, -1, 1);
  ck_ok(ab_check_executions(r, &c));
  ab_recording_free(r);
  ab_case_close(&c);
}
END_TEST

/* The same sum with one execution moved from one cell to another. */
START_TEST(a_moved_execution_is_seen_in_every_cell) {
  const struct grid *g = &grids[_i];
  struct ab_case c;
  if (!g->stages) return;
  open_case(&c, g->target, g->override);
  for (int repeat = 0; repeat < g->repeats; repeat++)
    for (int stage = 0; stage < g->stages; stage++)
      for (int more = -1; more <= 1; more += 2) {
        struct ab_recording *r = executed(g);
        add(r, AB_COUNT_EXECUTE, g->steps - 1, stage, repeat, more);
        add(r, AB_COUNT_EXECUTE, 0, -1, -1, -more);
        char what[64];
        snprintf(what, sizeof what, "executions of repeat %d, stage %d", repeat, stage);
        ck_fails(ab_check_executions(r, &c), AB_EMISMATCH, what);
        ab_recording_free(r);
      }
  ab_case_close(&c);
}
END_TEST

/* One more or less, or one of a repeat that there is not. */
START_TEST(bubbles_are_counted_by_repeats_that_there_are) {
  const struct grid *g = &grids[_i];
  struct ab_case c;
  if (!g->stages) return;
  open_case(&c, g->target, g->override);
  for (int stage = 0; stage < g->stages; stage++)
    for (int more = -1; more <= 1; more++) {
      struct ab_recording *r = executed(g);
      char what[64];
      add(r, AB_COUNT_BUBBLE, 0, stage, 0, more ? more : -1);
      if (!more) add(r, AB_COUNT_BUBBLE, 0, stage, g->repeats, 1);
      snprintf(what, sizeof what, "bubbles of stage %d", stage);
      ck_fails(ab_check_executions(r, &c), AB_EMISMATCH, what);
      ab_recording_free(r);
    }
  ab_case_close(&c);
}
END_TEST

#define REFERENCE "tests/fixtures/reference/"
#define SMALL "tests/fixtures/faults/circ.yml"
#define ONCE "pipeline_fsdp_ag_once=true"
#define NOT_PER_REPEAT "pipeline_fsdp_ag_per_repeat=false"

/* Nine leaves a layer; steps x stages x leaves x fetches. moved: times the bytes gathered. */
static const struct {
  const char *target, *override[OVERRIDES];
  enum ab_family family;
  int64_t calls, moved;
} gathers[] = {
    {REFERENCE "p06_llama2", {NULL}, AB_FAMILY_LINEN, 2 * 9 * 4, 0},
    {REFERENCE "p06_llama2", {NULL}, AB_FAMILY_NNX, 2 * 9 * 4, 0},
    {REFERENCE "p06_llama2", {"upstream_faithful=B7"}, AB_FAMILY_LINEN, 2 * 9 * 4, 0},
    {REFERENCE "p06_llama2", {"upstream_faithful=B7"}, AB_FAMILY_NNX, 2 * 9 * 4, 4 * 1 * 2}, /* of 4 repeats */
    {REFERENCE "p08_llama2", {ONCE, NOT_PER_REPEAT, "upstream_faithful=B7"}, AB_FAMILY_NNX, 4 * 9 * 2, 4 * 3 * 1},
    {REFERENCE "p07_llama2", {NULL}, AB_FAMILY_LINEN, 2 * 9 * 2 * 5, 0},
    {REFERENCE "p07_llama2", {NULL}, AB_FAMILY_NNX, 2 * 9 * 2 * 4, 0},
    {REFERENCE "p07_llama2", {"upstream_faithful=B7"}, AB_FAMILY_NNX, 2 * 9 * 2 * 4, 0},
    {REFERENCE "p07_llama2", {"upstream_faithful=B13"}, AB_FAMILY_NNX, 2 * 9 * 2 * 4, 0},
    {REFERENCE "p07_llama2", {"set_remat_policy_on_pipeline_iterations=false"}, AB_FAMILY_NNX, 2 * 9 * 2 * 4, 0},
    {REFERENCE "p07_llama2",
     {"set_remat_policy_on_pipeline_iterations=false", "upstream_faithful=B13"}, AB_FAMILY_NNX, 2 * 9 * 4, 0},
    {REFERENCE "p07_llama2",
     {"set_remat_policy_on_pipeline_iterations=false", "upstream_faithful=B13"}, AB_FAMILY_LINEN, 2 * 9 * 2 * 5, 0},
    {REFERENCE "p09_llama2", {ONCE}, AB_FAMILY_LINEN, 2 * 9 * 2, 0},
    {"golden/layers_outside/config.yml", {ONCE}, AB_FAMILY_NNX, 2 * 2 * 9, 0},
    {"golden/layers_outside/config.yml", {ONCE, "upstream_faithful=B7"}, AB_FAMILY_NNX, 2 * 2 * 9, 0},
    {"golden/layers_outside/config.yml", {ONCE, "scan_layers_per_stage=false"}, AB_FAMILY_LINEN, 2 * 2 * 18, 0},
    {SMALL, {ONCE}, AB_FAMILY_NNX, 2 * 2 * 9 * 2, 0}};
enum { GATHERS = sizeof gathers / sizeof *gathers, BYTES = 840 };

START_TEST(fetches_are_counted_exactly) {
  struct ab_case c;
  open_case(&c, gathers[_i].target, gathers[_i].override);
  int64_t moved = gathers[_i].moved * BYTES / c.config->num_pipeline_repeats;
  for (int more = -1; more <= 1; more++)
    for (int bytes = -1; bytes <= 1; bytes++) {
      struct ab_recording *r = empty("nnx");
      add(r, "gather/calls", 0, 0, 0, 1);
      add(r, "gather/calls", 0, 1, -1, gathers[_i].calls - 1 + more);
      add(r, "gather/bytes", 0, 0, -1, BYTES);
      add(r, "reshard/bytes", 0, 1, -1, moved + bytes);
      ab_status status = ab_check_gathers(r, &c, gathers[_i].family);
      ck_assert_msg(status == (more || bytes ? AB_EMISMATCH : AB_OK), "row %d: %d more calls, %d more bytes: %s", _i,
                    more, bytes, ab_status_message());
      ab_status_clear();
      ab_recording_free(r);
    }
  ab_case_close(&c);
}
END_TEST

/* Without fsdp nothing is fetched through the door that would count it. */
START_TEST(where_nothing_is_gathered_nothing_is_asked) {
  static const char *const targets[] = {SMALL, "golden/unpipelined/config.yml"};
  for (int i = 0; i < 2; i++) {
    struct ab_case c;
    open_case(&c, targets[i], (const char *const[OVERRIDES]){i ? ONCE : NULL});
    struct ab_recording *r = empty("linen");
    add(r, "gather/calls", 0, 0, 0, 5);
    ck_ok(ab_check_gathers(r, &c, AB_FAMILY_LINEN));
    ab_recording_free(r);
    ab_case_close(&c);
  }
}
END_TEST

static void sow(struct ab_recording *r, int step, int layer, int which, const char *prefix) {
  struct ab_observation o = {.id = {.step = step, .microbatch = -1, .layer = layer, .phase = AB_FORWARD},
                             .at = {-1, -1, -1, false}};
  snprintf(o.id.tensor, sizeof o.id.tensor, "%s%s", prefix, ab_sown_names[which]);
  ck_ok(ab_recording_observe(r, &o));
}

/* Layers that sow: of circ.yml four in the pipeline; of layers_outside four and two behind it. */
static const struct {
  const char *target, *override[OVERRIDES];
  enum ab_family family;
  int layers;
} sown[] = {{SMALL, {NULL}, AB_FAMILY_LINEN, 0},
            {SMALL, {"record_internal_nn_metrics=1"}, AB_FAMILY_LINEN, 4},
            {SMALL, {"record_internal_nn_metrics=1", "upstream_faithful=B20"}, AB_FAMILY_LINEN, 0},
            {SMALL, {"record_internal_nn_metrics=1", "upstream_faithful=B20"}, AB_FAMILY_NNX, 0},
            {"golden/layers_outside/config.yml", {"record_internal_nn_metrics=1"}, AB_FAMILY_NNX, 6},
            {"golden/layers_outside/config.yml",
             {"record_internal_nn_metrics=1", "upstream_faithful=B20"}, AB_FAMILY_LINEN, 2},
            {"golden/layers_outside/config.yml",
             {"record_internal_nn_metrics=1", "upstream_faithful=B20"}, AB_FAMILY_NNX, 6}};
enum { SOWN = sizeof sown / sizeof *sown };

START_TEST(what_layers_sow_is_counted_exactly) {
  struct ab_case c;
  open_case(&c, sown[_i].target, sown[_i].override);
  ck_assert_uint_eq(ab_expect_sown(&c, sown[_i].family), (size_t)sown[_i].layers * AB_SOWN);
  for (int more = -1; more <= 1; more++) {
    struct ab_recording *r = empty("nnx");
    int left = 2 * sown[_i].layers * AB_SOWN + more; /* two steps */
    if (left < 0) left = 1;
    for (int k = 0; k < left; k++) sow(r, k / (8 * AB_SOWN), k / AB_SOWN % 8, k % AB_SOWN, "intermediates/");
    sow(r, 0, 0, 0, "other/"); /* an activation is none */
    ab_status status = ab_check_sown(r, &c, sown[_i].family);
    ck_assert_msg(status == (more ? AB_EMISMATCH : AB_OK), "row %d: %d more: %s", _i, more, ab_status_message());
    ab_status_clear();
    ab_recording_free(r);
  }
  ab_case_close(&c);
}
END_TEST

/* Which names two engines must agree in: always, with fetches, with recomputation; never. */
static const struct {
  const char *name;
  bool always, fetches, recomputes;
} agreed[] = {{"execute", true, false, false},       {"ring/bytes", true, false, false},
              {"ring/messages", true, false, false}, {"gather/calls", false, true, false},
              {"recompute/query", false, false, true}, {"executed", false, false, false},
              {"rings", false, false, false},        {"gathered", false, false, false},
              {"recomputed", false, false, false},   {"residual/x", false, false, false}};
enum { AGREED = sizeof agreed / sizeof *agreed };

static struct ab_recording *counted(const char *name, int other) {
  struct ab_recording *r = empty(name);
  for (int i = 0; i < AGREED; i++) {
    add(r, agreed[i].name, 0, 0, 0, 5 + (i == other));
    add(r, agreed[i].name, 1, 1, 0, 3);
  }
  return r;
}

START_TEST(engines_agree_in_what_they_must) {
  for (int flags = 0; flags < 4; flags++)
    for (int which = 0; which < 2; which++) {
      bool fetches = flags & 1, recomputes = flags >> 1;
      struct ab_recording *a = counted("linen", which ? _i : -1), *b = counted("nnx", which ? -1 : _i);
      bool matters = agreed[_i].always || (fetches && agreed[_i].fetches) || (recomputes && agreed[_i].recomputes);
      ab_status status = ab_check_same_counters(a, b, fetches, recomputes);
      ck_assert_msg(status == (matters ? AB_EMISMATCH : AB_OK), "%s, flags %d, side %d", agreed[_i].name, flags, which);
      if (matters) ck_assert_ptr_nonnull(strstr(ab_status_message(), agreed[_i].name));
      ab_status_clear();
      ab_recording_free(a);
      ab_recording_free(b);
    }
}
END_TEST

/* circ.yml: two repeats of two stages with four microbatches, so that nine iterations fold 0 to 8; two steps. */
enum { SLOTS = 4, ITERATIONS = 9, STEPS = 2 };
static const enum ab_rng ways[] = {AB_RNG_CARRIED, AB_RNG_REBUILT};
enum { WAYS = sizeof ways / sizeof *ways };

static void add_slot(struct ab_recording *r, int step, int slot, struct ab_key key) {
  add(r, "rng/key/0", step, slot % 2, slot / 2, key.word[0]);
  add(r, "rng/key/1", step, slot % 2, slot / 2, key.word[1]);
  add(r, "rng/count", step, slot % 2, slot / 2, 0);
}

/* without: an iteration that folds nothing; reused: a slot that has the key of slot 0. -1: none. */
static struct ab_recording *positioned(const struct ab_case *c, enum ab_rng way, int without, int reused) {
  struct ab_recording *r = empty("nnx");
  struct ab_key first[SLOTS], key[SLOTS];
  ab_key_split(first, ab_key_fold_in(ab_key(c->config->init_weights_seed), 1), SLOTS);
  memcpy(key, first, sizeof key);
  if (reused >= 0) first[reused] = key[reused] = first[0];
  for (int step = 0; step < STEPS; step++) {
    if (way == AB_RNG_REBUILT) memcpy(key, first, sizeof key);
    for (int i = 0; i < SLOTS * ITERATIONS; i++)
      if (i / SLOTS != without) key[i % SLOTS] = ab_key_fold_in(key[i % SLOTS], (uint32_t)(i / SLOTS));
    for (int slot = 0; slot < SLOTS; slot++) add_slot(r, step, slot, key[slot]);
  }
  return r;
}

static ab_status check_rng(const struct ab_case *c, enum ab_rng way, struct ab_recording *r) {
  ab_status status = ab_check_rng(r, c, &(struct ab_route){.name = "nnx", .rng = way});
  ab_recording_free(r);
  return status;
}

START_TEST(rng_streams_stand_where_the_config_says) {
  struct ab_case c;
  enum ab_rng way = ways[_i], other = ways[1 - _i];
  open_case(&c, SMALL, (const char *const[OVERRIDES]){NULL});
  ck_ok(check_rng(&c, way, positioned(&c, way, -1, -1)));
  ck_fails(check_rng(&c, way, positioned(&c, other, -1, -1)), AB_EMISMATCH, "'rng/key/0' of repeat 0, stage 0 at ");
  for (int t = 0; t < ITERATIONS; t++)
    ck_fails(check_rng(&c, way, positioned(&c, way, t, -1)), AB_EMISMATCH, "after step 0, expected ");
  for (int slot = 1; slot < SLOTS; slot++)
    ck_fails(check_rng(&c, way, positioned(&c, way, -1, slot)), AB_EMISMATCH, "'rng/key/0' of repeat ");
  ck_fails(check_rng(&c, way, empty("nnx")), AB_EMISMATCH, "after step 0, expected ");
  ck_fails(check_rng(&c, AB_RNG_NONE, positioned(&c, way, -1, -1)), AB_EMISMATCH, "which nothing expects");
  ck_ok(check_rng(&c, AB_RNG_NONE, empty("linen")));
  ab_case_close(&c);
}
END_TEST

/* Of each counter, in each slot and step; and in a slot or step that there is not. */
START_TEST(every_word_and_draw_counts) {
  static const char *const names[] = {"rng/key/0", "rng/key/1", "rng/count"};
  struct ab_case c;
  open_case(&c, SMALL, (const char *const[OVERRIDES]){NULL});
  for (int i = 0; i < 3 * SLOTS * STEPS; i++) {
    struct ab_recording *r = positioned(&c, AB_RNG_CARRIED, -1, -1);
    add(r, names[i % 3], i / 3 / SLOTS, i / 3 % 2, i / 3 % SLOTS / 2, 1);
    ck_fails(check_rng(&c, AB_RNG_CARRIED, r), AB_EMISMATCH, names[i % 3]);
  }
  static const int elsewhere[][3] = {{0, 2, 0}, {0, 0, 2}, {0, -1, 0}, {0, 0, -1}, {-1, 0, 0}, {STEPS, 0, 0}};
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
    struct ab_recording *r = positioned(&c, AB_RNG_CARRIED, -1, -1);
    add(r, "rng/count", elsewhere[i][0], elsewhere[i][1], elsewhere[i][2], 1);
    ck_fails(check_rng(&c, AB_RNG_CARRIED, r), AB_EMISMATCH, "which nothing expects");
  }
  ab_case_close(&c);
}
END_TEST

static void drop(struct ab_recording *r, size_t at) {
  memmove(&r->counter[at], &r->counter[at + 1], (--r->counters - at) * sizeof *r->counter);
}

/* Also a number of draws that is 0, as expected. */
START_TEST(every_position_is_reported_once) {
  struct ab_case c;
  open_case(&c, SMALL, (const char *const[OVERRIDES]){NULL});
  for (size_t i = 0; i < 3 * SLOTS * STEPS; i++) {
    struct ab_recording *r = positioned(&c, AB_RNG_CARRIED, -1, -1);
    char name[AB_NAME_MAX];
    ck_assert_uint_eq(r->counters, 3 * SLOTS * STEPS);
    strcpy(name, r->counter[i].id.tensor);
    drop(r, i);
    ck_fails(check_rng(&c, AB_RNG_CARRIED, r), AB_EMISMATCH, name);
  }
  ab_case_close(&c);
}
END_TEST

/* A name that nothing expects, and a known one of an iteration, bubble, layer or microbatch, of a slot that there is. */
START_TEST(an_unknown_position_is_not_ignored) {
  static const char *const names[] = {"rng/", "rng/key/2", "rng/params/key/0", "rng/counter", "rng/key"};
  static const struct ab_counter apart[] = {{.id = {.microbatch = 0, .layer = -1}, .at = {-1, 0, 0, false}},
                                            {.id = {.microbatch = -1, .layer = 0}, .at = {-1, 0, 0, false}},
                                            {.id = {.microbatch = -1, .layer = -1}, .at = {0, 0, 0, false}},
                                            {.id = {.microbatch = -1, .layer = -1}, .at = {-1, 0, 0, true}}};
  struct ab_case c;
  open_case(&c, SMALL, (const char *const[OVERRIDES]){NULL});
  for (int way = 0; way < WAYS; way++) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      struct ab_recording *r = positioned(&c, ways[way], -1, -1);
      add(r, names[i], STEPS - 1, 1, 1, 0);
      ck_fails(check_rng(&c, ways[way], r), AB_EMISMATCH, "which nothing expects");
    }
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
      struct ab_recording *r = positioned(&c, ways[way], -1, -1);
      struct ab_counter counter = apart[i];
      strcpy(counter.id.tensor, "rng/count");
      ck_ok(ab_recording_add_counter(r, &counter));
      ck_fails(check_rng(&c, ways[way], r), AB_EMISMATCH, "a counter 'rng/count' of repeat 0, stage 0");
    }
  }
  ab_case_close(&c);
}
END_TEST

/* A side that reports no position is excused by its header alone, and where one is owed. */
START_TEST(only_an_older_build_owes_no_position) {
  static const struct {
    const char *header;
    enum ab_rng way;
    bool positions, older;
  } rows[] = {{NULL, AB_RNG_CARRIED, false, true},
              {"{\"reports\":[]}", AB_RNG_CARRIED, false, true},
              {"{\"reports\":[\"" AB_REPORTS_RNG "\"]}", AB_RNG_CARRIED, false, false},
              {NULL, AB_RNG_CARRIED, true, false},
              {NULL, AB_RNG_NONE, false, false}};
  struct ab_case c;
  open_case(&c, SMALL, (const char *const[OVERRIDES]){NULL});
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_recording *r = counted("nnx", -1);
    bool older = !rows[i].older;
    if (rows[i].header) ck_ok(ab_mem_string(&r->header, rows[i].header));
    if (rows[i].positions) add(r, "rng/key/0", 0, 0, 0, 1);
    ck_ok(ab_rng_predates(&older, r, &c, &(struct ab_route){.name = "nnx", .rng = rows[i].way}));
    ck_assert_msg(older == rows[i].older, "row %zu", i);
    ab_recording_free(r);
  }
  ab_case_close(&c);
}
END_TEST

START_TEST(a_counter_that_one_engine_lacks_differs) {
  for (int which = 0; which < 2; which++) {
    struct ab_recording *a = counted("linen", -1), *b = counted("nnx", -1);
    ck_ok(ab_check_same_counters(a, b, true, true));
    add(which ? a : b, "ring/extra", 0, 0, 0, 1);
    ck_fails(ab_check_same_counters(a, b, true, true), AB_EMISMATCH, "'ring/extra'");
    ab_recording_free(a);
    ab_recording_free(b);
  }
}
END_TEST

/* As many kinds as can be told apart, less one, as many, and one more. */
START_TEST(more_kinds_of_counters_than_fit_are_no_agreement) {
  for (int kinds = 191; kinds <= 193; kinds++) {
    struct ab_recording *a = empty("linen"), *b = empty("nnx");
    for (int i = 0; i < kinds; i++) {
      char name[32];
      snprintf(name, sizeof name, "ring/%d", i);
      add(a, name, 0, 0, 0, 1);
      add(b, name, 0, 0, 0, 1);
    }
    ab_status status = ab_check_same_counters(a, b, true, true);
    ck_assert_int_eq(status, kinds == 191 ? AB_OK : AB_EMISMATCH);
    add(b, "ring/190", 0, 0, 0, 1);
    ck_assert_int_eq(ab_check_same_counters(a, b, true, true), AB_EMISMATCH);
    ab_status_clear();
    ab_recording_free(a);
    ab_recording_free(b);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("counters");
  TCase *tests = tcase_create("counters");
  tcase_add_loop_test(tests, executions_are_m_per_cell_and_step, 0, GRIDS);
  tcase_add_loop_test(tests, a_moved_execution_is_seen_in_every_cell, 0, GRIDS);
  tcase_add_loop_test(tests, bubbles_are_counted_by_repeats_that_there_are, 0, GRIDS);
  tcase_add_loop_test(tests, fetches_are_counted_exactly, 0, GATHERS);
  tcase_add_test(tests, where_nothing_is_gathered_nothing_is_asked);
  tcase_add_loop_test(tests, what_layers_sow_is_counted_exactly, 0, SOWN);
  tcase_add_loop_test(tests, engines_agree_in_what_they_must, 0, AGREED);
  tcase_add_loop_test(tests, rng_streams_stand_where_the_config_says, 0, WAYS);
  tcase_add_test(tests, every_word_and_draw_counts);
  tcase_add_test(tests, every_position_is_reported_once);
  tcase_add_test(tests, an_unknown_position_is_not_ignored);
  tcase_add_test(tests, only_an_older_build_owes_no_position);
  tcase_add_test(tests, a_counter_that_one_engine_lacks_differs);
  tcase_add_test(tests, more_kinds_of_counters_than_fit_are_no_agreement);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
