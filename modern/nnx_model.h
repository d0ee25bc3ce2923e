/* What the two tables of nnx.h hold; for tests that take a variable out of a state. */
#pragma once

#include "decoder.h"
#include "train_state.h"

struct ab_model {
  struct nnx_decoder *decoder;
  struct nnx_train_state state;
};

struct ab_pipeline {
  struct nnx_pipeline *pipeline;
  struct nnx_train_state state;
};
