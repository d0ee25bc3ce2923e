/* Which comparisons a run consists of, by which rule each is judged, and what becomes of each that is red. The sides run
 * in this process, for their counts; a comparison is written down as a line and answered from a list. */
#include <stdio.h>
#include <string.h>

#include "both_sides.h"
#include "judgement.h"
#include "mem.h"
#include "tap.h"

static struct {
  unsigned red;      /* bit i: comparison i finds a difference */
  size_t differing;  /* tensors that differ within their bounds, in each */
  char text[2048];   /* the comparisons */
  size_t asked, controls, free_runs, again;
} world;

static void say(const char *before, const char *text) {
  size_t used = strlen(world.text);
  snprintf(world.text + used, sizeof world.text - used, "%s%s", before, text);
}

static void write_down(const struct ab_comparison *c) {
  const struct ab_own_distance *own = c->bounds_ctx;
  say(c->a->name, " ");
  say(c->b->name, ": ");
  say(ab_pair_name(c->pair), c->quantities == AB_Q_ALL ? ", all" : "");
  for (int q = 0; q < AB_QUANTITIES && c->quantities != AB_Q_ALL; q++)
    if (ab_takes_part(c, (enum ab_quantity)q)) say(", ", ab_quantity_name((enum ab_quantity)q));
  say(c->partial ? ", partial" : "", c->retyped ? ", retyped" : "");
  say(c->calibration ? ", calibration" : "", c->calibrated ? ", calibrated" : "");
  if (c->bounds) say(c->bounds == ab_own_bounds ? ", by " : ", by free ", own->oracle->name);
  say("\n", "");
}

ab_status __wrap_ab_verdict(struct ab_verdict *out, const struct ab_comparison *c);
ab_status __wrap_ab_verdict(struct ab_verdict *out, const struct ab_comparison *c) {
  bool red = world.red >> world.asked++ & 1;
  write_down(c);
  *out = (struct ab_verdict){.exit = red ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL, .failing = red, .any = true,
                             .counts_right = true};
  out->differing = red + world.differing;
  return AB_OK;
}

ab_status __wrap_ab_reference_comparison(struct ab_comparison *out, struct ab_reference *r,
                                         const struct ab_side_result *side);
ab_status __wrap_ab_reference_comparison(struct ab_comparison *out, struct ab_reference *r,
                                         const struct ab_side_result *side) {
  *out = (struct ab_comparison){.a = side->recording, .b = (void *)r, .pair = AB_PAIR_RECORDED, .quantities = AB_Q_ALL};
  return AB_OK;
}

/* A reference is a recording here. */
size_t __wrap_ab_reference_ignored(const struct ab_reference *r);
size_t __wrap_ab_reference_ignored(const struct ab_reference *r) { return r ? 0 : 1; }
bool __wrap_ab_reference_as_meant(const struct ab_reference *r);
bool __wrap_ab_reference_as_meant(const struct ab_reference *r) { return !r; }

ab_status __wrap_ab_judge_controls(struct ab_judgement *j, const struct ab_comparison *c);
ab_status __wrap_ab_judge_controls(struct ab_judgement *j, const struct ab_comparison *c) {
  world.controls += j && c;
  return AB_OK;
}

ab_status __wrap_ab_judgement_run_free(struct ab_judgement *j);
ab_status __wrap_ab_judgement_run_free(struct ab_judgement *j) {
  world.free_runs++;
  j->side[AB_SIDE_FREE_TRUTH].values = j->side[AB_SIDE_FREE_GOLDEN].values = j->side[AB_SIDE_TRUTH].values;
  return AB_OK;
}

ab_status __wrap_ab_judgement_run_oracle_at_a(struct ab_judgement *j);
ab_status __wrap_ab_judgement_run_oracle_at_a(struct ab_judgement *j) {
  world.again++;
  j->side[AB_SIDE_ORACLE_AT_A].values = j->side[AB_SIDE_TRUTH].values;
  return AB_OK;
}

/* What only explains. */
#define NOTHING(name)                         \
  ab_status __wrap_##name(void *j);           \
  ab_status __wrap_##name(void *j) {          \
    return j ? AB_OK : AB_ENOTFOUND;          \
  }
