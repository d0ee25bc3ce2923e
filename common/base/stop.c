#include "stop.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "file_internal.h"
#include "process_internal.h"

static const struct ending {
  int signal;
  const char *sentence;
} endings[] = {{SIGINT, ": ended by SIGINT\n"}, {SIGTERM, ": ended by SIGTERM\n"}, {SIGHUP, ": ended by SIGHUP\n"}};
enum { ENDINGS = sizeof endings / sizeof *endings };
static const char *name = "";

static void say(const char *text) {
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

/* So that a shell in a loop stops too. The first process of a container does not die of it. */
static void die_of(int number) {
  sigset_t itself;
  signal(number, SIG_DFL);
  sigemptyset(&itself);
  sigaddset(&itself, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &itself, NULL);
  _exit(128 + number);
}

/* Only what is safe in a handler: the rest of the process stands still meanwhile and never goes on. */
static void stop(int number) {
  process_kill_all();
  ab_writers_drop();
  ab_scratches_drop();
  say(name);
  for (int i = 0; i < ENDINGS; i++)
    if (endings[i].signal == number) say(endings[i].sentence);
  die_of(number);
}

static sigset_t all(void) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < ENDINGS; i++) sigaddset(&set, endings[i].signal);
  return set;
}

void ab_stop_on_signals(const char *tool) {
  struct sigaction action = {.sa_handler = stop, .sa_mask = all()}, old;
  name = tool;
  for (int i = 0; i < ENDINGS; i++)
    if (sigaction(endings[i].signal, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
      sigaction(endings[i].signal, &action, NULL);
}

void ab_stop_hold(sigset_t *before) {
  sigset_t set = all();
  pthread_sigmask(SIG_BLOCK, &set, before);
}

void ab_stop_release(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }
