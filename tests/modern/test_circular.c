/* NNXCircularPipeline on the bundles of pipeline_fsdp_ag_per_repeat, in both modes: what was meant, judged by the
 * sequential numbers of a bundle where it has them, and the real code's prefetch (upstream_faithful=B1), judged by its
 * own numbers. Bit for bit the sequential oracle in either. */
#include <string.h>

#include "circular_pipeline.h"
#include "nnx_model.h"
#include "nnx.h"
#include "oracle.h"
#include "rig.h"
#include "tap.h"

static const char ISSUE[] = "circular";
static const char *const defective[] = {"e05_simple", "p08_simple", "p08_simple_mlp", "p08_llama2"};
enum { DEFECTIVE = sizeof defective / sizeof *defective, TABLES = 3 };
static const struct ab_kernels *const tables[TABLES] = {&ab_kernels_f32, &ab_kernels_f32_portable, &ab_kernels_f64};

static double distance64(const double *a, const double *b, size_t n) {
  double wrong = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    wrong += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return all > 0 ? wrong / all : wrong;
}

static void check_close(const char *name, const char *what, const double *a, const double *b, size_t n) {
  double squared = distance64(a, b, n);
  ck_assert_msg(squared <= 1e-26, "%s: the square of the distance of %s is %.3g", name, what, squared);
}

static void check_near(const char *name, const struct reference_run *a, const struct reference_run *b) {
  check_close(name, "outputs", a->outputs, b->outputs, a->elements);
  check_close(name, "d_inputs", a->d_inputs, b->d_inputs, a->elements);
  for (size_t i = 0; i < ab_tree_size(a->grads); i++) {
    const struct ab_tensor *x = ab_tree_at(a->grads, i), *y = ab_tree_find(b->grads, x->name);
    check_close(name, x->name, x->data, y->data, x->count);
  }
}

static void check(struct reference_case *c, const struct ab_kernels *kernels) {
  struct reference_run nnx = reference_run_pipeline(c, &nnx_pipeline_ops, kernels, NULL);
  struct reference_run oracle = reference_run_pipeline(c, &ab_oracle_pipeline_ops, kernels, NULL);
  reference_check_run(c, &nnx, kernels);
  if (kernels->dtype == AB_F64) check_near(c->name, &nnx, &oracle);
  else rig_check_same_run(c->name, &nnx, &oracle, kernels->dtype);
  reference_run_free(&nnx);
  reference_run_free(&oracle);
  reference_close(c);
}

START_TEST(test_intended) {
  struct reference_case c = reference_open(ISSUE, "engine", _i / TABLES);
  check(&c, tables[_i % TABLES]);
}
END_TEST

START_TEST(test_faithful) {
  struct reference_case c = reference_open_faithful(defective[_i / TABLES]);
  check(&c, tables[_i % TABLES]);
}
END_TEST

static bool all_zero(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (values[i] != 0) return false;
  return true;
}

/* Gradients of leaf [R, S, ...]: zero exactly at the last repeat of stages >= 2, if `faithful`. */
static void check_zeros(const struct reference_case *c, const struct ab_tensor *leaf, bool faithful) {
  int stages = (int)c->config->num_stages, repeats = (int)c->config->num_pipeline_repeats;
  size_t part = leaf->count / (size_t)(stages * repeats);
  for (int i = 0; i < stages * repeats; i++) {
    bool zero = all_zero((const float *)leaf->data + (size_t)i * part, part);
    bool expected = faithful && i / stages == repeats - 1 && i % stages >= 2;
    ck_assert_msg(zero == expected, "%s: the gradient of %s at repeat %d, stage %d is%s zero", c->name, leaf->name,
                  i / stages, i % stages, zero ? "" : " not");
  }
}

START_TEST(test_zero_gradients) {
  for (int faithful = 0; faithful < 2; faithful++) {
    const char *name = defective[_i];
    struct reference_case c = faithful ? reference_open_faithful(name) : reference_open_named(name);
    struct reference_run run = reference_run_pipeline(&c, &nnx_pipeline_ops, &ab_kernels_f32, NULL);
    for (size_t i = 0; i < ab_tree_size(run.grads); i++) check_zeros(&c, ab_tree_at(run.grads, i), faithful);
    reference_run_free(&run);
    reference_close(&c);
  }
}
END_TEST

/* With two stages the prefetch of the real code fetches what was meant. */
START_TEST(test_two_stages_are_right_in_both_modes) {
  static const char *const cases[] = {"p07_llama2", "p07_simple_mlp", "e04_simple", "o03_order"};
  struct reference_case intended = reference_open_named(cases[_i]), faithful = reference_open_faithful(cases[_i]);
  ck_assert_int_eq(intended.config->num_stages, 2);
  struct reference_run a = reference_run_pipeline(&intended, &nnx_pipeline_ops, &ab_kernels_f32, NULL);
  struct reference_run b = reference_run_pipeline(&faithful, &nnx_pipeline_ops, &ab_kernels_f32, NULL);
  rig_check_same_run(cases[_i], &a, &b, AB_F32);
  reference_run_free(&a);
  reference_run_free(&b);
  reference_close(&intended);
  reference_close(&faithful);
}
END_TEST

/* layers/pipeline.py: create_nnx_pipeline. */
START_TEST(test_class) {
  static const struct {
    const char *name, *type;
    const struct nnx_pipeline_class *class;
  } cases[] = {{"p04_llama2", "NNXPipeline", &nnx_pipeline_class},
               {"p06_llama2", "NNXPipeline", &nnx_pipeline_ag_once_class},
               {"p07_llama2", "NNXCircularPipeline", &nnx_circular_pipeline_class},
               {"p08_simple", "NNXCircularPipeline", &nnx_circular_pipeline_class}};
  struct reference_case c = reference_open_named(cases[_i].name);
  struct reference_side side;
  reference_pipeline_new(&side, &nnx_pipeline_ops, &ab_kernels_f32, c.config, NULL);
  const struct nnx_pipeline *pipeline = side.side.pipeline->pipeline;
  ck_assert_ptr_eq(pipeline->class, cases[_i].class);
  ck_assert_str_eq(pipeline->class->name, cases[_i].type);
  reference_side_free(&side);
  reference_close(&c);
}
END_TEST

START_TEST(test_training) {
  struct reference_case c = reference_open(ISSUE, "train", 0);
  struct reference_training nnx = reference_train(&c, &nnx_model_ops, tables[_i]);
  struct reference_training oracle = reference_train(&c, &ab_oracle_model_ops, tables[_i]);
  ck_assert_str_eq(c.name, "t04");
  reference_check_training(&c, &nnx);
  for (int i = 0; i < nnx.steps && tables[_i]->dtype == AB_F32; i++)
    ck_assert_msg(memcmp(&nnx.metrics[i], &oracle.metrics[i], sizeof *nnx.metrics) == 0, "metrics of step %d", i);
  reference_training_free(&nnx);
  reference_training_free(&oracle);
  reference_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nnx_circular");
  TCase *tc = tcase_create("bundles");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_class, 0, 4);
  tcase_add_loop_test(tc, test_intended, 0, TABLES * reference_count(ISSUE, "engine"));
  tcase_add_loop_test(tc, test_faithful, 0, TABLES * DEFECTIVE);
  tcase_add_loop_test(tc, test_zero_gradients, 0, DEFECTIVE);
  tcase_add_loop_test(tc, test_two_stages_are_right_in_both_modes, 0, 4);
  tcase_add_loop_test(tc, test_training, 0, TABLES);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
