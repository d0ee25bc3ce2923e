/* The runner: any keep set gives the same bits and recomputes exactly the closure; halves, guards, probe. */
#include "observed.h"
#include "rig.h"
#include "upstream.h"

/* Everything one forward and backward leaves behind, as bytes. */
struct result {
  unsigned char *bytes;
  size_t size;
};

static void append(struct result *result, const void *array, size_t bytes) {
  ck_ok(ab_mem_resize(&result->bytes, result->size + bytes, 1));
  memcpy(result->bytes + result->size, array, bytes);
  result->size += bytes;
}

static struct result collect(const struct rig *rig) {
  struct result result = {0};
  size_t element = rig->layer.kernels->element;
  append(&result, rig->y, rig->layer.tokens_count * element);
  append(&result, rig->dx, rig->layer.tokens_count * element);
  for (int i = 0; i < rig->layer.block->param_count; i++)
    append(&result, rig->dparam[i], rig->param_count[i] * element);
  return result;
}

/* Work is filled with NaN in between: nothing may pass from forward to backward but x, saved and offloaded. */
static void spoil_work(struct rig *rig) {
  for (size_t i = 0; i < rig->layer.work_count; i++)
    rig_set(rig->layer.kernels, rig->call.work, i, (double)NAN);
}

static struct result run(const struct ab_block *block, const struct ab_kernels *k, const struct ab_remat *remat,
                         bool halves) {
  struct rig rig = rig_of(block, k, &rig_dims[0], remat);
  rig_bind(&rig);
  ab_layer_forward(&rig.layer, &rig.call);
  spoil_work(&rig);
  if (halves) {
    ab_layer_recompute(&rig.layer, &rig.call);
    ab_layer_backward_input(&rig.layer, &rig.call);
    ab_layer_backward_weight(&rig.layer, &rig.call);
  } else {
    ab_layer_backward(&rig.layer, &rig.call);
  }
  rig_check_guards(&rig);
  struct result result = collect(&rig);
  rig_free(&rig);
  return result;
}

static void check_same(const struct result *want, const struct ab_block *block, const struct ab_kernels *k,
                       struct ab_remat remat, bool halves) {
  struct result got = run(block, k, &remat, halves);
  ck_assert_msg(want->size == got.size && memcmp(want->bytes, got.bytes, want->size) == 0,
                "%s: keep set %#x, of it %#x offloaded, gives other bits", block->name, (unsigned)remat.keep,
                (unsigned)remat.offload);
  ab_mem_free(got.bytes);
}

START_TEST(test_keep_sets_give_same_bits) {
  static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable, &ab_kernels_f64};
  const struct ab_block *block = ab_blocks[_i % RIG_BLOCKS];
  const struct ab_kernels *k = tables[_i / RIG_BLOCKS];
  struct ab_remat full = {.keep = AB_KEEP_NONE};
  struct result want = run(block, k, &full, false);
  for (size_t i = 0; i < want.size / k->element; i++)
    ck_assert_msg(isfinite(rig_get(k, want.bytes, i)), "%s: element %zu is not finite", block->name, i);
  check_same(&want, block, k, (struct ab_remat){.keep = AB_KEEP_ALL}, false);
  check_same(&want, block, k, full, true);
  check_same(&want, block, k, (struct ab_remat){.keep = AB_KEEP_ALL, .offload = AB_KEEP_ALL}, false);
  check_same(&want, block, k, (struct ab_remat){.keep = AB_KEEP_ALL, .offload = 0x55555555u}, true);
  for (int slot = 0; slot < block->slot_count; slot++) {
    ab_keep keep = (ab_keep)1 << slot;
    check_same(&want, block, k, (struct ab_remat){.keep = keep}, slot % 2);
    check_same(&want, block, k, (struct ab_remat){.keep = keep, .offload = keep}, slot % 2);
  }
  ab_mem_free(want.bytes);
}
END_TEST

