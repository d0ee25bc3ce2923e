/* The NNX engine: MaxText's NNXDecoder with NNXPipeline, as a whole model and as the pipeline alone. */
#pragma once

#include "model.h"

extern const struct ab_model_ops nnx_model_ops;
extern const struct ab_pipeline_ops nnx_pipeline_ops;
