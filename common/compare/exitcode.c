#include "exitcode.h"

#include <stddef.h>

static const enum ab_exit precedence[] = {AB_EXIT_USAGE,        AB_EXIT_SIDE,   AB_EXIT_SELFTEST, AB_EXIT_INCOMPARABLE,
                                          AB_EXIT_GOLDEN, AB_EXIT_DIFFERENT, AB_EXIT_EQUAL};

static size_t rank(enum ab_exit code) {
  for (size_t i = 0; i < sizeof precedence / sizeof *precedence; i++)
    if (precedence[i] == code) return i;
  return 0;
}

enum ab_exit ab_exit_fold(enum ab_exit a, enum ab_exit b) {
  size_t first = rank(a) < rank(b) ? rank(a) : rank(b);
  return precedence[first];
}

const char *ab_exit_reason(enum ab_exit code) {
  static const char *const reasons[] = {"equal",
                                        "numeric difference",
                                        "usage, config or environment error",
                                        "a side failed",
                                        "golden missing, stale or malformed",
                                        "not comparable",
                                        "self-test failed"};
  size_t i = (size_t)code;
  return i < sizeof reasons / sizeof *reasons ? reasons[i] : "unknown exit code";
}
