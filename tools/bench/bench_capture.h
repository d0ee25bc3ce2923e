/* What observing costs: the main case without a probe, and at levels of one. */
#pragma once

#include "json.h"

/* An array "capture", one object per route: steps of configs/main.yml without a probe, at level off (twice, so that
 * the spread shows), state and digest, each in a process of its own, in rounds; minima. What is observed goes through
 * the stream to a file that throws it away. */
ab_status bench_capture_put(struct ab_json_writer *writer, long rounds);
/* In a child: one route at one level. */
ab_status bench_capture_run(const char *route, const char *level);
