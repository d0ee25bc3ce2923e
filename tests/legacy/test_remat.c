/* What Pipeline and CircularPipeline keep from forward to backward under every policy: the same bits, the bytes of the
 * closed forms (common/blocks/observed.h), and operators that are computed again only where nothing was kept. Numbers
 * here are worked out from the schedule, not by the code that plans a layer.
 */
#include <string.h>

#include "capture.h"
#include "linen.h"
#include "observed.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"
#include "upstream.h"

static const struct rig_shape shapes[] = {
    {.stages = 2, .microbatches = 4, .repeats = 1, .layers_per_stage = 1},
    {.stages = 2, .microbatches = 4, .repeats = 2, .layers_per_stage = 2},
    {.stages = 3, .microbatches = 6, .repeats = 1, .layers_per_stage = 3, .scanned_stage = true, .outside = 2},
    {.stages = 3, .microbatches = 6, .repeats = 2, .layers_per_stage = 1, .delay = true},
    {.stages = 3, .microbatches = 3, .repeats = 2, .layers_per_stage = 2, .block = "simple_mlp"},
    {.stages = 4, .microbatches = 4, .repeats = 2, .layers_per_stage = 1, .circular = true, .outside = 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* What is kept of llama2's names, per token and layer, in floats of these sizes (E 8, H D 8, kv D 4, mlp 12). */
enum { EMB = 8, QUERY = 8, KEY = 4, VALUE = 4, OUT = 8, WI = 12, QKV = QUERY + KEY + VALUE, MINIMAL = QKV + OUT + 2 * WI };

static char names[][48] = {
    "none", "full", "minimal", "minimal_offloaded", "minimal_with_context", "minimal_flash", "minimal_with_quantization",
    "minimal_with_context_and_quantization", "save_dot_with_context_except_mlp", "save_dot_except_mlpwi",
    "save_dot_except_mlp", "save_qkv_proj", "qkv_proj_offloaded", "save_out_proj", "custom"};

/* Inputs of layers by name, in activations: of K layers those of the first and of the others. */
struct inputs {
  int iteration, first, others, host;
};
static const struct row {
  int policy;                 /* of names */
  const char *device, *offload; /* custom: names between blanks; decoder_layer_input is `remat` if in neither */
  int kept, hosted;           /* floats per token and layer */
  struct inputs inputs;
} rows[] = {
    {0, "", "", 0, 0, {1, 0, 1, 0}},
    {1, "", "", 0, 0, {1, 0, 1, 0}},
    {2, "", "", MINIMAL, 0, {1, 0, 1, 0}},
    {3, "", "", 0, MINIMAL, {1, 0, 1, 0}},
    {4, "", "", MINIMAL, 0, {1, 0, 1, 0}},
    {5, "", "", MINIMAL, 0, {1, 0, 1, 0}},
    {6, "", "", MINIMAL, 0, {1, 0, 1, 0}},
    {7, "", "", MINIMAL, 0, {1, 0, 1, 0}},
    {8, "", "", QKV + OUT, 0, {1, 0, 1, 0}},
    {9, "", "", QKV + OUT, 0, {1, 0, 1, 0}}, /* nothing of backward reads mlpwo */
    {10, "", "", QKV + OUT, 0, {1, 0, 1, 0}},
    {11, "", "", QKV, 0, {1, 0, 1, 0}},
    {12, "", "", 0, QKV, {1, 0, 1, 0}},
    {13, "", "", OUT, 0, {1, 0, 1, 0}},
    {14, " decoder_layer_input ", "", 0, 0, {0, 1, 1, 0}},
    {14, " decoder_layer_input query_proj ", " mlpwi_0 out_proj ", QUERY, WI + OUT, {0, 1, 1, 0}},
    {14, " key_proj mlpwi_1 ", " decoder_layer_input value_proj mlpwi_0 ", KEY + WI, VALUE + WI, {0, 0, 0, 1}},
    {14, " query_proj mlpwo ", " key_proj ", QUERY, KEY, {1, 0, 0, 0}},
    {14, "", "", 0, 0, {1, 0, 0, 0}},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool lists(const char *list, const char *name) {
  char between[64];
  snprintf(between, sizeof between, " %s ", name);
  return strstr(list, between) != NULL;
}

/* The bit of the config that belongs to a name: the table of names is the config's own. */
static uint32_t bit_of(const char *name) {
  struct ab_config probe = {.remat_device = 1};
  while (probe.remat_device && ab_config_tensor_remat(&probe, name) != AB_TENSOR_DEVICE) probe.remat_device <<= 1;
  ck_assert_msg(probe.remat_device != 0, "%s has no key", name);
  return probe.remat_device;
}

static void set_row(struct ab_config *config, const struct row *row) {
  static const char *const tensors[] = {"decoder_layer_input", "query_proj", "key_proj", "value_proj", "out_proj",
                                        "mlpwi_0", "mlpwi_1", "mlpwo"};
  config->remat_policy = names[row->policy];
  config->remat_device = config->remat_offload = 0;
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
    if (lists(row->device, tensors[i])) config->remat_device |= bit_of(tensors[i]);
    if (lists(row->offload, tensors[i])) config->remat_offload |= bit_of(tensors[i]);
  }
}

static bool is_llama2(const struct ab_config *config) { return !strcmp(config->decoder_block, "llama2"); }

START_TEST(every_policy_gives_the_same_bits) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct rig_run base = rig_run_model(&linen_model_ops, &ab_kernels_f32, &config, NULL);
  struct rig_run oracle = rig_run_model(&ab_oracle_model_ops, &ab_kernels_f32, &config, NULL);
  rig_same_bits(&base, &oracle, &config, "oracle");
  for (int i = 0; i < ROWS; i++) {
    struct ab_config other = config;
    int turn = i + _i; /* each policy meets each switch on some shape */
    set_row(&other, &rows[i]);
    other.set_remat_policy_on_pipeline_iterations = turn % 4 < 2;
    other.set_remat_policy_on_layers_per_stage = turn % 2;
    other.scan_pipeline_iterations = turn % 3 > 0;
    other.compute_bubbles = turn % 5 == 0;
    if (turn % 4 == 0) other.upstream_faithful = UINT32_C(1) << AB_DEFECT_B29;
    struct rig_run run = rig_run_model(&linen_model_ops, &ab_kernels_f32, &other, NULL);
    rig_same_bits(&run, &base, &config, other.remat_policy);
    rig_run_free(&run);
    if (turn % 4) continue;
    run = rig_run_model(&ab_oracle_model_ops, &ab_kernels_f32, &other, NULL);
    rig_same_bits(&run, &oracle, &config, other.remat_policy);
    rig_run_free(&run);
  }
  rig_run_free(&base);
  rig_run_free(&oracle);
}
END_TEST

static void observe(struct capture *capture, const struct ab_config *config) {
  capture_new(capture, AB_LEVEL_DIGEST, (int)config->num_stages, "\n");
  struct rig_run run = rig_run_pipeline(&linen_pipeline_ops, &ab_kernels_f32, config, capture->probe);
  rig_run_free(&run);
}

/* All counters that begin so. */
static int64_t sum_of(const struct capture *capture, const char *prefix) {
  int64_t sum = 0;
  for (size_t i = 0; i < capture->counters; i++)
    if (strncmp(capture->counter[i].name, prefix, strlen(prefix)) == 0) sum += capture->counter[i].amount;
  return sum;
}

/* Of a schedule: all cells, cells that run, bytes of a token's float over a microbatch. */
struct numbers {
  int64_t cells, run, k, token;
};
static struct numbers numbers_of(const struct ab_config *c) {
  int64_t real = c->num_stages * c->num_pipeline_microbatches * c->num_pipeline_repeats;
  struct numbers n = {.cells = c->num_stages * ab_total_iterations(c), .k = c->num_layers_per_pipeline_stage};
  n.run = c->compute_bubbles ? n.cells : real;
  n.token = c->micro_batch_size_to_train_on / c->num_pipeline_microbatches * c->max_target_length * (int64_t)sizeof(float);
  return n;
}

static void expect_total(const struct capture *capture, const char *name, int64_t expected,
                         const struct ab_config *config) {
  int64_t found = capture_total(capture, name);
  ck_assert_msg(found == expected, "%s, %s: %s is %lld, expected %lld", rig_name(config), config->remat_policy, name,
                (long long)found, (long long)expected);
}

static void check_inputs(const struct capture *capture, const struct ab_config *config, struct inputs in) {
  struct numbers n = numbers_of(config);
  int64_t a = n.token * EMB;
  expect_total(capture, "residual/iteration_input", n.cells * in.iteration * a, config);
  expect_total(capture, "residual/decoder_layer_input", n.cells * (in.first + (n.k - 1) * in.others) * a, config);
  expect_total(capture, "host/decoder_layer_input", n.cells * in.host * n.k * a, config);
  expect_total(capture, "offload/out/decoder_layer_input", n.run * in.host * n.k * a, config);
  expect_total(capture, "offload/back/decoder_layer_input", n.run * in.host * n.k * a, config);
}

/* Slots of layers: everything that is not the input of one, and no weights. */
static void check_slots(const struct capture *capture, const struct ab_config *config, const struct row *row) {
  static const char *const apart[] = {"iteration_input", "decoder_layer_input", "weights", "w_curr"};
  struct numbers n = numbers_of(config);
  int64_t device = sum_of(capture, "residual/"), host = sum_of(capture, "host/") -
                   capture_total(capture, "host/decoder_layer_input");
  for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
    char name[64];
    snprintf(name, sizeof name, "residual/%s", apart[i]);
    device -= capture_total(capture, name);
  }
  ck_assert_msg(device == n.cells * n.k * n.token * row->kept, "%s, %s: %lld bytes of slots, expected %lld",
                rig_name(config), config->remat_policy, (long long)device,
                (long long)(n.cells * n.k * n.token * row->kept));
  ck_assert_int_eq(host, n.cells * n.k * n.token * row->hosted);
  ck_assert_int_eq(sum_of(capture, "offload/out/") - capture_total(capture, "offload/out/decoder_layer_input"),
                   n.run * n.k * n.token * row->hosted);
}

