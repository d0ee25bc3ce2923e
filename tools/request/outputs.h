/* What a command line wants written, held against what it reads and against each other before anything runs: no work is
 * done for a result that cannot be kept, and none replaces an input.
 *
 * A file has none of the names under which cases, bundles, artifacts and dumps keep what is read: *.yml, *.yaml,
 * *.safetensors, *.npz, golden.json, golden.pending.json, expected.json, meta.json, manifest.json, artifact.json; nor
 * is it a link to one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

struct ab_output {
  const char *option, *path; /* without the dashes; NULL: not asked for */
  bool folder;               /* whoever makes it sees to it that nothing is lost */
};

/* `input`: paths of files and folders, NULL where there is none. AB_ECONFIG for two outputs that are one file, and for
 * one that is an input or has the name of one; AB_ENOTFOUND or AB_EIO for a file that could not be written. The
 * sentence names option and path. */
ab_status ab_outputs_check(const struct ab_output *output, size_t outputs, const char *const *input, size_t inputs);
