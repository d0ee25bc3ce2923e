#include "cause.h"
#include "sides.h"

/* What is known, and the word that it folds into. A fact that is not named is unknown. */
struct row {
  const char *what;
  enum ab_cause cause;
  struct {
    enum ab_fact fact;
    enum ab_known known;
  } fact[6];
};

#define YES(fact) {fact, AB_HOLDS}
#define NO(fact) {fact, AB_BROKEN}

static const struct row rows[] = {
    {"all hold", AB_CAUSE_EQUAL, {YES(AB_FACT_AB), YES(AB_FACT_A_ORACLE), YES(AB_FACT_B_ORACLE), YES(AB_FACT_SHARED)}},
    {"nothing but A = B", AB_CAUSE_EQUAL, {YES(AB_FACT_AB)}},
    {"A left the oracle", AB_CAUSE_A_WRONG, {NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), YES(AB_FACT_B_ORACLE)}},
    {"B left the oracle", AB_CAUSE_B_WRONG, {NO(AB_FACT_AB), YES(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE)}},
    {"the oracle goes before the distance", AB_CAUSE_A_WRONG,
     {NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), YES(AB_FACT_B_ORACLE), YES(AB_FACT_A_TRUTH), NO(AB_FACT_B_TRUTH)}},
    {"both left the oracle, A is near", AB_CAUSE_B_WRONG,
     {NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE), YES(AB_FACT_A_TRUTH), NO(AB_FACT_B_TRUTH)}},
    {"both left the oracle, B is near", AB_CAUSE_A_WRONG,
     {NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE), NO(AB_FACT_A_TRUTH), YES(AB_FACT_B_TRUTH)}},
    {"both far, the slope is A's", AB_CAUSE_B_WRONG,
     {NO(AB_FACT_AB), NO(AB_FACT_A_TRUTH), NO(AB_FACT_B_TRUTH), YES(AB_FACT_A_SLOPE), NO(AB_FACT_B_SLOPE)}},
    {"both far, the slope is B's", AB_CAUSE_A_WRONG,
     {NO(AB_FACT_AB), NO(AB_FACT_A_TRUTH), NO(AB_FACT_B_TRUTH), NO(AB_FACT_A_SLOPE), YES(AB_FACT_B_SLOPE)}},
    {"only the golden knows, A", AB_CAUSE_A_WRONG, {NO(AB_FACT_AB), NO(AB_FACT_A_GOLDEN), YES(AB_FACT_B_GOLDEN)}},
    {"only the golden knows, B", AB_CAUSE_B_WRONG, {NO(AB_FACT_AB), YES(AB_FACT_A_GOLDEN), NO(AB_FACT_B_GOLDEN)}},
    {"nobody knows", AB_CAUSE_UNDECIDED, {NO(AB_FACT_AB)}},
    {"both wrong in every way", AB_CAUSE_UNDECIDED,
     {NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE), NO(AB_FACT_A_TRUTH), NO(AB_FACT_B_TRUTH)}},
    {"A = B, both left the oracle", AB_CAUSE_BOTH_MOVED,
     {YES(AB_FACT_AB), NO(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE)}},
    {"A = B, within bounds only B left", AB_CAUSE_BOTH_MOVED,
     {YES(AB_FACT_AB), YES(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE)}},
    {"A = B = oracle, float64 is elsewhere", AB_CAUSE_BOTH_MOVED,
     {YES(AB_FACT_AB), YES(AB_FACT_A_ORACLE), YES(AB_FACT_B_ORACLE), NO(AB_FACT_SHARED)}},
    {"moved goes before a stale golden", AB_CAUSE_BOTH_MOVED,
     {YES(AB_FACT_AB), NO(AB_FACT_SHARED), NO(AB_FACT_A_GOLDEN), NO(AB_FACT_B_GOLDEN)}},
    {"the golden alone has other numbers", AB_CAUSE_GOLDEN_STALE,
     {YES(AB_FACT_AB), YES(AB_FACT_SHARED), NO(AB_FACT_A_GOLDEN), NO(AB_FACT_B_GOLDEN)}},
    {"A recomputes something else", AB_CAUSE_A_WRONG, {YES(AB_FACT_AB), NO(AB_FACT_A_RECOMPUTE)}},
    {"B recomputes something else", AB_CAUSE_B_WRONG,
     {YES(AB_FACT_AB), YES(AB_FACT_A_RECOMPUTE), NO(AB_FACT_B_RECOMPUTE)}},
    {"both recompute something else", AB_CAUSE_BOTH_MOVED,
     {YES(AB_FACT_AB), NO(AB_FACT_A_RECOMPUTE), NO(AB_FACT_B_RECOMPUTE)}},
    {"counters", AB_CAUSE_STRUCTURE, {YES(AB_FACT_AB), NO(AB_FACT_COUNTERS), NO(AB_FACT_A_GOLDEN)}},
    {"structure goes before values", AB_CAUSE_STRUCTURE,
     {NO(AB_FACT_STRUCTURE), NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), YES(AB_FACT_B_ORACLE)}},
    {"inputs go before all", AB_CAUSE_INPUT,
     {NO(AB_FACT_INPUTS), NO(AB_FACT_STRUCTURE), NO(AB_FACT_AB), NO(AB_FACT_A_ORACLE), YES(AB_FACT_B_ORACLE)}},
    {"uncalibrated comes last", AB_CAUSE_UNCALIBRATED, {YES(AB_FACT_AB), YES(AB_FACT_SHARED), NO(AB_FACT_CALIBRATED)}},
    {"numbers that are none, in all", AB_CAUSE_NOT_FINITE, {NO(AB_FACT_FINITE), NO(AB_FACT_SHARED)}},
    {"A and B alike, the oracle finite", AB_CAUSE_BOTH_MOVED, {NO(AB_FACT_FINITE), NO(AB_FACT_A_ORACLE)}},
    {"what differs goes before what is no number", AB_CAUSE_B_WRONG,
     {NO(AB_FACT_AB), YES(AB_FACT_A_ORACLE), NO(AB_FACT_B_ORACLE), NO(AB_FACT_FINITE)}},
    {"a golden goes before calibration", AB_CAUSE_GOLDEN_STALE, {NO(AB_FACT_A_GOLDEN), NO(AB_FACT_CALIBRATED)}},
};

