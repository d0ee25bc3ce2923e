/* Shared by the reader and the writer of safetensors files only. */
#pragma once

#include "safetensors.h"

enum { SAFETENSORS_HEADER_MAX = 100000000 }; /* bytes, as upstream */
#define SAFETENSORS_METADATA "__metadata__"

/* AB_EFORMAT unless 1 to AB_SAFETENSORS_NAME bytes of printable UTF-8. */
ab_status safetensors_check_name(const char *name, const char *path);
