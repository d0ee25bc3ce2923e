#include "judge.h"
#include "sides.h"

START_TEST(a_missing_leaf_is_structure_and_grouped) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct both both;
  struct ab_verdict v;
  side_run(&a, false, false);
  side_run(&b, false, false);
  for (int layer = 0; layer < LAYERS; layer++) { /* only b has them */
    struct ab_identity id = identity(0, layer, "mlp/wi/kernel", AB_BACKWARD);
    side_tensor(&b, &id, AB_F32, (struct ab_shape){1, {4}});
    side_observe(&b, &id);
  }
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_uint_eq(v.changed, 3);
  ck_assert_uint_eq(v.groups, 1);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_MISSING);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/mlp/wi/kernel backward");
  ck_assert_uint_eq(v.group[0].count, 3);
  ab_verdict_free(&v);
  c = comparison_of(&both, &b, &a); /* the other way round they are added */
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_ADDED);
  ab_verdict_free(&v);
  c.partial = true; /* a selection as reference: counted, not wrong */
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_EQUAL);
  ck_assert_uint_eq(v.ignored, 3);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* One extra tensor on each side. */
static struct ab_verdict judge_extra(struct side *a, struct side *b, const char *name_a, enum ab_dtype dtype_a,
                                     struct ab_shape shape_a, struct ab_shape shape_b) {
  struct both both;
  struct ab_verdict v;
  struct ab_identity id_a = identity(0, 1, name_a, AB_BACKWARD), id_b = identity(0, 1, "mlp/wi/kernel", AB_BACKWARD);
  struct ab_tensor *ta = side_tensor(a, &id_a, dtype_a, shape_a), *tb = side_tensor(b, &id_b, AB_F32, shape_b);
  for (size_t i = 0; i < 6; i++) {
    ((float *)tb->data)[i] = (float)i;
    if (dtype_a == AB_F32) ((float *)ta->data)[i] = (float)i;
  }
  side_run(a, false, false);
  side_run(b, false, false);
  side_observe(a, &id_a);
  side_observe(b, &id_b);
  struct ab_comparison c = comparison_of(&both, a, b);
  c.expected.tensors[AB_Q_WEIGHT_GRADIENT]++;
  c.expected.elements[AB_Q_WEIGHT_GRADIENT] += 6;
  ck_ok(ab_verdict(&v, &c));
  return v;
}

static const struct ab_shape two_three = {2, {2, 3}}, three_two = {2, {3, 2}};

START_TEST(a_renamed_leaf_is_missing_and_added) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct ab_verdict v = judge_extra(&a, &b, "mlp/wx/kernel", AB_F32, two_three, two_three);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_uint_eq(v.changed, 2);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_MISSING);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/mlp/wi/kernel backward");
  ck_assert_int_eq(v.group[1].change, AB_CHANGE_ADDED);
  ck_assert_str_eq(v.group[1].pattern, "layers/*/mlp/wx/kernel backward");
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(equal_bytes_of_another_shape_are_reshaped) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct ab_verdict v = judge_extra(&a, &b, "mlp/wi/kernel", AB_F32, three_two, two_three);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_RESHAPED);
  ck_assert(ab_shape_equal(&v.group[0].shape_a, &three_two) && ab_shape_equal(&v.group[0].shape_b, &two_three));
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(another_dtype_is_retyped) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct ab_verdict v = judge_extra(&a, &b, "mlp/wi/kernel", AB_F64, two_three, two_three);
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_RETYPED);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(counts_must_be_the_expected_ones) {
  static const int offsets[] = {-1, 1};
  for (int o = 0; o < 2; o++)
    for (int which = 0; which < 4; which++) {
      struct fixture f;
      struct ab_verdict v;
      start(&f);
      side_run(&f.a, false, false);
      side_run(&f.b, false, false);
      struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
      size_t *counts[] = {&c.expected.steps, &c.expected.tensors[AB_Q_METRIC],
                          &c.expected.tensors[AB_Q_WEIGHT_GRADIENT], &c.expected.elements[AB_Q_WEIGHT_GRADIENT]};
      *counts[which] += (size_t)offsets[o];
      ck_ok(ab_verdict(&v, &c));
      ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
      ck_assert(!v.counts_right);
      stop(&f, &v);
    }
}
END_TEST

