#include "controls.h"

#include <math.h>

#include "sides.h"

/* S = 2, K = 1, R = 2 and three microbatches, over two steps: leaves, activations, a cotangent of rows, metrics. */
enum { STAGES = 2, DEEP = 4, MICROBATCHES = 3 };
static const struct ab_control_facts pipeline = {STAGES, 1, DEEP, MICROBATCHES}, plain = {1, 1, 0, 1};

struct run {
  struct side a, b, truth;
  struct both ab, at;
};

static void put(struct side *s, struct ab_identity id, enum ab_dtype dtype, struct ab_shape shape, double first,
                double error) {
  struct ab_tensor *t = side_tensor(s, &id, dtype, shape);
  for (size_t i = 0; i < t->count; i++) {
    float value = (float)(first + 0.17 * (double)i);
    if (dtype == AB_F32) ((float *)t->data)[i] = value;
    else ((double *)t->data)[i] = (double)value * (1 + error);
  }
  side_observe(s, &id);
}

static void put_activations(struct side *s, int step, int layer) {
  for (int m = 0; m < MICROBATCHES; m++) {
    struct ab_identity id = identity(step, layer, "mlp_output", AB_FORWARD);
    id.microbatch = m;
    put(s, id, AB_F32, (struct ab_shape){2, {2, 3}}, 10 * step + layer + 0.25 * m, 0);
  }
}

static void put_metrics(struct side *s, int step, bool wide, double error) {
  const char *const names[] = {"loss", "grad_norm"};
  for (int i = 0; i < 2; i++) {
    float value = 6.9f - (float)step + (float)i;
    struct ab_metric m = {.step = step, .value = (double)value * (1 + error), .f32 = !wide};
    strcpy(m.name, names[i]);
    ck_ok(ab_recording_add_metric(s->recording, &m));
  }
}

/* wide: as a float64 oracle, which has only gradients and metrics. */
static struct side run_side(const char *name, int steps, bool wide) {
  struct side s = side_new(name);
  double error = wide ? 3e-8 : 0;
  for (int step = 0; step < steps; step++) {
    put_metrics(&s, step, wide, error);
    for (int layer = 0; layer < DEEP; layer++) {
      put(&s, identity(step, layer, "mlp/wo/kernel", AB_BACKWARD), wide ? AB_F64 : AB_F32,
          (struct ab_shape){2, {3, 4}}, 1 + layer + 0.5 * step, error);
      if (!wide) put_activations(&s, step, layer);
    }
    if (!wide)
      put(&s, identity(step, -1, "pipeline/d_inputs", AB_BACKWARD), AB_F32, (struct ab_shape){2, {6, 2}}, 1 + step, 0);
  }
  ab_recording_complete(s.recording);
  return s;
}

static void start_run(struct run *r, int steps) {
  r->a = run_side("linen", steps, false);
  r->b = run_side("nnx", steps, false);
  r->truth = run_side("sequential64", steps, true);
}

static void stop_run(struct run *r) {
  side_free(&r->a);
  side_free(&r->b);
  side_free(&r->truth);
}

static struct ab_comparison exact_of(struct run *r) {
  struct ab_comparison c = comparison_of(&r->ab, &r->a, &r->b);
  c.expected = ab_expected_none();
  return c;
}

static struct ab_comparison bounded_of(struct run *r) {
  struct ab_comparison c = comparison_of(&r->at, &r->a, &r->truth);
  c.expected = ab_expected_none();
  c.pair = AB_PAIR_MIXED;
  c.quantities = 1u << AB_Q_METRIC | 1u << AB_Q_WEIGHT_GRADIENT;
  c.partial = c.retyped = true;
  return c;
}

/* A golden's: a selection of the other side, bit for bit. */
static struct ab_comparison record_of(struct run *r) {
  struct ab_comparison c = exact_of(r);
  c.partial = true;
  return c;
}

static void control(struct ab_controls *out, struct run *r, const struct ab_control_facts *facts, ab_verdict_fn fn) {
  struct ab_comparison exact = exact_of(r), bounded = bounded_of(r), record = record_of(r);
  *out = (struct ab_controls){0};
  ck_ok(ab_controls_run(out, &exact, facts, fn));
  ck_ok(ab_controls_run(out, &bounded, facts, fn));
  ck_ok(ab_controls_run(out, &record, facts, fn));
  ab_controls_close(out);
}

