/* The memory of one step of a case, by who takes it, from a dry run. */
#pragma once

#include "bench_cases.h"
#include "json.h"

/* An object: peaks of both arenas in bytes, the blocks that stand at the peak of the step arena - the place in the
 * source, and the pointer it asks for - and the bytes that the engine says it keeps from forward to backward. */
ab_status bench_memory_put(struct ab_json_writer *writer, const struct bench_case *c);