START_TEST(facts_fold_into_one_cause) {
  struct ab_facts facts = {0};
  const struct row *row = &rows[_i];
  for (int i = 0; i < 6; i++)
    if (row->fact[i].known) facts.known[row->fact[i].fact] = row->fact[i].known;
  enum ab_cause cause = ab_cause_of(&facts);
  ck_assert_msg(cause == row->cause, "%s: '%s', expected '%s'", row->what, ab_cause_name(cause),
                ab_cause_name(row->cause));
}
END_TEST

/* One witness against a side, and none for the other, tells nothing. */
START_TEST(who_is_wrong_takes_two_witnesses) {
  static const enum ab_fact pairs[][2] = {{AB_FACT_A_ORACLE, AB_FACT_B_ORACLE}, {AB_FACT_A_TRUTH, AB_FACT_B_TRUTH},
                                          {AB_FACT_A_SLOPE, AB_FACT_B_SLOPE}, {AB_FACT_A_GOLDEN, AB_FACT_B_GOLDEN}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    for (int side = 0; side < 2; side++)
      for (enum ab_known other = AB_UNKNOWN; other <= AB_BROKEN; other++) {
        struct ab_facts facts = {.known[AB_FACT_AB] = AB_BROKEN};
        enum ab_cause expected = side ? AB_CAUSE_B_WRONG : AB_CAUSE_A_WRONG;
        facts.known[pairs[i][side]] = AB_BROKEN;
        facts.known[pairs[i][!side]] = other;
        if (other != AB_HOLDS) expected = AB_CAUSE_UNDECIDED;
        ck_assert_msg(ab_cause_of(&facts) == expected, "%s, the other %d: '%s'", ab_fact_name(pairs[i][side]),
                      (int)other, ab_cause_name(ab_cause_of(&facts)));
      }
}
END_TEST

/* Distance and slope are asked only where A and B differ; whatever else is broken is never `equal`. */
START_TEST(a_broken_fact_is_never_equal) {
  struct ab_facts sound = {0};
  for (enum ab_fact f = 0; f < AB_FACTS; f++) {
    if (f >= AB_FACT_A_TRUTH && f <= AB_FACT_B_SLOPE) continue;
    struct ab_facts alone = {0}, among = {0};
    for (enum ab_fact other = 0; other < AB_FACTS; other++) among.known[other] = AB_HOLDS;
    alone.known[f] = among.known[f] = AB_BROKEN;
    ck_assert_msg(ab_cause_of(&alone) != AB_CAUSE_EQUAL, "%s", ab_fact_name(f));
    ck_assert_msg(ab_cause_of(&among) != AB_CAUSE_EQUAL, "%s among others", ab_fact_name(f));
    sound.known[f] = AB_HOLDS;
    ck_assert_int_eq(ab_cause_of(&sound), AB_CAUSE_EQUAL);
  }
}
END_TEST

START_TEST(every_cause_is_reached_by_a_row) {
  bool seen[AB_CAUSE_UNCALIBRATED + 1] = {false};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) seen[rows[i].cause] = true;
  for (int c = 0; c <= AB_CAUSE_UNCALIBRATED; c++) ck_assert_msg(seen[c], "%s", ab_cause_name((enum ab_cause)c));
}
END_TEST

