/* How much memory may be used, known before it is asked for. */
#pragma once

#include <stdint.h>

#include "status.h"

struct ab_memory_limit {
  uint64_t available;   /* bytes */
  const char *governor; /* what sets it: "MemAvailable", "the cgroup limit", "RLIMIT_AS" */
};

/* min(MemAvailable, cgroup v2 or v1 limit minus usage, RLIMIT_AS minus what is mapped). Caches that the kernel would
 * give back do not count as used. `root` stands before /proc and /sys (""; tests give a folder). */
ab_status ab_memory_available(struct ab_memory_limit *out, const char *root);
/* AB_ECONFIG with both numbers when `bytes` are more than that; `what` needs them. */
ab_status ab_memory_require(uint64_t bytes, const char *what, const char *root);
