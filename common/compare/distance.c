#include "distance.h"

#include <math.h>
#include <stdio.h>

static double ratio(double error, double own) {
  double times = error / fmax(own, AB_DISTANCE_LEAST);
  return isnan(times) ? (double)INFINITY : times;
}

void ab_distance_add(struct ab_distance *d, const struct ab_identity *id, bool metric, double a, double b, double own) {
  double times_a = ratio(a, own), times_b = ratio(b, own);
  if (d->known && fmax(times_a, times_b) <= fmax(d->a, d->b)) return;
  *d = (struct ab_distance){.known = true, .a = times_a, .b = times_b, .worst = *id, .metric = metric};
}

void ab_distance_print(char text[24], double times) {
  if (times < 1000) snprintf(text, 24, "%.1f", times);
  else if (isfinite(times)) snprintf(text, 24, "%.1e", times);
  else snprintf(text, 24, "infinite");
}

double ab_slope_error(const struct ab_slope *slope, int side) {
  double error = fabs(slope->by[side] - slope->truth) / slope->scale;
  return isnan(error) ? (double)INFINITY : error;
}
