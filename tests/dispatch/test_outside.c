/* What a command hands over is compared whole: nothing that it gave, and nothing that it said it gave, may be missing.
 * Sides run in this process; one of them is then taken for a command's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "both_sides.h"
#include "bounds.h"
#include "judgement.h"
#include "mem.h"
#include "tap.h"

static struct ab_case opened;
static struct ab_recording *linen, *nnx, *oracle; /* as they ran */
static struct ab_kept_values *kept;               /* of all, which agree bit for bit */

static void set_up(void) {
  char path[] = "/tmp/abpipe-outside-XXXXXX";
  struct side_hooks hooks = {.values = fdopen(mkstemp(path), "w")};
  side_case_open(&opened, "circ.yml");
  ck_ok(side_run(&linen, &opened, side_route("linen"), NULL));
  ck_ok(side_run(&nnx, &opened, side_route("nnx"), NULL));
  ck_ok(side_run(&oracle, &opened, side_route("sequential"), &hooks));
  ck_assert_int_eq(fclose(hooks.values), 0);
  ck_ok(ab_kept_open(&kept, oracle, path, NULL, NULL));
  unlink(path);
}

static void tear_down(void) {
  ab_kept_close(kept);
  ab_recording_free(linen);
  ab_recording_free(nnx);
  ab_recording_free(oracle);
  ab_case_close(&opened);
}

/* What MaxText gave, NULL without a bundle; how many sides it judged, and whether it was told what was not compared. */
static struct ab_reference *reference;
static struct {
  size_t judged;
  bool told;
} seen;

ab_status __wrap_ab_reference_judge(struct ab_verdict *out, struct ab_reference *r, const struct ab_side_result *side);
ab_status __wrap_ab_reference_judge(struct ab_verdict *out, struct ab_reference *r, const struct ab_side_result *side) {
  ck_assert(r == reference && side->recording);
  *out = (struct ab_verdict){.exit = AB_EXIT_EQUAL, .any = true, .counts_right = true};
  seen.judged++;
  return AB_OK;
}

/* What a command loses or changes on its way. */
struct change {
  enum ab_quantity lost; /* its last tensor, or its last loss; AB_QUANTITIES: nothing */
  double loss;           /* of step 0, times 1 + this */
  bool bundle, step1, final, no_metrics; /* what it says it gives; neither bundle: a stream */
};

static bool given(const struct change *change, const struct ab_identity *id) {
  enum ab_quantity quantity = ab_quantity_of(id);
  if (!change->bundle) return true;
  if (quantity == AB_Q_WEIGHT_GRADIENT) return id->step == 0;
  if (quantity != AB_Q_PARAMETER) return false;
  return (id->step == 0 && change->step1) || (id->step == 1 && change->final);
}

static size_t last_of(const struct ab_recording *r, const struct change *change) {
  size_t last = SIZE_MAX;
  for (size_t i = 0; i < r->observations; i++) {
    const struct ab_identity *id = &r->observation[i].observation.id;
    if (ab_quantity_of(id) == change->lost && given(change, id) && ab_kept(NULL, id)) last = i;
  }
  ck_assert(change->lost >= AB_Q_OUTPUT || last == SIZE_MAX);
  return last;
}

static struct ab_recording *handed_over(const struct ab_recording *of, const struct change *change) {
  struct ab_recording *r;
  size_t lost = change->lost == AB_QUANTITIES ? SIZE_MAX : last_of(of, change);
  ck_assert(change->lost == AB_QUANTITIES || change->lost == AB_Q_METRIC || lost != SIZE_MAX);
  ck_ok(ab_recording_new(&r, "command"));
  for (size_t i = 0; i < of->observations; i++)
    if (i != lost && given(change, &of->observation[i].observation.id))
      ck_ok(ab_recording_observe(r, &of->observation[i].observation));
  for (size_t i = 0; i < of->metrics && !change->no_metrics; i++) {
    struct ab_metric m = of->metric[i].metric;
    if (strcmp(m.name, "loss") == 0 && m.step == 0) m.value *= 1 + change->loss;
    if (change->lost == AB_Q_METRIC && strcmp(m.name, "loss") == 0 && m.step == 1) continue;
    ck_ok(ab_recording_add_metric(r, &m));
  }
  ab_recording_complete(r);
  return r;
}