/* full: T S K A; minimal: T S K rows L (2 E + H D + 2 kv D + 2 mlp) floats; bubbles count whether they run or not. */
START_TEST(bytes_are_those_of_the_closed_forms) {
  for (int i = 0; i < ROWS; i++) {
    struct ab_config config = rig_config(&shapes[_i]);
    struct capture capture;
    struct row row = rows[i];
    set_row(&config, &row);
    config.compute_bubbles = (i + _i) % 2;
    if (!is_llama2(&config)) row = (struct row){.inputs = {1, 0, 1, 0}};
    observe(&capture, &config);
    check_inputs(&capture, &config, row.inputs);
    check_slots(&capture, &config, &row);
    expect_total(&capture, "residual/weights", 0, &config);
    if (row.policy == 2) {
      struct numbers n = numbers_of(&config);
      ck_assert_int_eq(sum_of(&capture, "residual/") - capture_total(&capture, "residual/w_curr"),
                       n.cells * n.k * n.token * (2 * EMB + QUERY + 2 * KEY + 2 * WI));
    }
    capture_free(&capture);
  }
}
END_TEST

/* B29: both names of one tensor are stored; where no policy names them, or the block has no name, one is. */
START_TEST(two_names_are_stored_twice_on_demand) {
  struct ab_config config = rig_config(&shapes[_i]), once = config;
  struct capture capture;
  config.upstream_faithful = UINT32_C(1) << AB_DEFECT_B29;
  observe(&capture, &config);
  check_inputs(&capture, &config, (struct inputs){1, is_llama2(&config), 1, 0});
  capture_free(&capture);
  if (is_llama2(&config)) {
    struct rig_side twice_side, once_side;
    struct ab_side ops = {.pipeline_ops = &linen_pipeline_ops};
    rig_new(&twice_side, &ops, &ab_kernels_f32, &config, NULL);
    rig_new(&once_side, &ops, &ab_kernels_f32, &once, NULL);
    ck_assert_uint_gt(twice_side.planned[1], once_side.planned[1]); /* a real copy */
    rig_free(&twice_side);
    rig_free(&once_side);
  }
  if (config.pipeline_fsdp_ag_per_repeat) return;
  config.set_remat_policy_on_pipeline_iterations = false;
  observe(&capture, &config);
  check_inputs(&capture, &config, (struct inputs){1, 0, 1, 0});
  capture_free(&capture);
}
END_TEST

