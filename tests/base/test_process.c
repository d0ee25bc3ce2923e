#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "process.h"
#include "sweep.h"
#include "tap.h"

struct stream {
  size_t size, fail_from; /* fail_from: 0 for never */
  char bytes[64];         /* the first ones */
};

static ab_status take(void *ctx, const void *bytes, size_t count) {
  struct stream *stream = ctx;
  size_t room =
      sizeof stream->bytes - 1 - (stream->size < sizeof stream->bytes - 1 ? stream->size : sizeof stream->bytes - 1);
  memcpy(stream->bytes + (sizeof stream->bytes - 1 - room), bytes, count < room ? count : room);
  stream->size += count;
  if (stream->fail_from && stream->size >= stream->fail_from) return AB_FAIL(AB_EFORMAT, "stream damaged");
  return AB_OK;
}

static struct ab_process_result *result; /* large: not on the stack */
static struct stream stream;

static void set_up(void) {
  ck_ok(ab_mem_new(&result, 3, sizeof *result));
  stream = (struct stream){0};
}

static void tear_down(void) { ab_mem_free(result); }

#define SHELL(script) \
  (const char *const[]) { "sh", "-c", script, NULL }

static struct ab_process_spec shell(const char *const *arguments, int fd, double timeout) {
  return (struct ab_process_spec){.name = "side A",
                                  .program = "sh",
                                  .arguments = arguments,
                                  .stream_fd = fd,
                                  .timeout = timeout,
                                  .take = take,
                                  .ctx = &stream};
}

static ab_status run(const char *const *arguments, int fd, double timeout) {
  struct ab_process_spec spec = shell(arguments, fd, timeout);
  return ab_process_run(result, &spec);
}

START_TEST(stream_tail_and_code_are_delivered) {
  for (int fd = 1; fd <= AB_STREAM_FD_MAX; fd++) {
    if (fd == 2) continue;
    char script[128];
    stream = (struct stream){0};
    snprintf(script, sizeof script, "printf hello >&%d; echo first >&2; echo last words >&2; exit 7", fd);
    ck_ok(run(SHELL(script), fd, 10));
    ck_assert_str_eq(stream.bytes, "hello");
    ck_assert_int_eq(result->exit_code, 7);
    ck_assert_int_eq(result->signal, 0);
    ck_assert_str_eq(result->tail, "first\nlast words\n");
    ck_assert(!result->timed_out && !result->held);
    ck_fails(ab_process_check(result, "side A"), AB_ECOMM, "side A exited with code 7: last words");
  }
}
END_TEST

START_TEST(a_good_end_is_ok_and_stdout_joins_the_tail) {
  ck_ok(run(SHELL("echo out; cat; printf x >&3"), 3, 10));
  ck_ok(ab_process_check(result, "side A"));
  ck_assert_str_eq(result->tail, "out\n");
  ck_assert_str_eq(stream.bytes, "x");
  ck_assert_uint_gt(result->peak_memory, 0);
}
END_TEST

START_TEST(a_large_stream_and_a_large_tail_pass) {
  ck_ok(run(SHELL("head -c 3000000 /dev/zero >&3; head -c 1000000 /dev/zero | tr '\\0' a >&2; printf end >&2"), 3, 30));
  ck_ok(ab_process_check(result, "side A"));
  ck_assert_uint_eq(stream.size, 3000000);
  ck_assert_uint_eq(result->tail_size, AB_STDERR_TAIL);
  ck_assert_str_eq(result->tail + AB_STDERR_TAIL - 4, "aend");
}
END_TEST

START_TEST(signals_are_named) {
  ck_ok(run(SHELL("kill -SEGV $$"), 3, 10));
  ck_assert_int_eq(result->signal, SIGSEGV);
  ck_assert_int_eq(result->exit_code, -1);
  ck_fails(ab_process_check(result, "side B"), AB_ECOMM, "side B was killed by SIGSEGV");
}
END_TEST

/* Nobody of the group is left: a zombie that init has not reaped yet does not count. */
static void check_group_is_gone(const char *pid_text) {
  long pid = strtol(pid_text, NULL, 10);
  char path[64], state = 'X';
  ck_assert_int_gt(pid, 1);
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  for (int i = 0; i < 200; i++) {
    FILE *file = fopen(path, "r");
    state = 'X';
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'X';
    if (file) fclose(file);
    if (state == 'X' || state == 'Z') return;
    usleep(10000);
  }
  ck_abort_msg("process %ld lives on in state %c", pid, state);
}

