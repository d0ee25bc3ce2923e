#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "probe.h"
#include "tap.h"

/* What was delivered, one short line each. */
static char heard[8192];
static float last_values[8];
static ab_status answer;

static ab_status observe(void *ctx, const struct ab_observation *o, const void *values) {
  (void)ctx;
  size_t used = strlen(heard);
  snprintf(heard + used, sizeof heard - used, "%d/%d/%d/%d/%s/%s@%d,%d%s%s;", o->id.step, o->id.accumulation,
           o->id.microbatch, o->id.layer, o->id.tensor, ab_phase_name(o->id.phase), o->at.stage, o->at.iteration,
           o->at.bubble ? " bubble" : "", values ? " values" : "");
  if (values && o->summary.count <= 8) memcpy(last_values, values, o->summary.count * sizeof(float));
  if (answer != AB_OK) return AB_FAIL(answer, "the listener refuses");
  return AB_OK;
}

static ab_status count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                       int64_t amount) {
  (void)ctx;
  size_t used = strlen(heard);
  snprintf(heard + used, sizeof heard - used, "%s+%lld %d/%d/%d/%d@%d;", name, (long long)amount, id->step,
           id->accumulation, id->microbatch, id->layer, at->stage);
  return AB_OK;
}

static const struct ab_probe_ops ops = {observe, count};
static float data[6] = {1, 2, 3, 4, 5, 6};
static const struct ab_where nowhere = {-1, -1, -1, false};

static struct ab_view matrix(void) {
  return (struct ab_view){.dtype = AB_F32, .shape = {.rank = 2, .dim = {2, 3}}, .stride = {3, 1}, .data = data};
}

static struct ab_probe *new_probe(enum ab_level level, int stages) {
  struct ab_probe *probe;
  heard[0] = '\0';
  answer = AB_OK;
  ck_ok(ab_probe_new(&probe, &ops, NULL, level, stages));
  ab_probe_step(probe, 3, 1);
  return probe;
}

static void record(struct ab_probe *probe, int stage, int iteration, const char *tensor) {
  struct ab_identity id = {.microbatch = iteration - stage, .layer = stage, .phase = AB_FORWARD};
  struct ab_where at = {.iteration = iteration, .stage = stage, .bubble = iteration < stage};
  struct ab_view view = matrix();
  snprintf(id.tensor, sizeof id.tensor, "%s", tensor);
  ab_record(ab_probe_recorder(probe, stage), &id, &at, &view);
}

START_TEST(buffers_are_delivered_in_stage_order) {
  struct ab_probe *probe = new_probe(AB_LEVEL_DIGEST, 2);
  struct ab_where at = {.stage = 1};
  record(probe, 1, 0, "q");
  ab_record_count(ab_probe_recorder(probe, 1), "execute", &(struct ab_identity){.step = 9, .microbatch = 5, .layer = 2},
                  &at, 2);
  record(probe, 0, 0, "q");
  ck_assert_str_eq(heard, "");
  ck_ok(ab_probe_flush(probe));
  ck_assert_str_eq(heard, "3/1/0/0/q/forward@0,0;3/1/-1/1/q/forward@1,0 bubble;execute+2 3/1/5/2@1;");
  heard[0] = '\0';
  ck_ok(ab_probe_flush(probe));
  ck_assert_str_eq(heard, "");
  ab_probe_free(probe);
}
END_TEST

START_TEST(levels_decide_what_is_told) {
  static const char *const expected[] = {
      [AB_LEVEL_OFF] = "n+1 3/1/-1/-1@-1;n+1 3/1/-1/-1@0;",
      [AB_LEVEL_STATE] = "3/1/0/0/loss/update@-1,-1;n+1 3/1/-1/-1@-1;n+1 3/1/-1/-1@0;",
      [AB_LEVEL_DIGEST] = "3/1/0/0/loss/update@-1,-1;n+1 3/1/-1/-1@-1;3/1/0/0/q/forward@0,0;n+1 3/1/-1/-1@0;",
      [AB_LEVEL_VALUES] =
          "3/1/0/0/loss/update@-1,-1 values;n+1 3/1/-1/-1@-1;3/1/0/0/q/forward@0,0 values;n+1 3/1/-1/-1@0;",
      [AB_LEVEL_FULL] =
          "3/1/0/0/loss/update@-1,-1 values;n+1 3/1/-1/-1@-1;3/1/0/0/q/forward@0,0 values;n+1 3/1/-1/-1@0;",
  };
  for (int level = AB_LEVEL_OFF; level <= AB_LEVEL_FULL; level++) {
    struct ab_probe *probe = new_probe((enum ab_level)level, 1);
    struct ab_identity id = {.phase = AB_UPDATE, .tensor = "loss"};
    struct ab_where at = {.stage = 0};
    struct ab_view view = matrix();
    ck_ok(ab_probe_reserve(probe, 4, 1024));
    ck_ok(ab_probe_observe(probe, &id, &nowhere, &view));
    ck_ok(ab_probe_count(probe, "n", NULL, &nowhere, 1));
    record(probe, 0, 0, "q");
    ab_record_count(ab_probe_recorder(probe, 0), "n", NULL, &at, 1);
    ck_ok(ab_probe_flush(probe));
    ck_assert_str_eq(heard, expected[level]);
    ab_probe_free(probe);
  }
}
END_TEST