START_TEST(a_quantity_that_must_be_there_and_is_not) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  c.expected.tensors[AB_Q_PARAMETER] = 6; /* both sides forgot them: the streams agree, the config does not */
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  stop(&f, &v);
}
END_TEST

/* A tensor of shape [0, 3] on both sides, and, if asked for, a number. */
static void hold_nothing(struct side *s, bool metric) {
  struct ab_identity id = identity(0, 0, "mlp/wo/kernel", AB_FORWARD);
  side_tensor(s, &id, AB_F32, (struct ab_shape){2, {0, 3}});
  side_observe(s, &id);
  if (metric) side_metric(s, 0, "loss", 1);
  ab_recording_complete(s->recording);
}

START_TEST(tensors_without_elements_are_no_comparison) {
  for (int metric = 0; metric < 2; metric++)
    for (int headers = 0; headers < 2; headers++) {
      struct side a = side_new("linen"), b = side_new("nnx");
      struct both both;
      struct ab_verdict v;
      char text[AB_LACK_TEXT];
      hold_nothing(&a, metric);
      hold_nothing(&b, metric);
      struct ab_comparison c = comparison_of(&both, &a, &b);
      c.expected = ab_expected_none();
      c.headers = headers;
      ck_ok(ab_verdict(&v, &c));
      ck_assert_int_eq(v.exit, metric || headers ? AB_EXIT_EQUAL : AB_EXIT_INCOMPARABLE);
      ck_assert_uint_eq(v.empty, 1);
      ab_verdict_lack(text, &v);
      ck_assert_str_eq(text, metric || headers ? "" : "nothing could be compared: no tensor has an element");
      ab_verdict_free(&v);
      side_free(&a);
      side_free(&b);
    }
}
END_TEST

START_TEST(nothing_compared_is_never_equal) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  c.expected = ab_expected_none();
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  c.expected = (struct ab_expected){0};
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  side_free(&a);
  side_free(&b);
  struct fixture f; /* all there, but no quantity takes part */
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  c = comparison_of(&f.both, &f.a, &f.b);
  c.quantities = 0;
  c.expected = ab_expected_none();
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  stop(&f, &v);
}
END_TEST

START_TEST(an_unfinished_side_is_never_judged) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  f.a.recording->complete = false;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_fails(ab_verdict(&v, &c), AB_ECOMM, "side 'linen' did not finish");
  side_free(&f.a);
  side_free(&f.b);
}
END_TEST

START_TEST(a_metric_of_another_precision_is_retyped) {
  struct fixture f;
  struct ab_verdict v;
  start(&f);
  side_run(&f.a, false, false);
  side_run(&f.b, false, false);
  f.a.recording->metric[0].metric.f32 = false;
  struct ab_comparison c = comparison_of(&f.both, &f.a, &f.b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_int_eq(v.group[0].change, AB_CHANGE_RETYPED);
  ck_assert_str_eq(v.group[0].pattern, "metric loss");
  stop(&f, &v);
}
END_TEST

START_TEST(the_largest_groups_come_first) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct both both;
  struct ab_verdict v;
  side_run(&a, false, false);
  side_run(&b, false, false);
  for (int i = 0; i < 6; i++) {
    const char *name = i < 2 ? "aa/kernel" : i < 5 ? "bb/kernel" : "cc/kernel";
    struct ab_observation o = {.id = identity(0, i, name, AB_BACKWARD), .at = {-1, -1, -1, false}};
    ck_ok(ab_recording_observe(b.recording, &o));
  }
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.groups, 3);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/bb/kernel backward");
  ck_assert_uint_eq(v.group[0].count, 3);
  ck_assert_str_eq(v.group[2].pattern, "layers/*/cc/kernel backward");
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(many_renamed_leaves_become_one_line) {
  struct side a = side_values("linen"), b = side_values("nnx");
  struct both both;
  struct ab_verdict v;
  side_run(&a, false, false);
  side_run(&b, false, false);
  for (int i = 0; i < 1472; i++) {
    char name[AB_NAME_MAX];
    snprintf(name, sizeof name, "experts/%d/w1", i);
    struct ab_observation o = {.id = identity(0, i % 4, name, AB_BACKWARD), .at = {-1, -1, -1, false}, .dtype = AB_F32};
    o.summary.count = 1;
    ck_ok(ab_recording_observe(b.recording, &o));
  }
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.groups, 1);
  ck_assert_str_eq(v.group[0].pattern, "layers/*/experts/*/w1 backward");
  ck_assert_uint_eq(v.group[0].count, 1472);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

