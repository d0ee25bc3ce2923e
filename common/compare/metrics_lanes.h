/* One float type of a chunk; included once per type by metrics_chunk.c, which defines
 *   NAME(x)        the name of a function of this type
 *   words, masks   lanes of its signed and of its unsigned bits; words_anywhere: where elements lie
 *   word           one of them, wherever it lies
 *   reals          lanes of it
 *   WORD_MAX       all bits but the sign
 *   WORD_INFINITE  the bits of infinity
 */

/* The largest bits, and whether both sides have the same ones: reductions that compilers know. */
HOT static bool NAME(look)(struct look *out, const void *a, const void *b, size_t count) {
  const word *in_a = a, *in_b = b;
  word most_a = 0, most_b = 0, unlike = 0;
  for (size_t i = 0; i < count; i++) {
    word size_a = in_a[i] & WORD_MAX, size_b = in_b[i] & WORD_MAX;
    unlike |= in_a[i] ^ in_b[i];
    most_a = size_a > most_a ? size_a : most_a;
    most_b = size_b > most_b ? size_b : most_b;
  }
  reals max_b = (reals)((words){0} + most_b);
  out->unlike = unlike != 0;
  out->max_b = (double)max_b[0];
  return most_a < WORD_INFINITE && most_b < WORD_INFINITE;
}

/* Both sides the same: only the reference's norm grows. */
HOT static void NAME(square)(double lane[LANES], double scale, const void *b, size_t count) {
  const words_anywhere *in = b;
  lanes_f64 squares;
  memcpy(&squares, lane, sizeof squares);
  for (size_t i = 0; i < count; i += LANES, in++) {
    lanes_f64 scaled = __builtin_convertvector((reals)*in, lanes_f64) * scale;
    squares += scaled * scaled;
  }
  memcpy(lane, &squares, sizeof squares);
}

/* Steps on the line of representable numbers, where +0 and -0 are one point. Vectors are handed over by address: by
 * value they would be where the caller's instruction set puts them. */
static inline void NAME(steps)(masks *out, const masks *bits_a, const masks *bits_b) {
  const masks x = *bits_a, y = *bits_b;
  const masks sign = (masks){0} + (masks)((words){0} + WORD_MAX) + 1;
  masks minus_x = (masks)((words)x < 0), minus_y = (masks)((words)y < 0);
  masks at_x = (minus_x & (sign - x)) | (~minus_x & x), at_y = (minus_y & (sign - y)) | (~minus_y & y);
  masks more = (masks)((words)at_x > (words)at_y), steps = at_x - at_y;
  *out = (more & steps) | (~more & -steps);
}

HOT static void NAME(measure)(struct ab_chunk *out, struct ab_difference_walk *walk, const void *a, const void *b,
                              size_t count) {
  const words_anywhere *in_a = a, *in_b = b;
  lanes_f64 squares_d, squares_b, most = {0};
  lanes_u64 differing = {0}, sign_only = {0};
  masks ulps = {0};
  memcpy(&squares_d, walk->squares_d, sizeof squares_d);
  memcpy(&squares_b, walk->squares_b, sizeof squares_b);
  for (size_t i = 0; i < count; i += LANES, in_a++, in_b++) {
    lanes_f64 x = __builtin_convertvector((reals)*in_a, lanes_f64);
    lanes_f64 y = __builtin_convertvector((reals)*in_b, lanes_f64);
    lanes_u64 unequal = (lanes_u64)(x != y);
    lanes_u64 difference = unequal & (lanes_u64)(x * walk->scale_d - y * walk->scale_d);
    lanes_f64 scaled = y * walk->scale_b, size = (lanes_f64)((lanes_u64)(x - y) & (UINT64_MAX >> 1));
    lanes_u64 larger = (lanes_u64)(size > most);
    masks bits_a = (masks)*in_a, bits_b = (masks)*in_b, steps;
    NAME(steps)(&steps, &bits_a, &bits_b);
    masks further = (masks)(steps > ulps);
    squares_d += (lanes_f64)difference * (lanes_f64)difference;
    squares_b += scaled * scaled;
    differing -= unequal;
    sign_only -= ~unequal & (lanes_u64)((lanes_u64)x != (lanes_u64)y);
    most = (lanes_f64)((larger & (lanes_u64)size) | (~larger & (lanes_u64)most));
    ulps = (further & steps) | (~further & ulps);
  }
  memcpy(walk->squares_d, &squares_d, sizeof squares_d);
  memcpy(walk->squares_b, &squares_b, sizeof squares_b);
  for (int l = 0; l < LANES; l++) {
    out->differing += differing[l];
    out->sign_only += sign_only[l];
    out->max_abs = most[l] > out->max_abs ? most[l] : out->max_abs;
    out->max_ulp = ulps[l] > out->max_ulp ? ulps[l] : out->max_ulp;
  }
}
