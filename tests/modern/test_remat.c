/* What stays from forward to backward under every remat policy, what is computed again, and that neither changes a bit. */
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "nnx.h"
#include "nnx_model.h"
#include "observed.h"
#include "rig.h"
#include "tap.h"
#include "upstream.h"

static char full[] = "full", none[] = "none", minimal[] = "minimal", custom[] = "custom";
static char minimal_offloaded[] = "minimal_offloaded";

static const struct shape {
  int s, m, r, k;
  bool scanned, once, circular, unrolled;
} shapes[] = {{.s = 2, .m = 4, .r = 2, .k = 1},
              {.s = 2, .m = 2, .r = 1, .k = 3},
              {.s = 3, .m = 3, .r = 2, .k = 2, .scanned = true, .unrolled = true},
              {.s = 3, .m = 6, .r = 2, .k = 1, .once = true},
              {.s = 2, .m = 4, .r = 3, .k = 1, .circular = true}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct ab_config shape_config(int i) {
  const struct shape *shape = &shapes[i];
  struct ab_config config = rig_config(shape->s, shape->m, shape->r, shape->k, 1);
  config.scan_layers_per_stage = shape->scanned;
  config.scan_pipeline_iterations = !shape->unrolled;
  config.pipeline_fsdp_ag_once = shape->once;
  config.pipeline_fsdp_ag_per_repeat = shape->circular;
  return config;
}

/* The names a layer has, and the operators that their absence costs. */
static const struct {
  const char *slot, *op[2];
} names[] = {{"query_proj", {"query", "rope_query"}}, {"key_proj", {"key", "rope_key"}}, {"value_proj", {"value", NULL}},
             {"out_proj", {"out", NULL}},             {"mlpwi_0", {"wi_0", NULL}},       {"mlpwi_1", {"wi_1", NULL}}};
enum { NAMES = sizeof names / sizeof *names };

/* Which of `names` a policy keeps, in their order. */
static const struct {
  char policy[40];
  bool keeps[NAMES], offloads;
} policies[] = {{"full", {0}, false},
                {"none", {0}, false},
                {"minimal", {1, 1, 1, 1, 1, 1}, false},
                {"minimal_offloaded", {1, 1, 1, 1, 1, 1}, true},
                {"minimal_with_context", {1, 1, 1, 1, 1, 1}, false},
                {"minimal_flash", {1, 1, 1, 1, 1, 1}, false},
                {"minimal_with_quantization", {1, 1, 1, 1, 1, 1}, false},
                {"minimal_with_context_and_quantization", {1, 1, 1, 1, 1, 1}, false},
                {"save_dot_with_context_except_mlp", {1, 1, 1, 1, 0, 0}, false},
                {"save_dot_except_mlpwi", {1, 1, 1, 1, 0, 0}, false},
                {"save_dot_except_mlp", {1, 1, 1, 1, 0, 0}, false},
                {"save_qkv_proj", {1, 1, 1, 0, 0, 0}, false},
                {"qkv_proj_offloaded", {1, 1, 1, 0, 0, 0}, true},
                {"save_out_proj", {0, 0, 0, 1, 0, 0}, false}};
enum { POLICIES = sizeof policies / sizeof *policies, PLACES = 3, CUSTOM = 9 };

static void set_policy(struct ab_config *config, int i) {
  static char text[40];
  memcpy(text, policies[i].policy, sizeof text);
  config->remat_policy = text;
}

/* remat_policy custom with one tensor's key. */
static void set_place(struct ab_config *config, const char *name, enum ab_tensor_remat place) {
  struct ab_config probe = {0};
  for (uint32_t bit = 1; bit; bit <<= 1) {
    probe.remat_device = bit;
    if (ab_config_tensor_remat(&probe, name) != AB_TENSOR_DEVICE) continue;
    if (place == AB_TENSOR_DEVICE) config->remat_device |= bit;
    if (place == AB_TENSOR_OFFLOAD) config->remat_offload |= bit;
    return;
  }
  ck_abort_msg("no key '%s'", name);
}

/* A mix of the three places; each of them for the inputs of layers. */
static void set_custom(struct ab_config *config, int mix) {
  unsigned state = 77u * (unsigned)mix + 5;
  config->remat_policy = custom;
  set_place(config, "decoder_layer_input", (enum ab_tensor_remat)(mix % PLACES));
  for (int i = 0; i < NAMES; i++) {
    state = state * 1103515245u + 12345u;
    set_place(config, names[i].slot, (enum ab_tensor_remat)(state >> 16) % PLACES);
  }
  set_place(config, "mlpwo", (enum ab_tensor_remat)(state >> 20) % PLACES);
}

/* Both flags, and the defects. */
static void set_flags(struct ab_config *config, int flags) {
  config->set_remat_policy_on_pipeline_iterations = flags & 1;
  config->set_remat_policy_on_layers_per_stage = flags & 2;
  config->upstream_faithful = flags & 4 ? 1u << AB_DEFECT_B13 | 1u << AB_DEFECT_B15 | 1u << AB_DEFECT_B29 : 0;
}
enum { FLAGS = 8 };

/* What a run counts by name; forward observations, to which recomputed ones are compared. */
enum { COUNTERS = 64, SEEN = 2048 };
struct tally {
  int counters, seen, recomputed, at; /* at: where the last recomputed tensor was found */
  struct {
    char name[AB_NAME_MAX];
    int64_t total, calls;
  } counter[COUNTERS];
  struct ab_observation forward[SEEN];
};

static bool same_place(const struct ab_observation *a, const struct ab_observation *b) {
  return a->at.iteration == b->at.iteration && a->at.stage == b->at.stage && a->id.layer == b->id.layer &&
         strcmp(a->id.tensor, b->id.tensor) == 0;
}

static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct tally *tally = ctx;
  (void)values;
  if (o->id.phase == AB_FORWARD && o->id.layer >= 0) {
    ck_assert_int_lt(tally->seen, SEEN);
    tally->forward[tally->seen++] = *o;
  }
  if (o->id.phase != AB_RECOMPUTE) return AB_OK;
  tally->recomputed++;
  for (int i = 0; i < tally->seen; i++, tally->at = (tally->at + 1) % tally->seen) {
    const struct ab_observation *forward = &tally->forward[tally->at];
    if (same_place(forward, o) && ab_summary_same(&forward->summary, &o->summary)) return AB_OK;
  }
  return AB_FAIL(AB_EMISMATCH, "'%s' of layer %d is not what forward had", o->id.tensor, o->id.layer);
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  struct tally *tally = ctx;
  int i = 0;
  (void)id;
  (void)at;
  while (i < tally->counters && strcmp(tally->counter[i].name, name) != 0) i++;
  ck_assert_int_lt(i, COUNTERS);
  if (i == tally->counters) snprintf(tally->counter[tally->counters++].name, AB_NAME_MAX, "%s", name);
  tally->counter[i].total += amount;
  tally->counter[i].calls++;
  return AB_OK;
}

