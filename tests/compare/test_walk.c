/* The walk over two tensors against a plain loop: the same bits, in whatever pieces they come. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "metrics.h"
#include "tap.h"

enum { BLOCK = 1024, MOST = 3 * BLOCK + 9 };

static double a64[MOST], b64[MOST];
static float a32[MOST], b32[MOST];
static uint32_t state;

static uint32_t draw(void) { return state = state * 1664525u + 1013904223u; }

/* One in `rare` elements differs; 0: none. Signs of zeros differ, too. */
static void fill(uint32_t rare) {
  state = 7;
  for (int i = 0; i < MOST; i++) {
    float x = (float)(int32_t)draw() * 0x1p-31f;
    bool differs = rare && draw() >> 8 < (1u << 24) / rare;
    b32[i] = draw() >> 29 ? x : 0.0f;
    a32[i] = differs ? b32[i] + (float)(int32_t)draw() * 0x1p-40f : b32[i] == 0 && rare ? -b32[i] : b32[i];
    a64[i] = (double)a32[i];
    b64[i] = (double)b32[i];
    if (differs) a64[i] *= 1 + DBL_EPSILON * (double)(draw() >> 28);
  }
}

static struct ab_view view_of(bool narrow, bool second, size_t begin, size_t count) {
  struct ab_view view = {.dtype = narrow ? AB_F32 : AB_F64, .shape = {1, {(int64_t)count}}, .stride = {1}};
  view.data = narrow ? (void *)((second ? b32 : a32) + begin) : (void *)((second ? b64 : a64) + begin);
  return view;
}

static uint64_t steps(uint64_t x, uint64_t y, uint64_t sign) {
  uint64_t size_x = x & ~sign, size_y = y & ~sign;
  if ((x & sign) != (y & sign)) return size_x + size_y;
  return size_x > size_y ? size_x - size_y : size_y - size_x;
}

static double folded(const double l[8]) {
  return sqrt(((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7])));
}

/* What the header says, element by element. */
static struct ab_difference plainly(bool narrow, size_t count) {
  struct ab_difference d = {.count = count, .has_ulp = true};
  d.dtype_a = d.dtype_b = narrow ? AB_F32 : AB_F64;
  double squares_d[8] = {0}, squares_b[8] = {0}, max_b = 0;
  bool bad = false;
  for (size_t i = 0; i < count; i++) {
    double x = narrow ? (double)a32[i] : a64[i], y = narrow ? (double)b32[i] : b64[i];
    struct ab_value_pair pair = {i, x, y, 0, 0};
    memcpy(&pair.bits_a, narrow ? (void *)&a32[i] : (void *)&a64[i], narrow ? 4 : 8);
    memcpy(&pair.bits_b, narrow ? (void *)&b32[i] : (void *)&b64[i], narrow ? 4 : 8);
    bool odd = !isfinite(x) || !isfinite(y);
    if ((odd || x != y) && !d.differing++) d.first = d.worst = pair;
    if (odd) {
      d.nonfinite_a += !isfinite(x);
      d.nonfinite_b += !isfinite(y);
      d.nonfinite_alike += (isnan(x) && isnan(y)) || x == y;
      if (!bad) d.worst = pair;
      bad = true;
      continue;
    }
    squares_d[i % 8] += (x - y) * (x - y);
    squares_b[i % 8] += y * y;
    max_b = fmax(max_b, fabs(y));
    d.sign_only += x == y && signbit(x) != signbit(y);
    if (fabs(x - y) > d.max_abs && !bad) d.worst = pair;
    d.max_abs = fmax(d.max_abs, fabs(x - y));
    uint64_t far = steps(pair.bits_a, pair.bits_b, narrow ? UINT64_C(1) << 31 : UINT64_C(1) << 63);
    d.max_ulp = far > d.max_ulp ? far : d.max_ulp;
  }
  d.l2 = folded(squares_d);
  d.l2_b = folded(squares_b);
  d.rel_l2 = d.l2 == 0 ? 0 : d.l2_b == 0 ? INFINITY : d.l2 / d.l2_b;
  d.max_abs_over_max = d.max_abs == 0 ? 0 : max_b == 0 ? INFINITY : d.max_abs / max_b;
  if (bad) d.rel_l2 = d.max_abs_over_max = INFINITY;
  return d;
}

