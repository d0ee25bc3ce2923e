#include <math.h>
#include <string.h>

#include "explain_search.h"
#include "mem.h"

ab_status ab_match_factor(struct ab_search *s) {
  double xy = 0, yy = 0, xx = 0;
  char name[96];
  for (size_t i = 0; i < s->count; i++) {
    xy += s->x[i] * s->y[i];
    yy += s->y[i] * s->y[i];
    xx += s->x[i] * s->x[i];
  }
  if (s->count < 2 || yy == 0 || xx == 0) return AB_OK;
  double k = xy / yy, residual = ab_search_residual(s->x, s->y, k, s->count) / fabs(k);
  if (!(residual <= ab_search_noise(s)) || fabs(k - 1) <= 10 * ab_search_noise(s)) return AB_OK;
  ab_search_name(name, s->q, k);
  const char *id = strstr(name, "valid") ? "wrong-denominator" : s->id;
  ab_search_say_as(s, id, "is the truth times %.6g%s; residual %.2g", k, name, residual);
  return AB_OK;
}

/* Whether y, taken as [rows, columns], lies in x as [columns, rows]. */
static bool is_transposed(const struct ab_search *s, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++)
      if (s->x[j * rows + i] != s->y[i * columns + j]) return false;
  return true;
}

/* Every cut of the shape in two is a matrix: [E, H, D] is [E, H D] or [E H, D]. */
ab_status ab_match_transposed(struct ab_search *s) {
  const struct ab_shape *shape = &s->got->observation.shape;
  size_t rows = 1;
  for (int cut = 1; cut < shape->rank; cut++) {
    rows *= (size_t)shape->dim[cut - 1];
    size_t columns = rows ? s->count / rows : 0;
    if (rows < 2 || columns < 2 || !is_transposed(s, rows, columns)) continue;
    ab_search_say(s, "is the truth transposed, as a matrix of %zu by %zu (all %zu values)", rows, columns, s->count);
    return AB_OK;
  }
  return AB_OK;
}

/* Slices along one axis: [outer, n, inner]. */
struct slices {
  const double *x, *y;
  size_t outer, n, inner;
};

static bool same_slice(const struct slices *a, size_t i, size_t j) {
  for (size_t o = 0; o < a->outer; o++)
    if (memcmp(a->x + (o * a->n + i) * a->inner, a->y + (o * a->n + j) * a->inner, a->inner * sizeof *a->x) != 0)
      return false;
  return true;
}

/* Which slice of y each slice of x is, each taken once; false if it is no permutation, or the identity. */
static bool find_permutation(size_t *from, bool *taken, const struct slices *a) {
  bool moved = false;
  memset(taken, 0, a->n * sizeof *taken);
  for (size_t i = 0; i < a->n; i++) {
    size_t j = i;
    if (taken[i] || !same_slice(a, i, i))
      for (j = 0; j < a->n && (taken[j] || !same_slice(a, i, j));) j++;
    if (j == a->n) return false;
    from[i] = j;
    taken[j] = true;
    moved |= j != i;
  }
  return moved;
}

static void say_permutation(struct ab_search *s, const size_t *from, size_t n, int axis) {
  size_t at = 0, moved = 0;
  while (from[at] == at) at++;
  for (size_t i = 0; i < n; i++) moved += from[i] != i;
  ab_search_say(s, "is the truth with %zu of the %zu slices of axis %d in other places: %zu is that of %zu (all %zu "
                "values)", moved, n, axis, at, from[at], s->count);
}

enum { LONGEST_AXIS = 1 << 14 };

ab_status ab_match_permuted(struct ab_search *s) {
  const struct ab_shape *shape = &s->got->observation.shape;
  struct slices a = {.x = s->x, .y = s->y, .outer = 1};
  for (int axis = 0; axis < shape->rank; axis++) {
    size_t *from;
    bool *taken;
    a.n = (size_t)shape->dim[axis];
    a.inner = a.n ? s->count / a.outer / a.n : 0;
    if (a.n > 1 && a.n <= LONGEST_AXIS && a.outer * a.inner > 1) {
      AB_TRY(ab_mem_new(&from, a.n, sizeof *from + sizeof *taken));
      taken = (bool *)(from + a.n);
      if (find_permutation(from, taken, &a)) say_permutation(s, from, a.n, axis);
      ab_mem_free(from);
    }
    a.outer *= a.n ? a.n : 1;
  }
  return AB_OK;
}

/* A gradient that was added to what the step before had left. */
ab_status ab_match_not_cleared(struct ab_search *s) {
  struct ab_identity before = s->finding->id;
  size_t count = 0;
  double *left, rest = 0, whole = 0;
  before.step--;
  if (s->finding->quantity != AB_Q_WEIGHT_GRADIENT || before.step < 0) return AB_OK;
  AB_TRY(ab_search_values(&left, &count, s->q, 1, &before));
  if (!left || count != s->count) {
    ab_mem_free(left);
    return AB_OK;
  }
  for (size_t i = 0; i < count; i++) {
    double sum = s->y[i] + left[i];
    rest += (s->x[i] - sum) * (s->x[i] - sum);
    whole += left[i] * left[i];
  }
  ab_mem_free(left);
  if (whole > 0 && sqrt(rest) <= ab_search_noise(s) * sqrt(whole))
    ab_search_say_as(s, "stale", "is the truth plus the gradient of step %d, which was not cleared; residual %.2g",
                     before.step, sqrt(rest / whole));
  return AB_OK;
}

/* Whether x survives rounding to `bits` bits of fraction, as a sum kept in bfloat16 (7) or half precision (10) does. */
static bool has_few_bits(double x, int bits) {
  int exponent;
  double scaled = ldexp(frexp(x, &exponent), bits + 1);
  return scaled == nearbyint(scaled);
}

static bool all_have_few_bits(const double *x, size_t n, int bits) {
  for (size_t i = 0; i < n; i++)
    if (!has_few_bits(x[i], bits)) return false;
  return true;
}

ab_status ab_match_16_bit(struct ab_search *s) {
  static const struct {
    const char *name;
    int bits;
  } kinds[] = {{"bfloat16", 7}, {"half precision", 10}};
  double distance = ab_search_residual(s->x, s->y, 1, s->count);
  if (s->finding->quantity != AB_Q_WEIGHT_GRADIENT || s->count < 16 || !(distance < 0.1)) return AB_OK;
  for (size_t i = 0; i < 2; i++) {
    if (!all_have_few_bits(s->x, s->count, kinds[i].bits) || all_have_few_bits(s->y, s->count, kinds[i].bits)) continue;
    ab_search_say(s, "is near the truth (%.2g), and every one of its %zu values fits into %s: the sum was kept in 16 "
                  "bits", distance, s->count, kinds[i].name);
    return AB_OK;
  }
  return AB_OK;
}
