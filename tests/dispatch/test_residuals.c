/* What both engines say they keep against what real MaxText programs were measured to keep
 * (tests/fixtures/ledger/residuals.json), and refusals of counts that are not the config's.
 */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "observed.h"
#include "both_sides.h"
#include "tap.h"

enum { MEASURED = 18, OVERRIDES = 4 };

struct measured {
  struct ab_json *file;
  const char *name, *engine, *bundle, *policy, *mode;
  bool iterations;
  int64_t m, r, t, d, a, p, saved, weights;
};

static struct measured measured_case(size_t i) {
  struct measured c;
  const struct ab_json *cases, *row;
  char path[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(path, sizeof path, "%s/tests/fixtures/ledger/residuals.json", root ? root : ".");
  ck_ok(ab_json_read(&c.file, path, NULL));
  ck_ok(ab_json_get_array(&cases, c.file, "cases"));
  ck_assert_uint_eq(ab_json_size(cases), MEASURED);
  row = ab_json_at(cases, i);
  ck_ok(ab_json_get_string(&c.name, row, "case"));
  ck_ok(ab_json_get_string(&c.engine, row, "engine"));
  ck_ok(ab_json_get_string(&c.bundle, row, "bundle"));
  ck_ok(ab_json_get_string(&c.policy, row, "remat_policy"));
  ck_ok(ab_json_get_string(&c.mode, row, "mode"));
  ck_ok(ab_json_get_bool(&c.iterations, row, "set_remat_policy_on_pipeline_iterations"));
  ck_ok(ab_json_get_int64(&c.m, row, "M"));
  ck_ok(ab_json_get_int64(&c.r, row, "R"));
  ck_ok(ab_json_get_int64(&c.t, row, "T"));
  ck_ok(ab_json_get_int64(&c.d, row, "D"));
  ck_ok(ab_json_get_int64(&c.a, row, "A"));
  ck_ok(ab_json_get_int64(&c.p, row, "P"));
  ck_ok(ab_json_get_int64(&c.saved, row, "saved_bytes_stacked_by_forward_loops"));
  ck_ok(ab_json_get_int64(&c.weights, row, "weight_shaped_bytes"));
  return c;
}

static bool circular(const struct measured *c) { return !strcmp(c->mode, "ag_per_repeat"); }
static bool is_nnx(const struct measured *c) { return !strcmp(c->engine, "nnx"); }

static void open_bundle(struct ab_case *out, const char *bundle, const char *const *overrides, size_t count) {
  char path[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(path, sizeof path, "%s/tests/fixtures/reference/%s", root ? root : ".", bundle);
  ck_ok(ab_case_open(out, &(struct ab_request){.target = path, .overrides = overrides, .override_count = count}));
}

static struct ab_recording *run(const struct ab_case *c, const char *route) {
  struct ab_recording *recording;
  ck_ok(side_run(&recording, c, side_route(route), NULL));
  return recording;
}

/* Of stage 1, which like any other holds T cells; "residual/" alone is the sum of all that begin so. */
static int64_t per_stage(const struct ab_recording *recording, const char *name) {
  int64_t sum = 0;
  size_t length = strlen(name);
  for (size_t i = 0; i < recording->counters; i++) {
    const struct ab_counter *c = &recording->counter[i];
    bool same = name[length - 1] == '/' ? !strncmp(c->id.tensor, name, length) : !strcmp(c->id.tensor, name);
    if (same && c->at.stage == 1) sum += c->amount;
  }
  return sum;
}

/* Iterations that the program's loops stack. A drain of one iteration is no loop; the NNX program stacks a window's
 * once more while it recomputes it. */
static int64_t stacked(const struct measured *c) {
  if (!circular(c)) return c->t;
  return c->m * c->r + (c->d > 1 ? c->d : 0) + (is_nnx(c) ? c->m : 0);
}

static void check_weights(const struct measured *c, const struct ab_recording *recording) {
  int64_t selected = per_stage(recording, AB_COUNT_WEIGHTS), current = per_stage(recording, AB_COUNT_W_CURR),
          next = per_stage(recording, AB_COUNT_W_NEXT);
  bool unrolled = circular(c) && !is_nnx(c); /* the windows' buffers are in no stacked array */
  if (unrolled) ck_assert_int_eq(current, c->r * c->p);
  ck_assert_msg(unrolled || selected + current + next == c->weights, "%s: %lld + %lld + %lld bytes of weights, not %lld",
                c->name, (long long)selected, (long long)current, (long long)next, (long long)c->weights);
}

/* Without remat of iterations a compiler keeps other intermediates than an operator table does: weights alone there. */
static void check_activations(const struct measured *c, const struct ab_recording *recording) {
  int64_t weights = per_stage(recording, AB_COUNT_WEIGHTS) + per_stage(recording, AB_COUNT_W_CURR) +
                    per_stage(recording, AB_COUNT_W_NEXT);
  int64_t found = per_stage(recording, AB_COUNT_RESIDUAL) - weights, measured = c->saved - c->weights;
  if (!c->iterations && !circular(c)) return;
  ck_assert_msg(found % c->t == 0 && found / c->t * stacked(c) == measured,
                "%s: %lld bytes over %lld iterations, measured %lld over %lld", c->name, (long long)found,
                (long long)c->t, (long long)measured, (long long)stacked(c));
}

START_TEST(engines_keep_what_real_programs_were_measured_to_keep) {
  struct measured c = measured_case((size_t)_i);
  char policy[64];
  const char *overrides[OVERRIDES] = {policy};
  struct ab_case opened;
  size_t count = 1;
  snprintf(policy, sizeof policy, "remat_policy=%s", c.policy);
  if (!c.iterations) overrides[count++] = "set_remat_policy_on_pipeline_iterations=false";
  if (!c.iterations && circular(&c) && is_nnx(&c)) overrides[count++] = "upstream_faithful=B13";
  open_bundle(&opened, c.bundle, overrides, count);
  struct ab_recording *recording = run(&opened, c.engine);
  check_weights(&c, recording);
  check_activations(&c, recording);
  ck_ok(ab_check_remat(recording, &opened, side_route(c.engine)));
  ab_recording_free(recording);
  ab_case_close(&opened);
  ab_json_free(c.file);
}
END_TEST

/* Every policy, in both engines, is what config and block table ask for; beside them B13, B15 and B29. */
static const struct {
  const char *bundle;
  const char *override[OVERRIDES];
} asked[] = {
    {"p04_llama2", {"remat_policy=none"}},
    {"p04_llama2", {"remat_policy=minimal_offloaded"}},
    {"p04_llama2", {"remat_policy=qkv_proj_offloaded", "ab_compute_bubbles=true"}},
    {"p04_llama2", {"remat_policy=save_out_proj", "upstream_faithful=B29"}},
    {"p10_llama2", {"remat_policy=full", "upstream_faithful=B29"}},
    {"p10_llama2", {"remat_policy=custom", "query_proj=device", "mlpwi_0=offload"}},
    {"p10_llama2", {"remat_policy=custom", "decoder_layer_input=remat", "mlpwi_0=offload", "ab_compute_bubbles=true"}},
    {"p10_llama2", {"remat_policy=custom", "decoder_layer_input=offload", "out_proj=device"}},
    {"p10_llama2", {"remat_policy=minimal", "set_remat_policy_on_pipeline_iterations=false",
                    "set_remat_policy_on_layers_per_stage=true"}},
    {"p10_llama2", {"remat_policy=minimal", "set_remat_policy_on_pipeline_iterations=false",
                    "set_remat_policy_on_layers_per_stage=true", "upstream_faithful=B15"}},
    {"p07_llama2", {"remat_policy=custom", "decoder_layer_input=offload", "key_proj=offload"}},
    {"p07_llama2", {"set_remat_policy_on_pipeline_iterations=false", "upstream_faithful=B13"}},
    {"p06_llama2", {"set_remat_policy_on_pipeline_iterations=false", "remat_policy=save_qkv_proj"}},
    {"p09_simple", {"remat_policy=custom", "decoder_layer_input=remat"}},
    {"t01", {"remat_policy=minimal_offloaded"}},
    {"t03", {"remat_policy=custom", "mlpwi_1=offload", "query_proj=device"}}, /* layers outside too */
};
enum { ASKED = sizeof asked / sizeof asked[0], ENGINES = 3 };
static const char *const engines[ENGINES] = {"linen", "nnx", "linen+nnx-pipeline"};

static size_t override_count(int i) {
  size_t count = 0;
  while (count < OVERRIDES && asked[i].override[count]) count++;
  return count;
}

START_TEST(every_engine_counts_what_is_asked_for) {
  struct ab_case c;
  open_bundle(&c, asked[_i].bundle, asked[_i].override, override_count(_i));
  if (c.steps > 1) c.steps = 2;
  for (int e = 0; e < ENGINES; e++) {
    struct ab_recording *recording = run(&c, engines[e]);
    const struct ab_recorded *first;
    ck_ok(ab_check_remat(recording, &c, side_route(engines[e])));
    ck_assert_uint_eq(ab_recording_recompute_faults(recording, &first), 0);
    ab_recording_free(recording);
  }
  ab_case_close(&c);
}
END_TEST

/* One operator more, one byte less, a name that nobody expects: refused with both numbers. */
START_TEST(another_count_is_refused) {
  struct ab_case c;
  const char *minimal[] = {"remat_policy=minimal"};
  open_bundle(&c, "p01_llama2", minimal, 1);
  static const struct {
    const char *name, *sentence;
    int64_t amount;
  } wrong[] = {{"recompute/query", "counted 1 of 'recompute/query', expected 0", 1},
               {"residual/query_proj", "of 'residual/query_proj', expected 30720", -1},
               {"residual/iteration_input", "counted 15361 of 'residual/iteration_input', expected 15360", 1},
               {"host/query_proj", "of 'host/query_proj', expected 0", 8},
               {"residual/attention_core", "'residual/attention_core'", 4},
               {"residual/mystery", "a counter 'residual/mystery', which nothing expects", 4}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct ab_recording *recording = run(&c, "linen");
    struct ab_counter more = {.id = {.microbatch = -1, .layer = -1}, .at = {-1, 0, 0, false}, .amount = wrong[i].amount};
    snprintf(more.id.tensor, sizeof more.id.tensor, "%s", wrong[i].name);
    ck_ok(ab_recording_add_counter(recording, &more));
    ck_fails(ab_check_remat(recording, &c, side_route("linen")), AB_EMISMATCH, wrong[i].sentence);
    ab_recording_free(recording);
  }
  ab_case_close(&c);
}
END_TEST

/* B15 in NNX: without remat of iterations nothing is computed again, though the flag for layers asks for it. */
START_TEST(b15_lets_nnx_ignore_the_flag_for_layers) {
  static const char *const asks[] = {"set_remat_policy_on_pipeline_iterations=false",
                                     "set_remat_policy_on_layers_per_stage=true", "upstream_faithful=B15"};
  for (int e = 0; e < 2; e++)
    for (size_t faithful = 0; faithful < 2; faithful++) {
      struct ab_case c;
      open_bundle(&c, "p04_llama2", asks, 2 + faithful);
      struct ab_recording *recording = run(&c, engines[e]);
      bool ignores = e == 1 && faithful;
      ck_assert_msg((per_stage(recording, AB_COUNT_RECOMPUTE) == 0) == ignores, "%s, B15 %zu", engines[e], faithful);
      ab_recording_free(recording);
      ab_case_close(&c);
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("residuals");
  TCase *tc = tcase_create("residuals");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, engines_keep_what_real_programs_were_measured_to_keep, 0, MEASURED);
  tcase_add_loop_test(tc, every_engine_counts_what_is_asked_for, 0, ASKED);
  tcase_add_test(tc, another_count_is_refused);
  tcase_add_test(tc, b15_lets_nnx_ignore_the_flag_for_layers);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
