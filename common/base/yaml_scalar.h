/* Private to the YAML door: what a plain scalar means. */
#pragma once

#include "yaml_door.h"

/* Sets type, boolean, integer and number from the plain text in node->string. */
void ab_yaml_type_plain(struct ab_yaml_node *node);
