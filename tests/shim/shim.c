/* A preload library under a tool: call N to a file function fails, is cut short, or is the process's last.
 *
 * AB_SHIM="N[+]:WHAT", N from 1 on over all calls in the order in which they are made, + for all from there on. WHAT is
 * an errno's number; SHORT: reads and writes move half of what they were asked for; KILL, DEAD: SIGKILL before and
 * after the call. AB_SHIM_LOG=FILE gets one line per call, "name what-it-is-about", and " !" behind one that was hit.
 * In the tool itself; with AB_SHIM_SIDES set in its sides (--side) instead. Pipes and the copies of streams are left
 * out: how their bytes are cut depends on the time. What stdio does inside is not seen: /dev/full is for that.
 *
 * In the tool and in its sides: AB_SHIM_THREADS set, no thread can be created; AB_SHIM_CLOCK set, the time of day jumps
 * by months, to and fro (not CLOCK_MONOTONIC, which cannot).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SHORT = -1, KILL = -2, DEAD = -3, LINE = 512, JUMP = 9000000 /* seconds */ };

static struct {
  bool on, persistent;
  long from, calls;
  int what, log;
} shim;

static const struct {
  const char *name;
  int what;
} words[] = {{"SHORT", SHORT}, {"KILL", KILL}, {"DEAD", DEAD}};

/* libc's own; all of ours take and give what fits a register. */
static long real_write(int fd, const void *bytes, size_t count) { return syscall(SYS_write, fd, bytes, count); }

__attribute__((constructor)) static void start(int argc, char **argv) {
  const char *order = getenv("AB_SHIM"), *log = getenv("AB_SHIM_LOG");
  bool side = argc > 1 && !strcmp(argv[1], "--side");
  char *end;
  if ((!order && !log) || side != (getenv("AB_SHIM_SIDES") != NULL)) return;
  shim.log = log ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  shim.on = true;
  if (!order) return;
  shim.from = strtol(order, &end, 10);
  shim.persistent = *end == '+';
  const char *what = end + shim.persistent + 1;
  shim.what = atoi(what);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].name, what)) shim.what = words[i].what;
}

static void note(const char *name, const char *about, bool hit) {
  char line[LINE];
  int length = snprintf(line, sizeof line, "%s %.400s%s\n", name, about, hit ? " !" : "");
  if (shim.log >= 0 && real_write(shim.log, line, (size_t)length) < 0) abort();
}

/* 0: go on; an errno; SHORT; DEAD. */
static int gate(const char *name, const char *about) {
  if (!shim.on) return 0;
  long call = ++shim.calls;
  bool hit = shim.from && (call == shim.from || (shim.persistent && call > shim.from));
  note(name, about, hit);
  if (hit && shim.what == KILL) raise(SIGKILL);
  return hit ? shim.what : 0;
}

