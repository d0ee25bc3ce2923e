/* From a judgement to what a person and a machine read. */
#pragma once

#include "judgement.h"

/* Prints the ten lines (stdout, unless the JSON goes there) and writes the JSON report if one was asked for; the exit
 * code: 2 when an output could not be written. */
int ab_outcome_print(const struct ab_judgement *j, const char *tool);