/* The input half alone gives dx and touches no gradient; the weight half completes it. */
START_TEST(test_input_half_leaves_gradients) {
  struct rig rig = rig_new(ab_blocks[_i], &ab_kernels_f32, &rig_dims[0], AB_KEEP_NONE);
  rig_bind(&rig);
  ab_layer_forward(&rig.layer, &rig.call);
  ab_layer_recompute(&rig.layer, &rig.call);
  ab_layer_backward_input(&rig.layer, &rig.call);
  ck_assert(isfinite(rig_get(&ab_kernels_f32, rig.dx, 0)));
  for (int p = 0; p < ab_blocks[_i]->param_count; p++)
    for (size_t i = 0; i < rig.param_count[p]; i++)
      ck_assert_msg(rig_get(&ab_kernels_f32, rig.dparam[p], i) == 0, "%s: the input half wrote %s",
                    ab_blocks[_i]->name, ab_blocks[_i]->param[p].name);
  rig_free(&rig);
}
END_TEST

/* Independent closure: an operator is needed if one of its outputs is read by a backward part or by a needed operator
 * and is neither kept nor the input; grown until nothing changes. */
static bool slot_wanted(const struct ab_block *block, uint32_t needed, int slot) {
  for (int i = 0; i < block->op_count; i++) {
    const struct ab_op *op = &block->op[i];
    if ((op->input_needs | op->weight_needs) >> slot & 1) return true;
    for (int j = 0; j < 4 && op->in[j] >= 0; j++)
      if (op->in[j] == slot && needed >> i & 1) return true;
  }
  return false;
}

static uint32_t closure(const struct ab_block *block, ab_keep keep) {
  uint32_t needed = 0, before;
  do {
    before = needed;
    for (int i = 0; i < block->op_count; i++)
      for (int j = 0; j < 4 && block->op[i].out[j] >= 0; j++) {
        int slot = block->op[i].out[j];
        bool kept = slot != block->output && keep >> slot & 1;
        if (!kept && slot_wanted(block, needed, slot)) needed |= 1u << i;
      }
  } while (needed != before);
  return needed;
}

/* Counts of one pass and digests of its observations. */
enum { SEEN = 256 };
struct seen {
  int recomputed[AB_MAX_OPS];
  int64_t out[AB_MAX_SLOTS], back[AB_MAX_SLOTS], residual[AB_MAX_SLOTS], host[AB_MAX_SLOTS];
  const struct ab_block *block;
  struct ab_observation observation[SEEN];
  int observations;
};

static ab_status on_observe(void *ctx, const struct ab_observation *observation, const void *values) {
  struct seen *seen = ctx;
  (void)values;
  ck_assert_int_lt(seen->observations, SEEN);
  seen->observation[seen->observations++] = *observation;
  return AB_OK;
}

static void add_if(int64_t *sums, int slot, const struct ab_block *block, const char *prefix, const char *name,
                   int64_t amount) {
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) == 0 && strcmp(name + length, block->slot[slot].name) == 0) sums[slot] += amount;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  struct seen *seen = ctx;
  (void)id;
  (void)at;
  for (int i = 0; i < seen->block->op_count; i++) {
    char want[AB_NAME_MAX];
    snprintf(want, sizeof want, "%s%s", AB_COUNT_RECOMPUTE, seen->block->op[i].name);
    if (strcmp(want, name) == 0) seen->recomputed[i] += (int)amount;
  }
  for (int i = 0; i < seen->block->slot_count; i++) {
    add_if(seen->out, i, seen->block, AB_COUNT_OFFLOAD_OUT, name, amount);
    add_if(seen->back, i, seen->block, AB_COUNT_OFFLOAD_BACK, name, amount);
    add_if(seen->residual, i, seen->block, AB_COUNT_RESIDUAL, name, amount);
    add_if(seen->host, i, seen->block, AB_COUNT_HOST, name, amount);
  }
  return AB_OK;
}

