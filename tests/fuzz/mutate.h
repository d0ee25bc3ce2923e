/* Deterministic mutations of a set of inputs: bits, bytes, numbers, ranges moved, taken out, doubled or taken from
 * another input. No coverage, no surprise: the same inputs give the same mutations everywhere. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MUTATE_ROOM = 32 * 1024, MUTATE_STEPS = 6 };

struct mutate_input {
  const uint8_t *data;
  size_t size;
};

struct mutate_state {
  const struct mutate_input *input;
  size_t count;
  uint64_t random;
};

/* The inputs are borrowed; at least one, unless nothing is asked for. */
void mutate_start(struct mutate_state *state, const struct mutate_input *input, size_t count);
/* The next one into out [MUTATE_ROOM]; its size. */
size_t mutate_next(struct mutate_state *state, uint8_t *out);
