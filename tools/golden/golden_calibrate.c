#include <stdio.h>

#include "calibrate.h"
#include "file.h"
#include "golden_command.h"
#include "mem.h"
#include "outcome.h"

static ab_status fits(const struct ab_golden *golden, const struct ab_golden_case *c) {
  struct ab_request request = ab_golden_request(c->folder, "portable", 0);
  struct ab_case opened;
  struct ab_pair_text *pairs;
  size_t count;
  AB_TRY(ab_case_open(&opened, &request));
  ab_status status = ab_config_pairs(&pairs, &count, opened.config);
  if (status == AB_OK) {
    status = ab_golden_check_config(golden, pairs, count, c->golden);
    ab_mem_free(pairs);
  }
  ab_case_close(&opened);
  return status;
}

static int print(const struct ab_calibration *c, const char *path) {
  for (size_t i = 0; i < c->kinds; i++)
    printf("%-48s largest %-12.4g bound %.4g\n", c->kind[i].kind, c->kind[i].largest, c->kind[i].bound);
  printf("cores: %s; dropped: %s\n", c->cores[0] ? c->cores : "none", c->dropped[0] ? c->dropped : "none");
  return ab_say("ab_golden", "calibrated %s: %lld runs, seed %lld: %g-quantile with confidence %.4f, times %g; chance "
                "that a clean run is above any of %zu kinds before the factor: at most %.3f", path, (long long)c->runs,
                (long long)c->seed, AB_CALIBRATION_QUANTILE, ab_calibration_confidence(c), AB_CALIBRATION_FACTOR,
                c->kinds, ab_calibration_false_alarm(c));
}

static ab_status put(struct ab_golden *golden, struct ab_calibration *calibration, const struct ab_golden_case *c) {
  char created[32];
  ab_calibration_free(golden->calibration);
  golden->calibration = calibration;
  ab_golden_now(created, sizeof created);
  AB_TRY(ab_mem_string(&calibration->created, created));
  AB_TRY(ab_mem_string(&calibration->config_digest, golden->config_digest));
  return ab_golden_write(golden, c->golden);
}

static int calibrate(struct ab_golden *golden, const struct ab_golden_case *c, const struct ab_golden_words *w) {
  struct ab_calibrate_order order = {.folder = c->folder, .runs = w->runs ? w->runs : AB_CALIBRATION_RUNS,
                                     .timeout = w->timeout, .seed = w->seed ? w->seed : 1, .verbose = w->verbose};
  struct ab_calibration *calibration;
  if (ab_file_check_replace(c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  ab_status status = ab_calibrate(&calibration, &order);
  if (status == AB_EMISMATCH) return ab_golden_refuse(AB_EXIT_SELFTEST);
  if (status == AB_ECOMM) return ab_golden_refuse(AB_EXIT_SIDE);
  if (status != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (put(golden, calibration, c) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  return print(golden->calibration, c->golden);
}

static int calibrate_locked(const struct ab_golden_case *c, const struct ab_golden_words *w) {
  struct ab_golden *golden;
  if (ab_golden_read(&golden, c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_GOLDEN);
  int code = fits(golden, c) == AB_OK ? calibrate(golden, c, w) : ab_golden_refuse(AB_EXIT_GOLDEN);
  ab_golden_free(golden);
  return code;
}

static int calibrate_case(const struct ab_golden_words *w) {
  struct ab_golden_case c;
  int lock, code = AB_EXIT_USAGE;
  if (ab_golden_check_not_ci() != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_golden_case_open(&c, w->word[0]) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_golden_case_lock(&lock, &c) == AB_OK) {
    code = calibrate_locked(&c, w);
    ab_folder_unlock(lock);
  } else {
    ab_golden_refuse(code);
  }
  ab_golden_case_close(&c);
  return code;
}

int ab_golden_calibrate(int argc, char **argv) {
  struct ab_golden_words w;
  if (ab_golden_words_parse(&w, argc, argv, 1, 1, "one CASE_DIR") != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = calibrate_case(&w);
  ab_golden_words_free(&w);
  return code;
}
