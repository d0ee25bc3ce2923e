/* A side that lies, hangs or dies on purpose; stands in for a build of ab_compare (--a-bin, --b-bin).
 *
 * As a side it runs the real program ($ENGINE_REAL) with its own arguments, takes the whole stream, and hands on what
 * the mode makes of it: $ENGINE_BAD is "MODE" or "MODE NUMBER". Its --version is the real one's.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAM = 3, MOST = 64 << 20, PREAMBLE = 12, AROUND = 16 /* bytes of a frame beside its payload */, FOREVER = 600 };

struct bytes {
  unsigned char *at;
  size_t count;
};

static const char *values; /* the side's file of them */

static void give_up(const char *why) {
  fprintf(stderr, "engine_bad: %s\n", why);
  _exit(99);
}

static void put(const void *bytes, size_t count) {
  const char *at = bytes;
  while (count) {
    ssize_t n = write(STREAM, at, count);
    if (n <= 0) give_up("nobody takes the stream");
    at += n;
    count -= (size_t)n;
  }
}

static void become(char **argv) {
  execv(getenv("ENGINE_REAL"), argv);
  give_up("ENGINE_REAL cannot be run");
}

/* The stream of the real side. */
static struct bytes capture(char **argv) {
  static unsigned char room[MOST];
  struct bytes all = {room, 0};
  int ends[2], status;
  if (pipe2(ends, O_CLOEXEC) != 0) give_up("no pipe");
  pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STREAM);
    become(argv);
  }
  close(ends[1]);
  for (ssize_t n; (n = read(ends[0], all.at + all.count, MOST - all.count)) > 0;) all.count += (size_t)n;
  if (waitpid(pid, &status, 0) != pid || status != 0) give_up("the real side failed");
  return all;
}

static size_t frame_size(struct bytes s, size_t offset) {
  uint32_t length;
  if (offset + AROUND > s.count) give_up("no such frame");
  memcpy(&length, s.at + offset + 4, sizeof length);
  return AROUND + length;
}

/* Where frame `index` starts; frame 0 is the header. */
static size_t frame(struct bytes s, long index) {
  size_t offset = PREAMBLE;
  for (long i = 0; i < index; i++) offset += frame_size(s, offset);
  return offset;
}

static void live_on(void) {
  for (int i = 0; i < FOREVER; i++) sleep(1);
}

static void whole(struct bytes s, long n) {
  (void)n;
  put(s.at, s.count);
}

/* NUMBER percent of it. */
static void part(struct bytes s, long n) { put(s.at, s.count * (size_t)n / 100); }

static void die(struct bytes s, long n) {
  part(s, 50);
  signal((int)n, SIG_DFL); /* a sanitizer has a handler of its own */
  raise((int)n);
}

static void leave(struct bytes s, long n) {
  part(s, 50);
  fprintf(stderr, "leaving with %ld\n", n);
  _exit((int)n);
}

static void leave_after_all(struct bytes s, long n) {
  whole(s, 0);
  _exit((int)n);
}

static void hang(struct bytes s, long n) {
  part(s, n);
  live_on();
}

static void spin(struct bytes s, long n) {
  part(s, n);
  for (volatile bool on = true; on;) continue;
}

static void ignore_term(struct bytes s, long n) {
  signal(SIGTERM, SIG_IGN);
  hang(s, n);
}

/* A process of the same group keeps the pipe open. */
static void hold(struct bytes s, long n) {
  if (fork() == 0) live_on();
  part(s, n);
}

/* The same from a session of its own, which a kill of the group does not reach. */
static void escape(struct bytes s, long n) {
  if (fork() == 0) {
    setsid();
    live_on();
  }
  part(s, n);
}

/* Lives in a session of its own and holds nothing. */
static void hide(struct bytes s, long n) {
  if (fork() == 0) {
    setsid();
    for (int fd = 0; fd <= STREAM; fd++) close(fd);
    live_on();
  }
  part(s, n);
}

static void close_and_live(struct bytes s, long n) {
  part(s, n);
  close(STREAM);
  live_on();
}

static void garbage_first(struct bytes s, long n) {
  (void)n;
  put("Loading model...\n", 17);
  whole(s, 0);
}

