/* What a tensor's distance is measured against. */
#pragma once

#include "metrics.h"
#include "recording.h"

/* `norm`, which is |b|_2 of the reference's tensor. Where that is a sum of terms that cancel, its norm says nothing of
 * the rounding in it: there it is what such a tensor has without cancelling. So the mean that a layer sows
 * (blocks/sown.h) is measured against the root mean square of the layer's output, sqrt(mean^2 + stdev^2). */
double ab_norm_of(const struct ab_recording *reference, const struct ab_identity *id, double norm);
/* difference->rel_l2, against that norm. */
double ab_distance_of(const struct ab_difference *difference, const struct ab_recording *reference,
                      const struct ab_identity *id);