static const struct ab_probe_ops counting = {on_observe, on_count};

static struct rig_result run(const struct ab_config *config, enum ab_level level, struct tally *tally) {
  struct ab_probe *probe;
  *tally = (struct tally){0};
  ck_ok(ab_probe_new(&probe, &counting, tally, level, (int)config->num_stages));
  struct rig_result result = rig_run(&nnx_pipeline_ops, &ab_kernels_f32, config, probe);
  ab_probe_free(probe);
  return result;
}

static struct tally *count(const struct ab_config *config) {
  static struct tally tally;
  ab_mem_free(run(config, AB_LEVEL_OFF, &tally).values);
  return &tally;
}

static int64_t total(const struct tally *tally, const char *prefix, const char *name) {
  char whole[AB_NAME_MAX];
  snprintf(whole, sizeof whole, "%s%s", prefix, name);
  for (int i = 0; i < tally->counters; i++)
    if (strcmp(tally->counter[i].name, whole) == 0) return tally->counter[i].total;
  return 0;
}

static int64_t sum(const struct tally *tally, const char *prefix) {
  int64_t all = 0;
  for (int i = 0; i < tally->counters; i++)
    if (strncmp(tally->counter[i].name, prefix, strlen(prefix)) == 0) all += tally->counter[i].total;
  return all;
}