START_TEST(more_patterns_than_are_kept_are_counted) {
  struct side a = side_new("linen"), b = side_new("nnx");
  struct both both;
  struct ab_verdict v;
  for (int i = 0; i < 100; i++) {
    char name[AB_NAME_MAX];
    snprintf(name, sizeof name, "x%d", i);
    struct ab_observation o = {.id = identity(0, -1, name, AB_FORWARD), .at = {-1, -1, -1, false}, .dtype = AB_F32};
    ck_ok(ab_recording_observe(b.recording, &o));
  }
  ab_recording_complete(a.recording);
  ab_recording_complete(b.recording);
  struct ab_comparison c = comparison_of(&both, &a, &b);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_uint_eq(v.changed, 100);
  ck_assert_uint_eq(v.groups, AB_GROUPS_MAX);
  ck_assert_uint_eq(v.groups_left_out, 100 - AB_GROUPS_MAX);
  ab_verdict_free(&v);
  side_free(&a);
  side_free(&b);
}
END_TEST

/* Many first, then by kind, then by name; from either end. */
START_TEST(groups_stand_in_a_fixed_order) {
  static const struct ab_group sorted[] = {
      {.count = 5, .change = AB_CHANGE_RETYPED, .pattern = "z"}, {.count = 4, .change = AB_CHANGE_MISSING, .pattern = "a"},
      {.count = 4, .change = AB_CHANGE_MISSING, .pattern = "b"}, {.count = 4, .change = AB_CHANGE_RETYPED, .pattern = "a"},
      {.count = 1, .change = AB_CHANGE_MISSING, .pattern = "a"}};
  enum { ROWS = sizeof sorted / sizeof *sorted };
  for (int begin = 0; begin < ROWS; begin++)
    for (int turned = 0; turned < 2; turned++) {
      struct ab_group row[ROWS];
      for (int i = 0; i < ROWS; i++) row[turned ? ROWS - 1 - i : i] = sorted[(begin + i) % ROWS];
      struct ab_groups groups = {.row = row, .rows = ROWS};
      ab_groups_sort(&groups);
      for (int i = 0; i < ROWS; i++)
        ck_assert_msg(row[i].count == sorted[i].count && row[i].change == sorted[i].change &&
                          strcmp(row[i].pattern, sorted[i].pattern) == 0, "from %d%s: row %d is %s", begin,
                      turned ? " turned" : "", i, row[i].pattern);
    }
}
END_TEST

