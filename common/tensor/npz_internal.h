/* Private to the .npz door. */
#pragma once

#include "safetensors.h"

/* Fills dtype, shape and count from the text of a .npy header. NULL, or what is wrong with it, to follow a name. */
const char *npy_header(struct ab_safetensor *out, bool *fortran, const char *text);
