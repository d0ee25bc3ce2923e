#include <string.h>

#include "mem.h"
#include "tap.h"
#include "tensor.h"

START_TEST(shapes_are_counted_with_care) {
  size_t count = 7;
  char text[64];
  struct ab_shape shape = {.rank = 3, .dim = {2, 16, 4}};
  ck_ok(ab_shape_count(&count, &shape));
  ck_assert_uint_eq(count, 128);
  ab_shape_print(text, sizeof text, &shape);
  ck_assert_str_eq(text, "[2, 16, 4]");
  ab_shape_print(text, 6, &shape);
  ck_assert_str_eq(text, "[2, 1");
  shape = (struct ab_shape){.rank = 0};
  ck_ok(ab_shape_count(&count, &shape));
  ck_assert_uint_eq(count, 1);
  shape = (struct ab_shape){.rank = 3, .dim = {INT64_MAX, INT64_MAX, 0}};
  ck_ok(ab_shape_count(&count, &shape));
  ck_assert_uint_eq(count, 0);
  shape.dim[2] = 1;
  ck_fails(ab_shape_count(&count, &shape), AB_ENOMEM, "does not fit");
  shape = (struct ab_shape){.rank = 2, .dim = {0, -1}};
  ck_fails(ab_shape_count(&count, &shape), AB_ESHAPE, "[0, -1] has a negative extent");
  shape.rank = 9;
  ck_fails(ab_shape_count(&count, &shape), AB_ESHAPE, "rank 9");
  ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(dtypes_have_names_and_sizes) {
  static const struct {
    enum ab_dtype dtype;
    const char *name;
    size_t size;
  } cases[] = {{AB_F32, "F32", 4}, {AB_F64, "F64", 8}, {AB_I32, "I32", 4},
               {AB_I64, "I64", 8}, {AB_U8, "U8", 1},   {AB_M61, "M61", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ck_assert_str_eq(ab_dtype_name(cases[i].dtype), cases[i].name);
    ck_assert_uint_eq(ab_dtype_size(cases[i].dtype), cases[i].size);
  }
}
END_TEST

/* Element by element, by the definition of strides. */
static void pack_plainly(int32_t *out, const struct ab_view *view) {
  int64_t index[AB_MAX_RANK] = {0};
  for (size_t n = ab_view_count(view); n--; out++) {
    int64_t at = 0;
    for (int i = 0; i < view->shape.rank; i++) at += index[i] * view->stride[i];
    *out = ((const int32_t *)view->data)[at];
    for (int i = view->shape.rank - 1; i >= 0 && ++index[i] == view->shape.dim[i]; i--) index[i] = 0;
  }
}

enum { STORE = 4096 };

static void check_view(const struct ab_view *view) {
  static int32_t packed[STORE], expected[STORE], copy[STORE];
  size_t count = ab_view_count(view);
  pack_plainly(expected, view);
  ab_view_pack(packed, view);
  ck_assert(!memcmp(packed, expected, count * sizeof *packed));
  for (size_t i = 0; i < count; i++) packed[i] = -expected[i];
  ab_view_unpack(view, packed);
  pack_plainly(copy, view);
  ck_assert(!memcmp(copy, packed, count * sizeof *packed));
  ab_view_unpack(view, expected);
}

START_TEST(views_of_every_layout_pack_and_unpack) {
  static int32_t store[STORE];
  for (int i = 0; i < STORE; i++) store[i] = i + 1;
  static const struct {
    int rank;
    int64_t dim[5], stride[5];
  } cases[] = {
      {0, {0}, {0}},
      {1, {7}, {1}},
      {1, {7}, {3}},
      {2, {3, 4}, {4, 1}},
      {2, {3, 4}, {5, 1}},
      {2, {4, 3}, {1, 4}},
      {3, {2, 3, 4}, {12, 4, 1}},
      {3, {2, 3, 4}, {100, 4, 1}},
      {3, {2, 1, 4}, {4, 999, 1}},
      {3, {5, 1, 1}, {2, 7, 9}},
      {4, {2, 3, 2, 5}, {30, 10, 5, 1}},
      {4, {2, 3, 2, 5}, {1, 2, 6, 12}},
      {5, {2, 2, 2, 2, 2}, {64, 1, 16, 2, 8}},
      {2, {0, 4}, {4, 1}},
      {2, {3, 4}, {0, 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ab_view view = {.dtype = AB_I32, .shape.rank = cases[i].rank, .data = store};
    memcpy(view.shape.dim, cases[i].dim, sizeof cases[i].dim);
    memcpy(view.stride, cases[i].stride, sizeof cases[i].stride);
    check_view(&view);
  }
}
END_TEST

START_TEST(a_view_of_a_stacked_leaf_is_one_layer) {
  int32_t values[24];
  for (int i = 0; i < 24; i++) values[i] = i;
  struct ab_tensor tensor = {.dtype = AB_I32, .shape = {.rank = 3, .dim = {2, 3, 4}}, .count = 24, .data = values};
  struct ab_view whole = ab_view_of(&tensor);
  struct ab_view layer = ab_view_index(&whole, 1, 2); /* [2, 4] at axis 1 index 2 */
  int32_t packed[8];
  ck_assert_int_eq(layer.shape.rank, 2);
  ck_assert_uint_eq(ab_view_count(&layer), 8);
  ab_view_pack(packed, &layer);
  ck_assert(!memcmp(packed, (int32_t[]){8, 9, 10, 11, 20, 21, 22, 23}, sizeof packed));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("tensor");
  TCase *c = tcase_create("tensor");
  tcase_add_test(c, shapes_are_counted_with_care);
  tcase_add_test(c, dtypes_have_names_and_sizes);
  tcase_add_test(c, views_of_every_layout_pack_and_unpack);
  tcase_add_test(c, a_view_of_a_stacked_leaf_is_one_layer);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