static void check_pair(const struct ab_value_pair *got, const struct ab_value_pair *expected) {
  ck_assert_uint_eq(got->index, expected->index);
  ck_assert_uint_eq(got->bits_a, expected->bits_a);
  ck_assert_uint_eq(got->bits_b, expected->bits_b);
  ck_assert(!memcmp(&got->a, &expected->a, sizeof got->a) || isnan(got->a));
  ck_assert(!memcmp(&got->b, &expected->b, sizeof got->b) || isnan(got->b));
}

static void check_same(const struct ab_difference *got, const struct ab_difference *expected) {
  ck_assert_uint_eq(got->count, expected->count);
  ck_assert_uint_eq(got->differing, expected->differing);
  ck_assert_uint_eq(got->sign_only, expected->sign_only);
  ck_assert_uint_eq(got->nonfinite_a, expected->nonfinite_a);
  ck_assert_uint_eq(got->nonfinite_b, expected->nonfinite_b);
  ck_assert_uint_eq(got->nonfinite_alike, expected->nonfinite_alike);
  ck_assert_uint_eq(got->max_ulp, expected->max_ulp);
  ck_assert(got->max_abs == expected->max_abs && got->l2 == expected->l2 && got->l2_b == expected->l2_b);
  ck_assert(got->rel_l2 == expected->rel_l2 && got->max_abs_over_max == expected->max_abs_over_max);
  check_pair(&got->worst, &expected->worst);
  check_pair(&got->first, &expected->first);
}

static struct ab_difference in_pieces(bool narrow, size_t count, size_t piece) {
  struct ab_difference_walk walk;
  struct ab_difference d;
  ck_ok(ab_difference_begin(&walk, narrow ? AB_F32 : AB_F64, narrow ? AB_F32 : AB_F64, count));
  do
    for (size_t at = 0; at < count; at += piece) {
      size_t n = count - at < piece ? count - at : piece;
      struct ab_view a = view_of(narrow, false, at, n), b = view_of(narrow, true, at, n);
      ab_difference_add(&walk, &a, &b);
    }
  while (!ab_difference_end(&d, &walk));
  return d;
}

static void check_all_ways(size_t count) {
  static const size_t pieces[] = {1, 7, 8, 100, BLOCK - 1, BLOCK, BLOCK + 1, MOST};
  for (int narrow = 0; narrow < 2; narrow++) {
    struct ab_difference expected = plainly(narrow, count), whole;
    struct ab_view a = view_of(narrow, false, 0, count), b = view_of(narrow, true, 0, count);
    ck_ok(ab_difference(&whole, &a, &b));
    check_same(&whole, &expected);
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
      struct ab_difference d = in_pieces(narrow, count, pieces[p]);
      check_same(&d, &expected);
    }
  }
}

static const size_t counts[] = {0, 1, 7, 8, 9, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, MOST};
static const uint32_t rarities[] = {0, 1, 3, 700};

START_TEST(the_walk_is_the_plain_loop) {
  for (size_t r = 0; r < sizeof rarities / sizeof *rarities; r++)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      fill(rarities[r]);
      check_all_ways(counts[c]);
    }
}
END_TEST

static void put(bool second, size_t i, float value) {
  (second ? b32 : a32)[i] = value;
  (second ? b64 : a64)[i] = (double)value;
}