static size_t row_of(const char *name) {
  for (size_t i = 0; i < AB_CONTROLS; i++)
    if (strcmp(ab_control_name(i), name) == 0) return i;
  ck_abort_msg("there is no control '%s'", name);
  return 0;
}

START_TEST(every_control_is_caught) {
  struct run r;
  struct ab_controls controls;
  char text[1024];
  start_run(&r, 2);
  control(&controls, &r, &pipeline, ab_verdict);
  for (size_t i = 0; i < AB_CONTROLS; i++)
    ck_assert_msg(controls.row[i].outcome == AB_CONTROL_CAUGHT, "%s: %s, exit %d of %d, %s", ab_control_name(i),
                  ab_control_outcome_name(controls.row[i].outcome), (int)controls.row[i].got,
                  (int)controls.row[i].expected, controls.row[i].why);
  ck_assert(!ab_controls_missed(text, sizeof text, &controls));
  stop_run(&r);
}
END_TEST

START_TEST(what_cannot_apply_has_its_reason) {
  static const struct {
    const char *name, *why;
  } rows[] = {{"dropped microbatch", "one microbatch"}, {"doubled microbatch", "one microbatch"},
              {"microbatch not run", "one microbatch"}, {"microbatch run twice", "one microbatch"},
              {"swapped stages", "one stage"},          {"shifted step", "one step"}};
  struct run r;
  struct ab_controls controls;
  start_run(&r, 1);
  control(&controls, &r, &plain, ab_verdict);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_NA), sizeof rows / sizeof *rows);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_MISSED), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct ab_control_result *row = &controls.row[row_of(rows[i].name)];
    ck_assert_msg(row->outcome == AB_CONTROL_NA && strcmp(row->why, rows[i].why) == 0, "%s: %s, %s", rows[i].name,
                  ab_control_outcome_name(row->outcome), row->why);
  }
  stop_run(&r);
}
END_TEST

START_TEST(without_a_bounded_comparison_its_controls_cannot_apply) {
  struct run r;
  struct ab_controls controls = {0};
  start_run(&r, 2);
  struct ab_comparison c = exact_of(&r);
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ab_controls_close(&controls);
  ck_assert_str_eq(controls.row[row_of("metric above its bound")].why, "no bounded comparison");
  ck_assert_str_eq(controls.row[row_of("missing leaf against a record")].why, "no golden or bundle");
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_NA), 5 + 4);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_CAUGHT), AB_CONTROLS - 9);
  stop_run(&r);
}
END_TEST

START_TEST(a_record_serves_its_own_controls_alone) {
  struct run r;
  struct ab_controls controls = {0};
  start_run(&r, 2);
  struct ab_comparison c = record_of(&r);
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_CAUGHT), 4);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_NOT_RUN), AB_CONTROLS - 4);
  controls = (struct ab_controls){0};
  c = bounded_of(&r);
  c.pair = AB_PAIR_RECORDED;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ab_controls_close(&controls);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_CAUGHT), 3);
  ck_assert_str_eq(controls.row[row_of("one ulp against a golden")].why, "no exact golden");
  controls = (struct ab_controls){0};
  c.partial = false; /* of a command */
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_CAUGHT), 3 + 8 + 5);
  stop_run(&r);
}
END_TEST

static ab_status only_of_a(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct run *r = ctx;
  char path[AB_IDENTITY_TEXT];
  if (side) return AB_FAIL(AB_ENOTFOUND, "a golden keeps no values");
  ab_identity_print(path, &observation->id);
  *out = ab_view_of(ab_tree_find(r->a.tree, path));
  return AB_OK;
}

static void fingerprint_gradients(struct side *s) {
  for (size_t i = 0; i < s->recording->observations; i++) {
    struct ab_identity id = s->recording->observation[i].observation.id;
    if (ab_quantity_of(&id) == AB_Q_WEIGHT_GRADIENT) side_fingerprint(s, &id);
  }
}