/* Sizes in bytes: one activation, weights of a stage and repeat; cells of all iterations, and real ones. */
struct sizes {
  int64_t activation, weights, cells, real, layers;
};

static struct sizes sizes_of(const struct ab_config *c) {
  const struct ab_block *block = ab_block_find(c->decoder_block);
  struct ab_layer_dims dims = ab_layer_dims_of(c, 2);
  struct sizes sizes = {.layers = c->num_layers_per_pipeline_stage};
  for (int i = 0; i < block->param_count; i++) sizes.weights += 4 * (int64_t)ab_param_count(&block->param[i], &dims);
  sizes.weights *= sizes.layers;
  sizes.activation = 2 * c->max_target_length * c->emb_dim * 4;
  sizes.cells = ab_total_iterations(c) * c->num_stages;
  sizes.real = c->num_pipeline_microbatches * c->num_pipeline_repeats * c->num_stages;
  return sizes;
}

/* pipelines.md 11: T rows L (2 E + H D + 2 kv D + 2 mlp) floats; without its input. */
static int64_t minimal_slots(const struct ab_config *c) {
  int64_t width = c->emb_dim + (c->num_query_heads + 2 * c->num_kv_heads) * c->head_dim + 2 * c->mlp_dim;
  return 2 * c->max_target_length * width * 4;
}

static int64_t weights_kept(const struct tally *tally) {
  return total(tally, "", AB_COUNT_WEIGHTS) + total(tally, "", AB_COUNT_W_CURR) + total(tally, "", AB_COUNT_W_NEXT);
}

static void check_bits(const struct ab_config *config, const struct rig_result *expected, struct rig_result found) {
  ck_assert_uint_eq(found.count, expected->count);
  for (size_t i = 0; i < found.count; i++)
    ck_assert_msg(((const float *)found.values)[i] == ((const float *)expected->values)[i], "%s: value %zu differs",
                  config->remat_policy, i);
  ab_mem_free(found.values);
}

START_TEST(test_policies_keep_bits) {
  static struct tally tally;
  struct ab_config plain = shape_config(_i);
  struct rig_result expected = rig_run(&nnx_pipeline_ops, &ab_kernels_f32, &plain, NULL);
  for (int i = 0; i < POLICIES + CUSTOM; i++) {
    struct ab_config config = plain;
    if (i < POLICIES) set_policy(&config, i);
    else set_custom(&config, i - POLICIES);
    set_flags(&config, 1);
    check_bits(&config, &expected, run(&config, AB_LEVEL_DIGEST, &tally));
    ck_assert_int_gt(tally.recomputed, 0);
  }
  ab_mem_free(expected.values);
}
END_TEST

START_TEST(test_flags_keep_bits) {
  static struct tally tally;
  struct ab_config plain = shape_config(_i);
  struct rig_result expected = rig_run(&nnx_pipeline_ops, &ab_kernels_f32, &plain, NULL);
  for (int i = 0; i < 3 * FLAGS; i++) {
    struct ab_config config = plain;
    if (i / FLAGS < 2) set_policy(&config, 2 + i / FLAGS); /* minimal, minimal_offloaded */
    else set_custom(&config, i / FLAGS);
    set_flags(&config, i % FLAGS);
    check_bits(&config, &expected, run(&config, AB_LEVEL_DIGEST, &tally));
  }
  ab_mem_free(expected.values);
}
END_TEST