START_TEST(what_is_not_finite_is_seen_at_every_edge) {
  static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
  for (size_t c = 1; c < sizeof counts / sizeof *counts; c++)
    for (size_t o = 0; o < sizeof odd / sizeof *odd; o++)
      for (int place = 0; place < 3; place++) {
        size_t i = place == 0 ? 0 : place == 1 ? counts[c] / 2 : counts[c] - 1;
        fill(place == 1 ? 3 : 700);
        if (o != 1) put(false, i, odd[o]);
        if (o != 2) put(true, i, odd[o]);
        struct ab_difference d = in_pieces(true, counts[c], BLOCK);
        ck_assert(d.nonfinite_a + d.nonfinite_b > 0 && isinf(d.rel_l2));
        ck_assert_uint_eq(d.worst.index, i);
        check_all_ways(counts[c]);
      }
}
END_TEST

START_TEST(one_element_is_found_at_every_edge) {
  static const size_t places[] = {0, 7, 8, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, MOST - 1};
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
    fill(0);
    put(false, places[p], 3);
    put(true, places[p], -3);
    check_all_ways(MOST);
    struct ab_difference d = in_pieces(false, MOST, BLOCK);
    ck_assert_uint_eq(d.differing, 1);
    ck_assert_uint_eq(d.first.index, places[p]);
    ck_assert_double_eq(d.max_abs, 6);
  }
}
END_TEST

/* The difference is scaled up by as much as its squares need, and what is equal must not overflow by it. */
START_TEST(a_tiny_difference_beside_huge_elements) {
  fill(0);
  a64[3] = b64[3] = 1e300;
  b64[5] = 0;
  a64[5] = 1e-200;
  struct ab_difference d = in_pieces(false, BLOCK, BLOCK), odd = in_pieces(false, BLOCK, 100);
  ck_assert_double_eq_tol(d.l2 / 1e-200, 1, 1e-12);
  ck_assert_double_eq_tol(d.l2_b / 1e300, 1, 1e-12);
  check_same(&odd, &d);
}
END_TEST

/* Element i of a dtype is (i % 100) in it; every second one is skipped; nothing is written behind the last. */
START_TEST(a_cursor_widens_every_dtype_and_no_element_more) {
  enum { MANY = 2 * AB_CURSOR_BLOCK + 5 };
  static unsigned char data[2 * MANY * 8];
  enum ab_dtype dtype = (enum ab_dtype)_i;
  size_t size = ab_dtype_size(dtype), at = 0;
  for (size_t i = 0; i < 2 * MANY; i++) {
    float f = (float)(i % 100);
    double d = (double)(i % 100);
    uint64_t whole = i % 100;
    memcpy(data + i * size, dtype == AB_F32 ? (void *)&f : dtype == AB_F64 ? (void *)&d : (void *)&whole, size);
  }
  struct ab_view view = {.dtype = dtype, .shape = {1, {MANY}}, .stride = {2}, .data = data};
  struct ab_cursor cursor;
  ab_cursor_start(&cursor, &view);
  for (size_t filled = 1; filled;) {
    for (size_t i = 0; i < AB_CURSOR_BLOCK; i++) cursor.bits[i] = UINT64_MAX, cursor.value[i] = -7;
    filled = ab_cursor_next(&cursor);
    for (size_t i = 0; i < filled; i++, at++) {
      uint64_t bits = 0;
      memcpy(&bits, data + 2 * at * size, size);
      ck_assert_msg(cursor.value[i] == (double)(2 * at % 100) && cursor.bits[i] == bits, "dtype %d, element %zu", _i, at);
    }
    for (size_t i = filled; i < AB_CURSOR_BLOCK; i++)
      ck_assert_msg(cursor.bits[i] == UINT64_MAX && cursor.value[i] == -7, "dtype %d: %zu behind %zu", _i, i, filled);
  }
  ck_assert_uint_eq(at, MANY);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("walk");
  TCase *c = tcase_create("walk");
  tcase_add_test(c, the_walk_is_the_plain_loop);
  tcase_add_test(c, what_is_not_finite_is_seen_at_every_edge);
  tcase_add_test(c, one_element_is_found_at_every_edge);
  tcase_add_test(c, a_tiny_difference_beside_huge_elements);
  tcase_add_loop_test(c, a_cursor_widens_every_dtype_and_no_element_more, AB_F32, AB_M61 + 1);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
