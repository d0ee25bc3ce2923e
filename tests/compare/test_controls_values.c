/* What each damage does to the values of a tensor, in every type. */
#include <math.h>
#include <string.h>

#include "controls_parts.h"
#include "m61.h"
#include "mem.h"
#include "tap.h"

enum { MOST = 16 };
#define COUNTED {1, 2, 3, 4, 5, 6}

/* A damage of a tensor with these values, in this many microbatches, and the values after it; `why` instead of them:
 * it cannot be done. */
static const struct {
  ab_damage_fn damage;
  enum ab_dtype dtype;
  int microbatches;
  struct ab_shape shape;
  double before[MOST], after[MOST];
  const char *why;
  bool both;
} rows[] = {
    {ab_damage_one_ulp, AB_F32, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4 + 0x1p-21, 5, 6}, NULL, false},
    {ab_damage_one_ulp, AB_F64, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4 + 0x1p-50, 5, 6}, NULL, false},
    {ab_damage_one_ulp, AB_M61, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 5, 5, 6}, NULL, false},
    {ab_damage_scaled_gradient, AB_F32, 1, {2, {3, 2}}, COUNTED, {2, 4, 6, 8, 10, 12}, NULL, false},
    {ab_damage_scaled_gradient, AB_F32, 1, {2, {4, 4}}, COUNTED, {2, 4, 6, 8, 10, 12}, NULL, false}, /* a whole block */
    {ab_damage_scaled_gradient, AB_F32, 2, {2, {3, 2}}, COUNTED, {0.5, 1, 1.5, 2, 2.5, 3}, NULL, false},
    {ab_damage_scaled_gradient, AB_F64, 4, {2, {3, 2}}, COUNTED, {0.75, 1.5, 2.25, 3, 3.75, 4.5}, NULL, false},
    {ab_damage_scaled_gradient, AB_M61, 4, {2, {3, 2}}, COUNTED, {2, 4, 6, 8, 10, 12}, NULL, false},
    {ab_damage_scaled_gradient, AB_F32, 4, {2, {3, 2}}, {0}, {0}, "these values stay the same by it", false},
    {ab_damage_nan, AB_F32, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4, 5, NAN}, NULL, false},
    {ab_damage_nan_both, AB_F64, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4, 5, NAN}, NULL, true},
    {ab_damage_nan, AB_M61, 3, {2, {3, 2}}, COUNTED, {0}, "residues have no NaN", false},
    {ab_damage_transposed, AB_F32, 3, {2, {3, 2}}, COUNTED, {1, 3, 5, 2, 4, 6}, NULL, false},
    {ab_damage_transposed, AB_F64, 3, {2, {1, 6}}, COUNTED, COUNTED, NULL, false},
    {ab_damage_transposed, AB_F32, 3, {3, {2, 2, 3}}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
     {1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12}, NULL, false},
    {ab_damage_transposed, AB_F32, 3, {2, {2, 2}}, {1, 2, 2, 1}, {0}, "these values stay the same by it", false},
    {ab_damage_dropped_rows, AB_F32, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4, 0, 0}, NULL, false},
    {ab_damage_dropped_rows, AB_F64, 2, {2, {2, 3}}, COUNTED, {1, 2, 3, 0, 0, 0}, NULL, false},
    {ab_damage_dropped_rows, AB_M61, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4, 0, 0}, NULL, false},
    {ab_damage_doubled_rows, AB_F64, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4, 10, 12}, NULL, false},
    {ab_damage_doubled_rows, AB_M61, 3, {2, {3, 2}}, COUNTED, {1, 2, 3, 4, 10, 12}, NULL, false},
    {ab_damage_dropped_rows, AB_F32, 1, {2, {3, 2}}, COUNTED, {0}, "one microbatch", false},
};

static void put(unsigned char *values, enum ab_dtype dtype, size_t i, double value) {
  if (dtype == AB_F32) ((float *)(void *)values)[i] = (float)value;
  else if (dtype == AB_F64) ((double *)(void *)values)[i] = value;
  else ((uint64_t *)(void *)values)[i] = (uint64_t)value;
}

static struct ab_view view_of(void *values, enum ab_dtype dtype, const struct ab_shape *shape) {
  struct ab_view view = {.dtype = dtype, .shape = *shape, .data = values};
  ab_view_contiguous(&view);
  return view;
}

static struct ab_captured captured(void *values, enum ab_dtype dtype, const struct ab_shape *shape) {
  struct ab_view view = view_of(values, dtype, shape);
  struct ab_captured c = {.observation = {.dtype = dtype, .shape = *shape}, .values = values};
  ab_summarize(&c.observation.summary, &view);
  return c;
}