/* An operator runs again exactly where no name keeps what it computes. */
START_TEST(test_kept_is_not_recomputed) {
  static const char *const always[] = {"pre_norm", "rope_table", "attention", "attention_residual", "post_norm",
                                       "swiglu"};
  static const char *const never[] = {"wo", "mlp_residual"};
  struct ab_config config = shape_config(_i < POLICIES ? 1 : SHAPES - 1); /* K 3; circular */
  int policy = _i % POLICIES;
  set_policy(&config, policy);
  struct sizes sizes = sizes_of(&config);
  const struct tally *tally = count(&config);
  for (size_t i = 0; i < sizeof always / sizeof *always; i++)
    ck_assert_int_eq(total(tally, AB_COUNT_RECOMPUTE, always[i]), sizes.real * sizes.layers);
  for (int i = 0; i < 2; i++) ck_assert_int_eq(total(tally, AB_COUNT_RECOMPUTE, never[i]), 0);
  for (int i = 0; i < NAMES; i++) {
    for (int j = 0; j < 2 && names[i].op[j]; j++)
      ck_assert_msg(total(tally, AB_COUNT_RECOMPUTE, names[i].op[j]) ==
                        (policies[policy].keeps[i] ? 0 : sizes.real * sizes.layers),
                    "%s: %s ran again %lld times", config.remat_policy, names[i].op[j],
                    (long long)total(tally, AB_COUNT_RECOMPUTE, names[i].op[j]));
    bool device = policies[policy].keeps[i] && !policies[policy].offloads;
    ck_assert_int_eq(total(tally, AB_COUNT_RESIDUAL, names[i].slot) > 0, device);
    ck_assert_int_eq(total(tally, AB_COUNT_HOST, names[i].slot) > 0, policies[policy].keeps[i] && !device);
  }
}
END_TEST

/* `full` keeps T K A of a stage; `minimal` adds its slots; bubbles count, whether they run or not. */
START_TEST(test_closed_forms) {
  for (int computing = 0; computing < 2; computing++) {
    struct ab_config config = shape_config(_i);
    struct sizes sizes = sizes_of(&config);
    config.compute_bubbles = computing;
    const struct tally *tally = count(&config);
    int64_t inputs = sizes.cells * sizes.layers * sizes.activation;
    ck_assert_int_eq(total(tally, "", AB_COUNT_ITERATION_INPUT), sizes.cells * sizes.activation);
    ck_assert_int_eq(sum(tally, AB_COUNT_RESIDUAL) - weights_kept(tally), inputs);
    config.remat_policy = minimal;
    tally = count(&config);
    ck_assert_int_eq(sum(tally, AB_COUNT_RESIDUAL) - weights_kept(tally),
                     inputs + sizes.cells * sizes.layers * minimal_slots(&config));
    ck_assert_int_eq(sum(tally, AB_COUNT_HOST), 0);
  }
}
END_TEST

/* Per cell without remat; once with ag_once; carried and prefetched buffers of windows. */
START_TEST(test_weights) {
  for (int flags = 0; flags < FLAGS; flags++) {
    struct ab_config config = shape_config(_i);
    struct sizes sizes = sizes_of(&config);
    const struct shape *shape = &shapes[_i];
    int64_t repeats = shape->s * shape->r * sizes.weights, cells = flags & 1 || shape->r == 1 ? 0 : sizes.cells;
    set_flags(&config, flags);
    const struct tally *tally = count(&config);
    ck_assert_int_eq(total(tally, "", AB_COUNT_WEIGHTS),
                     shape->circular ? 0 : shape->once ? repeats : cells * sizes.weights);
    ck_assert_int_eq(total(tally, "", AB_COUNT_W_CURR), shape->circular ? repeats : 0);
    bool windows_stay = shape->circular && flags & 4 && !(flags & 1); /* B13 */
    ck_assert_int_eq(total(tally, "", AB_COUNT_W_NEXT), windows_stay ? repeats : 0);
  }
}
END_TEST

