#include "bench_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_cases.h"
#include "bench_child.h"
#include "mem.h"
#include "process.h"
#include "suite.h"

static void note_sides(struct bench_compare *out, const struct ab_judgement *j, bool first) {
  for (int i = 0; i < AB_SIDES; i++) {
    struct bench_compare_side *side = &out->side[i];
    const struct ab_process_result *process = &j->side[i].process;
    if (!j->side[i].recording) continue;
    snprintf(side->name, sizeof side->name, "%s", j->side[i].name);
    if (first || process->seconds < side->seconds) side->seconds = process->seconds;
    if (first || process->peak_memory < side->peak_memory) side->peak_memory = process->peak_memory;
  }
}

static ab_status check_equal(const struct ab_judgement *j) {
  enum ab_exit exit = j->failures ? ab_exit_fold(j->extra, AB_EXIT_SIDE) : j->extra;
  for (size_t i = 0; i < j->verdicts; i++) exit = ab_exit_fold(exit, j->verdict[i].exit);
  if (exit == AB_EXIT_EQUAL && j->verdicts) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "the main comparison ends with '%s'; expected equal: run ab_compare configs/main.yml",
                 ab_exit_reason(exit));
}

static ab_status one_round(struct bench_compare *out, const char *path, long round) {
  struct ab_judgement j;
  struct ab_request request = {.target = path};
  double begin = ab_process_now(), used = bench_processor();
  AB_TRY(ab_judgement_open(&j, &request));
  ab_status status = ab_judgement_run(&j);
  out->seconds[round] = ab_process_now() - begin;
  out->processor_seconds[round] = bench_processor() - used;
  out->steps = j.opened.steps;
  if (status == AB_OK) status = check_equal(&j);
  if (status == AB_OK) note_sides(out, &j, round == 0);
  ab_judgement_close(&j);
  return status;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

ab_status bench_compare_measure(struct bench_compare *out, long rounds) {
  char path[4096];
  *out = (struct bench_compare){.rounds = rounds};
  AB_TRY(bench_config_path(path, sizeof path, "main.yml"));
  for (long round = 0; round < rounds; round++) AB_TRY(one_round(out, path, round));
  qsort(out->seconds, (size_t)rounds, sizeof *out->seconds, ascending);
  qsort(out->processor_seconds, (size_t)rounds, sizeof *out->processor_seconds, ascending);
  return AB_OK;
}

static ab_status run_suite(struct bench_suite *out, const struct ab_suite *suite) {
  struct ab_suite_result *results;
  struct ab_request plain = {0};
  double begin = ab_process_now(), used = bench_processor();
  AB_TRY(ab_mem_new(&results, suite->rows, sizeof *results));
  ab_status status = ab_suite_run_rows(results, suite, &plain);
  enum ab_exit exit = ab_suite_exit(suite, results);
  ab_suite_results_free(results, suite->rows);
  AB_TRY(status);
  *out = (struct bench_suite){.seconds = ab_process_now() - begin, .processor_seconds = bench_processor() - used};
  for (size_t i = 0; i < suite->rows; i++) out->cases += !suite->row[i].skip;
  if (exit == AB_EXIT_EQUAL) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "the suite ends with '%s'; expected equal: run ab_compare --suite %s",
                 ab_exit_reason(exit), suite->path);
}

ab_status bench_suite_measure(struct bench_suite *out) {
  char path[4096];
  struct ab_suite suite;
  AB_TRY(bench_config_path(path, sizeof path, "../golden/maxtext_pipeline.yml"));
  AB_TRY(ab_suite_read(&suite, path));
  ab_status status = run_suite(out, &suite);
  ab_suite_free(&suite);
  return status;
}
