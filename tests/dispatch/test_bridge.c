/* use_nnx_pipeline=true: the NNX pipeline in ToLinen inside the Linen decoder. The same bits as both native routes; and
 * what goes wrong between the two kinds of variables is refused by its full path.
 */
#include <stdio.h>
#include <string.h>

#include "linen_decoder.h"
#include "mem.h"
#include "rig.h"
#include "both_sides.h"
#include "tap.h"

#define BRIDGED "linen+nnx-pipeline"

static struct ab_side model_side(const char *route) {
  return (struct ab_side){.model_ops = side_route(route)->model};
}

/* stages, microbatches, repeats, layers per stage */
static const struct rig_shape shapes[] = {
    {2, 4, 1, 1, .delay = false},
    {3, 3, 2, 1, .outside = 2},
    {2, 4, 3, 1, .block = "simple"},
    {2, 4, 2, 1, .delay = true},
    {3, 6, 1, 1, .delay = true, .outside = 1},
    {2, 2, 2, 2, .outside = 1},
    {2, 2, 1, 2, .scanned_stage = true},
    {2, 4, 2, 2, .scanned_stage = true, .outside = 1},
    {2, 4, 2, 1, .circular = true},
    {4, 4, 3, 1, .circular = true, .outside = 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };
static const char *const natives[] = {"linen", "nnx"};

static const struct ab_kernels *kernels_of(int f64) { return f64 ? &ab_kernels_f64 : &ab_kernels_f32; }

START_TEST(a_model_has_the_bits_of_both_native_routes) {
  struct ab_config config = rig_config(&shapes[_i / 2]);
  const struct ab_kernels *kernels = kernels_of(_i % 2);
  struct rig_run bridged = rig_run_model(side_route(BRIDGED)->model, kernels, &config, NULL);
  for (int n = 0; n < 2; n++) {
    struct rig_run native = rig_run_model(side_route(natives[n])->model, kernels, &config, NULL);
    rig_same_bits(&bridged, &native, &config, natives[n]);
    rig_run_free(&native);
  }
  rig_run_free(&bridged);
}
END_TEST

START_TEST(the_pipeline_alone_has_the_bits_of_both_native_routes) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct rig_run bridged = rig_run_pipeline(side_route(BRIDGED)->pipeline, &ab_kernels_f32, &config, NULL);
  for (int n = 0; n < 2; n++) {
    struct rig_run native = rig_run_pipeline(side_route(natives[n])->pipeline, &ab_kernels_f32, &config, NULL);
    rig_same_bits(&bridged, &native, &config, natives[n]);
    rig_run_free(&native);
  }
  rig_run_free(&bridged);
}
END_TEST

/* Every observation, counter and metric of two steps, updates included. */
static const struct trained {
  const char *name, *native;
} trained[] = {{"circ.yml", "linen"}, {"circ.yml", "nnx"}, {"delay.yml", "linen"}, {"delay.yml", "nnx"},
               {"t03", "linen"},      {"t03b", "linen"},   {"t03b", "nnx"},        {"t01", "nnx"},
               {"p08_llama2", "nnx"}, {"p07_simple", "nnx"}};
enum { TRAINED = sizeof trained / sizeof trained[0] };

START_TEST(train_steps_are_equal_in_all_that_is_observed) {
  struct ab_case c;
  struct ab_recording *native, *bridged;
  side_case_open(&c, trained[_i].name);
  ck_ok(side_run(&native, &c, side_route(trained[_i].native), NULL));
  ck_ok(side_run(&bridged, &c, side_route(BRIDGED), NULL));
  struct ab_verdict verdict = side_verdict(native, bridged, &c);
  ck_assert_msg(verdict.exit == AB_EXIT_EQUAL && !verdict.any_difference, "%s: %s differs from %s", trained[_i].name,
                BRIDGED, trained[_i].native);
  ab_verdict_free(&verdict);
  ab_recording_free(native);
  ab_recording_free(bridged);
  ab_case_close(&c);
}
END_TEST

static struct linen_state *state_of(struct rig_side *side) {
  return &((struct linen_transformer *)side->side.model)->state;
}

static void open_side(struct rig_side *out, const char *route, const struct ab_config *config) {
  struct ab_side ops = model_side(route);
  rig_new(out, &ops, &ab_kernels_f32, config, NULL);
}

static ab_status step(struct rig_side *side, const struct ab_config *config) {
  struct ab_batch batch = rig_batch(config);
  struct ab_loss_terms terms;
  return side->side.model_ops->step(side->side.model, &batch, &terms);
}

/* Where ToLinen has what Linen calls `path`. */
static const char *bridged_path(const char *path) {
  static const char scanned[] = "decoder/layers_per_stage/";
  static char text[LINEN_PATH_MAX];
  if (strncmp(path, scanned, strlen(scanned)) != 0) return path;
  snprintf(text, sizeof text, "decoder/pipeline_module/layers/scanned_layers/%.100s", path + strlen(scanned));
  return text;
}

