/* Worst distance of every math32 function from the double C library, over dense sweeps of floats. */
#include "math32.h"

#include "tap.h"

/* Distance in units of the last place of the true result, subnormal spacing at the low end. */
static double ulps(float actual, double truth) {
  if (isnan(truth)) return isnan(actual) ? 0 : INFINITY;
  if (isinf(actual)) return (float)truth == actual ? 0 : INFINITY;
  int exponent;
  frexp(truth, &exponent);
  if (exponent < -125) exponent = -125;
  return fabs((double)actual - truth) / ldexp(1, exponent - 24);
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

struct row {
  const char *name;
  float (*ours)(float);
  double (*truth)(double);
  float low, high; /* of |x| */
  int both_signs;
};

static const struct row rows[] = {
    {"exp", ab_expf, exp, 0x1p-149f, 110, 1},
    {"log", ab_logf, log, 0x1p-149f, FLT_MAX, 0},
    {"sin", ab_sinf, sin, 0x1p-149f, 0x1p31f, 1},
    {"cos", ab_cosf, cos, 0x1p-149f, 0x1p31f, 1},
    {"tanh", ab_tanhf, tanh, 0x1p-149f, FLT_MAX, 1},
};

static double worst_of(const struct row *row, float *where) {
  double worst = 0;
  uint32_t low, high;
  memcpy(&low, &row->low, sizeof low);
  memcpy(&high, &row->high, sizeof high);
  for (uint32_t bits = low; bits <= high; bits += 4099)
    for (int sign = 0; sign <= row->both_signs; sign++) {
      float x = float_of(bits | (sign ? 0x80000000u : 0));
      double error = ulps(row->ours(x), row->truth((double)x));
      if (error > worst) worst = error, *where = x;
    }
  return worst;
}

START_TEST(test_sweep) {
  const struct row *row = &rows[_i];
  float where = 0;
  double worst = worst_of(row, &where);
  ck_assert_msg(worst <= 0.51, "%s(%a) is %.4f ulp off", row->name, (double)where, worst);
}
END_TEST

/* The narrow intervals that matter: logits below their maximum, angles of a few turns. */
START_TEST(test_dense) {
  double worst = 0;
  for (int i = 0; i < 2000000; i++) {
    float x = -20.0f * (float)i / 2000000, angle = 64.0f * (float)i / 2000000;
    worst = fmax(worst, ulps(ab_expf(x), exp((double)x)));
    worst = fmax(worst, ulps(ab_sinf(angle), sin((double)angle)));
    worst = fmax(worst, ulps(ab_cosf(angle), cos((double)angle)));
  }
  ck_assert_msg(worst <= 0.51, "worst is %.4f ulp", worst);
}
END_TEST

/* Timescales: max/min to the power of a fraction. */
START_TEST(test_pow) {
  double worst = 0;
  for (int i = 0; i <= 400; i++)
    for (int j = 0; j <= 1000; j++) {
      float x = ldexpf(1.0f + (float)j / 997, i % 60 - 30), y = (float)(i - 200) / 64;
      worst = fmax(worst, ulps(ab_powf(x, y), pow((double)x, (double)y)));
    }
  ck_assert_msg(worst <= 0.51, "worst is %.4f ulp", worst);
  ck_assert(ab_powf(10000, 0) == 1 && ab_powf(10000, 0.5f) == 100 && ab_powf(1, 7) == 1);
}
END_TEST

START_TEST(test_special) {
  ck_assert(ab_expf(0) == 1 && ab_expf(-INFINITY) == 0 && ab_expf(INFINITY) == INFINITY && isnan(ab_expf(NAN)));
  ck_assert(ab_expf(-1e38f) == 0 && ab_expf(1e38f) == INFINITY && ab_expf(89) == INFINITY);
  ck_assert(ab_logf(1) == 0 && ab_logf(0) == -INFINITY && isnan(ab_logf(-1)) && isnan(ab_logf(NAN)));
  ck_assert(ab_logf(INFINITY) == INFINITY);
  ck_assert(ab_sinf(0) == 0 && ab_cosf(0) == 1 && isnan(ab_sinf(INFINITY)) && isnan(ab_cosf(NAN)));
  ck_assert(ab_tanhf(0) == 0 && ab_tanhf(INFINITY) == 1 && ab_tanhf(-INFINITY) == -1 && isnan(ab_tanhf(NAN)));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("math32");
  TCase *tcase = tcase_create("ulp");
  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, test_sweep, 0, (int)(sizeof rows / sizeof rows[0]));
  tcase_add_test(tcase, test_dense);
  tcase_add_test(tcase, test_pow);
  tcase_add_test(tcase, test_special);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
