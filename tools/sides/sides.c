#include "sides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "file.h"
#include "guard.h"
#include "kernels.h"
#include "mem.h"
#include "side_mode.h"

enum { ARGUMENTS_MAX = 24, ENVIRONMENT_MAX = 8, VARIABLE_MAX = 4200, TAIL_SHOWN = 900 };

/* One running side: what its stream is fed to. */
struct listener {
  struct ab_side_result *result;
  struct ab_stream_reader *reader;
  struct ab_progress *progress;
  bool guarded; /* runs a program that is not ours */
  int copy; /* the stream as it came, for sides that run against this one */
  const char **argv;
  struct ab_side_environment environment;
  const char *entry[ENVIRONMENT_MAX]; /* NULL at the end */
  char variable[3][VARIABLE_MAX];     /* a command's */
  char window[AB_KEPT_WORDS];
};

static void fail(struct ab_side_result *result, enum ab_exit exit, const char *reason) {
  result->exit = exit;
  snprintf(result->reason, sizeof result->reason, "%s", reason);
}

static ab_status take(void *ctx, const void *bytes, size_t count) {
  struct listener *listener = ctx;
  AB_TRY(ab_file_put(listener->copy, bytes, count, "the copy of a stream"));
  ab_status status = ab_stream_feed(listener->reader, bytes, count);
  if (status == AB_OK) ab_progress_take(listener->progress, listener->result->name, listener->result->recording);
  else if (status != AB_ENOMEM) fail(listener->result, AB_EXIT_SIDE, ab_status_message());
  return status;
}

static ab_status path_in(char **out, const char *folder, const char *label, const char *ending) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", label, ending);
  return ab_path_join(out, folder, name);
}

static size_t put(const char **argv, size_t n, const char *name, const char *value) {
  if (!value) return n;
  argv[n] = name;
  argv[n + 1] = value;
  return n + 2;
}

/* Before the words of a program that is not ours, which begin with its name. */
static size_t guard(const char **argv, const char *program) {
  argv[0] = "ab_compare";
  argv[1] = "--" AB_GUARD;
  argv[2] = program;
  return 3;
}

/* argv[0] --side ROUTE ... case arguments. */
static ab_status arguments(struct listener *listener, const struct ab_side_order *order) {
  size_t given = 0, n = 0;
  while (order->case_arguments[given]) given++;
  AB_TRY(ab_mem_new(&listener->argv, given + ARGUMENTS_MAX, sizeof *listener->argv));
  const struct ab_side_result *against = order->against, *from = order->params_from;
  if (listener->guarded) n = guard(listener->argv, ab_program_path(order->program));
  else listener->argv[n++] = "ab_compare";
  n = put(listener->argv, n, "--" AB_SIDE_ROUTE, order->route);
  n = put(listener->argv, n, "--" AB_SIDE_VALUES, listener->result->values_path);
  n = put(listener->argv, n, "--" AB_SIDE_AGAINST, against ? against->stream_path : NULL);
  n = put(listener->argv, n, "--" AB_SIDE_FROM_STREAM, from ? from->stream_path : NULL);
  n = put(listener->argv, n, "--" AB_SIDE_FROM_VALUES, from ? from->values_path : NULL);
  n = put(listener->argv, n, "--" AB_SIDE_SHAKE, order->shake);
  if (order->fingerprints) listener->argv[n++] = "--" AB_SIDE_FINGERPRINT;
  n = put(listener->argv, n, "--" AB_SIDE_WHAT_IF, order->what_if);
  if (order->window) ab_kept_window_words(listener->window, order->window);
  n = put(listener->argv, n, "--" AB_SIDE_WINDOW, order->window ? listener->window : NULL);
  if (order->terms) listener->argv[n++] = "--" AB_SIDE_TERMS_ALONE;
  if (order->state) listener->argv[n++] = "--" AB_SIDE_STATE_ALONE;
  memcpy(listener->argv + n, order->case_arguments, given * sizeof *listener->argv);
  return AB_OK;
}

void ab_side_environment(struct ab_side_environment *out, const char *wanted) {
  size_t n = 0;
  const char *core = wanted ? wanted : ab_blas_core_wanted();
  out->entry[n++] = "OPENBLAS_NUM_THREADS=1";
  if (!getenv("OMP_WAIT_POLICY")) out->entry[n++] = "OMP_WAIT_POLICY=passive";
  if (core && (wanted || !getenv("OPENBLAS_CORETYPE"))) {
    snprintf(out->core, sizeof out->core, "OPENBLAS_CORETYPE=%s", core);
    out->entry[n++] = out->core;
  }
  out->entry[n] = NULL;
}

