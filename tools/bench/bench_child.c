#include "bench_child.h"

#include <string.h>
#include <sys/resource.h>

#include "file.h"
#include "process.h"
#include "side_mode.h"
#include "sides.h"

struct received {
  unsigned char *bytes;
  size_t size, room;
};

static ab_status take(void *ctx, const void *bytes, size_t count) {
  struct received *r = ctx;
  if (count > r->room - r->size) return AB_FAIL(AB_ECOMM, "a bench process sent more than %zu bytes", r->room);
  memcpy(r->bytes + r->size, bytes, count);
  r->size += count;
  return AB_OK;
}

ab_status bench_child_run(void *answer, size_t size, uint64_t *peak_memory, const char *const *arguments) {
  static struct ab_process_result result;
  struct ab_side_environment environment;
  struct received received = {.bytes = answer, .room = size};
  ab_side_environment(&environment, NULL);
  struct ab_process_spec spec = {.name = arguments[1], .program = "/proc/self/exe", .arguments = arguments,
                                 .environment = environment.entry, .stream_fd = AB_SIDE_FD, .take = take,
                                 .ctx = &received};
  AB_TRY(ab_process_run(&result, &spec));
  AB_TRY(ab_process_check(&result, spec.name));
  if (received.size != size)
    return AB_FAIL(AB_ECOMM, "%s sent %zu bytes; expected %zu", spec.name, received.size, size);
  if (peak_memory) *peak_memory = result.peak_memory;
  return AB_OK;
}

ab_status bench_child_answer(const void *answer, size_t size) {
  return ab_file_put(AB_SIDE_FD, answer, size, "the result");
}

double bench_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double used_by(int who) {
  struct rusage used;
  getrusage(who, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

double bench_processor(void) { return used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN); }
