#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static const struct sweep *swept;
static char **given; /* program, and the case of the command line */
static int given_count;

void sweep_expect(const struct sweep_case *c, ab_status status, const char *sentence) {
  char command[SWEEP_COMMAND];
  sweep_command(command, c, given[0]);
  ck_assert_msg(status == AB_OK && !sentence[0], "%s%s\n  %s", status ? ab_status_message() : "", sentence, command);
}

ab_status sweep_run_all(struct sweep_side side[SWEEP_ROUTES], const struct sweep_case *c,
                        const char *const route[SWEEP_ROUTES], enum ab_numerics numerics, enum ab_level level) {
  for (int i = 0; i < SWEEP_ROUTES; i++) AB_TRY(sweep_run(&side[i], c, route[i], numerics, level, NULL));
  return AB_OK;
}

void sweep_free_all(struct sweep_side side[SWEEP_ROUTES]) {
  for (int i = 0; i < SWEEP_ROUTES; i++) sweep_side_free(&side[i]);
}

ab_status sweep_compare_all(char sentence[SWEEP_SENTENCE], const struct sweep_case *c,
                            const struct sweep_side side[SWEEP_ROUTES], enum ab_pair pair) {
  sentence[0] = '\0';
  for (int i = SWEEP_LINEN; i < SWEEP_ORACLE && !sentence[0]; i++) {
    if (i > SWEEP_LINEN) AB_TRY(sweep_compare(sentence, c, &side[i], &side[SWEEP_LINEN], AB_PAIR_SAME));
    if (!sentence[0]) AB_TRY(sweep_compare(sentence, c, &side[i], &side[SWEEP_ORACLE], pair));
  }
  return AB_OK;
}

bool sweep_supports_per_repeat(void) {
  struct sweep_case c = {0};
  sweep_key(&c, "decoder_block=simple");
  sweep_key(&c, "base_emb_dim=4");
  sweep_key(&c, "base_num_decoder_layers=4");
  sweep_key(&c, "dtype=float32");
  sweep_key(&c, "pipeline_fsdp_ag_per_repeat=true");
  sweep_pipeline(&c, 2, 2, 2, 1, 1, 2);
  bool there = sweep_open(&c, SWEEP_SMALL_INTEGERS, AB_LOSS_DOT) == AB_OK;
  if (!there) puts("# this build has no pipeline_fsdp_ag_per_repeat: left out");
  ab_status_clear();
  sweep_close(&c);
  return there;
}

static bool full(void) {
  const char *wanted = getenv("AB_SWEEP");
  return wanted && !strcmp(wanted, "full");
}

START_TEST(a_case) {
  struct sweep_case c;
  int index = full() ? _i : (int)((int64_t)_i * swept->all / swept->sample);
  if (given_count > 1) sweep_parse(&c, given_count, given);
  else swept->choose(&c, index);
  swept->check(&c);
}
END_TEST

int sweep_main(const struct sweep *sweep, int argc, char **argv) {
  Suite *suite = suite_create(sweep->name);
  TCase *tcase = tcase_create(sweep->name);
  swept = sweep;
  given = argv;
  given_count = argc;
  tcase_set_timeout(tcase, 3600);
  tcase_add_loop_test(tcase, a_case, 0, argc > 1 ? 1 : full() ? sweep->all : sweep->sample);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
