#include "process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"
#include "process_internal.h"

enum { SHOWN = 255 /* bytes of a last line */ };
enum { CHUNK = 64 * 1024, MOST_DRAINED = 64 /* chunks */, TICK = 20 /* ms between looks where there is no pidfd */ };
static const double mercy = 0.5;   /* seconds between TERM and KILL */
static const double leftovers = 1; /* seconds that a pipe may stay open after the program has ended */

static void keep_tail(struct ab_process_result *result, const char *bytes, size_t count) {
  if (count > AB_STDERR_TAIL) {
    bytes += count - AB_STDERR_TAIL;
    count = AB_STDERR_TAIL;
  }
  size_t keep = AB_STDERR_TAIL - count < result->tail_size ? AB_STDERR_TAIL - count : result->tail_size;
  memmove(result->tail, result->tail + result->tail_size - keep, keep);
  memcpy(result->tail + keep, bytes, count);
  result->tail_size = keep + count;
  result->tail[result->tail_size] = '\0';
}

static void end_soon(struct running *running) {
  if (running->kill_at > 0 || !running->pid) return;
  running->kill_at = ab_process_now() + mercy;
  kill(-running->pid, SIGTERM);
}

static void take_bytes(struct running *running, const char *bytes, size_t count) {
  if (running->failed != AB_OK || !running->spec->take) return;
  running->failed = running->spec->take(running->spec->ctx, bytes, count);
  if (running->failed != AB_OK) end_soon(running);
}

