#include <float.h>
#include <math.h>
#include <string.h>
#if AB_CLONES
#include <immintrin.h>
#endif

#include "hash.h"
#include "m61.h"
#include "probe.h"
#include "vector.h"
#include "walk.h"

/* Sums run over LANES interleaved lanes: one order, whatever the layout of the view. */
enum { BLOCK = 1024 };

struct sums {
  lanes_f64 squares, plain, max_abs;
  double scale; /* a power of two; elements are scaled before they are squared */
  uint64_t nonfinite, negative_zeros;
};

static inline void add_lanes(struct sums *sums, const lanes_f64 *x) {
  lanes_f64 scaled = *x * sums->scale;
  lanes_u64 size = (lanes_u64)*x & (UINT64_MAX >> 1);
  lanes_u64 more = (lanes_u64)((lanes_f64)size > sums->max_abs);
  sums->plain += *x;
  sums->squares += scaled * scaled;
  sums->max_abs = (lanes_f64)((more & size) | (~more & (lanes_u64)sums->max_abs));
}

static inline uint64_t count_u64(const lanes_u64 *each) {
  uint64_t count = 0;
  for (int l = 0; l < LANES; l++) count += (*each)[l];
  return count;
}

static inline uint64_t count_u32(const lanes_u32 *each) {
  uint64_t count = 0;
  for (int l = 0; l < LANES; l++) count += (*each)[l];
  return count;
}

/* One block of `count` elements, with zeros behind them up to a whole number of lanes: made canonical in place (a
 * float's -0 becomes +0), the finite ones summed. */
typedef void (*take_fn)(struct sums *sums, void *block, size_t count);

static inline lanes_i32 select_i32(lanes_i32 mask, lanes_i32 yes, lanes_i32 no) { return (mask & yes) | (~mask & no); }

static bool all_usual(const lanes_i32 *most, const lanes_i32 *least) {
  for (int l = 0; l < LANES; l++)
    if ((*most)[l] >= 0x7f800000 || (*least)[l] == INT32_MIN) return false;
  return true;
}

static void raise_max(struct sums *sums, const lanes_i32 *most) {
  lanes_f64 max = __builtin_convertvector((lanes_f32)*most, lanes_f64);
  for (int l = 0; l < LANES; l++) sums->max_abs[l] = max[l] > sums->max_abs[l] ? max[l] : sums->max_abs[l];
}

/* The usual block: sums it and returns true if all is finite and nothing is -0, else leaves *sums as it was. Floats
 * need no scale. The largest absolute value shows what is not finite, the smallest integer a -0. */
HOT static bool add_usual_f32(struct sums *sums, const void *elements, size_t count) {
  const lanes_i32_anywhere *bits = elements;
  lanes_i32 most = {0}, least = {0};
  lanes_f64 plain = sums->plain, squares = sums->squares;
  for (size_t i = 0; i < count; i += LANES, bits++) {
    lanes_i32 b = *bits, size = b & INT32_MAX;
    most = select_i32(size > most, size, most);
    least = select_i32(b < least, b, least);
    lanes_f64 x = __builtin_convertvector((lanes_f32)b, lanes_f64);
    plain += x;
    squares += x * x;
  }
  if (!all_usual(&most, &least)) return false;
  sums->plain = plain;
  sums->squares = squares;
  raise_max(sums, &most);
  return true;
}

#if AB_CLONES
/* The same by the processor's own conversion of eight floats, largest and smallest, which the compiler takes apart: it
 * makes a block twice as fast. */
__attribute__((target("avx512f"))) static bool add_usual_f32_wide(struct sums *sums, const void *elements,
                                                                  size_t count) {
  const lanes_i32_anywhere *bits = elements;
  __m256i most = _mm256_setzero_si256(), least = most, magnitude = _mm256_set1_epi32(INT32_MAX);
  __m512d plain = (__m512d)sums->plain, squares = (__m512d)sums->squares;
  for (size_t i = 0; i < count; i += LANES, bits++) {
    __m256i b = (__m256i)*bits;
    most = _mm256_max_epi32(most, _mm256_and_si256(b, magnitude));
    least = _mm256_min_epi32(least, b);
    __m512d x = _mm512_cvtps_pd((__m256)b);
    plain = _mm512_add_pd(plain, x);
    squares = _mm512_add_pd(squares, _mm512_mul_pd(x, x));
  }
  lanes_i32 found_most = (lanes_i32)most, found_least = (lanes_i32)least;
  if (!all_usual(&found_most, &found_least)) return false;
  sums->plain = (lanes_f64)plain;
  sums->squares = (lanes_f64)squares;
  raise_max(sums, &found_most);
  return true;
}

