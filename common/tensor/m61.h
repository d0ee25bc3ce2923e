/* Residues modulo the Mersenne prime p = 2^61 - 1: what AB_M61 holds, canonical in [0, p). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define AB_M61_PRIME ((UINT64_C(1) << 61) - 1)

__extension__ typedef unsigned __int128 ab_u128;

/* 2^61 is 1 modulo p: the high bits are added to the low ones. Any x. */
static inline uint64_t ab_m61_reduce(ab_u128 x) {
  uint64_t sum = (uint64_t)(x & AB_M61_PRIME) + (uint64_t)(x >> 61 & AB_M61_PRIME) + (uint64_t)(x >> 122);
  sum = (sum & AB_M61_PRIME) + (sum >> 61);
  return sum >= AB_M61_PRIME ? sum - AB_M61_PRIME : sum;
}

static inline uint64_t ab_m61_add(uint64_t a, uint64_t b) {
  uint64_t sum = a + b;
  return sum >= AB_M61_PRIME ? sum - AB_M61_PRIME : sum;
}

static inline uint64_t ab_m61_subtract(uint64_t a, uint64_t b) { return a >= b ? a - b : a + AB_M61_PRIME - b; }

static inline uint64_t ab_m61_multiply(uint64_t a, uint64_t b) { return ab_m61_reduce((ab_u128)a * b); }

/* a^(p-2), the inverse of a != 0. */
static inline uint64_t ab_m61_inverse(uint64_t a) {
  uint64_t result = 1, power = a;
  for (uint64_t e = AB_M61_PRIME - 2; e; e >>= 1, power = ab_m61_multiply(power, power))
    if (e & 1) result = ab_m61_multiply(result, power);
  return result;
}

/* The integer of that residue that lies nearest to zero. */
static inline int64_t ab_m61_integer(uint64_t a) {
  return a > AB_M61_PRIME / 2 ? (int64_t)a - (int64_t)AB_M61_PRIME : (int64_t)a;
}

static inline uint64_t ab_m61_of_integer(int64_t x) {
  int64_t rest = x % (int64_t)AB_M61_PRIME;
  return rest < 0 ? (uint64_t)(rest + (int64_t)AB_M61_PRIME) : (uint64_t)rest;
}

/* False, and *out untouched, when x is no integer or one that ab_m61_integer would not give back. */
static inline bool ab_m61_of_double(uint64_t *out, double x) {
  const double limit = (double)(UINT64_C(1) << 60);
  if (!(x > -limit && x < limit) || (double)(int64_t)x != x) return false;
  *out = ab_m61_of_integer((int64_t)x);
  return true;
}
