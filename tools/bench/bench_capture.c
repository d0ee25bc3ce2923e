#include "bench_capture.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench_cases.h"
#include "bench_child.h"
#include "run.h"
#include "stream.h"

/* What a child sends. */
struct capture {
  int64_t steps, observations, bytes; /* of the tensors that were observed */
  double seconds, processor_seconds; /* of all steps */
};

static const struct level {
  const char *name;
  bool probe;
  enum ab_level level;
} levels[] = {{"no probe", false, AB_LEVEL_OFF}, {"off", true, AB_LEVEL_OFF}, {"off again", true, AB_LEVEL_OFF},
              {"state", true, AB_LEVEL_STATE}, {"digest", true, AB_LEVEL_DIGEST}};
enum { LEVELS = sizeof levels / sizeof *levels, BASE = 1 };

struct sink {
  struct ab_stream_writer *writer;
  int64_t observations, bytes;
};

static ab_status observe(void *ctx, const struct ab_observation *observation, const void *values) {
  struct sink *sink = ctx;
  sink->observations++;
  sink->bytes += (int64_t)(observation->summary.count * ab_dtype_size(observation->dtype));
  return ab_stream_probe.observe(sink->writer, observation, values);
}

static ab_status count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                       int64_t amount) {
  const struct sink *sink = ctx;
  return ab_stream_probe.count(sink->writer, name, id, at, amount);
}

static const struct ab_probe_ops sink_probe = {.observe = observe, .count = count};

static ab_status metric(void *ctx, int step, const char *name, double value) {
  (void)ctx;
  (void)step;
  (void)name;
  (void)value;
  return AB_OK;
}

static ab_status run_steps(struct capture *out, const struct ab_run *run) {
  struct ab_run_plan plan;
  AB_TRY(ab_run_plan(&plan, run));
  AB_TRY(ab_run_check_memory(&plan));
  AB_TRY(ab_float_environment_workers());
  AB_TRY(ab_kernels_self_test(run->kernels));
  double begin = bench_clock(CLOCK_MONOTONIC), used = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
  AB_TRY(ab_run_steps(run, &plan));
  out->seconds = bench_clock(CLOCK_MONOTONIC) - begin;
  out->processor_seconds = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - used;
  out->steps = run->steps;
  return AB_OK;
}

static ab_status capture(struct capture *out, const struct ab_case *opened, const char *route,
                         const struct level *level, struct sink *sink) {
  struct ab_run run = {.config = opened->config, .metric = metric, .steps = opened->steps, .level = level->level};
  AB_TRY(ab_route_find(&run.route, route));
  run.kernels = ab_route_kernels(run.route, AB_NUMERICS_FAST);
  run.probe = level->probe ? &sink_probe : NULL;
  run.probe_ctx = sink;
  AB_TRY(run_steps(out, &run));
  out->observations = sink->observations;
  out->bytes = sink->bytes;
  return AB_OK;
}

static ab_status with_sink(struct capture *out, const struct ab_case *opened, const char *route,
                           const struct level *level) {
  struct sink sink = {0};
  int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return AB_FAIL(AB_EIO, "cannot write /dev/null");
  ab_status status = ab_stream_writer_new(&sink.writer, fd, "{}");
  if (status == AB_OK) status = capture(out, opened, route, level, &sink);
  ab_stream_writer_free(sink.writer);
  close(fd);
  return status;
}

static ab_status find_level(const struct level **out, const char *name) {
  for (int i = 0; i < LEVELS; i++) {
    *out = &levels[i];
    if (strcmp(levels[i].name, name) == 0) return AB_OK;
  }
  return AB_FAIL(AB_ECONFIG, "--capture is '%.40s'; expected a level", name);
}

ab_status bench_capture_run(const char *route, const char *name) {
  const struct level *level;
  struct bench_case main_case = {.name = "main", .route = route, .file = "main.yml"};
  static const char *const none[] = {NULL};
  struct ab_case opened;
  struct capture out = {0};
  main_case.shape = main_case.variant = none;
  AB_TRY(find_level(&level, name));
  AB_TRY(bench_case_open(&opened, &main_case));
  ab_status status = with_sink(&out, &opened, route, level);
  ab_case_close(&opened);
  AB_TRY(status);
  return bench_child_answer(&out, sizeof out);
}

static ab_status one_round(struct capture best[LEVELS], const char *route, bool first) {
  for (int i = 0; i < LEVELS; i++) {
    struct capture c;
    const char *const arguments[] = {"bench", "--capture", levels[i].name, "--of", route, NULL};
    AB_TRY(bench_child_run(&c, sizeof c, NULL, arguments));
    if (first) best[i] = c;
    best[i].seconds = fmin(best[i].seconds, c.seconds);
    best[i].processor_seconds = fmin(best[i].processor_seconds, c.processor_seconds);
  }
  return AB_OK;
}

static void put_level(struct ab_json_writer *w, const struct capture *c, const struct capture *base) {
  ab_json_put_int64(w, "observations", c->observations);
  ab_json_put_int64(w, "observed_bytes", c->bytes);
  ab_json_put_double(w, "seconds", c->seconds);
  ab_json_put_double(w, "processor_seconds", c->processor_seconds);
  ab_json_put_double(w, "seconds_to_off", c->seconds / base->seconds);
  ab_json_put_double(w, "processor_seconds_to_off", c->processor_seconds / base->processor_seconds);
}

static ab_status put_route(struct ab_json_writer *w, const char *route, long rounds) {
  struct capture best[LEVELS];
  for (long round = 0; round < rounds; round++) AB_TRY(one_round(best, route, round == 0));
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "route", route);
  ab_json_put_int64(w, "steps", best[0].steps);
  ab_json_put_int64(w, "rounds", rounds);
  ab_json_put_array(w, "levels", false);
  for (int i = 0; i < LEVELS; i++) {
    ab_json_put_object(w, NULL, true);
    ab_json_put_string(w, "level", levels[i].name);
    put_level(w, &best[i], &best[BASE]);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
  ab_json_put_end(w);
  return AB_OK;
}

ab_status bench_capture_put(struct ab_json_writer *writer, long rounds) {
  ab_json_put_array(writer, "capture", false);
  AB_TRY(put_route(writer, "linen", rounds));
  AB_TRY(put_route(writer, "nnx", rounds));
  ab_json_put_end(writer);
  return AB_OK;
}