__attribute__((target("avx512f"))) static bool add_usual_f64_wide(struct sums *sums, const void *elements,
                                                                  size_t count) {
  const double *at = elements;
  __m512i most = _mm512_setzero_si512(), least = most, magnitude = _mm512_set1_epi64(INT64_MAX);
  __m512d plain = (__m512d)sums->plain, squares = (__m512d)sums->squares, scale = _mm512_set1_pd(sums->scale);
  for (size_t i = 0; i < count; i += LANES) {
    __m512i b = _mm512_loadu_si512(at + i);
    __m512d x = _mm512_castsi512_pd(b), scaled = _mm512_mul_pd(x, scale);
    most = _mm512_max_epi64(most, _mm512_and_si512(b, magnitude));
    least = _mm512_min_epi64(least, b);
    plain = _mm512_add_pd(plain, x);
    squares = _mm512_add_pd(squares, _mm512_mul_pd(scaled, scaled));
  }
  bool finite = _mm512_reduce_max_epi64(most) < INT64_C(0x7ff) << 52;
  if (!finite || _mm512_reduce_min_epi64(least) == INT64_MIN) return false;
  sums->plain = (lanes_f64)plain;
  sums->squares = (lanes_f64)squares;
  sums->max_abs = (lanes_f64)_mm512_max_pd(_mm512_castsi512_pd(most), (__m512d)sums->max_abs);
  return true;
}

static bool add_usual(struct sums *sums, const void *elements, size_t count, enum ab_dtype dtype) {
  if (!__builtin_cpu_supports("avx512f")) return dtype == AB_F32 && add_usual_f32(sums, elements, count);
  if (dtype == AB_F32) return add_usual_f32_wide(sums, elements, count);
  return dtype == AB_F64 && add_usual_f64_wide(sums, elements, count);
}
#else
static bool add_usual(struct sums *sums, const void *elements, size_t count, enum ab_dtype dtype) {
  return dtype == AB_F32 && add_usual_f32(sums, elements, count);
}
#endif

/* Comparisons give all ones where they hold: subtracting them counts. */
HOT static void take_f32(struct sums *sums, void *block, size_t count) {
  struct sums s = *sums;
  lanes_u32 *bits = block, nonfinite = {0}, negative = {0};
  for (size_t i = 0; i < count; i += LANES, bits++) {
    lanes_u32 odd = (lanes_u32)((*bits & 0x7f800000u) == 0x7f800000u), minus = (lanes_u32)(*bits == 0x80000000u);
    nonfinite -= odd;
    negative -= minus;
    *bits &= ~minus;
    lanes_f64 x = __builtin_convertvector((lanes_f32)(*bits & ~odd), lanes_f64);
    add_lanes(&s, &x);
  }
  s.nonfinite += count_u32(&nonfinite);
  s.negative_zeros += count_u32(&negative);
  *sums = s;
}

HOT static void take_f64(struct sums *sums, void *block, size_t count) {
  const uint64_t exponent = (uint64_t)0x7ff << 52, sign = (uint64_t)1 << 63;
  struct sums s = *sums;
  lanes_u64 *bits = block, nonfinite = {0}, negative = {0};
  for (size_t i = 0; i < count; i += LANES, bits++) {
    lanes_u64 odd = (lanes_u64)((*bits & exponent) == exponent), minus = (lanes_u64)(*bits == sign);
    nonfinite -= odd;
    negative -= minus;
    *bits &= ~minus;
    lanes_f64 x = (lanes_f64)(*bits & ~odd);
    add_lanes(&s, &x);
  }
  s.nonfinite += count_u64(&nonfinite);
  s.negative_zeros += count_u64(&negative);
  *sums = s;
}

static void take_i32(struct sums *sums, void *block, size_t count) {
  const int32_t *element = block;
  for (size_t i = 0; i < count; i += LANES) {
    lanes_f64 x;
    for (size_t l = 0; l < LANES; l++) x[l] = element[i + l];
    add_lanes(sums, &x);
  }
}

static void take_i64(struct sums *sums, void *block, size_t count) {
  const int64_t *element = block;
  for (size_t i = 0; i < count; i += LANES) {
    lanes_f64 x;
    for (size_t l = 0; l < LANES; l++) x[l] = (double)element[i + l];
    add_lanes(sums, &x);
  }
}

static void take_u8(struct sums *sums, void *block, size_t count) {
  const uint8_t *element = block;
  for (size_t i = 0; i < count; i += LANES) {
    lanes_f64 x;
    for (size_t l = 0; l < LANES; l++) x[l] = element[i + l];
    add_lanes(sums, &x);
  }
}