static struct ab_given says(const struct change *change) {
  struct ab_given g = {.outside = true, .stream = !change->bundle};
  g.params_step1 = change->bundle && change->step1;
  g.params_final = change->bundle && change->final;
  for (int i = 0; change->bundle && !change->no_metrics && ab_metric_fields[i].name; i++) g.metrics |= 1u << i;
  return g;
}

/* The exit code of all verdicts, of which there are three and MaxText's, with `place` a command; *compared: tensors of the first. */
static enum ab_exit judge(enum ab_side_place place, const struct change *change, enum ab_cause *cause,
                          struct ab_tally *compared) {
  struct ab_side_result side[AB_SIDES] = {[AB_SIDE_A] = {.name = "linen", .recording = linen, .values = kept},
                                          [AB_SIDE_B] = {.name = "nnx", .recording = nnx, .values = kept},
                                          [AB_SIDE_ORACLE] = {.recording = oracle, .values = kept},
                                          [AB_SIDE_TRUTH] = {.recording = oracle, .values = kept}};
  struct ab_facts facts = {0};
  static struct ab_teeth teeth;
  struct ab_judgement j = {.opened = opened, .a = side_route("linen"), .b = side_route("nnx"), .side = side,
                           .facts = &facts, .teeth = &teeth, .reference = reference};
  teeth = (struct ab_teeth){0};
  memset(&seen, 0, sizeof seen);
  struct ab_recording *own = side[place].recording, *handed = handed_over(own, change);
  side[place].recording = handed;
  side[place].given = says(change);
  *(place == AB_SIDE_A ? &j.a : &j.b) = side_route("sequential"); /* no engine of ours */
  *(place == AB_SIDE_A ? &j.request.a_cmd : &j.request.b_cmd) = "true";
  ck_ok(ab_judge_outside(&j));
  ck_assert_uint_eq(j.verdicts, 3 + seen.judged);
  enum ab_exit exit = j.extra;
  for (size_t i = 0; i < j.verdicts; i++) exit = ab_exit_fold(exit, j.verdict[i].exit);
  *cause = j.cause;
  *compared = j.verdict[0].tensors;
  for (size_t i = 0; i < j.verdicts; i++) ab_verdict_free(&j.verdict[i]);
  for (size_t i = 0; i < j.commons; i++) ab_recording_free(j.common[i]);
  static const char lacking[] = "activation (512 of 512), recompute (all), cotangent (all), input (45 of 45), "
                                "state (4 of 4), counters";
  for (size_t i = 0; i < j.notes; i++) {
    seen.told |= strstr(j.note[i], "; not compared: ") && strstr(j.note[i], lacking);
    ab_mem_free(j.note[i]);
  }
  ab_recording_free(handed);
  return exit;
}

#define ALL .lost = AB_QUANTITIES
static const struct {
  struct change change;
  enum ab_exit exit;
  size_t tensors; /* trees of parameters and gradients that were compared; 0: not looked at */
} rows[] = {
    {{ALL}, AB_EXIT_EQUAL, 4},
    {{.lost = AB_Q_WEIGHT_GRADIENT}, AB_EXIT_INCOMPARABLE, 0},
    {{.lost = AB_Q_PARAMETER}, AB_EXIT_INCOMPARABLE, 0},
    {{.lost = AB_Q_OUTPUT}, AB_EXIT_INCOMPARABLE, 0},
    {{.lost = AB_Q_METRIC}, AB_EXIT_INCOMPARABLE, 0},
    {{ALL, .loss = 1e-3}, AB_EXIT_DIFFERENT, 0},
    {{ALL, .bundle = true}, AB_EXIT_EQUAL, 1},
    {{ALL, .bundle = true, .step1 = true}, AB_EXIT_EQUAL, 2},
    {{ALL, .bundle = true, .final = true}, AB_EXIT_EQUAL, 2},
    {{ALL, .bundle = true, .step1 = true, .final = true}, AB_EXIT_EQUAL, 3},
    {{ALL, .bundle = true, .no_metrics = true}, AB_EXIT_INCOMPARABLE, 0}, /* nothing of step 1 */
    {{ALL, .bundle = true, .final = true, .loss = 1e-3}, AB_EXIT_DIFFERENT, 0},
    {{.lost = AB_Q_WEIGHT_GRADIENT, .bundle = true}, AB_EXIT_INCOMPARABLE, 0},
    {{.lost = AB_Q_PARAMETER, .bundle = true, .final = true}, AB_EXIT_INCOMPARABLE, 0},
    {{.lost = AB_Q_PARAMETER, .bundle = true, .step1 = true}, AB_EXIT_INCOMPARABLE, 0},
    {{.lost = AB_Q_METRIC, .bundle = true}, AB_EXIT_INCOMPARABLE, 0},
};
enum { ROWS = sizeof rows / sizeof *rows, LEAVES = 39 /* of circ.yml */ };

