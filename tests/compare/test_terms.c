/* Wrong gradients made of known terms, and what is said about them. */
#include "terms.h"

#include <string.h>

#include "m61.h"
#include "mem.h"
#include "tap.h"

enum { LAYERS = 3, MICROBATCHES = 6, COUNT = 40 };

static uint64_t term[LAYERS][MICROBATCHES][COUNT];
static struct ab_terms *terms;

static uint64_t word(uint64_t i) {
  uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (x ^ x >> 31) % AB_M61_PRIME;
}

static struct ab_view view_of(void *data, enum ab_dtype dtype) {
  return (struct ab_view){.dtype = dtype, .shape = {2, {5, COUNT / 5}}, .stride = {COUNT / 5, 1}, .data = data};
}

static void set_up(void) {
  ck_ok(ab_terms_new(&terms, LAYERS, MICROBATCHES, 1));
  for (int l = 0; l < LAYERS; l++)
    for (int m = 0; m < MICROBATCHES; m++) {
      for (int i = 0; i < COUNT; i++) term[l][m][i] = word((uint64_t)((l * MICROBATCHES + m) * COUNT + i));
      struct ab_view view = view_of(term[l][m], AB_M61);
      ck_ok(ab_terms_add(terms, l, "weights", m, &view));
    }
}

static void tear_down(void) {
  ab_terms_free(terms);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, 0);
}

/* How often each term of each layer is in the gradient of layer 1. */
struct fault {
  int times[LAYERS][MICROBATCHES];
  enum ab_explained kind;
  const char *text;
};

static const struct fault faults[] = {
    {{{0}, {1, 1, 1, 1, 1, 1}}, AB_EXPLAINED_EQUAL, "is right: every term is there once"},
    {{{0}, {1, 1, 1, 0, 1, 1}}, AB_EXPLAINED_TERMS, "microbatch 3 is missing"},
    {{{0}, {1, 2, 1, 1, 1, 1}}, AB_EXPLAINED_TERMS, "microbatch 1 is there twice"},
    {{{0}, {1, 2, 1, 0, 1, 5}}, AB_EXPLAINED_TERMS,
     "microbatch 1 is there twice, microbatch 3 is missing, microbatch 5 is there 5 times"},
    {{{0}, {1, 1, 1, 1, -1, 1}}, AB_EXPLAINED_TERMS, "microbatch 4 is subtracted"},
    {{{0}, {0}}, AB_EXPLAINED_ZERO, "is zero: no microbatch adds to it"},
    {{{0}, {3, 3, 3, 3, 3, 3}}, AB_EXPLAINED_SCALED, "is 3 times the true gradient"},
    {{{0}, {-1, -1, -1, -1, -1, -1}}, AB_EXPLAINED_SCALED, "is -1 times the true gradient"},
    {{{0}, {0}, {1, 1, 1, 1, 1, 1}}, AB_EXPLAINED_LAYER, "is the gradient of layer 2"},
    {{{0, 0, 1}, {1, 1, 1, 1, 1, 1}}, AB_EXPLAINED_TERMS, "microbatch 2 of layer 0 is added"},
    {{{0}, {1, 1, 0, 1, 1, 1}, {0, 0, 1, 0, 0, 2}}, AB_EXPLAINED_TERMS,
     "microbatch 2 is missing, microbatch 2 of layer 2 is added, microbatch 5 of layer 2 is there twice"},
    {{{1, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}, {1, 0, 0, 0, 0, 0}}, AB_EXPLAINED_NOT,
     "is no sum of the true terms: a value in it is wrong"},
    {{{1}, {1, 1, 1, 1, 1, 1}}, AB_EXPLAINED_TERMS, "microbatch 0 of layer 0 is added"},
    {{{0}, {1, 1, 1, 65, 1, 1}}, AB_EXPLAINED_TERMS, "microbatch 3 is there 65 times"},
    {{{0}, {1, 1, 1, 66, 1, 1}}, AB_EXPLAINED_NOT, "is no sum of the true terms: a value in it is wrong"},
    {{{0}, {1, 1, 1, 1000, 1, 1}}, AB_EXPLAINED_NOT, "is no sum of the true terms: a value in it is wrong"},
};

static void add_up(uint64_t *out, const int times[LAYERS][MICROBATCHES]) {
  memset(out, 0, COUNT * sizeof *out);
  for (int l = 0; l < LAYERS; l++)
    for (int m = 0; m < MICROBATCHES; m++)
      for (int i = 0; i < COUNT; i++)
        out[i] = ab_m61_add(out[i], ab_m61_multiply(ab_m61_of_integer(times[l][m]), term[l][m][i]));
}

START_TEST(a_sum_of_terms_is_decoded) {
  const struct fault *fault = &faults[_i];
  uint64_t got[COUNT];
  struct ab_explanation e;
  struct ab_view view = view_of(got, AB_M61);
  add_up(got, fault->times);
  ck_ok(ab_terms_explain(&e, terms, 1, "weights", &view));
  ck_assert_str_eq(e.text, fault->text);
  ck_assert_int_eq(e.kind, fault->kind);
  ck_assert(e.unique);
}
END_TEST