static struct seen *observe_remat(const struct ab_block *block, const struct ab_remat *remat, int microbatches) {
  static const struct ab_probe_ops ops = {on_observe, on_count};
  struct seen *seen;
  struct ab_probe *probe;
  ck_ok(ab_mem_new(&seen, 1, sizeof *seen));
  seen->block = block;
  ck_ok(ab_probe_new(&probe, &ops, seen, AB_LEVEL_DIGEST, 1));
  struct rig rig = rig_of(block, &ab_kernels_f32, &rig_dims[0], remat);
  rig_bind(&rig);
  size_t events = ab_layer_forward_events(&rig.layer) + ab_layer_backward_events(&rig.layer);
  ck_ok(ab_probe_reserve(probe, events * (size_t)microbatches, 0));
  rig.call.recorder = ab_probe_recorder(probe, 0);
  rig.call.microbatches = microbatches;
  ab_layer_forward(&rig.layer, &rig.call);
  ab_layer_count_residuals(&rig.layer, rig.call.recorder, &rig.call.id, &rig.call.at, 1);
  spoil_work(&rig);
  ab_layer_backward(&rig.layer, &rig.call);
  ck_ok(ab_probe_flush(probe));
  rig_free(&rig);
  ab_probe_free(probe);
  return seen;
}

static struct seen *observe_pass(const struct ab_block *block, ab_keep keep, int microbatches) {
  struct ab_remat remat = {.keep = keep};
  return observe_remat(block, &remat, microbatches);
}

static void check_closure(const struct ab_block *block, ab_keep keep) {
  struct seen *seen = observe_pass(block, keep, 1);
  uint32_t want = closure(block, keep);
  for (int i = 0; i < block->op_count; i++)
    ck_assert_msg(seen->recomputed[i] == (int)(want >> i & 1), "%s: keep set %#x recomputed %s %d times", block->name,
                  (unsigned)keep, block->op[i].name, seen->recomputed[i]);
  ab_mem_free(seen);
}

START_TEST(test_recomputes_the_closure) {
  const struct ab_block *block = ab_blocks[_i];
  check_closure(block, AB_KEEP_NONE);
  check_closure(block, AB_KEEP_ALL);
  for (int slot = 0; slot < block->slot_count; slot++) check_closure(block, (ab_keep)1 << slot);
  for (int slot = 0; slot < block->slot_count; slot++) check_closure(block, ~((ab_keep)1 << slot));
  ck_assert_uint_eq(closure(block, AB_KEEP_ALL), 0);
}
END_TEST

static const struct ab_observation *find(const struct seen *seen, const char *tensor, enum ab_phase phase,
                                         int microbatch) {
  const struct ab_observation *found = NULL;
  for (int i = 0; i < seen->observations; i++) {
    const struct ab_observation *o = &seen->observation[i];
    if (o->id.phase != phase || o->id.microbatch != microbatch || strcmp(o->id.tensor, tensor) != 0) continue;
    ck_assert_msg(!found, "%s is reported twice in phase %s", tensor, ab_phase_name(phase));
    found = o;
  }
  return found;
}

/* What a policy keeps is counted where it is, in bytes, moved out and back once if that is the host, and comes back with
 * the digest it had; what backward does not read is not kept. */
static void check_places(const struct ab_block *block, int slot, bool host) {
  ab_keep keep = (ab_keep)1 << slot;
  struct ab_remat remat = {.keep = keep, .offload = host ? keep : 0};
  struct seen *seen = observe_remat(block, &remat, 3);
  struct rig rig = rig_of(block, &ab_kernels_f32, &rig_dims[0], &remat);
  bool kept = (rig.layer.keep | rig.layer.offload) >> slot & 1;
  int64_t bytes = kept ? (int64_t)(block->slot[slot].count(&rig_dims[0]) * sizeof(float)) : 0;
  const char *name = block->slot[slot].name;
  for (int i = 0; i < block->slot_count; i++) {
    int64_t here = i == slot ? bytes : 0;
    ck_assert_msg(seen->residual[i] == (host ? 0 : here) && seen->host[i] == (host ? here : 0), "%s", name);
    ck_assert_msg(seen->out[i] == (host ? here : 0) && seen->back[i] == (host ? here : 0), "%s", name);
  }
  ck_assert_uint_eq(rig.layer.saved_count == 0, host || !kept);
  ck_assert_uint_eq(rig.layer.offloaded_count == 0, !host || !kept);
  for (int m = 0; m < 3 && host && kept && !block->slot[slot].internal; m++) {
    const struct ab_observation *again = find(seen, name, AB_RECOMPUTE, m), *first = find(seen, name, AB_FORWARD, m);
    ck_assert_msg(again && ab_summary_same(&again->summary, &first->summary), "%s: %s came back", block->name, name);
  }
  rig_free(&rig);
  ab_mem_free(seen);
}

