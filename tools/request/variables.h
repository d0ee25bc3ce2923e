/* M_<KEY> variables of the environment: what of it was in force, and what was meant to be. */
#pragma once

#include "page.h"
#include "request.h"

/* "M_STEPS=3 " for each key that the environment set, quoted for a shell: what a command that repeats a run begins
 * with. */
ab_status ab_variables_put(struct ab_page *page, const struct ab_config *config);
/* Calls fn with a sentence for each M_<KEY> that no key has, that is not in capitals, or that a bundle's config
 * ignores. */
ab_status ab_variables_each(const struct ab_case *opened, ab_status (*fn)(void *ctx, const char *sentence), void *ctx);