/* Other numerics than the golden's: every gradient differs, within its bound, and only fingerprints tell. */
START_TEST(a_record_without_values_is_judged_by_its_fingerprints) {
  struct run r;
  struct ab_controls controls = {0};
  char text[1024];
  start_run(&r, 2);
  fingerprint_gradients(&r.a);
  fingerprint_gradients(&r.truth);
  struct ab_comparison c = bounded_of(&r);
  c.pair = AB_PAIR_RECORDED;
  c.values = only_of_a;
  c.values_ctx = &r;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_msg(!ab_controls_missed(text, sizeof text, &controls), "%s", text);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_CAUGHT), 3);
  controls = (struct ab_controls){0};
  c.values = NULL;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_CAUGHT), 1);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_NA), 2);
  c.pair = AB_PAIR_F64; /* of which whole copies are compared */
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  stop_run(&r);
}
END_TEST

/* The bound that is tried is the one by which the verdict judges. */
START_TEST(a_calibrated_metric_is_tried_at_its_own_bound) {
  struct run r;
  struct ab_controls controls = {0};
  struct ab_calibration *calibration = calibration_begun("digest", 1);
  start_run(&r, 2);
  ck_ok(ab_calibration_add(calibration, "metric loss", 1e-5));
  ab_calibration_conclude(calibration);
  struct ab_comparison c = bounded_of(&r);
  c.calibration = calibration;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_int_eq(controls.row[row_of("metric at its bound")].outcome, AB_CONTROL_CAUGHT);
  ck_assert_int_eq(controls.row[row_of("metric above its bound")].outcome, AB_CONTROL_CAUGHT);
  ab_calibration_free(calibration);
  stop_run(&r);
}
END_TEST

/* Exact controls of a golden alone are left when numbers of another arithmetic have had the rest. */
START_TEST(the_last_control_runs_alone) {
  struct run r;
  struct ab_controls controls = {0};
  char text[1024];
  start_run(&r, 2);
  struct ab_comparison c = bounded_of(&r), record = record_of(&r);
  c.pair = AB_PAIR_RECORDED;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_ok(ab_controls_run(&controls, &record, &pipeline, ab_verdict));
  ck_assert_int_eq(controls.row[AB_CONTROLS - 1].outcome, AB_CONTROL_CAUGHT);
  controls.row[AB_CONTROLS - 1].outcome = AB_CONTROL_MISSED;
  ck_assert(ab_controls_missed(text, sizeof text, &controls));
  stop_run(&r);
}
END_TEST

static size_t expected_steps;
static ab_status look_at_steps(struct ab_verdict *out, const struct ab_comparison *c) {
  expected_steps = c->expected.steps;
  return ab_verdict(out, c);
}

START_TEST(steps_are_counted_where_metrics_are_compared) {
  for (int i = 0; i < 4; i++) {
    struct run r;
    struct ab_controls controls = {0};
    start_run(&r, i == 1 ? 1 : 2);
    struct ab_comparison c = exact_of(&r);
    if (i == 2) c.quantities &= ~(1u << AB_Q_METRIC);
    if (i == 3) r.a.recording->metrics = r.b.recording->metrics = 0;
    ck_ok(ab_controls_run(&controls, &c, &pipeline, look_at_steps));
    ck_assert_uint_eq(expected_steps, i == 0 ? 2 : i == 1 ? 1 : AB_UNCOUNTED);
    stop_run(&r);
  }
}
END_TEST

START_TEST(float64_routes_have_what_they_owe_each_other) {
  struct run r;
  struct ab_controls controls = {0};
  char text[1024];
  start_run(&r, 2);
  struct ab_comparison c = exact_of(&r);
  c.pair = AB_PAIR_F64;
  c.quantities = 1u << AB_Q_METRIC | 1u << AB_Q_WEIGHT_GRADIENT;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ab_controls_close(&controls);
  ck_assert_msg(!ab_controls_missed(text, sizeof text, &controls), "%s", text);
  ck_assert_int_eq(controls.row[row_of("swapped stages")].outcome, AB_CONTROL_CAUGHT);
  ck_assert_int_eq(controls.row[row_of("shifted step")].outcome, AB_CONTROL_CAUGHT);
  ck_assert_str_eq(controls.row[row_of("microbatch not run")].why, "not compared between float64 routes");
  ck_assert_str_eq(controls.row[row_of("one ulp")].why, "no bitwise comparison");
  stop_run(&r);
}
END_TEST

