/* Private to the YAML door: what a plain scalar means, and the canonical spelling of a scalar. */
#pragma once

#include <stddef.h>

#include "yaml_door.h"

/* Sets type, boolean, integer and number from the plain text in node->string. */
void ab_yaml_type_plain(struct ab_yaml_node *node);
/* Canonical spelling into out, cut to size; returns the full length (like snprintf). Scalars only. */
size_t ab_yaml_spell(char *out, size_t size, const struct ab_yaml_node *node);
