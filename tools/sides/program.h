/* Which program runs a side: this one, or another build of it. */
#pragma once

#include <stdbool.h>

#include "status.h"

struct ab_program {
  char *trouble;    /* NULL, or why it could not be built: its side failed */
  char *path;       /* absolute; NULL: this program */
  char shown[64];   /* what tells its routes apart in a report: "@a7e3fca2d1c0+5f1e2a3b"; "" for this program */
  char about[256];  /* "abpipe 0.1.0, commit a7e3fca2d1c0, changes: clean" */
};

/* Another build of ab_compare, given by `option` ("--b-bin"): asks it for its version. AB_ECONFIG with a sentence when
 * it is not there, cannot be run, is not ab_compare, or writes another version of the stream. */
ab_status ab_program_build(struct ab_program *out, const char *option, const char *path);
/* The same of a commit, which is built where that has not been done (revision.h). A build that fails is AB_OK with the
 * sentence in out->trouble. */
ab_status ab_program_revision(struct ab_program *out, const char *option, const char *rev, const char *source);
/* What to run for it; NULL: this program. */
const char *ab_program_path(const struct ab_program *program);
/* One and the same file (not: equal content). */
bool ab_program_same(const struct ab_program *a, const struct ab_program *b);
/* Accepts a zeroed one. */
void ab_program_close(struct ab_program *program);
