#include "cases.h"
#include "upstream.h"

static struct ab_config *with_defects(const char *arguments) {
  struct ab_config *config = NULL;
  ck_ok(load(&config, NULL, arguments));
  return config;
}

START_TEST(nothing_is_reproduced_by_default) {
  char shown[AB_DEFECTS_SHOWN];
  struct ab_config *config = with_defects("");
  for (int d = 0; d < AB_DEFECT_COUNT; d++) ck_assert(!ab_faithful(config, (enum ab_defect)d));
  ck_assert_str_eq(ab_faithful_shown(shown, config), "");
  ab_config_free(config);
}
END_TEST

/* Each id that can be switched on sets its own bit and no other; each that cannot says why. */
START_TEST(every_id_is_switched_alone_or_refused_with_its_reason) {
  for (int d = 0; d < AB_DEFECT_COUNT; d++) {
    const struct ab_upstream_defect *defect = &ab_upstream_defects[d];
    char argument[64], shown[AB_DEFECTS_SHOWN], sentence[200];
    snprintf(argument, sizeof argument, "upstream_faithful=%s", defect->id);
    if (defect->missing) {
      snprintf(sentence, sizeof sentence, "(%s is known, but %s)", defect->id, defect->missing);
      must_refuse(NULL, argument, sentence);
      continue;
    }
    struct ab_config *config = with_defects(argument);
    for (int e = 0; e < AB_DEFECT_COUNT; e++) ck_assert_int_eq(ab_faithful(config, (enum ab_defect)e), d == e);
    ck_assert_str_eq(ab_faithful_shown(shown, config), defect->id);
    ab_config_free(config);
  }
}
END_TEST

START_TEST(the_table_is_complete_and_each_line_says_what_it_changes) {
  static const char *const changes[] = {"value", "count", "byte", "failure"};
  for (int d = 0; d < AB_DEFECT_COUNT; d++) {
    const struct ab_upstream_defect *defect = &ab_upstream_defects[d];
    size_t known = 0;
    ck_assert_msg(defect->id && defect->what && defect->source, "row %d", d);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) known += !strcmp(changes[i], defect->changes);
    ck_assert_msg(known == 1, "%s changes '%s'", defect->id, defect->changes);
    if (d) ck_assert_int_lt(atoi(ab_upstream_defects[d - 1].id + 1), atoi(defect->id + 1));
  }
  ck_assert_ptr_null(ab_upstream_defects[AB_DEFECT_B1].missing);
}
END_TEST

START_TEST(a_list_may_hold_blanks) {
  struct ab_config *config = NULL;
  const char *const overrides[] = {"upstream_faithful=B1, B7"};
  struct ab_config_request request = {.overrides = overrides, .override_count = 1, .ignore_environment = true};
  ck_ok(ab_config_load(&config, &request));
  ck_assert(ab_faithful(config, AB_DEFECT_B1) && ab_faithful(config, AB_DEFECT_B7));
  ab_config_free(config);
}
END_TEST

START_TEST(an_id_that_is_named_twice_is_refused) {
  static const struct row twice[] = {{"B1,B1", "is B1,B1, expected a comma-separated list of B1"},
                                     {"B1,B7,B1", ", each of them once"}};
  REFUSE("upstream_faithful=", twice);
}
END_TEST

START_TEST(an_unknown_id_is_refused_with_the_known_ones) {
  static const struct row unknown[] = {
      {"B999", "override 'upstream_faithful=B999': key 'upstream_faithful' is B999, expected a comma-separated list of"
               " B1"},
      {"b1", "key 'upstream_faithful' is b1, expected a comma-separated list of B1"},
      {"B", "is B, expected a comma"},
      {"B11x", "is B11x, expected a comma"},
      {"B1,", "is B1,, expected a comma"},
      {"B1;B7", "is B1;B7, expected a comma"},
      {"1", "key 'upstream_faithful' is 1, expected"},
      {"[B1,B7]", "key 'upstream_faithful' is [B1, B7], expected"},
      {"true", "key 'upstream_faithful' is true, expected"},
  };
  REFUSE("upstream_faithful=", unknown);
}
END_TEST