START_TEST(a_damage_does_what_it_says) {
  uint64_t before[MOST] = {0}, after[MOST] = {0};
  enum ab_dtype dtype = rows[_i].dtype;
  struct ab_shape shape = rows[_i].shape;
  for (size_t k = 0; k < MOST; k++) {
    put((unsigned char *)before, dtype, k, rows[_i].before[k]);
    if (!rows[_i].why) put((unsigned char *)after, dtype, k, rows[_i].after[k]);
  }
  struct ab_captured tensor = captured(before, dtype, &shape);
  struct ab_control_facts facts = {1, 1, 1, rows[_i].microbatches};
  struct ab_control_data data = {.facts = &facts, .leaf = tensor, .rows = tensor};
  struct ab_trial t = {.data = &data};
  ck_ok(rows[_i].damage(&t));
  ck_assert_int_eq(t.both_sides, rows[_i].both);
  ck_assert_msg(t.na == (rows[_i].why != NULL), "row %d: %s", _i, t.why);
  if (t.na) {
    ck_assert_str_eq(t.why, rows[_i].why);
  } else {
    bool turned = rows[_i].damage == ab_damage_transposed;
    if (turned) shape.dim[0] = rows[_i].shape.dim[1], shape.dim[1] = rows[_i].shape.dim[0];
    struct ab_captured expected = captured(after, dtype, &shape);
    ck_assert_msg(memcmp(t.values, after, (size_t)expected.observation.summary.count * ab_dtype_size(dtype)) == 0,
                  "row %d: other values", _i);
    ck_assert(ab_summary_same(&t.with.summary, &expected.observation.summary));
    ck_assert(ab_shape_equal(&t.with.shape, &shape) && t.observation);
    if (turned) ck_assert_int_eq(t.expected, shape.dim[0] == shape.dim[1] ? AB_EXIT_DIFFERENT : AB_EXIT_INCOMPARABLE);
  }
  ab_mem_free(t.values);
}
END_TEST

START_TEST(residues_are_doubled_as_residues) {
  uint64_t word = AB_M61_PRIME - 3;
  struct ab_captured tensor = captured(&word, AB_M61, &(struct ab_shape){2, {1, 1}});
  struct ab_control_facts facts = {1, 1, 1, 1};
  struct ab_control_data data = {.facts = &facts, .leaf = tensor};
  struct ab_trial t = {.data = &data};
  ck_ok(ab_damage_scaled_gradient(&t));
  memcpy(&word, t.values, sizeof word);
  ck_assert_uint_eq(word, AB_M61_PRIME - 6);
  ab_mem_free(t.values);
}
END_TEST

/* Values of both sides, of which a fourth is none of the tensor's, and what is said of their distance: within the
 * rounding of a plain sum it is the verdict's, and below what squares can hold it is not. */
static const struct {
  double a[4], b[4];
  const char *why;
} distances[] = {{{1, 2, 3.0003, 0}, {1, 2, 3, 9}, ""},
                 {{1.0003, 2, 3, 0}, {1, 2, 3, 9}, ""},
                 {{1, 2, 3, 0}, {1, 2, 3, 9}, "no difference to measure"},
                 {{1.9e-162, 1, 1, 0}, {0, 1, 1, 0}, "its distance is 1.34"}};

static ab_status values(void *ctx, int side, const struct ab_observation *o, struct ab_view *out) {
  (void)side;
  *out = view_of(ctx, o->dtype, &o->shape);
  return AB_OK;
}

START_TEST(a_distance_is_measured_twice) {
  double a[4], b[4];
  struct ab_recording *reference;
  memcpy(a, distances[_i].a, sizeof a);
  memcpy(b, distances[_i].b, sizeof b);
  struct ab_captured leaf = captured(a, AB_F64, &(struct ab_shape){2, {1, 3}});
  struct ab_captured other = captured(b, AB_F64, &(struct ab_shape){2, {1, 3}});
  ck_ok(ab_recording_new(&reference, "sequential64"));
  ck_ok(ab_recording_observe(reference, &other.observation));
  struct ab_comparison c = {.a = reference, .b = reference, .pair = AB_PAIR_MIXED, .values = values, .values_ctx = b};
  struct ab_control_data data = {.c = &c, .a = reference, .b = reference, .leaf = leaf};
  struct ab_trial t = {.data = &data};
  ck_ok(ab_damage_tensor_at(&t));
  ck_assert_int_eq(strncmp(t.why, distances[_i].why, strlen(distances[_i].why)), 0);
  ck_assert_int_eq(t.why[0] != 0, distances[_i].why[0] != 0);
  if (!t.why[0]) ck_assert_double_eq_tol(t.given, 3e-4 / sqrt(14), 1e-9);
  ab_recording_free(reference);
  ab_mem_free(t.values);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("controls_values");
  TCase *tcase = tcase_create("controls_values");
  tcase_add_loop_test(tcase, a_damage_does_what_it_says, 0, (int)(sizeof rows / sizeof *rows));
  tcase_add_loop_test(tcase, a_distance_is_measured_twice, 0, (int)(sizeof distances / sizeof *distances));
  tcase_add_test(tcase, residues_are_doubled_as_residues);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
