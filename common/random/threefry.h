/* JAX's counter-based random numbers, word for word. This JAX session (0.10, x64 off, threefry2x32) must print the
 * same:
 *
 *   >>> import jax, jax.numpy as jnp
 *   >>> key = jax.random.key(42)
 *   >>> jax.random.key_data(jax.random.split(key, 2))
 *   [[1832780943 270669613] [64467757 2916123636]]
 *   >>> jax.random.key_data(jax.random.fold_in(key, 7))
 *   [2547012911 1371500959]
 *   >>> jax.random.bits(jax.random.key(0), (5,))                        # 0xf29a4fa7 0xfa843692 0x55110e28 ...
 *   [4070199207 4203033234 1427181096 2012915765 2447672919]
 *   >>> jax.random.randint(jax.random.key(0), (3, 4), 0, 64)
 *   [[37 16 8 61] [3 19 16 31] [53 59 36 10]]
 *
 * Shapes do not matter to the words: n is the product of the shape, values come in row-major order. tests/random checks
 * every line against data from JAX, for both settings of jax_threefry_partitionable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A key, and the setting that it and every key derived from it follows. */
struct ab_key {
  uint32_t word[2];
  bool original; /* jax_threefry_partitionable=False; JAX's default since 0.5 is True */
};

/* One block: 20 rounds of Threefry-2x32 (Salmon et al. 2011). */
void ab_threefry2x32(uint32_t out[2], const uint32_t key[2], const uint32_t count[2]);

/* jax.random.key(seed) with x64 off: only the low 32 bits of the seed count. */
struct ab_key ab_key(int64_t seed);
struct ab_key ab_key_fold_in(struct ab_key key, uint32_t data);
/* jax.random.split(key, n); for a shape n is its product. */
void ab_key_split(struct ab_key *out, struct ab_key key, size_t n);

/* Word i of jax.random.bits(key, n words, uint32); n < 2^32 - 1 for an `original` key. */
uint32_t ab_random_word(struct ab_key key, size_t i, size_t n);
/* jax.random.bits(key, (n,), uint32 | uint16 | uint8). */
void ab_random_bits32(uint32_t *out, struct ab_key key, size_t n);
void ab_random_bits16(uint16_t *out, struct ab_key key, size_t n);
void ab_random_bits8(uint8_t *out, struct ab_key key, size_t n);
