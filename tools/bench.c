#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_capture.h"
#include "bench_child.h"
#include "bench_compare.h"
#include "bench_diff.h"
#include "bench_memory.h"
#include "bench_step.h"
#include "file.h"
#include "json.h"
#include "kernels.h"
#include "outcome.h"
#include "mem.h"
#include "options.h"
#include "process.h"
#include "side_mode.h"
#include "start.h"
#include "version.h"

static const char usage[] =
    "bench: measure the main comparison, steps against their gemm calls alone, and memory by buffer, as JSON.\n"
    "\n"
    "  bench\n"
    "  bench --quick\n"
    "  bench --case scan/linen --rounds 5\n"
    "\n"
    "usage: bench [options]\n"
    "Each case runs in a process of its own; rounds of step and gemm calls alternate, and minima are reported.\n"
    "\n"
    "exit codes: 0 measured; 2 anything else\n"
    "\n";

struct asked {
  const char *only;
  long rounds, mib;
  bool quick, help, version, list;
  const char *step, *pass, *against, *capture, *of; /* in a child */
};

static int fail(void) { return ab_complain("bench", ab_status_message()); }

static ab_status run_case(struct bench_step *out, uint64_t *peak, const struct bench_case *c, long rounds) {
  char count[32];
  const char *arguments[] = {"bench", "--step", c->name, "--rounds", count, NULL};
  snprintf(count, sizeof count, "%ld", rounds);
  return bench_child_run(out, sizeof *out, peak, arguments);
}

static void put_step(struct ab_json_writer *w, const struct bench_case *c, const struct bench_step *s, uint64_t peak) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "case", c->name);
  ab_json_put_string(w, "what", c->what);
  ab_json_put_string(w, "route", c->route);
  ab_json_put_string(w, "blas_core", s->core);
  ab_json_put_int64(w, "threads", s->threads);
  ab_json_put_int64(w, "rounds", s->rounds);
  ab_json_put_int64(w, "gemm_calls", s->calls);
  ab_json_put_double(w, "gemm_gflop", s->flop * 1e-9);
  ab_json_put_double(w, "step_seconds", s->step_seconds);
  ab_json_put_double(w, "gemm_only_seconds", s->gemm_seconds);
  ab_json_put_double(w, "step_to_gemm_only", s->step_seconds / s->gemm_seconds);
  ab_json_put_double(w, "step_processor_seconds", s->step_processor_seconds);
  ab_json_put_double(w, "gemm_only_processor_seconds", s->gemm_processor_seconds);
  ab_json_put_double(w, "step_to_gemm_only_processor", s->step_processor_seconds / s->gemm_processor_seconds);
  ab_json_put_double(w, "gemm_share", s->gemm_share);
  ab_json_put_double(w, "gflop_per_second", s->flop * 1e-9 / s->step_seconds);
  ab_json_put_int64(w, "peak_memory", (int64_t)peak);
  ab_json_put_end(w);
}

static void put_compare(struct ab_json_writer *w, const struct bench_compare *c) {
  uint64_t memory = 0;
  ab_json_put_object(w, "compare", false);
  ab_json_put_string(w, "case", "main");
  ab_json_put_int64(w, "steps", c->steps);
  ab_json_put_int64(w, "rounds", c->rounds);
  ab_json_put_double(w, "seconds_min", c->seconds[0]);
  ab_json_put_double(w, "seconds_median", c->seconds[c->rounds / 2]);
  ab_json_put_double(w, "processor_seconds_min", c->processor_seconds[0]);
  ab_json_put_array(w, "sides", false);
  for (int i = 0; i < AB_SIDES; i++) {
    const struct bench_compare_side *side = &c->side[i];
    if (!side->name[0]) continue;
    ab_json_put_object(w, NULL, true);
    ab_json_put_string(w, "side", side->name);
    ab_json_put_double(w, "seconds", side->seconds);
    ab_json_put_int64(w, "peak_memory", (int64_t)side->peak_memory);
    ab_json_put_end(w);
    memory += side->peak_memory;
  }
  ab_json_put_end(w);
  ab_json_put_int64(w, "peak_memory_sum", (int64_t)memory);
  ab_json_put_end(w);
}

static ab_status put_main(struct ab_json_writer *w, long rounds) {
  static struct bench_compare measured;
  AB_TRY(bench_compare_measure(&measured, rounds));
  put_compare(w, &measured);
  return AB_OK;
}