/* One chunk, so that no program keeps the others waiting. False when there is nothing more now. */
static bool read_pipe(struct running *running, int *fd) {
  static _Thread_local char bytes[CHUNK];
  ssize_t count = read(*fd, bytes, sizeof bytes);
  if (count > 0) {
    if (fd == &running->stream)
      take_bytes(running, bytes, (size_t)count);
    else
      keep_tail(running->result, bytes, (size_t)count);
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close(*fd);
  *fd = -1;
  return false;
}

/* Looks without reaping: until it is reaped, its id and its group cannot be taken by another. */
static void look_for_end(struct running *running) {
  siginfo_t info = {0};
  if (running->ended || waitid(P_PID, (id_t)running->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  if (info.si_pid != running->pid) return;
  running->ended = true;
  double until = ab_process_now() + leftovers;
  if (running->kill_at == 0 || until < running->kill_at) running->kill_at = until;
}

/* What stands in a pipe when its writer has ended. Bounded: another one may write on. False when there is another. */
static bool drained(struct running *running, int *fd) {
  for (int i = 0; i < MOST_DRAINED && *fd >= 0; i++)
    if (!read_pipe(running, fd)) break;
  return *fd < 0;
}

static void drain_and_close(struct running *running, int *fd) {
  if (!drained(running, fd)) close(*fd);
  *fd = -1;
}

static void note_status(struct ab_process_result *result, int status) {
  result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* What a signal handler has to kill. One run at a time: all are started from the main thread. */
static struct running *volatile watched;
static volatile size_t watched_count;

/* What clears up after itself is told to, and waited for without reaping it; then whoever is left of the group dies. */
static void kill_group(const struct running *running) {
  siginfo_t info;
  int signal = running->spec->end_signal;
  if (signal && kill(running->pid, signal) == 0 && kill(running->pid, SIGCONT) == 0)
    while (waitid(P_PID, (id_t)running->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {}
  kill(-running->pid, SIGKILL);
}

void process_kill_all(void) {
  for (size_t i = 0; watched && i < watched_count; i++)
    if (watched[i].pid) kill_group(&watched[i]);
  for (size_t i = 0; watched && i < watched_count; i++)
    if (watched[i].pid) waitpid(watched[i].pid, NULL, 0); /* none writes when its files are removed */
}

static void finish(struct running *running) {
  struct rusage usage = {0};
  int status = 0;
  pid_t ended = running->pid, pid;
  kill_group(running);
  running->pid = 0; /* before its number is free for another */
  do pid = wait4(ended, &status, 0, &usage);
  while (pid < 0 && errno == EINTR);
  if (pid > 0) note_status(running->result, status);
  running->result->seconds = ab_process_now() - running->started;
  running->result->peak_memory = (uint64_t)usage.ru_maxrss * 1024;
  drain_and_close(running, &running->stream);
  drain_and_close(running, &running->tail);
  if (running->pidfd >= 0) close(running->pidfd);
}

/* Ended, overdue, or still running. */
static void judge(struct running *running) {
  double now = ab_process_now();
  look_for_end(running);
  if (running->ended && running->stream < 0 && running->tail < 0) {
    finish(running);
    return;
  }
  if (!running->ended && running->deadline > 0 && now >= running->deadline) {
    running->result->timed_out = true;
    end_soon(running);
  }
  if (running->kill_at > 0 && now >= running->kill_at) {
    bool stream = running->ended && drained(running, &running->stream);
    bool tail = running->ended && drained(running, &running->tail);
    running->result->held = running->ended && !(stream && tail);
    finish(running);
  }
}

static void sooner(double *wake, double when) {
  if (when > 0 && when < *wake) *wake = when;
}

/* Milliseconds until the next thing to do, rounded up. */
static int patience(const struct running *all, size_t count) {
  double now = ab_process_now(), wake = now + 3600;
  for (size_t i = 0; i < count; i++) {
    if (!all[i].pid) continue;
    if (!all[i].result->timed_out) sooner(&wake, all[i].deadline);
    sooner(&wake, all[i].kill_at);
    if (all[i].pidfd < 0) sooner(&wake, now + 1e-3 * TICK);
  }
  return wake <= now ? 0 : (int)((wake - now) * 1000) + 1;
}

static void watch_once(struct running *all, size_t count, struct pollfd *fds) {
  for (size_t i = 0; i < count; i++) {
    fds[3 * i] = (struct pollfd){.fd = all[i].stream, .events = POLLIN};
    fds[3 * i + 1] = (struct pollfd){.fd = all[i].tail, .events = POLLIN};
    fds[3 * i + 2] = (struct pollfd){.fd = all[i].ended ? -1 : all[i].pidfd, .events = POLLIN};
  }
  if (poll(fds, 3 * count, patience(all, count)) < 0) return; /* EINTR: around again */
  for (size_t i = 0; i < count; i++) {
    if (!all[i].pid) continue;
    if (fds[3 * i].revents) read_pipe(&all[i], &all[i].stream);
    if (fds[3 * i + 1].revents) read_pipe(&all[i], &all[i].tail);
  }
}

static bool any_left(const struct running *all, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (all[i].pid) return true;
  return false;
}

static void watch(struct running *all, size_t count, struct pollfd *fds) {
  while (any_left(all, count)) {
    watch_once(all, count, fds);
    for (size_t i = 0; i < count; i++)
      if (all[i].pid) judge(&all[i]);
  }
}

static ab_status run(struct running *all, size_t count, struct pollfd *fds) {
  ab_status status = AB_OK;
  for (size_t i = 0; i < count && status == AB_OK; i++) status = process_start(&all[i]);
  for (size_t i = 0; i < count && status != AB_OK; i++)
    if (all[i].pid) finish(&all[i]);
  AB_TRY(status);
  watch(all, count, fds);
  for (size_t i = 0; i < count; i++) AB_TRY(all[i].failed);
  return AB_OK;
}

ab_status ab_process_run_all(struct ab_process_result *out, const struct ab_process_spec *specs, size_t count) {
  struct running *all;
  struct pollfd *fds;
  AB_TRY(ab_mem_new(&all, count, sizeof *all));
  ab_status status = ab_mem_new(&fds, 3 * count, sizeof *fds);
  if (status == AB_OK) {
    for (size_t i = 0; i < count; i++) {
      out[i] = (struct ab_process_result){.exit_code = -1};
      all[i] = (struct running){.spec = &specs[i], .result = &out[i], .stream = -1, .tail = -1, .pidfd = -1};
    }
    watched_count = count;
    watched = all;
    status = run(all, count, fds);
    watched = NULL;
    ab_mem_free(fds);
  }
  ab_mem_free(all);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_process_run(struct ab_process_result *out, const struct ab_process_spec *spec) {
  return ab_process_run_all(out, spec, 1);
}

void ab_process_print(char *text, size_t size, const struct ab_process_result *result) {
  const char *name = result->signal ? sigabbrev_np(result->signal) : NULL;
  if (result->timed_out)
    snprintf(text, size, "did not finish in time and was ended after %.1f s", result->seconds);
  else if (name)
    snprintf(text, size, "was killed by SIG%s", name);
  else if (result->signal)
    snprintf(text, size, "was killed by signal %d", result->signal);
  else if (result->held && result->exit_code == 0)
    snprintf(text, size, "left a process behind that held its stream and was killed");
  else
    snprintf(text, size, "exited with code %d", result->exit_code);
}

static const char *last_line(const struct ab_process_result *result, size_t *length) {
  const char *end = result->tail + result->tail_size;
  while (end > result->tail && (end[-1] == '\n' || end[-1] == '\r')) end--;
  const char *start = end;
  while (start > result->tail && start[-1] != '\n') start--;
  *length = (size_t)(end - start);
  return start;
}

ab_status ab_process_check(const struct ab_process_result *result, const char *name) {
  char how[128];
  size_t length;
  if (result->exit_code == 0 && !result->timed_out && !result->signal && !result->held) return AB_OK;
  ab_process_print(how, sizeof how, result);
  const char *last = last_line(result, &length);
  int shown = length < SHOWN ? (int)length : SHOWN;
  return AB_FAIL(AB_ECOMM, "%s %s%s%.*s", name, how, length ? ": " : "", shown, last);
}
