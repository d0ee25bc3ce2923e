/* Learning-rate schedules. MaxText utils/maxtext_utils.py: create_learning_rate_schedule. */
#pragma once

#include "config.h"

/* Learning rate of 0-based step, in float32 arithmetic for every kernel table: linear warm-up from 0, then cosine
 * decay, or (wsd) constant and then linear or cosine decay, 0 after learning_rate_schedule_steps if `steps` is larger.
 */
double ab_learning_rate(const struct ab_config *config, int64_t step);