/* Residues count as equal modulo 2^61 - 1. */
static void take_m61(struct sums *sums, void *block, size_t count) {
  uint64_t *residue = block;
  for (size_t i = 0; i < count; i += LANES) {
    lanes_f64 x;
    for (size_t l = 0; l < LANES; l++) {
      residue[i + l] = ab_m61_reduce(residue[i + l]);
      x[l] = (double)residue[i + l];
    }
    add_lanes(sums, &x);
  }
}

static const take_fn take[] = {[AB_F32] = take_f32, [AB_F64] = take_f64, [AB_I32] = take_i32,
                               [AB_I64] = take_i64, [AB_U8] = take_u8,   [AB_M61] = take_m61};

/* Gathers a view into blocks: no allocation, and contiguous and strided views go the same way. */
struct gather {
  struct ab_walk walk;
  const unsigned char *run;
  size_t taken; /* elements of the run already gathered */
};

/* To the next run when this one is all taken. */
static void advance(struct gather *g) {
  if (g->taken < g->walk.run) return;
  g->run = ab_walk_next(&g->walk);
  g->taken = 0;
}

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
    advance(g);
  }
  return filled;
}

/* Whole blocks of a contiguous run are read where they lie, as long as nothing in them has to be changed. */
static const void *usual_in_place(struct gather *g, struct sums *sums, const struct ab_view *view) {
  const unsigned char *at = g->run + g->taken * g->walk.element;
  if (g->walk.run_stride != 1 || g->walk.run - g->taken < BLOCK) return NULL;
  if (!add_usual(sums, at, BLOCK, view->dtype)) return NULL;
  g->taken += BLOCK;
  advance(g);
  return at;
}

static size_t take_block(struct gather *g, struct sums *sums, unsigned char *block, const struct ab_view *view) {
  size_t count = gather_block(g, block), element = g->walk.element;
  memset(block + count * element, 0, (LANES - count % LANES) % LANES * element);
  if (!add_usual(sums, block, count, view->dtype)) take[view->dtype](sums, block, count);
  return count;
}

static void pass(struct sums *sums, XXH3_state_t *hash, const struct ab_view *view) {
  _Alignas(64) unsigned char block[BLOCK * sizeof(double)];
  ab_hash_fn *update = ab_hash_update();
  struct gather gather = {0};
  ab_walk_start(&gather.walk, view);
  gather.run = ab_walk_next(&gather.walk);
  while (gather.run) {
    const void *in_place = usual_in_place(&gather, sums, view);
    size_t count = in_place ? BLOCK : take_block(&gather, sums, block, view);
    if (hash) update(hash, in_place ? in_place : block, count * gather.walk.element);
  }
}

static double largest(const lanes_f64 *lanes) {
  const double *lane = (const double *)lanes;
  double max = 0;
  for (int l = 0; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
  return max;
}

/* Squares of very large or very small doubles leave the range: then once more, scaled by a power of two. */
static double norm(const struct sums *sums, double max_abs, const struct ab_view *view) {
  if (max_abs == 0 || (max_abs > 1e-140 && max_abs < 1e140)) return sqrt(lanes_fold((const double *)&sums->squares));
  int exponent;
  frexp(max_abs, &exponent);
  int shift = exponent < -1000 ? 1000 : -exponent; /* 2^shift itself stays finite */
  struct sums scaled = {.scale = ldexp(1, shift)};
  pass(&scaled, NULL, view);
  return ldexp(sqrt(lanes_fold((const double *)&scaled.squares)), -shift);
}

bool ab_summary_same(const struct ab_summary *a, const struct ab_summary *b) {
  return memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

bool ab_summary_holds(const struct ab_summary *summary, const struct ab_view *view) {
  struct ab_summary again;
  ab_summarize(&again, view);
  return ab_summary_same(&again, summary);
}

void ab_summarize(struct ab_summary *out, const struct ab_view *view) {
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  struct sums sums = {.scale = 1};
  pass(&sums, &hash, view);
  XXH128_hash_t digest = XXH3_128bits_digest(&hash);
  double max_abs = largest(&sums.max_abs);
  *out = (struct ab_summary){.digest = {digest.high64, digest.low64},
                             .count = ab_view_count(view),
                             .nonfinite = sums.nonfinite,
                             .negative_zeros = sums.negative_zeros,
                             .l2 = norm(&sums, max_abs, view),
                             .sum = lanes_fold((const double *)&sums.plain),
                             .max_abs = max_abs};
}