START_TEST(a_metric_has_a_rank_where_it_is) {
  static const struct {
    enum ab_change change;
    int rank_a, rank_b;
  } rows[] = {{AB_CHANGE_MISSING, -1, 0}, {AB_CHANGE_ADDED, 0, -1}, {AB_CHANGE_RETYPED, 0, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_groups groups = {0};
    ck_ok(ab_groups_add_metric(&groups, rows[i].change, &(struct ab_metric){.name = "loss"}));
    ck_assert_int_eq(groups.row[0].shape_a.rank, rows[i].rank_a);
    ck_assert_int_eq(groups.row[0].shape_b.rank, rows[i].rank_b);
    ab_groups_free(&groups);
  }
}
END_TEST

/* What lies behind a list of quantities is none of them. */
START_TEST(nothing_is_expected_of_any_quantity) {
  struct ab_expected e = ab_expected_none();
  for (int q = 0; q < AB_QUANTITIES; q++)
    ck_assert_msg(e.tensors[q] == AB_UNCOUNTED && e.elements[q] == AB_UNCOUNTED, "quantity %d", q);
  ck_assert_uint_eq(e.steps, AB_UNCOUNTED);
}
END_TEST

START_TEST(what_a_verdict_lacks_is_listed) {
  struct ab_group group[5];
  for (int i = 0; i < 5; i++)
    group[i] = (struct ab_group){.change = AB_CHANGE_ADDED, .count = 1, .pattern = {(char)('a' + i)}};
  static const struct {
    size_t groups, left_out;
    const char *text;
  } rows[] = {{2, 0, "added a (1), added b (1)"},
              {3, 0, "added a (1), added b (1), added c (1)"},
              {4, 0, "added a (1), added b (1), added c (1), and more"},
              {3, 1, "added a (1), added b (1), added c (1), and more"}};
  char text[AB_LACK_TEXT];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_verdict v = {.any = true, .changed = 5, .group = group, .groups = rows[i].groups,
                           .groups_left_out = rows[i].left_out};
    ab_verdict_lack(text, &v);
    ck_assert_str_eq(text, rows[i].text);
  }
  for (int q = 0; q <= AB_QUANTITIES; q++) { /* the last row: elements alone, which other counts say better */
    struct ab_verdict v = {.any = true, .elements = {.expected = 3}, .unpinned = 5};
    char expected[AB_LACK_TEXT] = "elements 0 of 3";
    if (q < AB_QUANTITIES) v.by_quantity[q].expected = 2;
    if (q < AB_QUANTITIES) snprintf(expected, sizeof expected, "%s 0 of 2", ab_quantity_name((enum ab_quantity)q));
    ab_verdict_lack(text, &v);
    ck_assert_msg(strcmp(text, expected) == 0, "quantity %d: %s", q, text);
  }
}
END_TEST

START_TEST(empty_tensors_are_counted_among_the_tensors) {
  char text[AB_LACK_TEXT];
  struct ab_verdict v = {.first_empty = "x", .unpinned = 5, .counts_right = true};
  for (int q = 0; q < AB_QUANTITIES; q++) v.by_quantity[q].compared = (size_t)1 << q;
  size_t tensors = ((size_t)1 << AB_QUANTITIES) - 1 - ((size_t)1 << AB_Q_METRIC);
  for (v.empty = 1; v.empty <= 2; v.empty++) {
    char expected[AB_LACK_TEXT];
    snprintf(expected, sizeof expected, "%zu of %zu tensors %s no element: only %s shape and dtype were compared, first x",
             v.empty, tensors, v.empty == 1 ? "has" : "have", v.empty == 1 ? "its" : "their");
    ab_verdict_note_empty(text, &v);
    ck_assert_str_eq(text, expected);
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("structure");
  TCase *c = tcase_create("structure");
  tcase_add_test(c, a_missing_leaf_is_structure_and_grouped);
  tcase_add_test(c, a_renamed_leaf_is_missing_and_added);
  tcase_add_test(c, equal_bytes_of_another_shape_are_reshaped);
  tcase_add_test(c, another_dtype_is_retyped);
  tcase_add_test(c, counts_must_be_the_expected_ones);
  tcase_add_test(c, a_quantity_that_must_be_there_and_is_not);
  tcase_add_test(c, nothing_compared_is_never_equal);
  tcase_add_test(c, tensors_without_elements_are_no_comparison);
  tcase_add_test(c, an_unfinished_side_is_never_judged);
  tcase_add_test(c, a_metric_of_another_precision_is_retyped);
  tcase_add_test(c, the_largest_groups_come_first);
  tcase_add_test(c, many_renamed_leaves_become_one_line);
  tcase_add_test(c, more_patterns_than_are_kept_are_counted);
  tcase_add_test(c, groups_stand_in_a_fixed_order);
  tcase_add_test(c, a_metric_has_a_rank_where_it_is);
  tcase_add_test(c, nothing_is_expected_of_any_quantity);
  tcase_add_test(c, what_a_verdict_lacks_is_listed);
  tcase_add_test(c, empty_tensors_are_counted_among_the_tensors);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
