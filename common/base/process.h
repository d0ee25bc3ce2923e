/* The process door: runs a program in a group of its own, listens to it, and ends it in time.
 *
 * posix_spawn only: the parent never forks. The child's standard input is /dev/null; its standard error, and its
 * standard output unless that is the stream, are kept as a tail of bounded size. Deadlines are on the monotonic clock.
 * However a run ends, its whole process group is killed. Spawn from the main thread: the child's end with its parent
 * hangs on it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "status.h"

enum { AB_STDERR_TAIL = 64 * 1024, AB_STREAM_FD_MAX = 9 };

struct ab_process_spec {
  const char *name;               /* "side A", for sentences */
  const char *program;            /* looked up in PATH when it has no slash */
  const char *const *arguments;   /* argv with argv[0], NULL at the end */
  const char *const *environment; /* NULL at the end; entries "NAME=value" replace those of our own environment */
  int stream_fd;         /* the child's descriptor that is a pipe to us: 1 or 3..AB_STREAM_FD_MAX; 0 for none */
  double timeout;        /* seconds; 0 for none */
  uint64_t memory_limit; /* RLIMIT_AS of the child in bytes; 0 for none */
  int end_signal;        /* for a program that ends with this signal, and ends all that it started; 0 for none */
  /* Takes bytes of the stream as they come. A failure ends the child and is returned by the run. */
  ab_status (*take)(void *ctx, const void *bytes, size_t count);
  void *ctx;
};

struct ab_process_result {
  bool timed_out;       /* ended by us at the deadline */
  bool held;            /* a process it left behind held a pipe and was killed: what it wrote may be half */
  int exit_code;        /* -1 unless it exited */
  int signal;           /* 0 unless a signal ended it */
  double seconds;       /* wall time */
  uint64_t peak_memory; /* resident bytes at most */
  size_t tail_size;     /* of what follows, always with a NUL behind */
  char tail[AB_STDERR_TAIL + 1];
};

/* Runs it to its end. AB_OK whenever the program was started and all that it streamed was taken: how it ended stands in
 * *out, see ab_process_check. AB_ECOMM when it cannot be started. */
ab_status ab_process_run(struct ab_process_result *out, const struct ab_process_spec *spec);
/* Runs `count` of them at the same time. One whose `take` failed is ended, the others go on; the first failure is
 * returned. */
ab_status ab_process_run_all(struct ab_process_result *out, const struct ab_process_spec *specs, size_t count);

/* Seconds of the clock that deadlines go by: it only moves on. */
double ab_process_now(void);
/* "exited with code 7", "was killed by SIGSEGV", "did not finish in time ..."; cut to size. */
void ab_process_print(char *text, size_t size, const struct ab_process_result *result);
/* AB_OK for exit code 0 in time with no pipe held, else AB_ECOMM: "<name> <print>: <last line of the tail>". */
ab_status ab_process_check(const struct ab_process_result *result, const char *name);

/* In a child, first thing in main: it gets this signal when its parent dies; AB_ECOMM when it has died already. */
ab_status ab_process_end_with_parent(int signal);
/* In every main: opens /dev/null on closed descriptors 0 to 2, so that no file of ours is taken for standard output;
 * on 1 for reading only, so that a report that goes nowhere is a failed write. */
ab_status ab_process_claim_standard_fds(void);