/* Bytes of the weights of one stage and repeat: 8 + 64 + 32 + 32 + 64 + 8 + 3 x 96 floats a layer. */
enum { LLAMA2_WEIGHTS = 496, SIMPLE_MLP_WEIGHTS = 192 };

START_TEST(weights_that_stay_are_counted) {
  struct ab_config config = rig_config(&shapes[_i]);
  struct numbers n = numbers_of(&config);
  struct capture capture;
  int64_t p = n.k * (int64_t)sizeof(float) * (is_llama2(&config) ? LLAMA2_WEIGHTS : SIMPLE_MLP_WEIGHTS);
  int64_t fetches = config.num_stages * config.num_pipeline_repeats;
  bool circular = config.pipeline_fsdp_ag_per_repeat;
  config.set_remat_policy_on_pipeline_iterations = false;
  for (int layers = 0; layers < 2; layers++) {
    config.set_remat_policy_on_layers_per_stage = layers;
    observe(&capture, &config);
    expect_total(&capture, "residual/weights", circular || config.num_pipeline_repeats == 1 ? 0 : n.cells * p, &config);
    expect_total(&capture, "residual/w_curr", circular ? fetches * p : 0, &config);
    capture_free(&capture);
  }
  if (circular) return;
  config.pipeline_fsdp_ag_once = true;
  observe(&capture, &config);
  expect_total(&capture, "residual/weights", fetches * p, &config);
  capture_free(&capture);
}
END_TEST

/* Without remat of iterations the flag for layers decides: nothing computed again, or what the policy does not keep.
 * With it, it changes nothing; in the circular engine every step is rematerialised anyway. */