NOTHING(ab_judge_nearer)
NOTHING(ab_judge_terms)
NOTHING(ab_judge_explain)
NOTHING(ab_judge_replay)
NOTHING(ab_judge_teeth)

struct rig {
  struct ab_judgement j;
  struct ab_side_result side[AB_SIDES];
  struct ab_facts facts;
  struct ab_golden golden;
  struct ab_calibration calibration;
};

struct setting {
  const char *name, *const *overrides, *a, *b;
  bool reference;
  const char *golden; /* its numerics; NULL: none */
  bool portable, stale, calibrated;
};

static void rig_new(struct rig *rig, const struct setting *s) {
  static const char *const names[AB_SIDES] = {[AB_SIDE_A] = "a", [AB_SIDE_B] = "b", [AB_SIDE_ORACLE] = "oracle",
                                              [AB_SIDE_TRUTH] = "truth", [AB_SIDE_ORACLE_AT_A] = "oracle at a"};
  *rig = (struct rig){.j = {.a = side_route(s->a), .b = side_route(s->b), .stale = s->stale}};
  memset(&world, 0, sizeof world);
  side_case_open_with(&rig->j.opened, s->name, s->overrides);
  rig->j.opened.numerics = s->portable ? AB_NUMERICS_PORTABLE : AB_NUMERICS_FAST;
  rig->j.request.require_calibration = s->calibrated;
  rig->j.side = rig->side;
  rig->j.facts = &rig->facts;
  for (int i = AB_SIDE_A; i <= AB_SIDE_TRUTH; i++) {
    const struct ab_route *route = i ? rig->j.b : rig->j.a;
    struct side_hooks hooks = {.kernels = ab_route_kernels(route, AB_NUMERICS_FAST)};
    if (i < 2) ck_ok(side_run(&rig->side[i].recording, &rig->j.opened, route, &hooks));
    else ck_ok(ab_recording_new(&rig->side[i].recording, names[i]));
    rig->side[i].values = (void *)&world; /* never read */
  }
  for (int i = 0; i < AB_SIDES; i++) snprintf(rig->side[i].name, sizeof rig->side[i].name, "%s", names[i] ? names[i] : "");
  if (s->reference) ck_ok(ab_recording_new((void *)&rig->j.reference, "bundle"));
  rig->golden = (struct ab_golden){.numerics = (char *)(uintptr_t)s->golden, .calibration = &rig->calibration};
  if (s->golden) ck_ok(ab_recording_new(&rig->j.golden_recording, "golden"));
  if (s->golden) rig->j.golden = &rig->golden;
}

static void rig_free(struct rig *rig) {
  for (int i = AB_SIDE_A; i <= AB_SIDE_TRUTH; i++) ab_recording_free(rig->side[i].recording);
  for (size_t i = 0; i < rig->j.notes; i++) ab_mem_free(rig->j.note[i]);
  ab_recording_free((void *)rig->j.reference);
  ab_recording_free(rig->j.golden_recording);
  ab_case_close(&rig->j.opened);
}

