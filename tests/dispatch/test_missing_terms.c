/* Whose gradients are explained by their terms, and how many of them are written out. What a gradient's terms are is the
 * test's: layer 0 is right, ODD is no integer, every other is wrong. */
#include <stdio.h>
#include <string.h>

#include "both_sides.h"
#include "judgement.h"
#include "mem.h"
#include "tap.h"
#include "terms.h"

enum { ODD = 99, TERMS = 3, SHOWN = 3 };

static size_t runs, added;
static struct ab_recording *truth;

static void observe(struct ab_recording *r, int layer, enum ab_phase phase) {
  struct ab_observation o = {.id = {.step = 0, .microbatch = -1, .layer = layer, .phase = phase}};
  snprintf(o.id.tensor, sizeof o.id.tensor, "mlp/wo/kernel");
  ck_ok(ab_recording_observe(r, &o));
}

ab_status __wrap_ab_judgement_run_terms(struct ab_judgement *j);
ab_status __wrap_ab_judgement_run_terms(struct ab_judgement *j) {
  runs++;
  j->side[AB_SIDE_TERMS].recording = truth;
  j->side[AB_SIDE_TERMS].values = truth ? (void *)&runs : NULL; /* never read */
  return AB_OK;
}

ab_status __wrap_ab_kept_read(struct ab_kept_values *values, const struct ab_identity *id, struct ab_view *out);
ab_status __wrap_ab_kept_read(struct ab_kept_values *values, const struct ab_identity *id, struct ab_view *out) {
  ck_assert(values && id->phase == AB_BACKWARD);
  *out = (struct ab_view){.dtype = AB_M61};
  return AB_OK;
}

ab_status __wrap_ab_terms_add(struct ab_terms *terms, int layer, const char *name, int part, const struct ab_view *term);
ab_status __wrap_ab_terms_add(struct ab_terms *terms, int layer, const char *name, int part, const struct ab_view *term) {
  ck_assert(terms && layer >= 0 && name && part == 0 && term->dtype == AB_M61);
  added++;
  return AB_OK;
}

ab_status __wrap_ab_terms_explain(struct ab_explanation *out, const struct ab_terms *terms, int layer, const char *name,
                                  const struct ab_view *got);
ab_status __wrap_ab_terms_explain(struct ab_explanation *out, const struct ab_terms *terms, int layer, const char *name,
                                  const struct ab_view *got) {
  ck_assert(terms && name && got->dtype == AB_M61);
  if (layer == ODD) return AB_FAIL(AB_EFORMAT, "a half");
  *out = (struct ab_explanation){.kind = layer ? AB_EXPLAINED_TERMS : AB_EXPLAINED_EQUAL, .unique = true, .text = "odd"};
  return AB_OK;
}

/* A side with so many wrong gradients, the last of which it ends with. */
static struct ab_recording *wrong_in(int gradients) {
  struct ab_recording *r;
  ck_ok(ab_recording_new(&r, "side"));
  observe(r, ODD, AB_BACKWARD);
  observe(r, 0, AB_FORWARD);
  for (int layer = 0; layer <= gradients; layer++) observe(r, layer, AB_BACKWARD);
  return r;
}

static size_t notes_of(const struct ab_judgement *j, const char *side, const char *what) {
  size_t count = 0;
  char begin[64];
  snprintf(begin, sizeof begin, "%s, %s", side, what);
  for (size_t i = 0; i < j->notes; i++) count += strncmp(j->note[i], begin, strlen(begin)) == 0;
  return count;
}

/* sides: a bit each, of those that left the oracle. */
static void judge(const char *name, unsigned sides, int gradients, bool integers, size_t expected_runs) {
  static const char *const names[] = {"a", "b"};
  struct ab_side_result side[AB_SIDES] = {0};
  struct ab_judgement j = {.side = side};
  side_case_open(&j.opened, name);
  runs = added = 0;
  truth = integers ? wrong_in(TERMS) : NULL;
  for (int i = 0; i < 2; i++) {
    side[i].recording = wrong_in(gradients);
    side[i].values = (void *)&runs; /* never read */
    snprintf(side[i].name, sizeof side[i].name, "%s", names[i]);
    j.verdict[AB_AGAINST_ORACLE + i].failing = sides >> i & 1;
  }
  j.verdict[AB_AGAINST_ORACLE + 2].failing = 1; /* against float64: not asked */
  ck_ok(ab_judge_terms(&j));
  ck_assert_uint_eq(runs, expected_runs);
  ck_assert_uint_eq(added, runs && integers ? TERMS + 2 : 0);
  for (int i = 0; i < 2; i++) {
    bool told = runs && integers && sides >> i & 1;
    ck_assert_uint_eq(notes_of(&j, names[i], "gradient layers/"), !told ? 0 : gradients < SHOWN ? gradients : SHOWN);
    ck_assert_uint_eq(notes_of(&j, names[i], ""), !told ? 0 : gradients <= SHOWN ? gradients : SHOWN + 1);
    ck_assert_uint_eq(notes_of(&j, names[i], "2 more gradients are wrong"), told && gradients == SHOWN + 2);
    ab_recording_free(side[i].recording);
  }
  for (size_t i = 0; i < j.notes; i++) ab_mem_free(j.note[i]);
  ab_recording_free(truth);
  ab_case_close(&j.opened);
}

START_TEST(the_first_wrong_gradients_are_written_out) {
  for (unsigned sides = 0; sides < 4; sides++)
    for (int gradients = 0; gradients <= SHOWN + 2; gradients++) judge("e01_simple", sides, gradients, true, sides != 0);
}
END_TEST

/* A loss or a block that residues cannot follow, a bundle that holds no integers. */
START_TEST(where_there_are_no_terms_there_is_no_explanation) {
  judge("circ.yml", 3, 1, true, 0);
  judge("p01_llama2", 3, 1, true, 0);
  judge("e01_simple", 3, 1, false, 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("missing_terms");
  TCase *tests = tcase_create("missing_terms");
  tcase_add_test(tests, the_first_wrong_gradients_are_written_out);
  tcase_add_test(tests, where_there_are_no_terms_there_is_no_explanation);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