/* Frame 2 claims NUMBER << 20 bytes. */
static void claim(struct bytes s, long n) {
  uint32_t length = (uint32_t)n << 20;
  memcpy(s.at + frame(s, 2) + 4, &length, sizeof length);
  whole(s, 0);
}

/* A frame's head taken for one 64-bit length of 2^63. */
static void huge(struct bytes s, long n) {
  uint64_t length = UINT64_C(1) << 63;
  memcpy(s.at + frame(s, n), &length, sizeof length);
  whole(s, 0);
}

static void duplicate(struct bytes s, long n) {
  size_t end = frame(s, n + 1);
  put(s.at, end);
  put(s.at + frame(s, n), s.count - frame(s, n));
}

static void drop(struct bytes s, long n) {
  put(s.at, frame(s, n));
  put(s.at + frame(s, n + 1), s.count - frame(s, n + 1));
}

static void swap(struct bytes s, long n) {
  size_t one = frame(s, n), two = frame(s, n + 1), end = frame(s, n + 2);
  put(s.at, one);
  put(s.at + two, end - two);
  put(s.at + one, two - one);
  put(s.at + end, s.count - end);
}

/* One bit, in the byte at NUMBER percent. */
static void flip(struct bytes s, long n) {
  s.at[(s.count - 1) * (size_t)n / 100] ^= (unsigned char)(1 << n % 8);
  whole(s, 0);
}

/* Without its last NUMBER bytes. */
static void cut(struct bytes s, long n) { put(s.at, s.count - (size_t)n); }

static void go_on(struct bytes s, long n) {
  whole(s, 0);
  put(s.at + frame(s, n), frame_size(s, frame(s, n)));
}

static void twice(struct bytes s, long n) {
  (void)n;
  whole(s, 0);
  whole(s, 0);
}

/* The stream as it is, and another value than it tells of: byte NUMBER of the values file. */
static void spoil(struct bytes s, long n) {
  unsigned char byte = 0;
  int fd = values ? open(values, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0 || pread(fd, &byte, 1, n) != 1) give_up("no such value");
  byte ^= 1;
  if (pwrite(fd, &byte, 1, n) != 1 || close(fd) != 0) give_up("the value cannot be written");
  whole(s, 0);
}

/* Noise where the verdict will stand: standard output is not the stream. */
static void chat(struct bytes s, long n) {
  for (long i = 0; i < n; i++) puts("EQUAL: everything is fine");
  fflush(stdout);
  whole(s, 0);
}

static const struct mode {
  const char *name;
  void (*act)(struct bytes stream, long number);
} modes[] = {
    {"whole", whole},     {"part", part},         {"die", die},       {"leave", leave},
    {"late", leave_after_all}, {"hang", hang},    {"spin", spin},     {"stubborn", ignore_term},
    {"hold", hold},       {"escape", escape},     {"hide", hide},     {"close", close_and_live},
    {"garbage", garbage_first}, {"claim", claim}, {"huge", huge},     {"duplicate", duplicate},
    {"drop", drop},       {"swap", swap},         {"flip", flip},     {"cut", cut},
    {"on", go_on},        {"twice", twice},       {"chat", chat},     {"spoil", spoil},
    {NULL, NULL},
};

/* The side computes in this process, with an object loaded that changes how: $ENGINE_LOAD. */
static void load(char **argv) {
  setenv("LD_PRELOAD", getenv("ENGINE_LOAD"), 1);
  become(argv);
}

int main(int argc, char **argv) {
  char name[32] = "";
  long number = 0;
  const char *wanted = getenv("ENGINE_BAD");
  if (!wanted || !getenv("ENGINE_REAL")) give_up("ENGINE_BAD and ENGINE_REAL are not set");
  if (argc == 2 && strcmp(argv[1], "--version") == 0) become(argv);
  if (sscanf(wanted, "%31s %ld", name, &number) < 1) give_up("no mode");
  if (strcmp(name, "load") == 0) load(argv);
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], "--side-values") == 0) values = argv[i + 1];
  for (const struct mode *mode = modes; mode->name; mode++) {
    if (strcmp(mode->name, name) != 0) continue;
    mode->act(capture(argv), number);
    return 0;
  }
  give_up("no such mode");
}
