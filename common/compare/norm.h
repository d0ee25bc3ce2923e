/* What a tensor's distance is measured against. */
#pragma once

#include "metrics.h"
#include "recording.h"

/* `norm`, which is |b|_2 of the reference's tensor. Where that is a sum of terms that cancel, its norm says nothing of
 * the rounding in it: there it is what such a tensor has without cancelling. So the mean that a layer sows
 * (blocks/sown.h) is measured against the root mean square of the layer's output, sqrt(mean^2 + stdev^2). A softmax
 * takes from the cotangents of its scores their mean, so that gradients of query and key kernels are 0 where a row sees
 * one token (max_target_length = 1), and rounding: they are measured against at least a tenth of the norm of the value
 * kernel's gradient, whose terms are of their size (0.2 to 2 times theirs where nothing cancels, measured). */
double ab_norm_of(const struct ab_recording *reference, const struct ab_identity *id, double norm);
/* difference->rel_l2, against that norm. */
double ab_distance_of(const struct ab_difference *difference, const struct ab_recording *reference,
                      const struct ab_identity *id);