/* A, B and the oracle of their arithmetic, by a rule. */
#define TRIO(a, b, oracle, rule) a " " b ": " rule "\n" a " " oracle ": " rule "\n" b " " oracle ": " rule "\n"
#define BITS "same arithmetic, all"
#define MIXED "linen truth: float32 against float64, metric, weight gradient, partial, retyped"
#define GIVEN "against recorded numbers, all"
static const struct {
  struct setting setting;
  size_t free_runs;
  const char *comparisons;
} runs[] = {
    {{.name = "circ.yml", .a = "linen", .b = "nnx"}, 0, TRIO("linen", "nnx", "oracle", BITS) MIXED ", by oracle\n"},
    {{.name = "circ.yml", .a = "linen64", .b = "nnx64"}, 0,
     TRIO("linen64", "nnx64", "truth", "float64, metric, weight gradient, input")},
    {{.name = "e01_simple", .a = "linen-exact", .b = "nnx-exact"}, 0, TRIO("linen-exact", "nnx-exact", "oracle", BITS)},
    {{.name = "e01_simple", .a = "linen", .b = "nnx", .reference = true}, 0,
     TRIO("linen", "nnx", "oracle", BITS) "linen truth: float32 against float64, metric, output, input gradient, "
     "weight gradient, partial, retyped, by oracle\nlinen bundle: " GIVEN "\nnnx bundle: " GIVEN "\n"},
    {{.name = "circ.yml", .a = "linen", .b = "nnx", .golden = "portable", .portable = true}, 0,
     TRIO("linen", "nnx", "oracle", BITS ", calibration") MIXED ", calibration, by oracle\n"
     "linen golden: " BITS ", partial\nnnx golden: " BITS ", partial\n"},
    {{.name = "circ.yml", .a = "linen", .b = "nnx", .golden = "fast", .calibrated = true}, 1,
     TRIO("linen", "nnx", "oracle", BITS ", calibration, calibrated") MIXED ", calibration, calibrated, by oracle\n"
     "linen golden: " GIVEN ", partial, calibrated, by free oracle\n"
     "nnx golden: " GIVEN ", partial, calibrated, by free oracle\n"},
    {{.name = "circ.yml", .a = "linen", .b = "nnx", .golden = "fast", .stale = true}, 0,
     TRIO("linen", "nnx", "oracle", BITS) MIXED ", by oracle\n"}};
enum { RUNS = sizeof runs / sizeof *runs, REFERENCE = 3, GOLDEN, STALE = RUNS - 1 };

START_TEST(a_run_is_all_its_comparisons) {
  struct rig rig;
  rig_new(&rig, &runs[_i].setting);
  ck_ok(ab_judge_all(&rig.j));
  ck_assert_str_eq(world.text, runs[_i].comparisons);
  ck_assert_uint_eq(world.controls, world.asked);
  ck_assert_uint_eq(rig.j.verdicts, world.asked);
  ck_assert_uint_eq(world.free_runs, runs[_i].free_runs);
  ck_assert(world.again == 0 && !rig.j.golden_differs);
  ck_assert_msg(rig.j.extra == AB_EXIT_EQUAL, "%s", rig.j.extra_sentence);
  ck_assert_int_eq(rig.j.cause, runs[_i].setting.stale ? AB_CAUSE_GOLDEN_STALE : AB_CAUSE_EQUAL);
  rig_free(&rig);
}
END_TEST

/* Comparisons: A and B, A and the oracle, B and the oracle, A and float64, and both against what is recorded. */
enum { A_B = 1, A_ORACLE = 2, B_ORACLE = 4, SHARED = 8, A_RECORD = 16, B_RECORD = 32 };
static const struct {
  int run;
  unsigned red;
  enum ab_cause cause;
} reds[] = {{REFERENCE, A_B, AB_CAUSE_UNDECIDED},
            {REFERENCE, A_B | A_ORACLE, AB_CAUSE_A_WRONG},
            {REFERENCE, A_B | B_ORACLE, AB_CAUSE_B_WRONG},
            {REFERENCE, A_ORACLE | B_ORACLE, AB_CAUSE_BOTH_MOVED},
            {REFERENCE, SHARED, AB_CAUSE_BOTH_MOVED},
            {REFERENCE, A_RECORD, AB_CAUSE_BOTH_MOVED},
            {REFERENCE, B_RECORD, AB_CAUSE_BOTH_MOVED},
            {GOLDEN, A_RECORD, AB_CAUSE_GOLDEN_STALE},
            {GOLDEN, B_RECORD, AB_CAUSE_GOLDEN_STALE},
            {GOLDEN, A_B | A_RECORD, AB_CAUSE_A_WRONG},
            {GOLDEN, A_B | B_RECORD, AB_CAUSE_B_WRONG},
            {STALE, A_B | A_ORACLE, AB_CAUSE_A_WRONG}};
enum { REDS = sizeof reds / sizeof *reds };