static void environment(struct listener *listener, const struct ab_side_order *order) {
  size_t n = 0;
  ab_side_environment(&listener->environment, order->core);
  for (; listener->environment.entry[n]; n++) listener->entry[n] = listener->environment.entry[n];
  if (!order->command) return;
  snprintf(listener->variable[0], VARIABLE_MAX, "AB_IN=%s", order->in);
  snprintf(listener->variable[1], VARIABLE_MAX, "AB_OUT=%s", order->out);
  snprintf(listener->variable[2], VARIABLE_MAX, "AB_STEPS=%lld", (long long)order->opened->steps);
  for (int i = 0; i < 3; i++) listener->entry[n++] = listener->variable[i];
}

static ab_status prepare_command(struct listener *listener, const struct ab_side_order *order) {
  AB_TRY(ab_mem_new(&listener->argv, 6, sizeof *listener->argv));
  size_t n = guard(listener->argv, "/bin/sh");
  put(listener->argv, n, "-c", order->command);
  return ab_folder_make(order->out);
}

static ab_status prepare(struct listener *listener, struct ab_side_result *result, const struct ab_side_order *order) {
  char shown[80];
  snprintf(shown, sizeof shown, "%s%s", order->route, order->program ? order->program->shown : "");
  result->given.outside = order->command != NULL;
  snprintf(result->name, sizeof result->name, "%.12s (%s)", order->label, shown);
  listener->result = result;
  listener->progress = order->progress;
  listener->guarded = order->command || (order->program && order->program->path);
  listener->copy = -1;
  AB_TRY(ab_recording_new(&result->recording, shown));
  AB_TRY(path_in(&result->stream_path, order->scratch, order->label, "stream"));
  AB_TRY(path_in(&result->values_path, order->scratch, order->label, "values"));
  environment(listener, order);
  if (order->command) return prepare_command(listener, order);
  AB_TRY(ab_stream_reader_new(&listener->reader, &ab_recording_handler, result->recording));
  AB_TRY(arguments(listener, order));
  return ab_file_create(&listener->copy, result->stream_path);
}

static struct ab_process_spec specification(struct listener *listener, const struct ab_side_order *order) {
  bool command = order->command != NULL;
  return (struct ab_process_spec){.name = listener->result->name,
                                  .program = ab_program_path(NULL),
                                  .arguments = listener->argv,
                                  .environment = listener->entry,
                                  .stream_fd = command ? 0 : AB_SIDE_FD,
                                  .timeout = order->timeout,
                                  .end_signal = listener->guarded ? AB_GUARD_END : 0,
                                  .take = command ? NULL : take,
                                  .ctx = listener};
}

/* What its stream lacks, and what the program said when it gave up before its stream could. */
static void fail_early(struct ab_side_result *result) {
  char lacks[256], reason[sizeof result->reason];
  snprintf(lacks, sizeof lacks, "%s", ab_status_message());
  ab_status ended = ab_process_check(&result->process, "it");
  snprintf(reason, sizeof reason, "%s%s%s", lacks, ended == AB_OK ? "" : ": ", ended == AB_OK ? "" :
           ab_status_message());
  fail(result, AB_EXIT_SIDE, reason);
}

/* How its process ended, else the side's own sentence, else what its stream lacks. */
static void conclude(struct listener *listener, ab_status finish) {
  struct ab_side_result *result = listener->result;
  const struct ab_recording *recording = result->recording;
  ab_recording_last(result->last, recording);
  if (result->exit != AB_EXIT_EQUAL) return; /* the stream was damaged, and we ended the side */
  if (result->process.timed_out || result->process.signal) {
    char how[128], reason[sizeof result->reason];
    ab_process_print(how, sizeof how, &result->process);
    snprintf(reason, sizeof reason, "%s%s%.900s", how, result->process.tail_size ? ": " : "", result->process.tail);
    fail(result, AB_EXIT_SIDE, reason);
  } else if (recording->error != AB_OK) {
    enum ab_exit exit = recording->error == AB_ECONFIG ? AB_EXIT_USAGE : AB_EXIT_SIDE;
    fail(result, exit, recording->error_sentence);
  } else if (finish != AB_OK) {
    fail_early(result);
  } else if (ab_process_check(&result->process, "it") != AB_OK) {
    fail(result, AB_EXIT_SIDE, ab_status_message());
  }
}