START_TEST(test_counts_bytes_where_they_are) {
  const struct ab_block *block = ab_blocks[_i];
  for (int slot = 1; slot < block->slot_count; slot++) {
    check_places(block, slot, false);
    check_places(block, slot, true);
  }
}
END_TEST

/* The output again from x and what was kept, operators counted, those that the output needs and no others. */
START_TEST(test_replay_gives_the_output_again) {
  static const struct ab_remat remats[] = {{.keep = AB_KEEP_NONE}, {.keep = AB_KEEP_ALL}, {.keep = 0xAAAAAAu},
                                           {.keep = AB_KEEP_ALL, .offload = 0x33333333u}};
  const struct ab_block *block = ab_blocks[_i];
  for (size_t i = 0; i < sizeof remats / sizeof remats[0]; i++) {
    struct rig rig = rig_of(block, &ab_kernels_f32, &rig_dims[0], &remats[i]);
    size_t bytes = rig.layer.tokens_count * sizeof(float);
    unsigned char *first = NULL;
    rig_bind(&rig);
    ab_layer_forward(&rig.layer, &rig.call);
    ck_ok(ab_mem_new(&first, bytes, 1));
    memcpy(first, rig.y, bytes);
    memset(rig.y, 0, bytes);
    spoil_work(&rig);
    ab_layer_replay(&rig.layer, &rig.call);
    ck_assert_msg(memcmp(first, rig.y, bytes) == 0, "%s, set %zu", block->name, i);
    ck_assert_uint_ne(rig.layer.replay >> (block->op_count - 1) & 1, 0);
    rig_check_guards(&rig);
    ab_mem_free(first);
    rig_free(&rig);
  }
}
END_TEST

/* Under `full` llama2 recomputes all but its last product and the residual after it; a simple product nothing. */
START_TEST(test_full_recomputes_what_it_must) {
  struct rig rig = rig_new(ab_block_find("llama2"), &ab_kernels_f32, &rig_dims[0], AB_KEEP_NONE);
  for (int i = 0; i < rig.layer.block->op_count; i++) {
    const char *name = rig.layer.block->op[i].name;
    bool idle = strcmp(name, "wo") == 0 || strcmp(name, "mlp_residual") == 0;
    ck_assert_msg((rig.layer.recompute >> i & 1) == !idle, "%s", name);
  }
  ck_assert_uint_eq(rig.layer.saved_count, 0);
  rig_free(&rig);
  rig = rig_new(ab_block_find("simple"), &ab_kernels_f32, &rig_dims[0], AB_KEEP_NONE);
  ck_assert_uint_eq(rig.layer.recompute, 0);
  rig_free(&rig);
}
END_TEST

/* Every slot that is no statistic is reported forward and backward, and a recomputed one with the digest it had. */
START_TEST(test_observes_every_slot) {
  const struct ab_block *block = ab_blocks[_i];
  struct seen *seen = observe_pass(block, AB_KEEP_NONE, 1);
  for (int i = 0; i < block->slot_count; i++) {
    const char *name = block->slot[i].name;
    const struct ab_observation *forward = find(seen, name, AB_FORWARD, 0);
    const struct ab_observation *again = find(seen, name, AB_RECOMPUTE, 0);
    ck_assert_msg(!block->slot[i].internal == (forward != NULL), "%s: forward %s", block->name, name);
    ck_assert_msg(!block->slot[i].internal == (find(seen, name, AB_BACKWARD, 0) != NULL), "%s: backward %s",
                  block->name, name);
    if (again)
      ck_assert_msg(memcmp(again->summary.digest, forward->summary.digest, sizeof again->summary.digest) == 0,
                    "%s: %s was recomputed to other bits", block->name, name);
  }
  ab_mem_free(seen);
}
END_TEST