START_TEST(whatever_a_command_lacks_is_never_equal) {
  for (enum ab_side_place place = AB_SIDE_A; place <= AB_SIDE_B; place++) {
    enum ab_cause cause;
    struct ab_tally compared;
    enum ab_exit exit = judge(place, &rows[_i].change, &cause, &compared);
    ck_assert_msg(exit == rows[_i].exit, "row %d, side %d: exit %d", _i, (int)place, (int)exit);
    ck_assert(seen.told && !seen.judged);
    ck_assert_msg((cause == AB_CAUSE_EQUAL) == (exit == AB_EXIT_EQUAL), "row %d: %s", _i, ab_cause_name(cause));
    if (rows[_i].change.loss != 0)
      ck_assert_int_eq(cause, place == AB_SIDE_A ? AB_CAUSE_A_WRONG : AB_CAUSE_B_WRONG);
    if (rows[_i].change.bundle && rows[_i].tensors)
      ck_assert_msg(compared.compared == rows[_i].tensors * LEAVES && compared.expected == compared.compared,
                    "row %d: %zu of %zu tensors", _i, compared.compared, compared.expected);
  }
}
END_TEST

/* The least bound of a command's metric, from both sides. */
START_TEST(a_metric_is_bounded_by_what_maxtext_is_allowed) {
  double least = ab_bounds_least(AB_BOUND_GRADIENT);
  enum ab_cause cause;
  struct ab_tally compared;
  for (int over = 0; over < 2; over++) {
    struct change change = {ALL, .loss = least * (over ? 1.05 : 0.95)};
    ck_assert_int_eq(judge(AB_SIDE_B, &change, &cause, &compared), over ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL);
  }
}
END_TEST

/* The other side always; the command where it gave everything that a bundle could hold of the run. */
START_TEST(maxtext_judges_a_command_that_gives_everything) {
  static const struct {
    struct change change;
    bool engine;
    int64_t steps;
    size_t judged;
  } cases[] = {{{ALL}, false, 2, 2},
               {{ALL, .bundle = true}, false, 2, 1},
               {{ALL, .bundle = true, .step1 = true}, false, 2, 1},
               {{ALL, .bundle = true, .final = true}, false, 2, 1},
               {{ALL, .bundle = true, .final = true}, false, 1, 2},
               {{ALL, .bundle = true, .step1 = true, .final = true}, false, 2, 2},
               {{ALL, .bundle = true}, true, 2, 2}};
  struct ab_case trained = opened;
  struct ab_bundle bundle = {.train = false};
  ck_ok(ab_tree_new(&bundle.batch));
  for (enum ab_side_place place = AB_SIDE_A; place <= AB_SIDE_B; place++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      enum ab_cause cause;
      struct ab_tally compared;
      reference = (void *)&bundle; /* never read */
      opened.steps = cases[i].steps;
      if (cases[i].engine) opened.bundle = &bundle;
      judge(place, &cases[i].change, &cause, &compared);
      ck_assert_msg(seen.judged == cases[i].judged, "case %zu: %zu", i, seen.judged);
      opened = trained;
      reference = NULL;
    }
  ab_tree_free(bundle.batch);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("outside");
  TCase *tests = tcase_create("outside");
  tcase_add_unchecked_fixture(tests, set_up, tear_down);
  tcase_add_loop_test(tests, whatever_a_command_lacks_is_never_equal, 0, ROWS);
  tcase_add_test(tests, a_metric_is_bounded_by_what_maxtext_is_allowed);
  tcase_add_test(tests, maxtext_judges_a_command_that_gives_everything);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