START_TEST(a_fact_keeps_its_first_reason) {
  struct ab_facts facts = {0};
  ab_fact_set(&facts, AB_FACT_SHARED, true, "fine");
  ab_fact_set(&facts, AB_FACT_SHARED, true, "fine again");
  ck_assert_str_eq(facts.reason[AB_FACT_SHARED], "fine");
  ab_fact_set(&facts, AB_FACT_SHARED, false, "first");
  ab_fact_set(&facts, AB_FACT_SHARED, false, "second");
  ab_fact_set(&facts, AB_FACT_SHARED, true, "third");
  ck_assert_int_eq(facts.known[AB_FACT_SHARED], AB_BROKEN);
  ck_assert_str_eq(facts.reason[AB_FACT_SHARED], "first");
}
END_TEST

/* Two sides that observe one input and one leaf; what is changed in a is given by the loop. */
enum changed { NOTHING, INPUT, INPUT_SHAPE, INPUT_MISSING, LEAF_VALUE, LEAF_MISSING };

static void fill(struct side *s, enum changed changed) {
  struct ab_identity input = identity(-1, 0, "input/params/mlp/wo/kernel", AB_FORWARD);
  struct ab_identity leaf = identity(0, 0, "mlp/wo/kernel", AB_BACKWARD);
  struct ab_tensor *in = side_tensor(s, &input, AB_F32, (struct ab_shape){1, {changed == INPUT_SHAPE ? 3 : 4}});
  struct ab_tensor *out = side_tensor(s, &leaf, AB_F32, (struct ab_shape){1, {4}});
  ((float *)in->data)[1] = changed == INPUT ? 2 : 1;
  ((float *)out->data)[2] = changed == INPUT || changed == LEAF_VALUE ? 7 : 5;
  if (changed != INPUT_MISSING) side_observe(s, &input);
  if (changed != LEAF_MISSING) side_observe(s, &leaf);
  ab_recording_complete(s->recording);
}

static enum ab_cause cause_with(struct side *a, struct side *b, size_t gradients, struct ab_facts *facts) {
  struct both both;
  struct ab_verdict v;
  struct ab_comparison c = comparison_of(&both, a, b);
  c.expected = ab_expected_none();
  c.expected.tensors[AB_Q_WEIGHT_GRADIENT] = gradients;
  ck_ok(ab_verdict(&v, &c));
  *facts = (struct ab_facts){0};
  ab_fact_verdict(facts, AB_FACT_AB, &v);
  ab_verdict_free(&v);
  return ab_cause_of(facts);
}

static enum ab_cause cause_when(enum changed changed, struct ab_facts *facts) {
  struct side a = side_new("linen"), b = side_new("nnx");
  fill(&a, changed);
  fill(&b, NOTHING);
  enum ab_cause cause = cause_with(&a, &b, AB_UNCOUNTED, facts);
  side_free(&a);
  side_free(&b);
  return cause;
}