/* Verdicts that were broken the way real ones were. */

static ab_status always_equal(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status always_different(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  out->exit = AB_EXIT_DIFFERENT;
  return AB_OK;
}

static ab_status inverted(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  out->exit = out->exit == AB_EXIT_EQUAL ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status structure_does_not_matter(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (out->changed) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status nothing_is_pinned(struct ab_verdict *out, const struct ab_comparison *c) {
  struct ab_comparison loose = *c;
  loose.expected = ab_expected_none();
  return ab_verdict(out, &loose);
}

static ab_status nan_is_fine(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (out->nonfinite) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status without(struct ab_verdict *out, const struct ab_comparison *c, enum ab_quantity quantity) {
  struct ab_comparison narrow = *c;
  narrow.quantities &= ~(1u << quantity);
  return ab_verdict(out, &narrow);
}

static ab_status no_metrics(struct ab_verdict *out, const struct ab_comparison *c) {
  return without(out, c, AB_Q_METRIC);
}
static ab_status no_gradients(struct ab_verdict *out, const struct ab_comparison *c) {
  return without(out, c, AB_Q_WEIGHT_GRADIENT);
}
static ab_status no_activations(struct ab_verdict *out, const struct ab_comparison *c) {
  return without(out, c, AB_Q_ACTIVATION);
}
static ab_status no_cotangents(struct ab_verdict *out, const struct ab_comparison *c) {
  return without(out, c, AB_Q_INPUT_GRADIENT);
}

static ab_status last_step_alone(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (out->first_bad_step == 0) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status first_step_alone(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (out->first_bad_step != 0 && out->exit == AB_EXIT_DIFFERENT) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

/* The bound of harness.md: 1e-1. */
static ab_status loose(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (out->failing && out->worst.distance < 0.4) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status records_are_not_looked_at(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (c->partial) out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static ab_status at_the_bound_is_over(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  const struct ab_finding *w = &out->worst;
  if (w->bound.tier == AB_TIER_BOUNDED && w->distance == w->bound.limit) out->exit = AB_EXIT_DIFFERENT;
  return AB_OK;
}

static ab_status just_above_passes(struct ab_verdict *out, const struct ab_comparison *c) {
  AB_TRY(ab_verdict(out, c));
  if (out->worst.bound.tier == AB_TIER_BOUNDED && out->worst.distance <= out->worst.bound.limit * (1 + 1e-9) &&
      !out->changed && out->counts_right)
    out->exit = AB_EXIT_EQUAL;
  return AB_OK;
}

static const struct {
  const char *name;
  ab_verdict_fn verdict;
  const char *missed[3]; /* among others */
} broken[] = {
    {"always equal", always_equal, {"one ulp", "missing leaf", "tensor above its bound"}},
    {"always different", always_different, {"undamaged copy", "metric at its bound", "tensor at its bound"}},
    {"inverted", inverted, {"undamaged copy", "one ulp", "metric above its bound"}},
    {"structure does not matter", structure_does_not_matter, {"missing leaf", "renamed leaf", "microbatch not run"}},
    {"nothing is pinned", nothing_is_pinned, {"leaf missing on both sides"}},
    {"NaN is fine", nan_is_fine, {"NaN in a tensor", "the same NaN in both tensors", "the same NaN in both metrics"}},
    {"no metrics", no_metrics, {"scaled loss", "NaN in a metric", "metric above its bound"}},
    {"no gradients", no_gradients, {"one ulp", "scaled gradient", "scaled gradient under a bound"}},
    {"no activations", no_activations, {"microbatch not run", "microbatch run twice"}},
    {"no cotangents", no_cotangents, {"dropped microbatch", "doubled microbatch"}},
    {"last step alone", last_step_alone, {"one ulp", "swapped stages", "scaled loss"}},
    {"first step alone", first_step_alone, {"shifted step"}},
    {"loose", loose, {"one ulp", "scaled gradient under a bound", "tensor above its bound"}},
    {"at the bound is over", at_the_bound_is_over, {"tensor at its bound"}},
    {"golden of a selection", records_are_not_looked_at, {"missing leaf against a record", "one ulp against a golden"}},
    {"just above passes", just_above_passes, {"tensor above its bound", "metric above its bound"}},
};
enum { BROKEN = sizeof broken / sizeof *broken };

START_TEST(a_broken_verdict_is_found_out) {
  struct run r;
  struct ab_controls controls;
  char text[1024];
  start_run(&r, 2);
  for (int i = 0; i < BROKEN; i++) {
    control(&controls, &r, &pipeline, broken[i].verdict);
    for (int k = 0; k < 3 && broken[i].missed[k]; k++)
      ck_assert_msg(controls.row[row_of(broken[i].missed[k])].outcome == AB_CONTROL_MISSED, "%s: '%s' was not missed",
                    broken[i].name, broken[i].missed[k]);
    ck_assert_msg(ab_controls_missed(text, sizeof text, &controls), "%s", broken[i].name);
    ck_assert_msg(strstr(text, "' was not caught: exit ") != NULL, "%s: %s", broken[i].name, text);
  }
  stop_run(&r);
}
END_TEST

/* Every control finds some broken verdict out: none of them is idle. */
START_TEST(no_control_is_idle) {
  bool missed[AB_CONTROLS] = {false};
  struct run r;
  struct ab_controls controls;
  start_run(&r, 2);
  for (int i = 0; i < BROKEN; i++) {
    control(&controls, &r, &pipeline, broken[i].verdict);
    for (size_t k = 0; k < AB_CONTROLS; k++) missed[k] |= controls.row[k].outcome == AB_CONTROL_MISSED;
  }
  for (size_t k = 0; k < AB_CONTROLS; k++) ck_assert_msg(missed[k], "'%s' was caught by all", ab_control_name(k));
  stop_run(&r);
}
END_TEST

/* What the damaged copies held, seen by a verdict that looks into them. */
static struct {
  bool swapped, values_swapped, shifted, twice, dropped_rows, doubled_rows, gone;
} seen;

static const struct ab_summary *summary_of(const struct ab_recording *r, int step, int layer, const char *name,
                                           int microbatch, enum ab_phase phase) {
  struct ab_identity id = identity(step, layer, name, phase);
  id.microbatch = microbatch;
  const struct ab_recorded *found = ab_recording_find(r, &id);
  return found ? &found->observation.summary : NULL;
}

static bool alike(const struct ab_comparison *c, int step, int layer, int m, int step_b, int layer_b, int m_b) {
  const struct ab_summary *a = summary_of(c->a, step, layer, "mlp_output", m, AB_FORWARD);
  const struct ab_summary *b = summary_of(c->b, step_b, layer_b, "mlp_output", m_b, AB_FORWARD);
  return a && b && ab_summary_same(a, b);
}

/* The first value of layer 0 is asked for, and that of layer 1 is given, on side a alone. */
static bool values_swapped(const struct ab_comparison *c) {
  struct ab_identity id = identity(0, 0, "mlp_output", AB_FORWARD);
  struct ab_view a, b;
  id.microbatch = 0;
  const struct ab_recorded *asked = ab_recording_find(c->b, &id);
  ck_ok(c->values(c->values_ctx, 0, &asked->observation, &a));
  ck_ok(c->values(c->values_ctx, 1, &asked->observation, &b));
  return *(const float *)a.data == 1 && *(const float *)b.data == 0;
}

static ab_status spy(struct ab_verdict *out, const struct ab_comparison *c) {
  if (c->pair != AB_PAIR_SAME || c->partial) return ab_verdict(out, c);
  const struct ab_summary *rows = summary_of(c->a, 0, -1, "pipeline/d_inputs", -1, AB_BACKWARD);
  const double first_rows = 12.76, last_rows = 10.46; /* two thirds and one third of 1 + 0.17 i, i < 12 */
  bool swap = true;
  for (int layer = 0; layer < DEEP; layer++) swap &= alike(c, 0, layer, 0, 0, layer ^ 1, 0);
  seen.swapped |= swap;
  seen.values_swapped |= swap && values_swapped(c);
  seen.shifted |= alike(c, 1, 0, 0, 0, 0, 0) && alike(c, 0, 0, 0, 0, 0, 0);
  seen.twice |= alike(c, 0, 3, 2, 0, 3, 0) && alike(c, 0, 3, 0, 0, 3, 0) && alike(c, 1, 3, 2, 1, 3, 2);
  seen.gone |= !summary_of(c->a, 0, 0, "mlp_output", 2, AB_FORWARD) && alike(c, 1, 0, 2, 1, 0, 2);
  seen.dropped_rows |= fabs(rows->sum - first_rows) < 1e-4;
  seen.doubled_rows |= fabs(rows->sum - first_rows - 2 * last_rows) < 1e-4;
  return ab_verdict(out, c);
}

START_TEST(damages_are_what_they_say) {
  struct run r;
  struct ab_controls controls;
  start_run(&r, 2);
  memset(&seen, 0, sizeof seen);
  control(&controls, &r, &pipeline, spy);
  ck_assert_msg(seen.swapped && seen.values_swapped, "stages change places in every repeat");
  ck_assert_msg(seen.shifted, "step 0 stands under step 1 too");
  ck_assert_msg(seen.twice && seen.gone, "the last microbatch of step 0 alone");
  ck_assert_msg(seen.dropped_rows && seen.doubled_rows, "rows of the cotangent");
  stop_run(&r);
}
END_TEST

static ab_status zeros(void *ctx, int side, const struct ab_observation *o, struct ab_view *out) {
  static double nothing[64];
  (void)ctx, (void)side;
  *out = (struct ab_view){.dtype = o->dtype, .shape = o->shape, .data = nothing};
  ab_view_contiguous(out);
  return AB_OK;
}

START_TEST(values_that_were_not_observed_prove_nothing) {
  struct run r;
  struct ab_controls controls = {0};
  char text[1024];
  start_run(&r, 2);
  struct ab_comparison c = exact_of(&r);
  c.values = zeros;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_int_eq(controls.row[row_of("one ulp")].outcome, AB_CONTROL_MISSED);
  ck_assert_int_eq(controls.row[row_of("dropped microbatch")].outcome, AB_CONTROL_MISSED);
  ck_assert(ab_controls_missed(text, sizeof text, &controls));
  ck_assert_msg(strstr(text, "do not have the digest that was recorded") != NULL, "%s", text);
  stop_run(&r);
}
END_TEST

START_TEST(without_values_only_what_needs_none_runs) {
  struct run r;
  struct ab_controls controls = {0};
  start_run(&r, 2);
  struct ab_comparison c = exact_of(&r);
  c.values = NULL;
  ck_ok(ab_controls_run(&controls, &c, &pipeline, ab_verdict));
  ck_assert_str_eq(controls.row[row_of("one ulp")].why, "no weight gradient with values");
  ck_assert_int_eq(controls.row[row_of("swapped stages")].outcome, AB_CONTROL_CAUGHT);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_MISSED), 0);
  stop_run(&r);
}
END_TEST

START_TEST(a_run_is_left_as_it_was) {
  struct run r;
  struct ab_controls controls;
  struct ab_verdict v;
  struct ab_mem_stats before = ab_mem_stats();
  start_run(&r, 2);
  size_t blocks = ab_mem_stats().live_blocks;
  control(&controls, &r, &pipeline, ab_verdict);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, blocks);
  struct ab_comparison c = exact_of(&r);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.differing, 0);
  ab_verdict_free(&v);
  stop_run(&r);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before.live_blocks);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("controls");
  TCase *c = tcase_create("controls");
  tcase_add_test(c, every_control_is_caught);
  tcase_add_test(c, what_cannot_apply_has_its_reason);
  tcase_add_test(c, without_a_bounded_comparison_its_controls_cannot_apply);
  tcase_add_test(c, a_record_serves_its_own_controls_alone);
  tcase_add_test(c, a_record_without_values_is_judged_by_its_fingerprints);
  tcase_add_test(c, a_calibrated_metric_is_tried_at_its_own_bound);
  tcase_add_test(c, the_last_control_runs_alone);
  tcase_add_test(c, steps_are_counted_where_metrics_are_compared);
  tcase_add_test(c, float64_routes_have_what_they_owe_each_other);
  tcase_add_test(c, a_broken_verdict_is_found_out);
  tcase_add_test(c, no_control_is_idle);
  tcase_add_test(c, damages_are_what_they_say);
  tcase_add_test(c, values_that_were_not_observed_prove_nothing);
  tcase_add_test(c, without_values_only_what_needs_none_runs);
  tcase_add_test(c, a_run_is_left_as_it_was);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
