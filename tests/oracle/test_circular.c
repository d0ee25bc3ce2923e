/* The oracle where the circular engines differ from plain ones: the order of sums, and upstream's defect B1. */
#include <string.h>

#include "bench.h"
#include "mem.h"
#include "oracle.h"
#include "tap.h"
#include "upstream.h"

static const char ISSUE[] = "circular";
static const char *const defective[] = {"e05_simple", "p08_simple", "p08_simple_mlp", "p08_llama2"};
enum { DEFECTIVE = sizeof defective / sizeof defective[0], TABLES = 3 };
static const struct ab_kernels *const tables[TABLES] = {&ab_kernels_f32, &ab_kernels_f32_portable, &ab_kernels_f64};

static void check(struct reference_case *c, const struct ab_kernels *kernels) {
  struct reference_run run = reference_run_pipeline(c, &ab_oracle_pipeline_ops, kernels, NULL);
  reference_check_run(c, &run, kernels);
  reference_run_free(&run);
  reference_close(c);
}

/* Cases without a defect by the real code's numbers, those with one by the numbers that were meant. */
START_TEST(test_intended) {
  struct reference_case c = reference_open(ISSUE, "engine", _i / TABLES);
  check(&c, tables[_i % TABLES]);
}
END_TEST

START_TEST(test_faithful) {
  struct reference_case c = reference_open_faithful(defective[_i / TABLES]);
  ck_assert(reference_has_modes(&c));
  check(&c, tables[_i % TABLES]);
}
END_TEST

START_TEST(test_training) {
  struct reference_case c = reference_open(ISSUE, "train", 0);
  struct reference_training training = reference_train(&c, &ab_oracle_model_ops, tables[_i]);
  reference_check_training(&c, &training);
  reference_training_free(&training);
  reference_close(&c);
}
END_TEST

START_TEST(test_manifest_has_the_cases) {
  int modes = 0, cases = reference_count(ISSUE, "engine");
  for (int i = 0; i < cases; i++) {
    struct reference_case c = reference_open(ISSUE, "engine", i);
    modes += reference_has_modes(&c);
    reference_close(&c);
  }
  ck_assert_int_eq(cases, 16);
  ck_assert_int_eq(modes, DEFECTIVE);
  ck_assert_int_eq(reference_count(ISSUE, "train"), 1);
}
END_TEST

/* Each defective case in one mode against the numbers of the other: far away, and the loss by a tenth and more. */
START_TEST(test_modes_are_far_apart) {
  struct reference_case c = reference_open_named(defective[_i]);
  struct reference_run run = reference_run_pipeline(&c, &ab_oracle_pipeline_ops, &ab_kernels_f64, NULL);
  struct ab_tree *real = reference_tensors(&c, "outputs.safetensors");
  struct ab_tensor *outputs;
  ck_ok(ab_tree_get(&outputs, real, "outputs", c.name));
  double distance = reference_distance(run.outputs, AB_F64, outputs->data, outputs->count);
  ck_assert_msg(distance > 0.1, "%s: outputs are %.3g from the real ones", c.name, distance);
  ab_tree_free(real);
  reference_run_free(&run);
  reference_close(&c);
}
END_TEST

static bool all_zero(const struct ab_tensor *leaf, int repeat, int stage, int stages, int repeats) {
  size_t part = leaf->count / (size_t)(stages * repeats), first = (size_t)(repeat * stages + stage) * part;
  for (size_t i = first; i < first + part; i++)
    if (((const float *)leaf->data)[i] != 0) return false;
  return true;
}

/* expected.json zero_gradient_repeat_stage: of the last repeat at stages >= 2, in the faithful mode and there only. */
static void check_zeros(struct reference_case *c, bool faithful) {
  struct reference_run run = reference_run_pipeline(c, &ab_oracle_pipeline_ops, &ab_kernels_f32, NULL);
  int stages = (int)c->config->num_stages, repeats = (int)c->config->num_pipeline_repeats;
  for (size_t i = 0; i < ab_tree_size(run.grads); i++)
    for (int cell = 0; cell < stages * repeats; cell++) {
      int r = cell / stages, s = cell % stages;
      bool zero = all_zero(ab_tree_at(run.grads, i), r, s, stages, repeats);
      ck_assert_msg(zero == (faithful && r == repeats - 1 && s >= 2), "%s: gradient of repeat %d, stage %d is%s zero",
                    c->name, r, s, zero ? "" : " not");
    }
  reference_run_free(&run);
  reference_close(c);
}

