/* The closed list of model names (the figures are in configs/models/). */
#pragma once

#include <stdbool.h>

bool ab_model_is_known(const char *name);
const char *ab_model_nearest(const char *name);