/* What each defect needs, and beside it what lacks one part of that. */
static const struct occasion {
  enum ab_defect defect;
  bool can_show;
  const char *arguments;
} occasions[] = {
#define STAGES_OF "base_num_decoder_layers=24 ici_pipeline_parallelism=3 num_layers_per_pipeline_stage="
#define FLAT " set_remat_policy_on_pipeline_iterations=false"
#define PER_REPEAT STAGES_OF "1 pipeline_fsdp_ag_per_repeat=true"
    {AB_DEFECT_B1, true, PER_REPEAT},
    {AB_DEFECT_B1, false, STAGES_OF "1"},
    {AB_DEFECT_B1, false, "ici_pipeline_parallelism=2 pipeline_fsdp_ag_per_repeat=true"},
    {AB_DEFECT_B1, false, "pipeline_fsdp_ag_per_repeat=true"},
    {AB_DEFECT_B7, true, STAGES_OF "1 pipeline_fsdp_ag_once=true"},
    {AB_DEFECT_B7, false, STAGES_OF "8 pipeline_fsdp_ag_once=true"},
    {AB_DEFECT_B7, false, PER_REPEAT " pipeline_fsdp_ag_once=true"},
    {AB_DEFECT_B13, true, PER_REPEAT FLAT},
    {AB_DEFECT_B13, false, PER_REPEAT},
    {AB_DEFECT_B13, false, STAGES_OF "1" FLAT},
    {AB_DEFECT_B15, true, STAGES_OF "1 set_remat_policy_on_layers_per_stage=true" FLAT},
    {AB_DEFECT_B15, false, STAGES_OF "1 set_remat_policy_on_layers_per_stage=true"},
    {AB_DEFECT_B15, false, PER_REPEAT " set_remat_policy_on_layers_per_stage=true" FLAT},
    {AB_DEFECT_B15, false, STAGES_OF "1" FLAT},
    {AB_DEFECT_B15, false, "set_remat_policy_on_layers_per_stage=true" FLAT},
    {AB_DEFECT_B20, true, STAGES_OF "8 record_internal_nn_metrics=1"},
    {AB_DEFECT_B20, false, STAGES_OF "8"},
    {AB_DEFECT_B21, true, STAGES_OF "8 record_internal_nn_metrics=1"},
    {AB_DEFECT_B21, false, "record_internal_nn_metrics=1"},
    {AB_DEFECT_B29, true, STAGES_OF "8"},
    {AB_DEFECT_B29, true, PER_REPEAT FLAT},
    {AB_DEFECT_B29, false, STAGES_OF "8" FLAT},
    {AB_DEFECT_B29, false, STAGES_OF "8 remat_policy=custom"},
    {AB_DEFECT_B29, false, STAGES_OF "8 decoder_block=simple_mlp"},
    {AB_DEFECT_B31, true, STAGES_OF "8 scan_layers_per_stage=true"},
    {AB_DEFECT_B31, false, STAGES_OF "1 scan_layers_per_stage=true"},
    {AB_DEFECT_B31, false, STAGES_OF "8"},
};

START_TEST(a_defect_shows_only_where_it_has_an_occasion) {
  const struct occasion *row = &occasions[_i];
  struct ab_config *config = with_defects(row->arguments);
  ck_assert_msg(ab_defect_can_show(config, row->defect) == row->can_show, "%s with %s",
                ab_upstream_defects[row->defect].id, row->arguments);
  ab_config_free(config);
}
END_TEST

START_TEST(what_cannot_show_is_listed_apart) {
  char buffer[AB_DEFECTS_SHOWN];
  struct ab_config *config = with_defects(PER_REPEAT " upstream_faithful=B31,B1,B7");
  ck_assert_str_eq(ab_faithful_shown(buffer, config), "B1,B7,B31");
  ck_assert_str_eq(ab_faithful_idle(buffer, config), "B7,B31");
  for (int d = 0; d < AB_DEFECT_COUNT; d++)
    ck_assert(!ab_upstream_defects[d].missing == !!ab_upstream_defects[d].can_show);
  ck_assert(!ab_defect_can_show(config, AB_DEFECT_B8));
  ab_config_free(config);
}
END_TEST

/* A golden of one mode is no golden of the other. */
START_TEST(the_mode_belongs_to_the_digest) {
  struct ab_config *plain = with_defects(""), *faithful = with_defects("upstream_faithful=B1");
  ck_assert(ab_config_digest(plain) != ab_config_digest(faithful));
  ab_config_free(plain);
  ab_config_free(faithful);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("upstream");
  TCase *c = tcase_create("upstream");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, nothing_is_reproduced_by_default);
  tcase_add_test(c, every_id_is_switched_alone_or_refused_with_its_reason);
  tcase_add_test(c, the_table_is_complete_and_each_line_says_what_it_changes);
  tcase_add_test(c, a_list_may_hold_blanks);
  tcase_add_test(c, an_id_that_is_named_twice_is_refused);
  tcase_add_test(c, an_unknown_id_is_refused_with_the_known_ones);
  tcase_add_loop_test(c, a_defect_shows_only_where_it_has_an_occasion, 0, sizeof occasions / sizeof *occasions);
  tcase_add_test(c, what_cannot_show_is_listed_apart);
  tcase_add_test(c, the_mode_belongs_to_the_digest);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