START_TEST(every_red_comparison_has_its_cause) {
  struct rig rig;
  bool left_the_oracle = reds[_i].red & A_ORACLE;
  rig_new(&rig, &runs[reds[_i].run].setting);
  world.red = reds[_i].red;
  ck_ok(ab_judge_all(&rig.j));
  ck_assert_msg(rig.j.cause == reds[_i].cause, "row %d: %s", _i, ab_cause_name(rig.j.cause));
  ck_assert(rig.j.golden_differs == (reds[_i].run == GOLDEN));
  ck_assert_uint_eq(world.again, left_the_oracle);
  ck_assert((strstr(world.text, "by oracle at a") != NULL) == left_the_oracle);
  rig_free(&rig);
}
END_TEST

static const char *const b1[] = {"upstream_faithful=B1", NULL};
static const struct {
  struct setting setting;
  struct ab_request request;
  bool folder; /* the target is one */
  unsigned red;
  size_t differing;
  int pole; /* side, AB_SIDES: none */
  const char *note;
  bool told;
} notes[] = {
#define CIRC {.name = "circ.yml", .a = "linen", .b = "nnx"}
#define P08(o) {.name = "p08_simple", .overrides = o, .a = "linen", .b = "nnx"}
    {CIRC, {.intended_oracle = true}, false, 0, 0, AB_SIDES, "agree in every bit", true},
    {CIRC, {.intended_oracle = true}, false, 0, 1, AB_SIDES, "agree in every bit", false},
    {CIRC, {.intended_oracle = true}, false, A_B, 0, AB_SIDES, "agree in every bit", false},
    {CIRC, {0}, false, 0, 0, AB_SIDES, "agree in every bit", false},
    {CIRC, {0}, true, 0, 0, AB_SIDES, "holds no golden.json", true},
    {CIRC, {.ignore_golden = true}, true, 0, 0, AB_SIDES, "holds no golden.json", false},
    {CIRC, {0}, false, 0, 0, AB_SIDES, "holds no golden.json", false},
    {P08(NULL), {0}, true, 0, 0, AB_SIDES, "holds no golden.json", false},
    {{.name = "circ.yml", .a = "linen", .b = "nnx", .golden = "fast"}, {0}, true, 0, 0, AB_SIDES,
     "holds no golden.json", false},
    {CIRC, {0}, false, 0, 0, AB_SIDES, "with the weights of its own repeat", false},
    {P08(NULL), {0}, false, 0, 0, AB_SIDES, "with the weights of its own repeat", true},
    {P08(b1), {0}, false, 0, 0, AB_SIDES, "reproduce these defects", true},
    {{.name = "circ.yml", .overrides = b1, .a = "linen", .b = "nnx"}, {0}, false, 0, 0, AB_SIDES, "changes nothing", true},
    {CIRC, {0}, false, 0, 0, AB_SIDES, "meets a pole", false},
    {CIRC, {0}, false, 0, 0, AB_SIDE_A, "meets a pole", true},
    {CIRC, {0}, false, 0, 0, AB_SIDE_B, "meets a pole", true}};
enum { NOTES = sizeof notes / sizeof *notes };

START_TEST(what_is_not_judged_is_told) {
  struct rig rig;
  bool told = false;
  rig_new(&rig, &notes[_i].setting);
  world.red = notes[_i].red;
  world.differing = notes[_i].differing;
  rig.j.request = notes[_i].request;
  rig.j.opened.folder = notes[_i].folder;
  if (notes[_i].pole < AB_SIDES) rig.side[notes[_i].pole].recording->has_pole = true;
  ck_ok(ab_judge_all(&rig.j));
  for (size_t i = 0; i < rig.j.notes; i++) told |= strstr(rig.j.note[i], notes[_i].note) != NULL;
  ck_assert_msg(told == notes[_i].told, "row %d: %s", _i, notes[_i].note);
  rig_free(&rig);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("verdicts");
  TCase *tests = tcase_create("verdicts");
  tcase_add_loop_test(tests, a_run_is_all_its_comparisons, 0, RUNS);
  tcase_add_loop_test(tests, every_red_comparison_has_its_cause, 0, REDS);
  tcase_add_loop_test(tests, what_is_not_judged_is_told, 0, NOTES);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
