#include "threefry.h"

static uint32_t rotate(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

void ab_threefry2x32(uint32_t out[2], const uint32_t key[2], const uint32_t count[2]) {
  static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t schedule[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  uint32_t x0 = count[0] + schedule[0], x1 = count[1] + schedule[1];
  for (uint32_t group = 0; group < 5; group++) {
    for (int round = 0; round < 4; round++) {
      x0 += x1;
      x1 = rotate(x1, rotation[group % 2][round]) ^ x0;
    }
    x0 += schedule[(group + 1) % 3];
    x1 += schedule[(group + 2) % 3] + group + 1;
  }
  out[0] = x0;
  out[1] = x1;
}

struct ab_key ab_key(int64_t seed) {
  return (struct ab_key){.word = {0, (uint32_t)(uint64_t)seed}};
}

struct ab_key ab_key_fold_in(struct ab_key key, uint32_t data) {
  struct ab_key out = key;
  ab_threefry2x32(out.word, key.word, (const uint32_t[]){0, data});
  return out;
}

/* jax._src.prng: iota_2x32_shape: the 64-bit index is the counter. */
static void index_block(uint32_t out[2], struct ab_key key, size_t i) {
  ab_threefry2x32(out, key.word, (const uint32_t[]){(uint32_t)((uint64_t)i >> 32), (uint32_t)i});
}

/* jax._src.prng: threefry_2x32 on iota(n): the first half of the counters pairs with the second, padded by a 0. */
static uint32_t original_word(struct ab_key key, size_t i, size_t n) {
  size_t half = n / 2 + n % 2, lane = i % half;
  uint32_t out[2];
  ab_threefry2x32(out, key.word, (const uint32_t[]){(uint32_t)lane, lane + half < n ? (uint32_t)(lane + half) : 0});
  return out[i >= half];
}

uint32_t ab_random_word(struct ab_key key, size_t i, size_t n) {
  if (key.original) return original_word(key, i, n);
  uint32_t out[2];
  index_block(out, key, i);
  return out[0] ^ out[1];
}

void ab_key_split(struct ab_key *out, struct ab_key key, size_t n) {
  for (size_t i = 0; i < n; i++) {
    out[i].original = key.original;
    if (!key.original) index_block(out[i].word, key, i);
    for (size_t w = 0; w < 2 && key.original; w++) out[i].word[w] = original_word(key, 2 * i + w, 2 * n);
  }
}

void ab_random_bits32(uint32_t *out, struct ab_key key, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = ab_random_word(key, i, n);
}

/* Narrow values: the low bits of a word of their own, or (original) a slice of a shared word, lowest first. */
static uint32_t narrow(struct ab_key key, size_t i, size_t n, size_t bits) {
  if (!key.original) return ab_random_word(key, i, n);
  size_t per_word = 32 / bits, words = n / per_word + (n % per_word != 0);
  return original_word(key, i / per_word, words) >> (bits * (i % per_word));
}

void ab_random_bits16(uint16_t *out, struct ab_key key, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = (uint16_t)narrow(key, i, n, 16);
}

void ab_random_bits8(uint8_t *out, struct ab_key key, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = (uint8_t)narrow(key, i, n, 8);
}