START_TEST(test_zero_gradients) {
  struct reference_case intended = reference_open_named(defective[_i]);
  struct reference_case faithful = reference_open_faithful(defective[_i]);
  check_zeros(&intended, false);
  check_zeros(&faithful, true);
}
END_TEST

/* The order, on a small pipeline: gradients of single microbatches, added by hand. */

enum { STAGES = 4, REPEATS = 2, MICROBATCHES = 8 };

static void circular_new(struct bench *b, bool faithful) {
  struct ab_config config = small_config();
  config.num_stages = STAGES, config.num_pipeline_repeats = REPEATS;
  config.num_pipeline_microbatches = config.micro_batch_size_to_train_on = MICROBATCHES;
  config.pipeline_parallel_layers = STAGES * REPEATS;
  config.pipeline_fsdp_ag_per_repeat = true;
  if (faithful) config.upstream_faithful = 1u << AB_DEFECT_B1;
  bench_new(b, &ab_kernels_f32, &config);
}

/* Element i of microbatches last .. first, from zero. */
static float chain(float *const one[MICROBATCHES], int last, int first, size_t i) {
  float sum = 0;
  for (int m = last; m >= first; m--) sum += one[m][i];
  return sum;
}

static float split_at(float *const one[MICROBATCHES], int stage, size_t i) {
  return chain(one, MICROBATCHES - 1 - stage, 0, i) + chain(one, MICROBATCHES - 1, MICROBATCHES - stage, i);
}

/* pipelines.md 3.3: stage 0 is one chain, as in the plain engines; the last s microbatches of stage s are a chain of
 * their own. */
START_TEST(test_two_chains) {
  struct bench b;
  float *one[MICROBATCHES];
  size_t count, split_differs = 0;
  circular_new(&b, false);
  float *all = bench_gradients(&b, b.d_outputs, &count);
  for (int m = 0; m < MICROBATCHES; m++) one[m] = bench_contribution(&b, m, &count);
  size_t layer = count / (STAGES * REPEATS);
  for (size_t i = 0; i < count; i++) {
    int stage = (int)(i / layer) % STAGES;
    float want = split_at(one, stage, i), plain = chain(one, MICROBATCHES - 1, 0, i);
    ck_assert_msg(all[i] == want, "stage %d: %.9g, the two chains give %.9g", stage, (double)all[i], (double)want);
    if (stage == 0) ck_assert(want == plain);
    else split_differs += want != plain;
  }
  ck_assert_msg(split_differs > 100, "the order does not show");
  for (int m = 0; m < MICROBATCHES; m++) ab_mem_free(one[m]);
  ab_mem_free(all);
  bench_free(&b);
}
END_TEST

/* One element of each layer's weights, for the next test to change. */
static ab_status first_element(void *ctx, int layer, const char *name, const struct ab_view *view) {
  float **element = ctx;
  if (strcmp(name, "mlp/wi_0/kernel") == 0) element[layer] = view->data;
  return AB_OK;
}

START_TEST(test_late_stages_of_the_last_repeat_read_other_weights) {
  float *element[STAGES * REPEATS];
  struct bench b;
  circular_new(&b, true);
  ck_ok(b.s.side.pipeline_ops->leaves(b.s.side.pipeline, AB_PARAMS, first_element, element));
  bench_forward(&b, b.outputs);
  for (int layer = 0; layer < STAGES * REPEATS; layer++) {
    float before = *element[layer];
    *element[layer] += 1;
    bench_forward(&b, b.masked);
    *element[layer] = before;
    bool read = memcmp(b.masked, b.outputs, b.elements * sizeof(float)) != 0;
    ck_assert_msg(read == (layer / STAGES == 0 || layer % STAGES < 2), "layer %d is%s read", layer,
                  read ? "" : " not");
  }
  bench_free(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("oracle_circular");
  TCase *tc = tcase_create("circular");
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_manifest_has_the_cases);
  tcase_add_loop_test(tc, test_intended, 0, TABLES * reference_count(ISSUE, "engine"));
  tcase_add_loop_test(tc, test_faithful, 0, TABLES * DEFECTIVE);
  tcase_add_loop_test(tc, test_training, 0, TABLES);
  tcase_add_loop_test(tc, test_modes_are_far_apart, 0, DEFECTIVE);
  tcase_add_loop_test(tc, test_zero_gradients, 0, DEFECTIVE);
  tcase_add_test(tc, test_two_chains);
  tcase_add_test(tc, test_late_stages_of_the_last_repeat_read_other_weights);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