/* Offloaded names are on the host, and nowhere else: out in forward, back in backward. */
START_TEST(test_offload) {
  struct ab_config config = shape_config(_i);
  struct sizes sizes = sizes_of(&config);
  config.remat_policy = minimal_offloaded;
  const struct tally *tally = count(&config);
  int64_t slots = minimal_slots(&config) * sizes.layers;
  ck_assert_int_eq(sum(tally, AB_COUNT_HOST), sizes.cells * slots);
  ck_assert_int_eq(sum(tally, AB_COUNT_RESIDUAL) - weights_kept(tally), sizes.cells * sizes.layers * sizes.activation);
  ck_assert_int_eq(sum(tally, AB_COUNT_OFFLOAD_OUT), sizes.real * slots);
  ck_assert_int_eq(sum(tally, AB_COUNT_OFFLOAD_BACK), sizes.real * slots);
}
END_TEST

/* custom, alone with the inputs of layers: kept by their name, on the host, or computed again from the stage's. */
START_TEST(test_layer_inputs) {
  struct ab_config config = shape_config(_i);
  struct sizes sizes = sizes_of(&config);
  int64_t stage = sizes.cells * sizes.activation, all = stage * sizes.layers;
  int64_t moved = sizes.real * sizes.activation * sizes.layers, wo = sizes.real * (sizes.layers - 1);
  const int64_t expected[PLACES][5] = {[AB_TENSOR_REMAT] = {stage, 0, 0, 0, wo},
                                       [AB_TENSOR_DEVICE] = {0, all, 0, 0, 0},
                                       [AB_TENSOR_OFFLOAD] = {0, 0, all, moved, 0}};
  for (int place = 0; place < PLACES; place++) {
    struct ab_config placed = config;
    placed.remat_policy = custom;
    set_place(&placed, "decoder_layer_input", (enum ab_tensor_remat)place);
    const struct tally *tally = count(&placed);
    ck_assert_int_eq(total(tally, "", AB_COUNT_ITERATION_INPUT), expected[place][0]);
    ck_assert_int_eq(total(tally, "", AB_COUNT_LAYER_INPUT), expected[place][1]);
    ck_assert_int_eq(total(tally, "", AB_COUNT_HOST_LAYER_INPUT), expected[place][2]);
    ck_assert_int_eq(total(tally, "", AB_COUNT_LAYER_INPUT_OUT), expected[place][3]);
    ck_assert_int_eq(total(tally, "", AB_COUNT_LAYER_INPUT_BACK), expected[place][3]);
    ck_assert_int_eq(total(tally, AB_COUNT_RECOMPUTE, "wo"), expected[place][4]);
  }
}
END_TEST

/* Where the host has a tensor, the device's memory does not. */
START_TEST(test_host_memory_is_apart) {
  struct ab_config config = shape_config(_i);
  struct rig rig;
  config.remat_policy = custom;
  set_place(&config, "decoder_layer_input", AB_TENSOR_OFFLOAD);
  set_place(&config, "query_proj", AB_TENSOR_OFFLOAD);
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, &config, NULL);
  ck_ok(rig_forward(&rig));
  const struct nnx_pipeline *p = rig.s.side.pipeline->pipeline;
  const struct nnx_stack_residual *cell = &p->iteration[0].cell[0]; /* a real one */
  ck_assert_ptr_nonnull(cell->host_input);
  ck_assert_ptr_nonnull(cell->offloaded[0]);
  ck_assert_ptr_null(cell->saved[0]);
  ck_assert_ptr_null(cell->layer_input);
  ck_assert_ptr_eq(p->iteration[0].iteration_input, p->iteration[1].iteration_input);
  rig_free(&rig);
}
END_TEST

/* Activations by memory space, and operators that ran again. */
struct kept {
  int64_t device, host, recomputed;
};

