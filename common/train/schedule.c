#include "schedule.h"

#include <math.h>
#include <string.h>

/* A piece of length `steps`; the last one is extrapolated (optax.join_schedules). */
struct piece {
  float (*rate)(float initial, float final, int64_t length, int64_t step);
  float initial, final;
  int64_t length; /* of the formula */
  int64_t steps;  /* until the next piece */
};

static float constant(float initial, float final, int64_t length, int64_t step) {
  (void) final, (void)length, (void)step;
  return initial;
}

/* optax.linear_schedule. */
static float linear(float initial, float final, int64_t length, int64_t step) {
  if (length <= 0) return initial;
  float fraction = 1.0f - (float)(step < length ? step : length) / (float)length;
  return (initial - final) * fraction + final;
}

/* make_cos_schedule. The compiled step multiplies by the folded constant pi / (length - 1), rounded once. */
static float cosine(float initial, float final, int64_t length, int64_t step) {
  const double pi = 0x1.921fb54442d18p1;
  float angle = length > 1 ? (float)step * (float)(pi / (double)(length - 1)) : (float)pi;
  float a = 0.5f * ((float)cos((double)angle) + 1.0f);
  return initial * a + final * (1.0f - a);
}

static int64_t part(int64_t steps, double fraction) { return (int64_t)((double)steps * fraction); }

/* Fills at most four pieces in order; a piece of no steps does not exist. */
static int plan(struct piece out[4], const struct ab_config *c) {
  int64_t total = c->learning_rate_schedule_steps, warmup = part(total, c->warmup_steps_fraction);
  bool wsd = strcmp(c->lr_schedule_type, "wsd") == 0, straight = strcmp(c->wsd_decay_style, "linear") == 0;
  int64_t decay = wsd ? part(total, c->wsd_decay_steps_fraction) : total - warmup;
  float top = (float)c->learning_rate, bottom = (float)(c->learning_rate * c->learning_rate_final_fraction);
  const struct piece all[4] = {
      {linear, 0.0f, top, warmup, warmup},
      {constant, top, top, 0, total - warmup - decay},
      {wsd && straight ? linear : cosine, top, bottom, wsd && straight ? decay - 1 : decay, decay},
      {constant, 0.0f, 0.0f, 0, c->steps - total},
  };
  int count = 0;
  for (int i = 0; i < 4; i++)
    if (all[i].steps > 0) out[count++] = all[i];
  return count;
}

double ab_learning_rate(const struct ab_config *config, int64_t step) {
  struct piece piece[4];
  int count = plan(piece, config), i = 0;
  for (; i + 1 < count && step >= piece[i].steps; i++) step -= piece[i].steps;
  return count ? (double)piece[i].rate(piece[i].initial, piece[i].final, piece[i].length, step) : 0.0;
}