static ab_status put_suite(struct ab_json_writer *w) {
  struct bench_suite measured;
  AB_TRY(bench_suite_measure(&measured));
  ab_json_put_object(w, "suite", false);
  ab_json_put_string(w, "case", "golden/maxtext_pipeline.yml");
  ab_json_put_int64(w, "cases", measured.cases);
  ab_json_put_double(w, "seconds", measured.seconds);
  ab_json_put_double(w, "processor_seconds", measured.processor_seconds);
  ab_json_put_end(w);
  return AB_OK;
}

/* "scan" takes in "scan/linen" and "scan/nnx". */
static bool wanted(const char *only, const char *name) {
  size_t length = only ? strlen(only) : 0;
  return !only || (strncmp(name, only, length) == 0 && (!name[length] || name[length] == '/'));
}

static ab_status put_steps(struct ab_json_writer *w, const struct asked *asked) {
  ab_json_put_array(w, "steps", false);
  for (const struct bench_case *c = bench_cases; c->name; c++) {
    struct bench_step step;
    uint64_t peak;
    if (!wanted(asked->only, c->name)) continue;
    AB_TRY(run_case(&step, &peak, c, asked->rounds));
    put_step(w, c, &step, peak);
  }
  ab_json_put_end(w);
  return AB_OK;
}

static ab_status put_memory(struct ab_json_writer *w, const struct asked *asked) {
  ab_json_put_array(w, "memory", false);
  for (const struct bench_case *c = bench_memory_cases; c->name; c++)
    if (wanted(asked->only, c->name)) AB_TRY(bench_memory_put(w, c));
  ab_json_put_end(w);
  return AB_OK;
}

static bool any_wanted(const struct bench_case *table, const char *only) {
  for (const struct bench_case *c = table; c->name; c++)
    if (wanted(only, c->name)) return true;
  return false;
}

/* What is no step of a route. */
static const struct {
  const char *name, *what;
} whole[] = {{"compare", "the main comparison: both routes and the oracles, 15 steps"},
             {"suite", "MaxText's pipeline tests: every case of golden/maxtext_pipeline.yml, once"},
             {"diff", "ab_diff of two dumps of 1 GiB against one pass over the same memory"},
             {"capture", "the main case without a probe, and at levels off, state and digest"}};

static ab_status check_case(const char *only) {
  const struct bench_case *found;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (wanted(only, whole[i].name)) return AB_OK;
  if (any_wanted(bench_cases, only) || any_wanted(bench_memory_cases, only)) return AB_OK;
  AB_TRY(bench_case_find(&found, only));
  return AB_OK;
}

static ab_status measure(struct ab_json_writer *w, const struct asked *asked) {
  AB_TRY(check_case(asked->only));
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "schema", "abpipe-bench/1");
  ab_json_put_string(w, "version", ab_version);
  ab_json_put_string(w, "commit", ab_commit);
  ab_json_put_string(w, "changes", ab_diff_hash);
  ab_json_put_string(w, "compiler", ab_compiler());
  if (wanted(asked->only, "compare")) AB_TRY(put_main(w, asked->rounds));
  if (wanted(asked->only, "suite")) AB_TRY(put_suite(w));
  if (wanted(asked->only, "diff")) AB_TRY(bench_diff_put(w, asked->rounds, asked->mib));
  if (wanted(asked->only, "capture")) AB_TRY(bench_capture_put(w, asked->rounds));
  AB_TRY(put_steps(w, asked));
  AB_TRY(put_memory(w, asked));
  ab_json_put_end(w);
  return AB_OK;
}

static int print(const struct asked *asked) {
  struct ab_json_writer *w;
  const char *text;
  size_t size;
  if (ab_json_writer_new(&w) != AB_OK) return fail();
  ab_status status = measure(w, asked);
  if (status == AB_OK) status = ab_json_writer_finish(&text, &size, w);
  if (status == AB_OK) status = ab_file_put(STDOUT_FILENO, text, size, "standard output");
  int code = status == AB_OK ? AB_EXIT_EQUAL : fail();
  ab_json_writer_free(w);
  return code;
}

