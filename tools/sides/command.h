/* Any program as a side: a command that finds its inputs as a bundle in $AB_IN and leaves results in $AB_OUT.
 *
 * Results are a bundle (expected.json, grads.safetensors and, by kind, outputs.safetensors or params_final.safetensors
 * and params_step1.safetensors: bundle.h), or a stream of abpipe with its values (files `stream` and `values`).
 * $AB_STEPS is the number of steps to run.
 */
#pragma once

#include "request.h"
#include "sides.h"

/* Takes what the command left in `out` into result->recording and result->values, and says what was given. Fails on
 * memory only: a missing or malformed result is AB_EXIT_SIDE in result->exit, one of other names or shapes than the
 * config's AB_EXIT_INCOMPARABLE, with a sentence in result->reason. */
ab_status ab_command_take(struct ab_side_result *result, const struct ab_case *c, const char *out);