START_TEST(every_way_of_hanging_ends_in_time) {
  static const char *const scripts[] = {
      "echo $$ >&3; sleep 60",                                /* sleeps */
      "echo $$ >&3; kill -STOP $$",                           /* is stopped */
      "echo $$ >&3; while :; do :; done",                     /* is busy */
      "trap '' TERM; echo $$ >&3; while :; do sleep 1; done", /* ignores TERM */
      "echo $$ >&3; exec 3>&- 1>&- 2>&-; sleep 60",           /* closes the pipes but lives */
      "sleep 60 & echo $! >&3; wait",                         /* waits for its child */
  };
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    stream = (struct stream){0};
    ck_ok(run(SHELL(scripts[i]), 3, 0.2));
    ck_assert_msg(result->timed_out, "%s", scripts[i]);
    ck_assert_msg(result->seconds < 10, "%s took %g s", scripts[i], result->seconds);
    ck_fails(ab_process_check(result, "side A"), AB_ECOMM, "side A did not finish in time");
    check_group_is_gone(stream.bytes);
  }
}
END_TEST

START_TEST(a_grandchild_that_holds_the_pipe_is_ended) {
  ck_ok(run(SHELL("sleep 60 & echo $! >&3; exit 0"), 3, 30));
  ck_assert(result->held);
  ck_assert(!result->timed_out);
  ck_assert_int_eq(result->exit_code, 0);
  ck_fails(ab_process_check(result, "side A"), AB_ECOMM, "side A left a process behind that held its stream");
  check_group_is_gone(stream.bytes);
}
END_TEST

START_TEST(a_refused_stream_ends_the_program) {
  stream.fail_from = 3;
  ck_fails(run(SHELL("printf abc >&3; sleep 60"), 3, 30), AB_EFORMAT, "stream damaged");
  ck_assert(!result->timed_out);
}
END_TEST

START_TEST(what_cannot_be_started_is_said) {
  struct ab_process_spec spec = shell(SHELL("true"), 3, 1);
  spec.program = "/nonexistent/abc";
  ck_fails(ab_process_run(result, &spec), AB_ECOMM, "cannot start side A ('/nonexistent/abc'): No such file");
  spec = shell(SHELL("true"), 2, 1);
  ck_fails(ab_process_run(result, &spec), AB_ECOMM, "expected 0, 1 or 3 to 9");
}
END_TEST

START_TEST(the_environment_is_ours_with_replacements) {
  setenv("AB_TEST_KEPT", "kept", 1);
  setenv("AB_TEST_REPLACED", "old", 1);
  struct ab_process_spec spec = shell(SHELL("printf \"$AB_TEST_KEPT $AB_TEST_REPLACED $AB_PARENT\" >&3"), 3, 10);
  spec.environment = (const char *const[]){"AB_TEST_REPLACED=new", NULL};
  ck_ok(ab_process_run(result, &spec));
  char expected[64];
  snprintf(expected, sizeof expected, "kept new %ld", (long)getpid());
  ck_assert_str_eq(stream.bytes, expected);
}
END_TEST

START_TEST(several_run_at_the_same_time) {
  struct stream streams[3] = {0};
  struct ab_process_spec specs[3];
  /* Each waits for the others: one after the other would never end. */
  char folder[] = "/tmp/.ab-tmp-XXXXXX", scripts[3][512];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  const char *arguments[3][4];
  for (int i = 0; i < 3; i++) {
    snprintf(
        scripts[i], sizeof scripts[i],
        "cd %s; : > f%d; while [ ! -e f0 ] || [ ! -e f1 ] || [ ! -e f2 ]; do sleep 0.01; done; printf %d >&3; exit %d",
        folder, i, i, i);
    memcpy(arguments[i], (const char *[]){"sh", "-c", scripts[i], NULL}, sizeof arguments[i]);
    specs[i] = shell(arguments[i], 3, 20);
    specs[i].ctx = &streams[i];
  }
  ck_ok(ab_process_run_all(result, specs, 3));
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(result[i].exit_code, i);
    ck_assert_int_eq(streams[i].bytes[0], '0' + i);
    snprintf(scripts[0], sizeof scripts[0], "%s/f%d", folder, i);
    unlink(scripts[0]);
  }
  rmdir(folder);
}
END_TEST

START_TEST(no_descriptor_is_left_open) {
  int before = open("/dev/null", O_RDONLY);
  close(before);
  ck_ok(run(SHELL("true"), 3, 10));
  ck_ok(run(SHELL("sleep 60"), 3, 0.05));
  int after = open("/dev/null", O_RDONLY);
  close(after);
  ck_assert_int_eq(after, before);
}
END_TEST