static void same_box(const struct linen_variable *a, const struct linen_variable *b) {
  ck_assert_msg(a && b && ab_shape_equal(&a->box.value.shape, &b->box.value.shape), "'%s'", b ? b->path : "");
  for (int i = 0; i < a->box.value.shape.rank; i++)
    ck_assert_msg(!strcmp(a->box.names[i], b->box.names[i]), "axis %d of '%s' is '%s', Linen's '%s'", i, a->path,
                  a->box.names[i], b->box.names[i]);
}

START_TEST(variables_have_linens_paths_shapes_and_axis_names) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct rig_side native, bridged;
  open_side(&native, "linen", &config);
  open_side(&bridged, BRIDGED, &config);
  struct linen_variables *theirs = &state_of(&native)->variables, *ours = &state_of(&bridged)->variables;
  ck_assert_uint_eq(ours->count, theirs->count);
  for (const struct linen_variable *v = theirs->first; v; v = v->next)
    same_box(linen_variables_find(ours, LINEN_PARAMS, bridged_path(v->path)), v);
  rig_free(&native);
  rig_free(&bridged);
}
END_TEST

static bool piped(const struct linen_variable *v) { return !strncmp(v->path, "decoder/pipeline_module/", 24); }

/* A side of two repeats with what a fault does to one pipeline variable, in params or cotangents. */
struct broken {
  struct ab_config config;
  struct rig_side side;
  struct linen_variable *variable;
};

static void set_up_broken(struct broken *out, bool cotangents, int skip) {
  out->config = rig_config(&shapes[1]);
  open_side(&out->side, BRIDGED, &out->config);
  ck_ok(step(&out->side, &out->config));
  struct linen_state *state = state_of(&out->side);
  out->variable = (cotangents ? &state->cotangents : &state->variables)->first;
  while (!piped(out->variable) || skip-- > 0) out->variable = out->variable->next;
}

START_TEST(a_dropped_leaf_is_named_by_its_full_path) {
  struct broken b;
  char path[LINEN_PATH_MAX];
  set_up_broken(&b, _i % 2, _i / 2);
  struct linen_state *state = state_of(&b.side);
  snprintf(path, sizeof path, "%s", b.variable->path);
  ck_ok(linen_variables_delete(_i % 2 ? &state->cotangents : &state->variables, LINEN_PARAMS, path));
  ck_fails(step(&b.side, &b.config), AB_ENOTFOUND, path);
  rig_free(&b.side);
}
END_TEST

START_TEST(a_dropped_collection_is_named) {
  struct broken b;
  set_up_broken(&b, false, 0);
  struct linen_variables *all = &state_of(&b.side)->variables;
  for (struct linen_variable *v = all->first, *next; v; v = next) {
    next = v->next;
    if (piped(v)) ck_ok(linen_variables_delete(all, LINEN_PARAMS, v->path));
  }
  ck_fails(step(&b.side, &b.config), AB_ENOTFOUND, "is not in collection 'params'");
  rig_free(&b.side);
}
END_TEST

START_TEST(a_renamed_path_is_unknown) {
  struct broken b;
  set_up_broken(&b, _i, 1);
  strcat(b.variable->path, "_renamed");
  ck_fails(step(&b.side, &b.config), AB_ENOTFOUND, b.variable->path);
  rig_free(&b.side);
}
END_TEST

/* A variable that the NNX pipeline does not know is never dropped, whatever its collection. */
START_TEST(an_unknown_variable_is_refused_by_its_full_path) {
  static const char *const collections[] = {LINEN_PARAMS, "intermediates", "batch_stats"};
  struct broken b;
  set_up_broken(&b, false, 0);
  struct linen_variable more = *b.variable;
  more.collection = collections[_i];
  snprintf(more.path, sizeof more.path, "decoder/pipeline_module/layers/unknown/kernel");
  b.variable->next = &more;
  ck_fails(step(&b.side, &b.config), AB_ENOTFOUND, more.path);
  more.collection = "intermediates"; /* a path that is known, from elsewhere */
  snprintf(more.path, sizeof more.path, "%s", b.variable->path);
  ck_fails(step(&b.side, &b.config), AB_EMISMATCH, more.path);
  rig_free(&b.side);
}
END_TEST

START_TEST(metadata_must_survive) {
  struct broken b;
  set_up_broken(&b, _i, 0);
  const char *name = b.variable->box.names[0];
  b.variable->box.names[0] = NULL;
  ck_fails(step(&b.side, &b.config), AB_EMISMATCH, "axis 0 of variable 'decoder/pipeline_module/layers/");
  b.variable->box.names[0] = name;
  b.variable->box.value.shape.dim[0]++;
  ck_fails(step(&b.side, &b.config), AB_ESHAPE, b.variable->path);
  b.variable->box.value.shape.dim[0]--;
  b.variable->box.value.dtype = AB_F64;
  ck_fails(step(&b.side, &b.config), AB_EMISMATCH, b.variable->path);
  b.variable->box.value.dtype = AB_F32;
  ck_ok(step(&b.side, &b.config));
  rig_free(&b.side);
}
END_TEST

