#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cell.h"
#include "file.h"
#include "json.h"
#include "kernels.h"
#include "mem.h"
#include "outcome.h"
#include "process.h"
#include "side_mode.h"
#include "sides.h"

enum { ANSWER_MAX = 64 * 1024, STDOUT = 1, TIMEOUT = 600 };

static ab_status print_answer(const struct ab_replayed *r, enum ab_exit exit) {
  struct ab_json_writer *w;
  const char *text;
  size_t size;
  AB_TRY(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, false);
  ab_json_put_int64(w, "exit", exit);
  ab_divergence_put(w, NULL, r);
  ab_json_put_end(w);
  ab_status status = ab_json_writer_finish(&text, &size, w);
  if (status == AB_OK) status = ab_file_put(STDOUT, text, size, "standard output");
  ab_json_writer_free(w);
  return status;
}

int ab_cell_main(const struct ab_request *request) {
  struct ab_artifact artifact = {0};
  struct ab_replayed replayed;
  enum ab_exit exit;
  ab_status status = ab_process_end_with_parent(SIGKILL);
  if (status == AB_OK) status = ab_artifact_read(&artifact, request->side_cell);
  if (status == AB_OK) status = ab_float_environment_workers();
  if (status == AB_OK) status = ab_cell_judge(&replayed, &exit, &artifact);
  if (status == AB_OK) status = print_answer(&replayed, exit);
  ab_artifact_free(&artifact);
  if (status == AB_OK) return AB_EXIT_EQUAL;
  fprintf(stderr, "%s\n", ab_status_message());
  return AB_EXIT_USAGE;
}

/* What the process printed. */
struct answer {
  char text[ANSWER_MAX];
  size_t size;
};

static ab_status take(void *ctx, const void *bytes, size_t count) {
  struct answer *answer = ctx;
  if (count > sizeof answer->text - answer->size) return AB_FAIL(AB_EFORMAT, "the replay answered with too much");
  memcpy(answer->text + answer->size, bytes, count);
  answer->size += count;
  return AB_OK;
}

static ab_status read_text(char *out, size_t size, const struct ab_json *json, const char *key) {
  const char *text;
  AB_TRY(ab_json_get_string(&text, json, key));
  snprintf(out, size, "%s", text);
  return AB_OK;
}

static ab_status read_replayed(struct ab_replayed *out, const struct ab_json *json) {
  const struct ab_json *lines;
  const char *text;
  *out = (struct ab_replayed){.known = true};
  AB_TRY(read_text(out->kind, sizeof out->kind, json, "kind"));
  AB_TRY(read_text(out->side, sizeof out->side, json, "side"));
  AB_TRY(read_text(out->operator, sizeof out->operator, json, "operator"));
  AB_TRY(read_text(out->fed, sizeof out->fed, json, "fed"));
  AB_TRY(read_text(out->explains, sizeof out->explains, json, "explains"));
  AB_TRY(ab_json_get_array(&lines, json, "lines"));
  for (const struct ab_json *line = ab_json_first(lines); line; line = ab_json_next(line)) {
    AB_TRY(ab_json_string(&text, line));
    ab_replayed_say(out, "%s", text);
  }
  return AB_OK;
}

static ab_status read_answer(struct ab_replayed *out, enum ab_exit *exit, const struct answer *answer) {
  struct ab_json *json;
  const struct ab_json *replay;
  int64_t code = 0;
  AB_TRY(ab_json_parse(&json, answer->text, answer->size, "the replay's answer", NULL));
  ab_status status = ab_json_get_int64(&code, json, "exit");
  if (status == AB_OK) status = ab_json_get_object(&replay, json, "replay");
  if (status == AB_OK) status = read_replayed(out, replay);
  ab_json_free(json);
  *exit = code ? AB_EXIT_DIFFERENT : AB_EXIT_EQUAL;
  return status;
}

/* The process's own sentence, where it had one. */
static ab_status check(const struct ab_process_result *end) {
  if (!end->timed_out && !end->signal && end->exit_code == AB_EXIT_USAGE && end->tail_size)
    return AB_FAIL(AB_EFORMAT, "%.*s", (int)strcspn(end->tail, "\n"), end->tail);
  return ab_process_check(end, "the replay");
}

static ab_status run(struct answer *answer, struct ab_process_result *end, const char *folder, double timeout) {
  const char *const arguments[] = {"ab_compare", "--" AB_SIDE_ROUTE, "sequential", "--" AB_SIDE_CELL, folder, NULL};
  struct ab_side_environment environment;
  ab_side_environment(&environment, NULL);
  struct ab_process_spec spec = {.name = "the replay", .program = ab_program_path(NULL), .arguments = arguments,
                                 .environment = environment.entry, .stream_fd = STDOUT, .timeout = timeout,
                                 .take = take, .ctx = answer};
  AB_TRY(ab_process_run(end, &spec));
  return check(end);
}

ab_status ab_cell_ask(struct ab_replayed *out, enum ab_exit *exit, const char *folder, double timeout) {
  struct answer *answer;
  struct ab_process_result *end = NULL;
  AB_TRY(ab_mem_new(&answer, 1, sizeof *answer));
  ab_status status = ab_mem_new(&end, 1, sizeof *end);
  if (status == AB_OK) status = run(answer, end, folder, timeout);
  if (status == AB_OK) status = read_answer(out, exit, answer);
  ab_mem_free(answer);
  ab_mem_free(end);
  return status;
}

int ab_replay_main(const struct ab_request *request) {
  struct ab_replayed replayed;
  enum ab_exit exit;
  char *text;
  double timeout = request->timeout ? (double)request->timeout : TIMEOUT;
  ab_status status = ab_cell_ask(&replayed, &exit, request->replay, timeout);
  if (status == AB_OK) status = ab_divergence_text(&text, NULL, &replayed);
  if (status != AB_OK) return ab_complain("ab_compare", ab_status_message());
  int said = ab_say("ab_compare", "%s: replay of %s", exit ? "DIFFERENT" : "EQUAL", request->replay);
  printf("%sexit: %d (%s)\n", text, (int)exit, ab_exit_reason(exit));
  ab_mem_free(text);
  return said ? said : (int)exit;
}