/* A command's last lines say why it failed. */
static ab_status conclude_command(struct ab_side_result *result, const struct ab_side_order *order) {
  ab_recording_last(result->last, result->recording);
  if (result->process.timed_out || result->process.signal || result->process.exit_code != 0) {
    char how[128], reason[sizeof result->reason];
    size_t size = result->process.tail_size, kept = size < TAIL_SHOWN ? size : TAIL_SHOWN;
    ab_process_print(how, sizeof how, &result->process);
    snprintf(reason, sizeof reason, "%s%s%s", how, kept ? ": " : "", result->process.tail + size - kept);
    fail(result, AB_EXIT_SIDE, reason);
    return AB_OK;
  }
  return ab_command_take(result, order->opened, order->out);
}

static ab_status open_values(struct ab_side_result *result, const struct ab_side_order *order) {
  const struct ab_side_result *against = order->against;
  if (order->window) return ab_kept_open_window(&result->values, result->recording, result->values_path, order->window);
  return ab_kept_open(&result->values, result->recording, result->values_path, against ? against->recording : NULL,
                      against ? against->values : NULL);
}

/* Another program may have written others than its stream tells of. */
static ab_status take_values(struct listener *listener, const struct ab_side_order *order) {
  struct ab_side_result *result = listener->result;
  ab_status status = open_values(result, order);
  if (!listener->guarded) return status;
  if (status == AB_OK) status = ab_kept_check(result->values);
  if (status != AB_EFORMAT) return status;
  fail(result, AB_EXIT_SIDE, ab_status_message());
  ab_status_clear();
  return AB_OK;
}

static void release(struct listener *listener) {
  if (listener->copy >= 0) close(listener->copy);
  ab_stream_reader_free(listener->reader);
  ab_mem_free(listener->argv);
}

static ab_status run(struct listener *listeners, struct ab_process_spec *specs, struct ab_side_result *out,
                     const struct ab_side_order *orders, size_t count) {
  struct ab_process_result *ends;
  for (size_t i = 0; i < count; i++) {
    AB_TRY(prepare(&listeners[i], &out[i], &orders[i]));
    specs[i] = specification(&listeners[i], &orders[i]);
  }
  AB_TRY(ab_mem_new(&ends, count, sizeof *ends));
  ab_status status = ab_process_run_all(ends, specs, count);
  for (size_t i = 0; i < count; i++) out[i].process = ends[i];
  ab_mem_free(ends);
  if (status == AB_ECOMM || status == AB_EIO || status == AB_ENOMEM) return status; /* not the sides' fault */
  for (size_t i = 0; i < count; i++) {
    if (orders[i].command) AB_TRY(conclude_command(&out[i], &orders[i]));
    if (orders[i].command) continue;
    conclude(&listeners[i], ab_stream_finish(listeners[i].reader));
    if (out[i].exit == AB_EXIT_EQUAL) AB_TRY(take_values(&listeners[i], &orders[i]));
  }
  return AB_OK;
}

ab_status ab_sides_run(struct ab_side_result *out, const struct ab_side_order *orders, size_t count) {
  struct listener *listeners = NULL;
  struct ab_process_spec *specs = NULL;
  memset(out, 0, count * sizeof *out);
  AB_TRY(ab_mem_new(&listeners, count, sizeof *listeners));
  for (size_t i = 0; i < count; i++) listeners[i].copy = -1;
  ab_status status = ab_mem_new(&specs, count, sizeof *specs);
  if (status == AB_OK) status = run(listeners, specs, out, orders, count);
  for (size_t i = 0; i < count; i++) release(&listeners[i]);
  ab_mem_free(listeners);
  ab_mem_free(specs);
  return status;
}

void ab_sides_free(struct ab_side_result *results, size_t count) {
  for (size_t i = count; i-- > 0;) {
    ab_kept_close(results[i].values);
    ab_recording_free(results[i].recording);
    ab_mem_free(results[i].stream_path);
    ab_mem_free(results[i].values_path);
  }
}
