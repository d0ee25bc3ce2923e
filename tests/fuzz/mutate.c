#include "mutate.h"

#include <stdio.h>
#include <string.h>

void mutate_start(struct mutate_state *state, const struct mutate_input *input, size_t count) {
  *state = (struct mutate_state){.input = input, .count = count, .random = UINT64_C(0x9e3779b97f4a7c15)};
}

/* xorshift64* */
static uint64_t draw(struct mutate_state *state, uint64_t below) {
  state->random ^= state->random >> 12;
  state->random ^= state->random << 25;
  state->random ^= state->random >> 27;
  return (state->random * UINT64_C(0x2545f4914f6cdd1d) >> 11) % below;
}

static const uint64_t odd_numbers[] = {
    0, 1, 127, 128, 255, 256, 65535, 65536, INT32_MAX, UINT64_C(1) << 31, UINT32_MAX, UINT64_C(1) << 32,
    UINT64_C(1) << 53, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};
static const char odd_bytes[] = "\0\t\n\r \"'()*+,-./0123456789:;<=>?[]\\_{|}~&!%#@eE\x7f\x80\xc0\xef\xff";

static size_t flip(struct mutate_state *s, uint8_t *out, size_t size) {
  out[draw(s, size)] ^= (uint8_t)(1u << draw(s, 8));
  return size;
}

static size_t set(struct mutate_state *s, uint8_t *out, size_t size) {
  out[draw(s, size)] = (uint8_t)odd_bytes[draw(s, sizeof odd_bytes - 1)];
  return size;
}

/* A number of 1, 2, 4 or 8 bytes, little endian. */
static size_t number(struct mutate_state *s, uint8_t *out, size_t size) {
  uint64_t value = odd_numbers[draw(s, sizeof odd_numbers / sizeof *odd_numbers)];
  size_t bytes = (size_t)1 << draw(s, 4), at = draw(s, size);
  for (size_t i = 0; i < bytes && at + i < size; i++) out[at + i] = (uint8_t)(value >> 8 * i);
  return size;
}

static size_t cut(struct mutate_state *s, uint8_t *out, size_t size) {
  size_t at = draw(s, size), count = 1 + draw(s, size - at < 64 ? size - at : 64);
  memmove(out + at, out + at + count, size - at - count);
  return size - count;
}

static size_t end(struct mutate_state *s, uint8_t *out, size_t size) {
  (void)out;
  return draw(s, size);
}

/* Makes room for `count` bytes; where there is none the bytes behind are written over. */
static size_t insert(uint8_t *out, size_t size, size_t at, const uint8_t *bytes, size_t count) {
  if (size + count > MUTATE_ROOM) count = MUTATE_ROOM - size;
  memmove(out + at + count, out + at, size - at);
  memcpy(out + at, bytes, count);
  return size + count;
}

static size_t add(struct mutate_state *s, uint8_t *out, size_t size) {
  uint8_t byte = (uint8_t)odd_bytes[draw(s, sizeof odd_bytes - 1)];
  return insert(out, size, draw(s, size + 1), &byte, 1);
}

static size_t decimal(struct mutate_state *s, uint8_t *out, size_t size) {
  char text[32];
  int length = snprintf(text, sizeof text, "%llu",
                        (unsigned long long)odd_numbers[draw(s, sizeof odd_numbers / sizeof *odd_numbers)]);
  return insert(out, size, draw(s, size + 1), (const uint8_t *)text, (size_t)length);
}

/* A piece of some input, this one included. */
static size_t splice(struct mutate_state *s, uint8_t *out, size_t size) {
  uint8_t piece[256];
  const struct mutate_input *from = &s->input[draw(s, s->count)];
  if (!from->size) return size;
  size_t at = draw(s, from->size), count = 1 + draw(s, sizeof piece);
  if (count > from->size - at) count = from->size - at;
  memcpy(piece, from->data + at, count);
  return insert(out, size, draw(s, size + 1), piece, count);
}

static size_t (*const steps[])(struct mutate_state *, uint8_t *, size_t) = {flip, set, number,  cut,   end,
                                                                           add,  set, decimal, splice, flip};

size_t mutate_next(struct mutate_state *state, uint8_t *out) {
  const struct mutate_input *from = &state->input[draw(state, state->count)];
  size_t size = from->size < MUTATE_ROOM ? from->size : MUTATE_ROOM;
  memcpy(out, from->data, size);
  for (uint64_t left = 1 + draw(state, MUTATE_STEPS); left; left--)
    size = size ? steps[draw(state, sizeof steps / sizeof *steps)](state, out, size) : add(state, out, 0);
  return size;
}