START_TEST(odd_terms_are_listed) {
  const int times[LAYERS][MICROBATCHES] = {{0}, {1, 1, 0, 1, 1, 1}, {0, 0, 0, 0, 2, 0}};
  uint64_t got[COUNT];
  struct ab_explanation e;
  struct ab_view view = view_of(got, AB_M61);
  add_up(got, times);
  ck_ok(ab_terms_explain(&e, terms, 1, "weights", &view));
  ck_assert_uint_eq(e.odds, 2);
  ck_assert(e.odd[0].layer == 1 && e.odd[0].part == 2 && e.odd[0].times == 0);
  ck_assert(e.odd[1].layer == 2 && e.odd[1].part == 4 && e.odd[1].times == 2);
}
END_TEST

/* One wrong value in one element: nothing fits. */
START_TEST(a_wrong_value_is_no_term) {
  uint64_t got[COUNT];
  struct ab_explanation e;
  struct ab_view view = view_of(got, AB_M61);
  for (int i = 0; i < COUNT; i++) {
    add_up(got, faults[0].times);
    got[i] = ab_m61_add(got[i], 1);
    ck_ok(ab_terms_explain(&e, terms, 1, "weights", &view));
    ck_assert_int_eq(e.kind, AB_EXPLAINED_NOT);
  }
}
END_TEST

START_TEST(rows_are_terms_too) {
  struct ab_terms *rows;
  struct ab_explanation e;
  uint64_t got[COUNT];
  const int times[LAYERS][MICROBATCHES] = {{1, 1, 1, 0, 1, 1}};
  struct ab_view view = view_of(got, AB_M61);
  ck_ok(ab_terms_new(&rows, 1, MICROBATCHES / 2, 2));
  for (int m = 0; m < MICROBATCHES; m++) {
    struct ab_view one = view_of(term[0][m], AB_M61);
    ck_ok(ab_terms_add(rows, 0, "weights", m, &one));
  }
  add_up(got, times);
  ck_ok(ab_terms_explain(&e, rows, 0, "weights", &view));
  ck_assert_str_eq(e.text, "microbatch 1 row 1 is missing");
  ab_terms_free(rows);
}
END_TEST

/* Integers in floating point are decoded like residues; a strided view like a packed one. */
START_TEST(floats_may_be_integers) {
  struct ab_terms *small;
  struct ab_explanation e;
  float one[2][3] = {{1, -2, 5}, {7, 0, -3}}, got[6] = {1, 1, -2, -2, 5, 5};
  struct ab_view view = {.dtype = AB_F32, .shape = {1, {3}}, .stride = {1}};
  ck_ok(ab_terms_new(&small, 1, 2, 1));
  for (int m = 0; m < 2; m++) {
    view.data = one[m];
    ck_ok(ab_terms_add(small, 0, "ff_1", m, &view));
  }
  view.data = got;
  view.stride[0] = 2;
  ck_ok(ab_terms_explain(&e, small, 0, "ff_1", &view));
  ck_assert_str_eq(e.text, "microbatch 1 is missing");
  got[2] = 0.5f;
  ck_fails(ab_terms_explain(&e, small, 0, "ff_1", &view), AB_EFORMAT, "gradient 'ff_1' has the value 0.5");
  ab_terms_free(small);
}
END_TEST

/* A term that is zero leaves no trace: the others are still decoded, and it is said that the answer is not the only
 * one. */
START_TEST(dependent_terms_are_admitted) {
  struct ab_terms *some;
  struct ab_explanation e;
  uint64_t zero[COUNT] = {0}, got[COUNT];
  const int times[LAYERS][MICROBATCHES] = {{1, 0, 0, 0, 0, 0}};
  struct ab_view view = view_of(got, AB_M61), none = view_of(zero, AB_M61);
  ck_ok(ab_terms_new(&some, 1, 3, 1));
  for (int m = 0; m < 3; m++) {
    struct ab_view one = view_of(term[0][m], AB_M61);
    ck_ok(ab_terms_add(some, 0, "weights", m, m == 1 ? &none : &one));
  }
  add_up(got, times);
  ck_ok(ab_terms_explain(&e, some, 0, "weights", &view));
  ck_assert_str_eq(e.text, "microbatch 2 is missing");
  ck_assert(!e.unique);
  ab_terms_free(some);
}
END_TEST

/* No multiples of nothing are something. */
START_TEST(terms_that_are_zero_explain_nothing) {
  struct ab_terms *zeros;
  struct ab_explanation e;
  uint64_t zero[COUNT] = {0};
  struct ab_view view = view_of(term[0][0], AB_M61), none = view_of(zero, AB_M61);
  ck_ok(ab_terms_new(&zeros, 1, 2, 1));
  for (int m = 0; m < 2; m++) ck_ok(ab_terms_add(zeros, 0, "weights", m, &none));
  ck_ok(ab_terms_explain(&e, zeros, 0, "weights", &view));
  ck_assert_int_eq(e.kind, AB_EXPLAINED_NOT);
  ab_terms_free(zeros);
}
END_TEST