START_TEST(inputs_are_looked_at_before_what_follows_from_them) {
  struct ab_facts facts;
  ck_assert_int_eq(cause_when(NOTHING, &facts), AB_CAUSE_EQUAL);
  ck_assert_int_eq(facts.known[AB_FACT_INPUTS], AB_HOLDS);
  ck_assert_int_eq(cause_when(INPUT, &facts), AB_CAUSE_INPUT);
  ck_assert_msg(strstr(facts.reason[AB_FACT_INPUTS], "1 of 1 initial parameters") != NULL, "%s",
                facts.reason[AB_FACT_INPUTS]);
  ck_assert_int_eq(cause_when(INPUT_SHAPE, &facts), AB_CAUSE_INPUT);
  ck_assert_int_eq(facts.known[AB_FACT_STRUCTURE], AB_HOLDS);
  ck_assert_int_eq(cause_when(LEAF_VALUE, &facts), AB_CAUSE_UNDECIDED);
  ck_assert_int_eq(cause_when(LEAF_MISSING, &facts), AB_CAUSE_STRUCTURE);
}
END_TEST

static void says(const struct ab_facts *facts, enum ab_fact fact, const char *text) {
  ck_assert_msg(strstr(facts->reason[fact], text) != NULL, "'%s' does not say '%s'", facts->reason[fact], text);
}

/* By its name, and where both lack it by what was asked for. */
START_TEST(what_is_missing_is_named) {
  struct ab_facts facts;
  struct side a = side_new("linen"), b = side_new("nnx");
  ck_assert_int_eq(cause_when(LEAF_MISSING, &facts), AB_CAUSE_STRUCTURE);
  says(&facts, AB_FACT_STRUCTURE, "missing layers/*/mlp/wo/kernel backward (1)");
  ck_assert_int_eq(cause_when(INPUT_MISSING, &facts), AB_CAUSE_STRUCTURE);
  says(&facts, AB_FACT_STRUCTURE, "missing layers/*/input/params/mlp/wo/kernel forward (1)");
  fill(&a, LEAF_MISSING);
  fill(&b, LEAF_MISSING);
  ck_assert_int_eq(cause_with(&a, &b, 1, &facts), AB_CAUSE_STRUCTURE);
  says(&facts, AB_FACT_STRUCTURE, "as the config asks for: weight gradient 0 of 1");
  side_free(&a);
  side_free(&b);
}
END_TEST

/* Alike: the same value at the same place. */
START_TEST(what_is_no_number_on_both_sides_is_told) {
  static const struct {
    float a, b;
    enum ab_cause cause;
  } pairs[] = {{NAN, NAN, AB_CAUSE_NOT_FINITE},          {INFINITY, INFINITY, AB_CAUSE_NOT_FINITE},
               {-INFINITY, -INFINITY, AB_CAUSE_NOT_FINITE}, {INFINITY, -INFINITY, AB_CAUSE_UNDECIDED},
               {NAN, INFINITY, AB_CAUSE_UNDECIDED},         {NAN, 1, AB_CAUSE_UNDECIDED},
               {1, 1, AB_CAUSE_EQUAL}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    struct ab_identity leaf = identity(0, 0, "mlp/wo/kernel", AB_BACKWARD);
    struct side side[2] = {side_new("linen"), side_new("nnx")};
    struct ab_facts facts;
    for (int s = 0; s < 2; s++) {
      struct ab_tensor *t = side_tensor(&side[s], &leaf, AB_F32, (struct ab_shape){1, {4}});
      ((float *)t->data)[2] = s ? pairs[i].b : pairs[i].a;
      side_observe(&side[s], &leaf);
      ck_ok(ab_recording_add_metric(side[s].recording, &(struct ab_metric){.name = "loss", .f32 = true,
                                                                           .value = s ? pairs[i].b : pairs[i].a}));
      ab_recording_complete(side[s].recording);
    }
    ck_assert_int_eq(cause_with(&side[0], &side[1], 1, &facts), pairs[i].cause);
    if (pairs[i].cause == AB_CAUSE_NOT_FINITE)
      says(&facts, AB_FACT_FINITE, "2 tensors and metrics hold the same NaN or infinity, first step 0 layers/0/mlp/wo");
    side_free(&side[0]);
    side_free(&side[1]);
  }
}
END_TEST

