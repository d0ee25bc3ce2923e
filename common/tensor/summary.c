#define XXH_INLINE_ALL
#include <float.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "probe.h"
#include "walk.h"

/* Sums run over LANES interleaved lanes, element i in lane i % LANES, folded pairwise at the end: one order, whatever
 * the layout of the view or the width of a vector register.
 */
enum { BLOCK = 1024, LANES = 8 };

struct sums {
  double squares[LANES], plain[LANES], max_abs[LANES];
  double scale; /* a power of two; elements are scaled before they are squared */
  uint64_t nonfinite, negative_zeros;
};

static void add_block(struct sums *sums, const double *restrict values, size_t count) {
  double squares[LANES], plain[LANES], most[LANES], scale = sums->scale;
  memcpy(squares, sums->squares, sizeof squares);
  memcpy(plain, sums->plain, sizeof plain);
  memcpy(most, sums->max_abs, sizeof most);
  for (size_t i = 0; i < count; i += LANES)
    for (size_t l = 0; l < LANES; l++) {
      double x = values[i + l], scaled = x * scale, size = fabs(x);
      plain[l] += x;
      squares[l] += scaled * scaled;
      most[l] = size > most[l] ? size : most[l];
    }
  memcpy(sums->squares, squares, sizeof squares);
  memcpy(sums->plain, plain, sizeof plain);
  memcpy(sums->max_abs, most, sizeof most);
}

static double fold(const double *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* One block of canonical elements and their finite values. values[0, count) are set; a float's -0 becomes +0. */
typedef void (*canonical_fn)(struct sums *sums, void *elements, double *values, size_t count);

/* Counts in 32 bits and masks instead of branches: so it runs in vector registers. */
static void canonical_f32(struct sums *sums, void *elements, double *values, size_t count) {
  float finite[BLOCK];
  uint32_t *restrict bits = elements, nonfinite = 0, negative = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t odd = (bits[i] & 0x7f800000u) == 0x7f800000u, minus = bits[i] == 0x80000000u;
    nonfinite += odd;
    negative += minus;
    bits[i] &= minus - 1;
    uint32_t kept = bits[i] & (odd - 1);
    memcpy(&finite[i], &kept, sizeof kept);
  }
  for (size_t i = 0; i < count; i++) values[i] = (double)finite[i];
  sums->nonfinite += nonfinite;
  sums->negative_zeros += negative;
}

static void canonical_f64(struct sums *sums, void *elements, double *values, size_t count) {
  uint64_t *restrict bits = elements, nonfinite = 0, negative = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t odd = (bits[i] & 0x7ff0000000000000u) == 0x7ff0000000000000u, minus = bits[i] == (uint64_t)1 << 63;
    nonfinite += odd;
    negative += minus;
    bits[i] &= minus - 1;
    uint64_t kept = bits[i] & (odd - 1);
    memcpy(&values[i], &kept, sizeof kept);
  }
  sums->nonfinite += nonfinite;
  sums->negative_zeros += negative;
}

static void canonical_i32(struct sums *sums, void *elements, double *values, size_t count) {
  (void)sums;
  for (size_t i = 0; i < count; i++) values[i] = ((int32_t *)elements)[i];
}

static void canonical_i64(struct sums *sums, void *elements, double *values, size_t count) {
  (void)sums;
  for (size_t i = 0; i < count; i++) values[i] = (double)((int64_t *)elements)[i];
}

static void canonical_u8(struct sums *sums, void *elements, double *values, size_t count) {
  (void)sums;
  for (size_t i = 0; i < count; i++) values[i] = ((uint8_t *)elements)[i];
}

/* Residues count as equal modulo 2^61 - 1. */
static void canonical_m61(struct sums *sums, void *elements, double *values, size_t count) {
  (void)sums;
  uint64_t *residue = elements;
  for (size_t i = 0; i < count; i++) {
    residue[i] %= ((uint64_t)1 << 61) - 1;
    values[i] = (double)residue[i];
  }
}

static const canonical_fn canonical[] = {
    [AB_F32] = canonical_f32, [AB_F64] = canonical_f64, [AB_I32] = canonical_i32,
    [AB_I64] = canonical_i64, [AB_U8] = canonical_u8,   [AB_M61] = canonical_m61,
};

/* Gathers a view into blocks: no allocation, and contiguous and strided views go the same way. */
struct gather {
  struct ab_walk walk;
  const unsigned char *run;
  size_t taken; /* elements of the run already gathered */
};

static size_t gather_piece(struct gather *g, unsigned char *block, size_t room) {
  size_t left = g->walk.run - g->taken, count = left < room ? left : room, element = g->walk.element;
  int64_t step = g->walk.run_stride * (int64_t)element;
  const unsigned char *src = g->run + (int64_t)g->taken * step;
  if (g->walk.run_stride == 1)
    memcpy(block, src, count * element);
  else
    for (int64_t i = 0; i < (int64_t)count; i++) memcpy(block + (size_t)i * element, src + i * step, element);
  g->taken += count;
  return count;
}

static size_t gather_block(struct gather *g, unsigned char *block) {
  size_t filled = 0;
  while (filled < BLOCK && g->run) {
    filled += gather_piece(g, block + filled * g->walk.element, BLOCK - filled);
    if (g->taken < g->walk.run) continue;
    g->run = ab_walk_next(&g->walk);
    g->taken = 0;
  }
  return filled;
}

static void pass(struct sums *sums, XXH3_state_t *hash, const struct ab_view *view) {
  _Alignas(64) unsigned char block[BLOCK * sizeof(double)];
  _Alignas(64) double values[BLOCK];
  struct gather gather = {0};
  ab_walk_start(&gather.walk, view);
  gather.run = ab_walk_next(&gather.walk);
  for (size_t count; (count = gather_block(&gather, block));) {
    canonical[view->dtype](sums, block, values, count);
    for (size_t i = count; i % LANES; i++) values[i] = 0;
    add_block(sums, values, count);
    if (hash) XXH3_128bits_update(hash, block, count * gather.walk.element);
  }
}

static double largest(const double *lane) {
  double max = 0;
  for (int l = 0; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
  return max;
}

/* Squares of very large or very small doubles leave the range: then once more, scaled by a power of two. */
static double norm(const struct sums *sums, double max_abs, const struct ab_view *view) {
  if (max_abs == 0 || (max_abs > 1e-140 && max_abs < 1e140)) return sqrt(fold(sums->squares));
  int exponent;
  frexp(max_abs, &exponent);
  int shift = exponent < -1000 ? 1000 : -exponent; /* 2^shift itself stays finite */
  struct sums scaled = {.scale = ldexp(1, shift)};
  pass(&scaled, NULL, view);
  return ldexp(sqrt(fold(scaled.squares)), -shift);
}

void ab_summarize(struct ab_summary *out, const struct ab_view *view) {
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  struct sums sums = {.scale = 1};
  pass(&sums, &hash, view);
  XXH128_hash_t digest = XXH3_128bits_digest(&hash);
  double max_abs = largest(sums.max_abs);
  *out = (struct ab_summary){.digest = {digest.high64, digest.low64},
                             .count = ab_view_count(view),
                             .nonfinite = sums.nonfinite,
                             .negative_zeros = sums.negative_zeros,
                             .l2 = norm(&sums, max_abs, view),
                             .sum = fold(sums.plain),
                             .max_abs = max_abs};
}