enum { LEAVES = 64 };

/* As a functional update does: every variable gets values of its own, elsewhere. The old ones turn to NaN. */
static void replace_values(struct rig_side *side, void **owned) {
  int n = 0;
  for (struct linen_variable *v = state_of(side)->variables.first; v; v = v->next) {
    size_t count = ab_view_count(&v->box.value);
    ck_assert_int_lt(n, LEAVES);
    owned[n] = rig_numbers(count, (uint32_t)v->hash, &ab_kernels_f32);
    memset(v->box.value.data, 0xff, count * sizeof(float));
    v->box.value.data = owned[n++];
  }
}

/* The second apply follows the new parameters, in place or elsewhere. */
START_TEST(nothing_of_an_apply_is_stale_in_the_next) {
  struct ab_config config = rig_config(&shapes[_i]);
  const char *const route[] = {"linen", BRIDGED};
  void *owned[2][LEAVES] = {{NULL}};
  struct rig_run before[2], after[2];
  for (int i = 0; i < 2; i++) {
    struct rig_side side;
    open_side(&side, route[i], &config);
    before[i] = rig_pass(&side, &config);
    replace_values(&side, owned[i]);
    after[i] = rig_pass(&side, &config);
    rig_free(&side);
  }
  rig_same_bits(&before[0], &before[1], &config, "before");
  rig_same_bits(&after[0], &after[1], &config, "after");
  ck_assert(before[1].terms.loss != after[1].terms.loss);
  for (int i = 0; i < 2; i++) {
    rig_run_free(&before[i]);
    rig_run_free(&after[i]);
    for (int n = 0; n < LEAVES; n++) ab_mem_free(owned[i][n]);
  }
}
END_TEST

START_TEST(a_vjp_belongs_to_an_apply) {
  struct ab_config config = rig_config(&shapes[0]);
  struct ab_side ops = {.pipeline_ops = side_route(BRIDGED)->pipeline};
  struct rig_side side;
  rig_new(&side, &ops, &ab_kernels_f32, &config, NULL);
  struct rig_run run = rig_pass(&side, &config);
  ck_fails(side.side.pipeline_ops->backward(side.side.pipeline, run.d_inputs, run.outputs), AB_EMISMATCH,
           "without the apply");
  rig_run_free(&run);
  rig_free(&side);
}
END_TEST

/* models.py and create_pipeline: which decoder, and which pipeline in it. */
START_TEST(the_flags_select_the_route) {
  static const struct {
    bool enable_nnx, pure_nnx_decoder, use_nnx_pipeline;
    const char *route;
  } rows[] = {{true, true, false, "nnx"},    {true, true, true, "nnx"},   {false, false, false, "linen"},
              {false, true, false, "linen"}, {false, true, true, BRIDGED}, {false, false, true, BRIDGED}};
  const struct ab_route *route;
  struct ab_config config = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    config.enable_nnx = rows[i].enable_nnx;
    config.pure_nnx_decoder = rows[i].pure_nnx_decoder;
    config.use_nnx_pipeline = rows[i].use_nnx_pipeline;
    ck_ok(ab_route_select(&route, &config));
    ck_assert_str_eq(route->name, rows[i].route);
  }
  config = (struct ab_config){.enable_nnx = true, .use_nnx_pipeline = _i};
  ck_fails(ab_route_select(&route, &config), AB_ECONFIG, "nnx+linen-decoder");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("bridge");
  TCase *tc = tcase_create("bridge");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, a_model_has_the_bits_of_both_native_routes, 0, 2 * SHAPES);
  tcase_add_loop_test(tc, the_pipeline_alone_has_the_bits_of_both_native_routes, 0, SHAPES);
  tcase_add_loop_test(tc, train_steps_are_equal_in_all_that_is_observed, 0, TRAINED);
  tcase_add_loop_test(tc, variables_have_linens_paths_shapes_and_axis_names, 0, SHAPES);
  tcase_add_loop_test(tc, a_dropped_leaf_is_named_by_its_full_path, 0, 18);
  tcase_add_test(tc, a_dropped_collection_is_named);
  tcase_add_loop_test(tc, a_renamed_path_is_unknown, 0, 2);
  tcase_add_loop_test(tc, an_unknown_variable_is_refused_by_its_full_path, 0, 3);
  tcase_add_loop_test(tc, metadata_must_survive, 0, 2);
  tcase_add_loop_test(tc, nothing_of_an_apply_is_stale_in_the_next, 0, 6); /* the trees have one layout */
  tcase_add_test(tc, a_vjp_belongs_to_an_apply);
  tcase_add_loop_test(tc, the_flags_select_the_route, 0, 2);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