/* One call over three microbatches reports each under its own number, with its own rows. */
START_TEST(test_observes_microbatches_apart) {
  const struct ab_block *block = ab_blocks[_i];
  int parts = (int)rig_dims[0].rows;
  struct seen *seen = observe_pass(block, AB_KEEP_NONE, parts);
  for (int m = 0; m < parts; m++) {
    const struct ab_observation *o = find(seen, "layer_output", AB_FORWARD, m);
    ck_assert_msg(o && o->shape.dim[0] == 1, "%s: microbatch %d", block->name, m);
    if (m == 0) continue;
    const struct ab_observation *first = find(seen, "layer_output", AB_FORWARD, 0);
    ck_assert(memcmp(first->summary.digest, o->summary.digest, sizeof o->summary.digest) != 0);
  }
  ab_mem_free(seen);
}
END_TEST

static struct ab_remat remat_of(const char *policy, bool checkpointed) {
  struct ab_remat remat;
  ck_ok(ab_remat_fixed(&remat, ab_block_find("llama2"), policy, checkpointed));
  return remat;
}

START_TEST(test_policies) {
  ck_assert_uint_eq(remat_of("full", true).keep, AB_KEEP_NONE);
  ck_assert_uint_eq(remat_of("none", true).keep, AB_KEEP_NONE);
  ck_assert_uint_eq(remat_of("full", false).keep, AB_KEEP_ALL);
  ck_assert_uint_eq(remat_of("none", false).keep, AB_KEEP_ALL);
  ck_assert_uint_eq(remat_of("minimal_offloaded", false).offload, 0);
  static const struct {
    const char *policy;
    int names, offloaded; /* of llama2's slots */
  } rows[] = {{"minimal", 7, 0}, {"save_dot_except_mlpwi", 5, 0}, {"save_dot_except_mlp", 4, 0},
              {"save_qkv_proj", 3, 0}, {"save_out_proj", 1, 0}, {"minimal_with_context", 7, 0},
              {"minimal_offloaded", 7, 7}, {"qkv_proj_offloaded", 3, 3}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct ab_remat remat = remat_of(rows[i].policy, true);
    ck_assert_msg(__builtin_popcount(remat.keep) == rows[i].names, "%s", rows[i].policy);
    ck_assert_msg(__builtin_popcount(remat.offload) == rows[i].offloaded, "%s", rows[i].policy);
  }
  struct ab_remat remat;
  ck_fails(ab_remat_fixed(&remat, ab_block_find("llama2"), "sometimes", true), AB_ECONFIG, "sometimes");
  ab_status_clear();
}
END_TEST

/* Outside the pipeline policy `none` on unscanned layers is the only one that keeps everything. */
START_TEST(test_policies_outside) {
  char none[] = "none", full[] = "full";
  struct ab_config config = {.remat_policy = none, .scan_layers = false};
  struct ab_remat remat;
  ck_ok(ab_remat_outside(&remat, ab_block_find("llama2"), &config));
  ck_assert_uint_eq(remat.keep, AB_KEEP_ALL);
  config.scan_layers = true;
  ck_ok(ab_remat_outside(&remat, ab_block_find("llama2"), &config));
  ck_assert_uint_eq(remat.keep, AB_KEEP_NONE);
  config = (struct ab_config){.remat_policy = full, .scan_layers = false};
  ck_ok(ab_remat_outside(&remat, ab_block_find("llama2"), &config));
  ck_assert_uint_eq(remat.keep, AB_KEEP_NONE);
}
END_TEST

/* Which flags checkpoint what, and what becomes of the inputs of layers. Keys: those of query_proj, mlpwo and
 * decoder_layer_input, d(evice), o(ffload), r(emat). */
