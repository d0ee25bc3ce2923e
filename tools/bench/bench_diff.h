/* ab_diff on two large dumps against one pass over the same memory. */
#pragma once

#include "json.h"

/* An object "diff": writes dumps of `mib` MiB into a scratch folder - equal, and with one element in 16384 one ulp
 * off -, then in rounds: a pass, ab_diff of the equal ones, ab_diff of the others; minima. The pass is memcmp of both
 * dumps in memory, once, by one thread per core; beside it the same from files in the page cache, block by block. */
ab_status bench_diff_put(struct ab_json_writer *writer, long rounds, long mib);
/* In a child: measures the pass. */
ab_status bench_diff_pass(const char *path_a, const char *path_b);