START_TEST(a_memory_limit_is_set) {
  struct ab_process_spec spec = shell(SHELL("sleep 0.2; ulimit -v >&3"), 3, 10);
  spec.memory_limit = (uint64_t)1 << 30;
  ck_ok(ab_process_run(result, &spec));
  ck_assert_str_eq(stream.bytes, "1048576\n");
}
END_TEST

static struct ab_process_result swept[2];

static ab_status run_two(void) {
  struct ab_process_spec specs[2] = {shell(SHELL("true"), 3, 10), shell(SHELL("true"), 3, 10)};
  return ab_process_run_all(swept, specs, 2);
}

START_TEST(every_refused_allocation_is_survived) {
  ab_mem_free(result);
  ck_assert_uint_eq(sweep_allocations(run_two), 4);
  result = NULL;
}
END_TEST

static void own_path(char *path, size_t size) {
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  ck_assert_int_gt(length, 0);
  path[length] = '\0';
}

/* Run as a program of its own: tells its id and would live for a minute. */
static int be_side(void) {
  if (ab_process_end_with_parent(SIGKILL) != AB_OK) return 3;
  dprintf(3, "%ld\n", (long)getpid());
  sleep(60);
  return 0;
}

static ab_status tell_and_die(void *ctx, const void *bytes, size_t count) {
  (void)ctx;
  if (write(3, bytes, count) == (ssize_t)count) raise(SIGKILL);
  return AB_OK;
}

/* Run as a program of its own: starts a side, passes its id on, and dies without a word to it. */
static int be_parent(void) {
  static struct ab_process_result ours;
  struct ab_process_spec spec = {.name = "side",
                                 .program = "/proc/self/exe",
                                 .stream_fd = 3,
                                 .take = tell_and_die,
                                 .arguments = (const char *const[]){"test_process", "side", NULL}};
  ck_ok(ab_process_run(&ours, &spec));
  return 4;
}

START_TEST(a_side_dies_with_its_parent) {
  struct ab_process_spec spec = shell((const char *const[]){"test_process", "parent", NULL}, 3, 20);
  spec.program = "/proc/self/exe";
  ck_ok(ab_process_run(result, &spec));
  ck_assert_int_eq(result->signal, SIGKILL);
  check_group_is_gone(stream.bytes);
}
END_TEST

START_TEST(a_side_whose_parent_is_gone_does_not_start) {
  char self[4096];
  own_path(self, sizeof self);
  const char *const arguments[] = {"sh", "-c", "AB_PARENT=4194305 exec \"$0\" side", self,
                                   NULL}; /* above the highest id */
  ck_ok(run(arguments, 3, 20));
  ck_assert_int_eq(result->exit_code, 3);
}
END_TEST

/* Run as a program of its own, with 0 to 2 closed. */
static int be_bare(void) {
  if (ab_process_claim_standard_fds() != AB_OK) return 5;
  int next = open("/dev/null", O_RDONLY);
  return next > 2 && fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0 ? 6 : 7;
}

START_TEST(closed_standard_descriptors_are_claimed) {
  char self[4096];
  own_path(self, sizeof self);
  const char *const arguments[] = {"sh", "-c", "exec \"$0\" bare <&- >&- 2>&-", self, NULL};
  ck_ok(run(arguments, 3, 20));
  ck_assert_int_eq(result->exit_code, 6);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("process");
  TCase *c = tcase_create("process");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, set_up, tear_down);
  tcase_add_test(c, stream_tail_and_code_are_delivered);
  tcase_add_test(c, a_good_end_is_ok_and_stdout_joins_the_tail);
  tcase_add_test(c, a_large_stream_and_a_large_tail_pass);
  tcase_add_test(c, signals_are_named);
  tcase_add_test(c, every_way_of_hanging_ends_in_time);
  tcase_add_test(c, a_grandchild_that_holds_the_pipe_is_ended);
  tcase_add_test(c, a_refused_stream_ends_the_program);
  tcase_add_test(c, what_cannot_be_started_is_said);
  tcase_add_test(c, the_environment_is_ours_with_replacements);
  tcase_add_test(c, several_run_at_the_same_time);
  tcase_add_test(c, no_descriptor_is_left_open);
  tcase_add_test(c, a_memory_limit_is_set);
  tcase_add_test(c, every_refused_allocation_is_survived);
  tcase_add_test(c, a_side_dies_with_its_parent);
  tcase_add_test(c, a_side_whose_parent_is_gone_does_not_start);
  tcase_add_test(c, closed_standard_descriptors_are_claimed);
  suite_add_tcase(s, c);
  return s;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "side")) return be_side();
  if (argc > 1 && !strcmp(argv[1], "parent")) return be_parent();
  if (argc > 1 && !strcmp(argv[1], "bare")) return be_bare();
  return ab_run_suite(suite());
}
