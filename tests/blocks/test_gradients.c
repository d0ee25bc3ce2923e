/* Block gradients against central differences in float64, through the runner. */
#include "rig.h"

/* sum dy y: its gradients are what backward gives for the cotangent dy. */
static double objective(const struct rig *rig) {
  const struct ab_kernels *k = rig->layer.kernels;
  ab_layer_forward(&rig->layer, &rig->call);
  return k->dot(rig->y, rig->dy, rig->layer.tokens_count);
}

/* |difference quotient - gradient| / |gradient| over one array. */
static double relative_error(const struct rig *rig, double *value, const double *gradient, size_t count) {
  const double h = 2e-5;
  double wrong = 0, all = 0;
  for (size_t i = 0; i < count; i++) {
    double old = value[i];
    value[i] = old + h;
    double above = objective(rig);
    value[i] = old - h;
    double below = objective(rig);
    value[i] = old;
    double quotient = (above - below) / (2 * h);
    wrong += (quotient - gradient[i]) * (quotient - gradient[i]);
    all += gradient[i] * gradient[i];
  }
  return all > 1e-18 ? sqrt(wrong / all) : sqrt(wrong); /* below: a gradient that is zero but for rounding */
}

START_TEST(test_central_differences) {
  const struct ab_block *block = ab_blocks[_i / RIG_DIMS];
  const struct ab_layer_dims *dims = &rig_dims[_i % RIG_DIMS];
  struct rig rig = rig_new(block, &ab_kernels_f64, dims, AB_KEEP_NONE);
  rig_bind(&rig);
  ab_layer_forward(&rig.layer, &rig.call);
  ab_layer_backward(&rig.layer, &rig.call);
  double error = relative_error(&rig, rig.x, rig.dx, rig.layer.tokens_count);
  ck_assert_msg(error <= 1e-7, "%s case %d: x differs by %g", block->name, _i % RIG_DIMS, error);
  for (int p = 0; p < block->param_count; p++) {
    error = relative_error(&rig, rig.param[p], rig.dparam[p], rig.param_count[p]);
    ck_assert_msg(error <= 1e-7, "%s case %d: %s differs by %g", block->name, _i % RIG_DIMS, block->param[p].name,
                  error);
  }
  rig_free(&rig);
}
END_TEST

/* A second backward adds the same gradients onto what is there. */
START_TEST(test_accumulates) {
  struct rig rig = rig_new(ab_blocks[_i], &ab_kernels_f64, &rig_dims[0], AB_KEEP_NONE);
  rig_bind(&rig);
  ab_layer_forward(&rig.layer, &rig.call);
  ab_layer_backward(&rig.layer, &rig.call);
  double once[AB_MAX_PARAMS];
  for (int p = 0; p < ab_blocks[_i]->param_count; p++) once[p] = rig_get(&ab_kernels_f64, rig.dparam[p], 1);
  ab_layer_backward(&rig.layer, &rig.call);
  for (int p = 0; p < ab_blocks[_i]->param_count; p++)
    ck_assert_msg(fabs(rig_get(&ab_kernels_f64, rig.dparam[p], 1) - 2 * once[p]) <= 1e-14 * fabs(once[p]),
                  "%s: %s is not added to", ab_blocks[_i]->name, ab_blocks[_i]->param[p].name);
  rig_free(&rig);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gradients");
  TCase *tc = tcase_create("gradients");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, test_central_differences, 0, RIG_BLOCKS * RIG_DIMS);
  tcase_add_loop_test(tc, test_accumulates, 0, RIG_BLOCKS);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
