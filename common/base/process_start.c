#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "mem.h"
#include "number.h"
#include "process_internal.h"
#include "stop.h"

extern char **environ;

#define PARENT_VARIABLE "AB_PARENT"

double ab_process_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static ab_status fail(const struct ab_process_spec *spec, const char *doing, int error) {
  char reason[128];
  return AB_FAIL(AB_ECOMM, "cannot %s %s ('%s'): %s", doing, spec->name, spec->program,
                 strerror_r(error, reason, sizeof reason));
}

static void close_both(int ends[2]) {
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0) close(ends[i]);
  ends[0] = ends[1] = -1;
}

/* Both ends above the descriptors that the child is given, so that giving one never overwrites another. */
static int open_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  for (int i = 0; i < 2; i++) {
    int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, AB_STREAM_FD_MAX + 1);
    int error = errno;
    close(ends[i]);
    ends[i] = moved;
    errno = error;
  }
  if (ends[0] < 0 || ends[1] < 0) {
    close_both(ends);
    return -1;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return 0;
}

static bool same_variable(const char *a, const char *b) {
  size_t length = strcspn(a, "=");
  return !strncmp(a, b, length) && b[length] == '=';
}

static bool is_replaced(const struct ab_process_spec *spec, const char *entry) {
  if (same_variable(PARENT_VARIABLE "=", entry)) return true;
  for (const char *const *own = spec->environment; own && *own; own++)
    if (same_variable(*own, entry)) return true;
  return false;
}

/* Ours, with the entries of the spec in place of equal names, and the parent's id. One block, borrowed strings. */
static ab_status make_environment(const char ***out, const struct ab_process_spec *spec, const char *parent) {
  size_t count = 2;
  for (char **entry = environ; *entry; entry++) count++;
  for (const char *const *own = spec->environment; own && *own; own++) count++;
  const char **all;
  AB_TRY(ab_mem_new(&all, count, sizeof *all));
  count = 0;
  for (char **entry = environ; *entry; entry++)
    if (!is_replaced(spec, *entry)) all[count++] = *entry;
  for (const char *const *own = spec->environment; own && *own; own++) all[count++] = *own;
  all[count] = parent;
  *out = all;
  return AB_OK;
}

static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_setpgroup(attributes, 0);
  if (!error) error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
  if (!error)
    error =
        posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return error;
}

static int set_files(posix_spawn_file_actions_t *files, const struct ab_process_spec *spec, int stream, int tail) {
  int error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(files, tail, 2);
  if (!error && spec->stream_fd != 1) error = posix_spawn_file_actions_adddup2(files, tail, 1);
  if (!error && spec->stream_fd) error = posix_spawn_file_actions_adddup2(files, stream, spec->stream_fd);
  return error;
}

static int spawn_with(pid_t *pid, const struct ab_process_spec *spec, const char *const *environment,
                      posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes, int stream, int tail) {
  int error = set_files(files, spec, stream, tail);
  if (!error) error = set_attributes(attributes);
  /* posix_spawn wants pointers to non-const and leaves the strings alone. */
  union {
    const char *const *given;
    char *const *wanted;
  } argv = {spec->arguments}, envp = {environment};
  return error ? error : posix_spawnp(pid, spec->program, files, attributes, argv.wanted, envp.wanted);
}

static int spawn(pid_t *pid, const struct ab_process_spec *spec, const char *const *environment, int stream, int tail) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&files);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = spawn_with(pid, spec, environment, &files, &attributes, stream, tail);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&files);
  return error;
}

static void note_start(struct running *running, int stream[2], int tail[2]) {
  const struct ab_process_spec *spec = running->spec;
  close(stream[1]);
  close(tail[1]);
  running->stream = stream[0];
  running->tail = tail[0];
  running->pidfd = (int)syscall(SYS_pidfd_open, running->pid, 0);
  running->started = ab_process_now();
  if (spec->timeout > 0) running->deadline = running->started + spec->timeout;
  struct rlimit limit = {spec->memory_limit, spec->memory_limit};
  if (spec->memory_limit) prlimit(running->pid, RLIMIT_AS, &limit, NULL);
}

static ab_status start_with(struct running *running, const char *const *environment) {
  int stream[2] = {-1, -1}, tail[2] = {-1, -1};
  if (open_pipe(tail) != 0 || open_pipe(stream) != 0) {
    int error = errno;
    close_both(tail);
    return fail(running->spec, "open a pipe to", error);
  }
  sigset_t before;
  ab_stop_hold(&before); /* a handler knows of every process that is there */
  int error = spawn(&running->pid, running->spec, environment, stream[1], tail[1]);
  if (error) running->pid = 0;
  ab_stop_release(&before);
  if (error) {
    close_both(stream);
    close_both(tail);
    return fail(running->spec, "start", error);
  }
  note_start(running, stream, tail);
  return AB_OK;
}

ab_status process_start(struct running *running) {
  char parent[48];
  const char **environment;
  int fd = running->spec->stream_fd;
  if (fd < 0 || fd == 2 || fd > AB_STREAM_FD_MAX)
    return AB_FAIL(AB_ECOMM, "the stream of %s is descriptor %d, expected 0, 1 or 3 to %d", running->spec->name, fd,
                   AB_STREAM_FD_MAX);
  snprintf(parent, sizeof parent, PARENT_VARIABLE "=%ld", (long)getpid());
  AB_TRY(make_environment(&environment, running->spec, parent));
  ab_status status = start_with(running, environment);
  ab_mem_free(environment);
  AB_TRY(status);
  return AB_OK;
}

/* The parent may have died before prctl took effect: then nobody would tell us. */
ab_status ab_process_end_with_parent(int signal) {
  int64_t parent;
  if (prctl(PR_SET_PDEATHSIG, signal) != 0) return AB_FAIL(AB_ECOMM, "cannot tie this process to its parent");
  const char *text = getenv(PARENT_VARIABLE);
  if (!text) return AB_OK;
  AB_TRY(ab_number_int64(&parent, text));
  if (parent > 0 && kill((pid_t)parent, 0) != 0 && errno == ESRCH)
    return AB_FAIL(AB_ECOMM, "the parent process %lld has ended", (long long)parent);
  return AB_OK;
}

ab_status ab_process_claim_standard_fds(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    /* The lowest free descriptor is fd itself. What is written to a closed standard output must fail, not vanish. */
    if (open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd)
      return AB_FAIL(AB_EIO, "descriptor %d is closed and /dev/null cannot be put there", fd);
  }
  return AB_OK;
}