/* What one verdict says under a fact of two sides, and under one of a record. */
static const struct {
  struct ab_verdict v;
  enum ab_fact fact; /* that it breaks between two sides */
  const char *reason;
  enum ab_cause sides, record;
} said[] = {
    {{.any = false, .counts_right = true}, AB_FACT_STRUCTURE, "linen against nnx: nothing could be compared",
     AB_CAUSE_STRUCTURE, AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = true, .changed = 3}, AB_FACT_STRUCTURE, "3 tensors and metrics are missing, added",
     AB_CAUSE_STRUCTURE, AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = true, .unjudged = 2}, AB_FACT_STRUCTURE, "2 tensors differ and have no values",
     AB_CAUSE_STRUCTURE, AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = false}, AB_FACT_STRUCTURE, "not as many tensors, elements or steps as the config",
     AB_CAUSE_STRUCTURE, AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = true, .failing = 4,
      .first.id = {.step = 1, .microbatch = -1, .layer = -1, .tensor = "w"}}, AB_FACT_AB,
     "4 tensors and metrics differ, first step 1 w forward",
     AB_CAUSE_UNDECIDED, AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = true, .changed = 2, .changed_of[AB_Q_INPUT] = 2,
      .by_quantity[AB_Q_INPUT].compared = 5}, AB_FACT_INPUTS, "2 of 7 initial parameters", AB_CAUSE_INPUT,
     AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = true, .failing = 3, .failing_of[AB_Q_INPUT] = 3,
      .by_quantity[AB_Q_INPUT].compared = 5}, AB_FACT_INPUTS, "3 of 5 initial parameters", AB_CAUSE_INPUT,
     AB_CAUSE_GOLDEN_STALE},
    {{.any = true, .counts_right = true, .uncalibrated = true, .exit = AB_EXIT_INCOMPARABLE}, AB_FACT_CALIBRATED,
     "judged by a bound that no calibration measured", AB_CAUSE_UNCALIBRATED, AB_CAUSE_UNCALIBRATED}};

START_TEST(what_a_verdict_breaks_reaches_the_cause) {
  struct ab_verdict v = said[_i].v;
  struct ab_facts sides = {0}, record = {0};
  v.name_a = "linen";
  v.name_b = "nnx";
  ab_fact_verdict(&sides, AB_FACT_AB, &v);
  ab_fact_verdict(&record, AB_FACT_A_GOLDEN, &v);
  ck_assert_msg(sides.known[said[_i].fact] == AB_BROKEN, "row %d", _i);
  ck_assert_msg(strstr(sides.reason[said[_i].fact], said[_i].reason) != NULL, "row %d: %s", _i,
                sides.reason[said[_i].fact]);
  ck_assert_msg(ab_cause_of(&sides) == said[_i].sides, "row %d: %s", _i, ab_cause_name(ab_cause_of(&sides)));
  ck_assert_msg(ab_cause_of(&record) == said[_i].record, "row %d: %s", _i, ab_cause_name(ab_cause_of(&record)));
  if (said[_i].fact != AB_FACT_STRUCTURE) return;
  v.exit = AB_EXIT_INCOMPARABLE;
  v.uncalibrated = true;
  ab_fact_verdict(&sides, AB_FACT_AB, &v);
  ck_assert_msg(sides.known[AB_FACT_CALIBRATED] == AB_UNKNOWN, "row %d: no calibration would help", _i);
  ck_assert_msg(sides.known[AB_FACT_AB] == (v.any ? AB_HOLDS : AB_UNKNOWN), "row %d", _i);
}
END_TEST