/* The first of the points at which terms.c takes polynomials. */
static uint64_t first_point(void) {
  ab_u128 product = (ab_u128)(1 + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd1342543de82ef95);
  return ab_m61_reduce((uint64_t)(product >> 64) ^ (uint64_t)product);
}

/* x - p is 0 at p: the first equation cannot be the pivot. */
START_TEST(a_term_may_vanish_at_a_point) {
  struct ab_terms *two;
  struct ab_explanation e;
  uint64_t root[COUNT] = {[COUNT - 2] = 1, [COUNT - 1] = AB_M61_PRIME - first_point()}, got[COUNT];
  struct ab_view parts[] = {view_of(root, AB_M61), view_of(term[0][0], AB_M61)}, view = view_of(got, AB_M61);
  ck_ok(ab_terms_new(&two, 1, 2, 1));
  for (int m = 0; m < 2; m++) ck_ok(ab_terms_add(two, 0, "weights", m, &parts[m]));
  for (int i = 0; i < COUNT; i++) got[i] = ab_m61_add(ab_m61_add(root[i], root[i]), term[0][0][i]);
  ck_ok(ab_terms_explain(&e, two, 0, "weights", &view));
  ck_assert_str_eq(e.text, "microbatch 0 is there twice");
  ck_assert(e.unique);
  ab_terms_free(two);
}
END_TEST

/* Every microbatch but the first is there twice: more than are listed. */
START_TEST(odd_terms_beyond_the_list_are_counted) {
  enum { MANY = AB_ODD_MOST + 2, LONG = MANY + 14 };
  static uint64_t part[MANY][LONG], got[LONG];
  struct ab_terms *many;
  struct ab_explanation e;
  struct ab_view view = {.dtype = AB_M61, .shape = {1, {LONG}}, .stride = {1}};
  ck_ok(ab_terms_new(&many, 1, MANY, 1));
  for (int m = 0; m < MANY; m++) {
    for (int i = 0; i < LONG; i++) {
      part[m][i] = word((uint64_t)(m * LONG + i));
      for (int times = 0; times < 1 + (m > 0); times++) got[i] = ab_m61_add(got[i], part[m][i]);
    }
    view.data = part[m];
    ck_ok(ab_terms_add(many, 0, "weights", m, &view));
  }
  view.data = got;
  ck_ok(ab_terms_explain(&e, many, 0, "weights", &view));
  ck_assert_int_eq(e.kind, AB_EXPLAINED_TERMS);
  ck_assert_uint_eq(e.odds, MANY - 1);
  for (int i = 0; i < AB_ODD_MOST; i++) ck_assert(e.odd[i].part == i + 1 && e.odd[i].times == 2);
  ab_terms_free(many);
}
END_TEST

START_TEST(what_does_not_fit_is_refused) {
  struct ab_explanation e;
  struct ab_view view = view_of(term[0][0], AB_M61), less = view;
  less.shape.dim[0] = 4;
  ck_fails(ab_terms_add(terms, 0, "weights", 0, &view), AB_EMISMATCH, "was given before");
  ck_fails(ab_terms_add(terms, 0, "weights", 0, &less), AB_EMISMATCH, "32 elements and was given before; expected 40");
  ck_fails(ab_terms_add(terms, 0, "weights", MICROBATCHES, &view), AB_EMISMATCH, "expected one of 6 terms in 3 layers");
  ck_fails(ab_terms_add(terms, LAYERS, "weights", 0, &view), AB_EMISMATCH, "expected one of 6 terms in 3 layers");
  ck_fails(ab_terms_explain(&e, terms, 1, "weights", &less), AB_EMISMATCH, "has 32 elements and 6 known terms");
  ck_fails(ab_terms_explain(&e, terms, 1, "bias", &view), AB_EMISMATCH, "0 known terms; expected 0 and 6");
  ck_ok(ab_terms_add(terms, 0, "scale", 0, &view));
  ck_fails(ab_terms_explain(&e, terms, 0, "scale", &view), AB_EMISMATCH, "1 known terms; expected 40 and 6");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("terms");
  TCase *tcase = tcase_create("terms");
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_loop_test(tcase, a_sum_of_terms_is_decoded, 0, (int)(sizeof faults / sizeof *faults));
  tcase_add_test(tcase, odd_terms_are_listed);
  tcase_add_test(tcase, a_wrong_value_is_no_term);
  tcase_add_test(tcase, rows_are_terms_too);
  tcase_add_test(tcase, floats_may_be_integers);
  tcase_add_test(tcase, dependent_terms_are_admitted);
  tcase_add_test(tcase, terms_that_are_zero_explain_nothing);
  tcase_add_test(tcase, a_term_may_vanish_at_a_point);
  tcase_add_test(tcase, odd_terms_beyond_the_list_are_counted);
  tcase_add_test(tcase, what_does_not_fit_is_refused);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
