/* From a finished judgement to the golden that it would be. */
#pragma once

#include "judgement.h"

/* What side A gave, as a golden with the build's provenance and an empty changelog. */
ab_status ab_golden_of(struct ab_golden **out, const struct ab_judgement *j, enum ab_selection selection);
/* The time as RFC 3339; SOURCE_DATE_EPOCH makes it reproducible. */
void ab_golden_now(char *text, size_t size);