START_TEST(what_holds_is_said_with_its_numbers) {
  struct ab_verdict v = {.name_a = "linen", .name_b = "nnx", .any = true, .counts_right = true, .tensors.compared = 5,
                         .metrics.compared = 3, .by_quantity[AB_Q_INPUT].compared = 2};
  for (int differing = 0; differing < 2; differing++)
    for (int record = 0; record < 2; record++) {
      struct ab_facts facts = {0};
      enum ab_fact fact = record ? AB_FACT_A_GOLDEN : AB_FACT_AB;
      v.differing = (size_t)differing;
      ab_fact_verdict(&facts, fact, &v);
      ck_assert_int_eq(ab_cause_of(&facts), AB_CAUSE_EQUAL);
      ck_assert_int_eq(facts.known[fact], AB_HOLDS);
      ck_assert_int_eq(facts.known[AB_FACT_STRUCTURE], record ? AB_UNKNOWN : AB_HOLDS);
      ck_assert_int_eq(facts.known[AB_FACT_INPUTS], record ? AB_UNKNOWN : AB_HOLDS);
      ck_assert_str_eq(facts.reason[fact], differing ? "linen against nnx: within bounds (5 tensors, 3 metrics)"
                                                     : "linen against nnx: equal (5 tensors, 3 metrics)");
    }
}
END_TEST

START_TEST(a_record_that_lacks_tensors_is_stale) {
  struct ab_facts facts = {.known = {[AB_FACT_AB] = AB_HOLDS}};
  struct ab_verdict v = {.exit = AB_EXIT_INCOMPARABLE, .name_a = "linen", .name_b = "golden", .any = true, .changed = 1};
  ab_fact_verdict(&facts, AB_FACT_A_GOLDEN, &v);
  ck_assert_int_eq(facts.known[AB_FACT_STRUCTURE], AB_UNKNOWN);
  ck_assert_int_eq(ab_cause_of(&facts), AB_CAUSE_GOLDEN_STALE);
}
END_TEST

START_TEST(only_what_is_broken_or_was_asked_is_told) {
  static const enum ab_fact asked[] = {AB_FACT_A_ORACLE, AB_FACT_B_ORACLE, AB_FACT_A_TRUTH,
                                       AB_FACT_B_TRUTH,  AB_FACT_A_SLOPE,  AB_FACT_B_SLOPE};
  for (int f = 0; f < AB_FACTS; f++) {
    enum ab_fact fact = (enum ab_fact)f;
    struct ab_facts equal = {.known = {[AB_FACT_AB] = AB_HOLDS}}, differ = {.known = {[AB_FACT_AB] = AB_BROKEN}};
    bool witness = false;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) witness |= asked[i] == fact;
    ck_assert_msg(ab_fact_telling(&differ, fact) == (fact == AB_FACT_AB), "%s: unknown", ab_fact_name(fact));
    equal.known[fact] = AB_HOLDS;
    ck_assert_msg(!ab_fact_telling(&equal, fact), "%s", ab_fact_name(fact));
    equal.known[fact] = AB_BROKEN;
    ck_assert_msg(ab_fact_telling(&equal, fact), "%s broken", ab_fact_name(fact));
    if (fact != AB_FACT_AB) differ.known[fact] = AB_HOLDS;
    ck_assert_msg(ab_fact_telling(&differ, fact) == (witness || fact == AB_FACT_AB), "%s asked", ab_fact_name(fact));
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("cause");
  TCase *c = tcase_create("cause");
  tcase_add_loop_test(c, facts_fold_into_one_cause, 0, sizeof rows / sizeof *rows);
  tcase_add_test(c, who_is_wrong_takes_two_witnesses);
  tcase_add_test(c, a_broken_fact_is_never_equal);
  tcase_add_test(c, every_cause_is_reached_by_a_row);
  tcase_add_test(c, a_fact_keeps_its_first_reason);
  tcase_add_test(c, inputs_are_looked_at_before_what_follows_from_them);
  tcase_add_test(c, what_is_missing_is_named);
  tcase_add_test(c, what_is_no_number_on_both_sides_is_told);
  tcase_add_loop_test(c, what_a_verdict_breaks_reaches_the_cause, 0, sizeof said / sizeof *said);
  tcase_add_test(c, what_holds_is_said_with_its_numbers);
  tcase_add_test(c, a_record_that_lacks_tensors_is_stale);
  tcase_add_test(c, only_what_is_broken_or_was_asked_is_told);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