START_TEST(layers_are_rematerialised_one_by_one_on_demand) {
  int64_t recomputed[2][2], saved[2][2];
  struct ab_config config = rig_config(&shapes[_i]);
  if (!is_llama2(&config)) return;
  config.remat_policy = names[2];
  for (int i = 0; i < 4; i++) {
    struct capture capture;
    config.set_remat_policy_on_pipeline_iterations = i / 2;
    config.set_remat_policy_on_layers_per_stage = i % 2;
    observe(&capture, &config);
    recomputed[i / 2][i % 2] = sum_of(&capture, "recompute/");
    saved[i / 2][i % 2] = sum_of(&capture, "residual/") - capture_total(&capture, "residual/weights");
    capture_free(&capture);
  }
  ck_assert_int_eq(recomputed[1][0], recomputed[1][1]);
  ck_assert_int_eq(saved[1][0], saved[1][1]);
  ck_assert_int_eq(recomputed[0][1], recomputed[1][1]);
  ck_assert_int_eq(saved[0][1], saved[1][1]);
  ck_assert_int_gt(recomputed[1][1], 0);
  if (config.pipeline_fsdp_ag_per_repeat) {
    ck_assert_int_eq(recomputed[0][0], recomputed[1][1]);
    return;
  }
  ck_assert_int_eq(recomputed[0][0], 0);
  ck_assert_int_gt(saved[0][0], saved[0][1]);
}
END_TEST

/* The operator that computes each name. */
static const struct {
  const char *name, *op;
} makers[] = {{"query_proj", "rope_query"}, {"key_proj", "rope_key"}, {"value_proj", "value"}, {"out_proj", "out"},
              {"mlpwi_0", "wi_0"}, {"mlpwi_1", "wi_1"}};

/* What lies in device or host memory is not computed again; what does not, is, once per cell and layer that runs, and in
 * custom with inputs that are not kept once more for each layer with a next one (which needs mlpwo's operator too). */
START_TEST(what_is_kept_is_not_computed_again) {
  for (int i = 0; i < ROWS; i++) {
    struct ab_config config = rig_config(&shapes[_i]);
    struct capture capture;
    set_row(&config, &rows[i]);
    if (!is_llama2(&config)) return;
    observe(&capture, &config);
    struct numbers n = numbers_of(&config);
    int64_t replays = rows[i].inputs.host + rows[i].inputs.first + rows[i].inputs.others ? 0 : n.run * (n.k - 1);
    for (size_t j = 0; j < sizeof makers / sizeof *makers; j++) {
      char device[64], host[64], op[64];
      snprintf(device, sizeof device, "residual/%s", makers[j].name);
      snprintf(host, sizeof host, "host/%s", makers[j].name);
      snprintf(op, sizeof op, "recompute/%s", makers[j].op);
      bool kept = capture_total(&capture, device) + capture_total(&capture, host) > 0;
      expect_total(&capture, op, kept ? 0 : n.run * n.k + replays, &config);
    }
    expect_total(&capture, "recompute/wo", replays, &config);
    capture_free(&capture);
  }
}
END_TEST

/* What is computed again, or came back from the host, has the bits it had. */
START_TEST(what_comes_again_has_the_bits_it_had) {
  for (int i = 0; i < ROWS; i++) {
    struct ab_config config = rig_config(&shapes[_i]);
    struct capture capture;
    size_t again = 0;
    set_row(&config, &rows[i]);
    observe(&capture, &config);
    for (size_t j = 0; j < capture.tensors; j++) {
      const struct capture_tensor *t = &capture.tensor[j];
      if (t->id.phase != AB_RECOMPUTE || t->at.bubble) continue;
      size_t k = 0;
      struct ab_identity id = t->id;
      id.phase = AB_FORWARD;
      while (k < capture.tensors && (capture.tensor[k].at.bubble || memcmp(&capture.tensor[k].id, &id, sizeof id))) k++;
      ck_assert_msg(k < capture.tensors && capture.tensor[k].digest == t->digest, "%s", t->id.tensor);
      again++;
    }
    ck_assert_msg(again > 0 || !is_llama2(&config), "%s", config.remat_policy);
    capture_free(&capture);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linen_remat");
  TCase *tc = tcase_create("remat");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, every_policy_gives_the_same_bits, 0, SHAPES);
  tcase_add_loop_test(tc, bytes_are_those_of_the_closed_forms, 0, SHAPES);
  tcase_add_loop_test(tc, two_names_are_stored_twice_on_demand, 0, SHAPES);
  tcase_add_loop_test(tc, weights_that_stay_are_counted, 0, SHAPES);
  tcase_add_loop_test(tc, layers_are_rematerialised_one_by_one_on_demand, 0, SHAPES);
  tcase_add_loop_test(tc, what_is_kept_is_not_computed_again, 0, SHAPES);
  tcase_add_loop_test(tc, what_comes_again_has_the_bits_it_had, 0, 3);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