static const struct {
  const char *policy, *keys;
  bool iterations, layers, circular, b29;
  int kept, offloaded;
  enum ab_inputs inputs;
} placings[] = {
    {"full", "rrd", true, false, false, false, 0, 0, AB_INPUTS_ONCE},
    {"minimal", "rrr", true, false, false, false, 7, 0, AB_INPUTS_ONCE},
    {"minimal", "rrr", true, true, false, false, 7, 0, AB_INPUTS_ONCE},
    {"minimal", "rrr", false, true, false, false, 7, 0, AB_INPUTS_ONCE},
    {"minimal", "rrr", false, false, true, false, 7, 0, AB_INPUTS_ONCE},
    {"minimal", "rrr", false, false, false, false, 32, 0, AB_INPUTS_ONCE},
    {"full", "rrd", true, false, false, true, 0, 0, AB_INPUTS_TWICE},
    {"full", "rrd", false, true, false, true, 0, 0, AB_INPUTS_ONCE},
    {"full", "rrd", false, false, false, true, 32, 0, AB_INPUTS_ONCE},
    {"custom", "rrd", true, false, false, false, 0, 0, AB_INPUTS_BY_NAME},
    {"custom", "dor", true, false, false, false, 2, 1, AB_INPUTS_RECOMPUTED},
    {"custom", "doo", true, false, false, true, 2, 1, AB_INPUTS_OFFLOADED},
    {"custom", "oor", false, true, false, false, 2, 2, AB_INPUTS_ONCE},
    {"custom", "oor", false, false, true, false, 2, 2, AB_INPUTS_RECOMPUTED},
    {"custom", "oor", false, false, false, false, 32, 0, AB_INPUTS_ONCE},
};

START_TEST(test_policies_inside) {
  static const char *const keys[] = {"query_proj", "mlpwo", "decoder_layer_input"};
  char text[3][64];
  const char *override[3];
  struct ab_config *config;
  for (int i = 0; i < 3; i++) {
    const char *place = placings[_i].keys[i] == 'd' ? "device" : placings[_i].keys[i] == 'o' ? "offload" : "remat";
    snprintf(text[i], sizeof text[i], "%s=%s", keys[i], place);
    override[i] = text[i];
  }
  struct ab_config_request request = {.overrides = override, .override_count = 3, .ignore_environment = true};
  ck_ok(ab_config_load(&config, &request));
  struct ab_config changed = *config;
  char policy[64];
  snprintf(policy, sizeof policy, "%s", placings[_i].policy);
  changed.remat_policy = policy;
  changed.set_remat_policy_on_pipeline_iterations = placings[_i].iterations;
  changed.set_remat_policy_on_layers_per_stage = placings[_i].layers;
  changed.pipeline_fsdp_ag_per_repeat = placings[_i].circular;
  changed.upstream_faithful = placings[_i].b29 ? UINT32_C(1) << AB_DEFECT_B29 : 0;
  struct ab_remat remat;
  ck_ok(ab_remat_pipeline(&remat, ab_block_find("llama2"), &changed));
  ck_assert_int_eq(__builtin_popcount(remat.keep), placings[_i].kept);
  ck_assert_int_eq(__builtin_popcount(remat.offload), placings[_i].offloaded);
  ck_assert_int_eq((int)remat.inputs, (int)placings[_i].inputs);
  ck_ok(ab_remat_pipeline(&remat, ab_block_find("simple"), &changed));
  ck_assert_int_eq((int)remat.inputs, AB_INPUTS_ONCE); /* no name to keep */
  ab_config_free(config);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("layer");
  TCase *tc = tcase_create("layer");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_keep_sets_give_same_bits, 0, 3 * RIG_BLOCKS);
  tcase_add_loop_test(tc, test_input_half_leaves_gradients, 0, RIG_BLOCKS);
  tcase_add_loop_test(tc, test_recomputes_the_closure, 0, RIG_BLOCKS);
  tcase_add_loop_test(tc, test_counts_bytes_where_they_are, 0, RIG_BLOCKS);
  tcase_add_loop_test(tc, test_replay_gives_the_output_again, 0, RIG_BLOCKS);
  tcase_add_test(tc, test_full_recomputes_what_it_must);
  tcase_add_loop_test(tc, test_observes_every_slot, 0, RIG_BLOCKS);
  tcase_add_loop_test(tc, test_observes_microbatches_apart, 0, RIG_BLOCKS);
  tcase_add_test(tc, test_policies);
  tcase_add_test(tc, test_policies_outside);
  tcase_add_loop_test(tc, test_policies_inside, 0, sizeof placings / sizeof placings[0]);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
