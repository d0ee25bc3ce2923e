/* The Linen engine: a module-style pipeline trainer as MaxText had it before the migration. What dispatch/ and the
 * bridges see of it. */
#pragma once

#include "model.h"

extern const struct ab_model_ops linen_model_ops;
/* The pipeline module alone; AB_ECONFIG when the config gives no microbatches. */
extern const struct ab_pipeline_ops linen_pipeline_ops;