static ab_status measure_step(const struct asked *asked) {
  const struct bench_case *c;
  struct bench_step step;
  AB_TRY(bench_case_find(&c, asked->step));
  AB_TRY(bench_step_measure(&step, c, asked->rounds));
  return bench_child_answer(&step, sizeof step);
}

static int child_main(const struct asked *asked) {
  ab_status status = ab_process_end_with_parent(SIGKILL);
  if (status == AB_OK && asked->step) status = measure_step(asked);
  if (status == AB_OK && asked->pass) status = bench_diff_pass(asked->pass, asked->against);
  if (status == AB_OK && asked->capture) status = bench_capture_run(asked->of, asked->capture);
  return status == AB_OK ? AB_EXIT_EQUAL : fail();
}

static int list(void) {
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) printf("%-22s %s\n", whole[i].name, whole[i].what);
  const struct bench_case *const tables[] = {bench_cases, bench_memory_cases};
  for (int i = 0; i < 2; i++)
    for (const struct bench_case *c = tables[i]; c->name; c++) printf("%-22s %s: %s\n", c->name, c->route, c->what);
  return AB_EXIT_EQUAL;
}

static ab_status parse(struct asked *a, struct ab_command_line *line, int argc, char **argv) {
  const char **positional;
  size_t count;
  AB_TRY(ab_mem_new(&positional, (size_t)argc + 1, sizeof *positional));
  ab_status status = ab_options_parse(line, argc, argv, positional, &count);
  if (status == AB_OK && count) status = AB_FAIL(AB_ECONFIG, "argument '%.80s'; expected options only", positional[0]);
  ab_mem_free(positional);
  AB_TRY(status);
  if (!a->rounds) a->rounds = a->quick ? 1 : 3;
  if (!a->mib) a->mib = 1024;
  if (a->mib % 8 != 0) return AB_FAIL(AB_ECONFIG, "--mib is %ld; expected a multiple of 8", a->mib);
  if ((a->pass && !a->against) || (a->capture && !a->of))
    return AB_FAIL(AB_ECONFIG, "--pass needs --against, and --capture --of");
  if (a->rounds > BENCH_ROUNDS_MAX)
    return AB_FAIL(AB_ECONFIG, "--rounds is %ld; expected at most %d", a->rounds, BENCH_ROUNDS_MAX);
  return AB_OK;
}

static int act(int argc, char **argv) {
  struct asked a = {0};
  const struct ab_option option[] = {
      {.name = "case", .argument = "NAME", .help = "this case alone, or these (\"scan\")", .text = &a.only},
      {.name = "rounds", .argument = "N", .help = "rounds per case (default 3)", .number = &a.rounds},
      {.name = "quick", .help = "one round", .flag = &a.quick},
      {.name = "list", .help = "name every case and exit", .flag = &a.list},
      {.name = "help", .help = "print this", .flag = &a.help},
      {.name = "version", .help = "print version, compiler and BLAS", .flag = &a.version},
      {.name = "mib", .argument = "N", .help = "size of a dump of case diff (default 1024)", .number = &a.mib},
      {.name = "step", .argument = "NAME", .text = &a.step},
      {.name = "pass", .argument = "FILE", .text = &a.pass},
      {.name = "against", .argument = "FILE", .text = &a.against},
      {.name = "capture", .argument = "LEVEL", .text = &a.capture},
      {.name = "of", .argument = "ROUTE", .text = &a.of},
      {0}};
  struct ab_command_line line = {usage, option};
  if (parse(&a, &line, argc, argv) != AB_OK) return fail();
  if (a.help) return ab_options_help(stdout, &line), AB_EXIT_EQUAL;
  if (a.version) return ab_version_print(stdout, "bench"), AB_EXIT_EQUAL;
  if (a.list) return list();
  return a.step || a.pass || a.capture ? child_main(&a) : print(&a);
}

/* The sides of the comparison are this program again. */
static int side(int argc, char **argv) {
  struct ab_request request;
  if (ab_request_parse(&request, argc, argv) != AB_OK) return fail();
  int code = ab_side_main(&request);
  ab_request_free(&request);
  return code;
}

int main(int argc, char **argv) {
  int refused = ab_start("bench", argc, argv);
  if (refused) return refused;
  bool is_side = argc > 1 && strcmp(argv[1], "--" AB_SIDE_ROUTE) == 0;
  return ab_finish("bench", is_side ? side(argc, argv) : act(argc, argv));
}