START_TEST(nobody_listens_and_nothing_happens) {
  struct ab_view view = matrix();
  struct ab_identity id = {0};
  ck_ok(ab_probe_observe(NULL, &id, &nowhere, &view));
  ck_ok(ab_probe_count(NULL, "n", NULL, &nowhere, 1));
  ck_ok(ab_probe_flush(NULL));
  ck_ok(ab_probe_reserve(NULL, 10, 10));
  ab_probe_step(NULL, 0, 0);
  ck_assert_ptr_null(ab_probe_recorder(NULL, 0));
  ab_record(NULL, &id, &nowhere, &view);
  ab_record_count(NULL, "n", NULL, &nowhere, 1);
  ck_assert_int_eq(ab_probe_level(NULL), AB_LEVEL_OFF);
  ab_probe_free(NULL);
}
END_TEST

START_TEST(a_full_buffer_is_an_error_once_and_grows) {
  struct ab_probe *probe = new_probe(AB_LEVEL_DIGEST, 2);
  enum { MANY = 1500 }; /* more than a recorder has room for at first */
  struct ab_where at = {.stage = 1};
  struct ab_recorder *recorder = ab_probe_recorder(probe, 1);
  for (int i = 0; i < MANY; i++) ab_record_count(recorder, "n", NULL, &at, 1);
  ck_fails(ab_probe_flush(probe), AB_ENOMEM, "stage 1 lost 476 observations and 0 bytes of values");
  ck_ok(ab_probe_flush(probe));
  for (int i = 0; i < 2 * MANY; i++) ab_record_count(recorder, "n", NULL, &at, 1);
  ck_ok(ab_probe_flush(probe));
  ab_record_count(recorder,
                  "a name of ninety-six bytes ........................................................................",
                  NULL, &at, 1);
  ck_fails(ab_probe_flush(probe), AB_EFORMAT, "a name of 96 bytes or more");
  ab_probe_free(probe);
}
END_TEST

START_TEST(values_that_do_not_fit_are_an_error) {
  struct ab_probe *probe = new_probe(AB_LEVEL_FULL, 1);
  ck_ok(ab_probe_reserve(probe, 4, 24));
  record(probe, 0, 0, "q");
  record(probe, 0, 1, "k");
  ck_fails(ab_probe_flush(probe), AB_ENOMEM, "stage 0 lost 0 observations and 24 bytes of values");
  record(probe, 0, 0, "q");
  record(probe, 0, 1, "k");
  ck_ok(ab_probe_flush(probe));
  ab_probe_free(probe);
}
END_TEST

static bool want_q(void *ctx, const struct ab_identity *id) {
  (void)ctx;
  return id->step == 3 && !strcmp(id->tensor, "q");
}

START_TEST(only_wanted_values_are_kept_in_row_major_order) {
  struct ab_probe *probe = new_probe(AB_LEVEL_FULL, 1);
  ab_probe_want(probe, want_q, NULL);
  ck_ok(ab_probe_reserve(probe, 4, 24));
  record(probe, 0, 0, "k");
  record(probe, 0, 1, "q");
  ck_ok(ab_probe_flush(probe));
  ck_assert_str_eq(heard, "3/1/0/0/k/forward@0,0;3/1/1/0/q/forward@0,1 values;");
  ck_assert(!memcmp(last_values, data, sizeof data));
  struct ab_identity id = {.tensor = "q"};
  struct ab_view turned = {.dtype = AB_F32, .shape = {.rank = 2, .dim = {3, 2}}, .stride = {1, 3}, .data = data};
  ck_ok(ab_probe_observe(probe, &id, &nowhere, &turned));
  ck_assert(!memcmp(last_values, (float[]){1, 4, 2, 5, 3, 6}, sizeof data));
  ab_probe_free(probe);
}
END_TEST

START_TEST(the_state_comes_with_the_values_that_are_wanted) {
  struct ab_probe *probe = new_probe(AB_LEVEL_STATE, 1);
  struct ab_identity id = {.tensor = "q"}, other = {.tensor = "k"};
  struct ab_view view = matrix();
  ab_probe_want(probe, want_q, NULL);
  ck_ok(ab_probe_observe(probe, &id, &nowhere, &view));
  ck_ok(ab_probe_observe(probe, &other, &nowhere, &view));
  record(probe, 0, 0, "q");
  ck_ok(ab_probe_flush(probe));
  ck_assert_str_eq(heard, "3/1/0/0/q/forward@-1,-1 values;3/1/0/0/k/forward@-1,-1;");
  ab_probe_free(probe);
}
END_TEST

START_TEST(a_refusing_listener_stops_the_flush_and_empties_it) {
  struct ab_probe *probe = new_probe(AB_LEVEL_DIGEST, 2);
  record(probe, 0, 0, "q");
  record(probe, 1, 1, "q");
  answer = AB_EIO;
  ck_fails(ab_probe_flush(probe), AB_EIO, "the listener refuses");
  answer = AB_OK;
  heard[0] = '\0';
  ck_ok(ab_probe_flush(probe));
  ck_assert_str_eq(heard, "");
  ab_probe_free(probe);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("probe");
  TCase *c = tcase_create("probe");
  tcase_add_test(c, buffers_are_delivered_in_stage_order);
  tcase_add_test(c, levels_decide_what_is_told);
  tcase_add_test(c, nobody_listens_and_nothing_happens);
  tcase_add_test(c, a_full_buffer_is_an_error_once_and_grows);
  tcase_add_test(c, values_that_do_not_fit_are_an_error);
  tcase_add_test(c, only_wanted_values_are_kept_in_row_major_order);
  tcase_add_test(c, the_state_comes_with_the_values_that_are_wanted);
  tcase_add_test(c, a_refusing_listener_stops_the_flush_and_empties_it);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