static int gate_fd(const char *name, int fd) {
  char link[64], path[LINE];
  if (!shim.on || fd == shim.log) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long length = syscall(SYS_readlink, link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  size_t used = strlen(path);
  if (!strncmp(path, "pipe:", 5) || !strncmp(path, "anon_inode:", 11)) return 0;
  if (used > 7 && !strcmp(path + used - 7, ".stream")) return 0;
  return gate(name, path);
}

/* After the call: what the order says becomes of its result. */
static long end(int order, long result) {
  if (order == DEAD) raise(SIGKILL);
  return result;
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) *(void **)(&real) = dlsym(RTLD_NEXT, #name)

/* A function that fails with `bad` and errno. */
#define WRAP(type, name, bad, parameters, arguments, order_of) \
  type name parameters;                                        \
  type name parameters {                                       \
    REAL(name);                                                \
    int order = order_of;                                      \
    if (order > 0) {                                           \
      errno = order;                                           \
      return bad;                                              \
    }                                                          \
    type result = real arguments;                              \
    int error = errno;                                         \
    end(order, 0);                                             \
    errno = error;                                             \
    return result;                                             \
  }

#define HALF(count) (order == SHORT && (count) > 1 ? (count) / 2 : (count))

WRAP(ssize_t, read, -1, (int fd, void *out, size_t count), (fd, out, HALF(count)), gate_fd("read", fd))
WRAP(ssize_t, write, -1, (int fd, const void *bytes, size_t count), (fd, bytes, HALF(count)), gate_fd("write", fd))
WRAP(ssize_t, pread64, -1, (int fd, void *out, size_t count, off64_t at), (fd, out, HALF(count), at),
     gate_fd("pread", fd))
WRAP(int, fsync, -1, (int fd), (fd), gate_fd("fsync", fd))
WRAP(int, flock, -1, (int fd, int operation), (fd, operation), gate_fd("flock", fd))
WRAP(int, fchmod, -1, (int fd, mode_t mode), (fd, mode), gate_fd("fchmod", fd))
WRAP(int, fstat64, -1, (int fd, struct stat64 *out), (fd, out), gate_fd("fstat", fd))
WRAP(DIR *, fdopendir, NULL, (int fd), (fd), gate_fd("fdopendir", fd))
WRAP(struct dirent64 *, readdir64, NULL, (DIR *stream), (stream), gate_fd("readdir", dirfd(stream)))
WRAP(int, rename, -1, (const char *from, const char *to), (from, to), gate("rename", to))
WRAP(int, renameat, -1, (int a, const char *from, int b, const char *to), (a, from, b, to), gate("renameat", to))
WRAP(int, unlink, -1, (const char *path), (path), gate("unlink", path))
WRAP(int, unlinkat, -1, (int at, const char *path, int flags), (at, path, flags), gate("unlinkat", path))
WRAP(int, mkdir, -1, (const char *path, mode_t mode), (path, mode), gate("mkdir", path))
WRAP(char *, mkdtemp, NULL, (char *path), (path), gate("mkdtemp", path))
WRAP(int, rmdir, -1, (const char *path), (path), gate("rmdir", path))
WRAP(int, chmod, -1, (const char *path, mode_t mode), (path, mode), gate("chmod", path))
WRAP(int, stat64, -1, (const char *path, struct stat64 *out), (path, out), gate("stat", path))
WRAP(int, lstat64, -1, (const char *path, struct stat64 *out), (path, out), gate("lstat", path))
WRAP(int, fstatat64, -1, (int at, const char *path, struct stat64 *out, int flags), (at, path, out, flags),
     gate("fstatat", path))
WRAP(char *, realpath, NULL, (const char *path, char *out), (path, out), gate("realpath", path))
WRAP(int, pipe2, -1, (int ends[2], int flags), (ends, flags), gate("pipe", ""))

int pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  REAL(pthread_create);
  return getenv("AB_SHIM_THREADS") ? EAGAIN : real(out, attributes, run, argument);
}

/* Seconds by which the time of day is off: another number at every look. */
static time_t jump(void) {
  static time_t looks;
  looks++;
  return getenv("AB_SHIM_CLOCK") ? (looks % 2 ? -looks : looks) * JUMP : 0;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
  REAL(clock_gettime);
  int result = real(clock, out);
  if (clock == CLOCK_REALTIME) out->tv_sec += jump();
  return result;
}

time_t time(time_t *out) {
  REAL(time);
  time_t now = real(NULL) + jump();
  if (out) *out = now;
  return now;
}

/* Closed in any case, as Linux does it. */
int close(int fd) {
  REAL(close);
  int order = gate_fd("close", fd), result = real(fd), error = errno;
  end(order, 0);
  errno = order > 0 ? order : error;
  return order > 0 ? -1 : result;
}

static mode_t mode_of(int flags, va_list more) { return flags & O_CREAT ? va_arg(more, mode_t) : 0; }

int open64(const char *path, int flags, ...) {
  REAL(open64);
  va_list more;
  va_start(more, flags);
  mode_t mode = mode_of(flags, more);
  va_end(more);
  int order = gate("open", path);
  if (order > 0) errno = order;
  return order > 0 ? -1 : (int)end(order, real(path, flags, mode));
}

int openat64(int at, const char *path, int flags, ...) {
  REAL(openat64);
  va_list more;
  va_start(more, flags);
  mode_t mode = mode_of(flags, more);
  va_end(more);
  int order = gate("openat", path);
  if (order > 0) errno = order;
  return order > 0 ? -1 : (int)end(order, real(at, path, flags, mode));
}

/* Of these, files are openat2 and getdents64. */
long syscall(long number, ...) {
  static long (*real)(long, ...);
  long a[6];
  va_list more;
  va_start(more, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(more, long);
  va_end(more);
  if (!real) *(void **)(&real) = dlsym(RTLD_NEXT, "syscall");
  int order = 0;
  if (number == SYS_openat2) order = gate("openat2", (const char *)a[1]);
  if (number == SYS_getdents64) order = gate("getdents", "");
  if (order > 0) errno = order;
  return order > 0 ? -1 : end(order, real(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
