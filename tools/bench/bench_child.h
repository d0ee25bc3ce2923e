/* A measurement in a process of its own: bench again, which sends one struct. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "status.h"

/* Runs bench with these arguments (argv[0] included, NULL at the end); AB_ECOMM unless exactly `size` bytes come. */
ab_status bench_child_run(void *answer, size_t size, uint64_t *peak_memory, const char *const *arguments);
/* In the child: sends it. */
ab_status bench_child_answer(const void *answer, size_t size);

/* Seconds on a clock; processor time of this process and of the children that have ended. */
double bench_clock(clockid_t clock);
double bench_processor(void);
