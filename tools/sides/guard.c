#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "report.h"
#include "side_mode.h"

extern char **environ;

enum { LINK = 64, NAME = 32, TICK = 10 /* ms between looks at what is being killed */ };
static const double leftovers = 1; /* seconds that what is left behind may take to end by itself */

struct guard {
  sigset_t signals;
  pid_t program;
  int status;           /* of waitpid */
  bool ended;           /* the program has */
  bool told;            /* to end everything */
  pid_t holder;         /* of a descriptor; 0: none */
  char name[NAME];      /* the holder's */
};

/* False when no child is left. */
static bool reap(struct guard *g) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != g->program) continue;
    g->status = status;
    g->ended = true;
  }
  return pid == 0;
}

/* Until a child ends, we are told to end, or `seconds` are over. */
static void wait_for_news(struct guard *g, double seconds) {
  struct timespec most = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  if (sigtimedwait(&g->signals, NULL, &most) == AB_GUARD_END) g->told = true;
}

/* Its parent and its name, from /proc/PID/stat: "PID (NAME) STATE PARENT ...", where NAME may hold anything. */
static bool is_child(const char *pid, char name[NAME]) {
  char path[LINK + 256], text[512];
  long parent;
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = '\0';
  const char *first = strchr(text, '('), *last = strrchr(text, ')');
  if (!first || !last || sscanf(last + 1, " %*c %ld", &parent) != 1) return false;
  snprintf(name, NAME, "%.*s", (int)(last - first - 1), first + 1);
  return parent == (long)getpid();
}

static bool same_pipe(int own, const char *path) {
  char ours[LINK] = "", theirs[LINK] = "", mine[LINK];
  snprintf(mine, sizeof mine, "/proc/self/fd/%d", own);
  return readlink(mine, ours, sizeof ours - 1) > 0 && readlink(path, theirs, sizeof theirs - 1) > 0 &&
         strncmp(ours, "pipe:", 5) == 0 && strcmp(ours, theirs) == 0;
}

/* Whether it can still write to what our parent reads. */
static bool holds(const char *pid) {
  char folder[LINK + 256], path[2 * LINK + 512];
  bool held = false;
  snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
  DIR *entries = opendir(folder);
  if (!entries) return false;
  for (struct dirent *e; !held && (e = readdir(entries));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    held = same_pipe(STDOUT_FILENO, path) || same_pipe(STDERR_FILENO, path) || same_pipe(AB_SIDE_FD, path);
  }
  closedir(entries);
  return held;
}

/* Calls fn for each child. */
static void each_child(struct guard *g, void (*fn)(struct guard *g, const char *pid, const char *name)) {
  char name[NAME];
  DIR *entries = opendir("/proc");
  if (!entries) return;
  for (struct dirent *e; (e = readdir(entries));)
    if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && is_child(e->d_name, name)) fn(g, e->d_name, name);
  closedir(entries);
}

static void look_for_holder(struct guard *g, const char *pid, const char *name) {
  if (g->holder || !holds(pid)) return;
  g->holder = (pid_t)atol(pid);
  snprintf(g->name, sizeof g->name, "%s", name);
}

static void end_one(struct guard *g, const char *pid, const char *name) {
  (void)g, (void)name;
  kill((pid_t)atol(pid), SIGKILL);
}

/* The children of one that is killed become ours: again, until there are none. */
static void end_all(struct guard *g) {
  while (reap(g)) {
    each_child(g, end_one);
    wait_for_news(g, 1e-3 * TICK);
  }
}

static void watch(struct guard *g) {
  while (!g->told && reap(g) && !g->ended) wait_for_news(g, 3600);
  double until = ab_process_now() + leftovers;
  for (double left; !g->told && reap(g) && (left = until - ab_process_now()) > 0;) wait_for_news(g, left);
  if (!g->told && reap(g)) each_child(g, look_for_holder);
  end_all(g);
}

static int start(struct guard *g, char **command) {
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_init(&attributes);
  if (error) return error;
  error = posix_spawnattr_setsigmask(&attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
  if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error) error = posix_spawnp(&g->program, command[0], NULL, &attributes, command, environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

/* As the program ended. */
static int end_alike(const struct guard *g) {
  sigset_t all;
  if (WIFEXITED(g->status)) return WEXITSTATUS(g->status);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* the program has left its own */
  sigfillset(&all);
  signal(WTERMSIG(g->status), SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  raise(WTERMSIG(g->status));
  return AB_EXIT_SIDE;
}

int ab_guard_main(char **command) {
  struct guard g = {0};
  sigemptyset(&g.signals);
  sigaddset(&g.signals, SIGCHLD);
  sigaddset(&g.signals, AB_GUARD_END);
  sigprocmask(SIG_BLOCK, &g.signals, NULL);
  signal(SIGTERM, SIG_IGN);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || ab_process_end_with_parent(AB_GUARD_END) != AB_OK) return AB_EXIT_SIDE;
  int error = start(&g, command);
  if (error) {
    fprintf(stderr, "cannot run '%s': %s\n", command[0], strerror(error));
    return AB_EXIT_SIDE;
  }
  watch(&g);
  if (!g.holder || !WIFEXITED(g.status) || WEXITSTATUS(g.status) != 0) return end_alike(&g);
  fprintf(stderr, "it left a process behind that held its stream, '%s' (%ld), which was killed\n", g.name,
          (long)g.holder);
  return AB_EXIT_SIDE;
}