static struct kept kept_of(const struct ab_config *config) {
  const struct tally *tally = count(config);
  return (struct kept){.device = sum(tally, AB_COUNT_RESIDUAL) - weights_kept(tally),
                       .host = sum(tally, AB_COUNT_HOST),
                       .recomputed = sum(tally, AB_COUNT_RECOMPUTE)};
}

/* B15: the flag of layers, without remat of iterations. By default every layer is a checkpoint of its own. */
START_TEST(test_layers_of_a_stage) {
  char *const asked[] = {full, minimal, minimal_offloaded};
  for (int i = 0; i < 3; i++) {
    struct ab_config on = shape_config(_i);
    on.remat_policy = asked[i];
    struct ab_config layers = on, faithful = on, off = on;
    set_flags(&layers, 2);
    set_flags(&faithful, 2);
    faithful.upstream_faithful = 1u << AB_DEFECT_B15;
    set_flags(&off, 0);
    struct kept a = kept_of(&on), b = kept_of(&layers), c = kept_of(&faithful), d = kept_of(&off);
    ck_assert_int_gt(a.recomputed, 0);
    ck_assert_int_eq(d.recomputed, shapes[_i].circular ? a.recomputed : 0); /* iterations of windows always are */
    ck_assert(b.recomputed == a.recomputed && b.host == a.host && b.device == a.device);
    ck_assert(c.recomputed == d.recomputed && c.host == d.host && c.device == d.device);
  }
}
END_TEST

static size_t step_memory(const struct ab_config *config) {
  struct rig rig;
  rig_new(&rig, &nnx_pipeline_ops, &ab_kernels_f32, config, NULL);
  size_t bytes = rig.s.arena.size;
  rig_free(&rig);
  return bytes;
}

static size_t rounded(int64_t bytes) { return ((size_t)bytes + AB_ALIGN - 1) / AB_ALIGN * AB_ALIGN; }

/* B29: both names, and memory for both. */
START_TEST(test_input_kept_twice) {
  struct ab_config once = shape_config(_i), twice;
  struct sizes sizes = sizes_of(&once);
  once.compute_bubbles = true;
  twice = once;
  twice.upstream_faithful = 1u << AB_DEFECT_B29;
  int64_t stage = sizes.cells * sizes.activation;
  const struct tally *tally = count(&twice);
  ck_assert_int_eq(total(tally, "", AB_COUNT_ITERATION_INPUT), stage);
  ck_assert_int_eq(total(tally, "", AB_COUNT_LAYER_INPUT), stage * sizes.layers);
  size_t more = rounded(sizes.activation * sizes.layers) - rounded(sizes.activation * (sizes.layers - 1));
  ck_assert_uint_eq(step_memory(&twice) - step_memory(&once), (size_t)sizes.cells * more);
  twice.remat_policy = none;
  tally = count(&twice);
  ck_assert_int_eq(total(tally, "", AB_COUNT_LAYER_INPUT), stage * sizes.layers);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_remat");
  TCase *tc = tcase_create("remat");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, test_policies_keep_bits, 0, SHAPES);
  tcase_add_loop_test(tc, test_flags_keep_bits, 0, SHAPES);
  tcase_add_loop_test(tc, test_kept_is_not_recomputed, 0, 2 * POLICIES);
  tcase_add_loop_test(tc, test_closed_forms, 0, SHAPES);
  tcase_add_loop_test(tc, test_weights, 0, SHAPES);
  tcase_add_loop_test(tc, test_offload, 0, SHAPES);
  tcase_add_loop_test(tc, test_layer_inputs, 0, SHAPES);
  tcase_add_loop_test(tc, test_host_memory_is_apart, 0, SHAPES);
  tcase_add_loop_test(tc, test_layers_of_a_stage, 0, SHAPES);
  tcase_add_loop_test(tc, test_input_kept_twice, 0, SHAPES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
