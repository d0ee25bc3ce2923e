/* Private to the YAML door: what a plain scalar means. */
#pragma once

#include "yaml_door.h"

/* Sets type, boolean, integer and number from the plain text in node->string. */
void ab_yaml_type_plain(struct ab_yaml_node *node);
/* AB_EFORMAT for the first key of a map, of at most `most` keys, that is given twice, however it is written. */
ab_status ab_yaml_check_keys(const struct ab_yaml *yaml, size_t most);
