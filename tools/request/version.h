/* Who made a number: version, commit, compiler, BLAS. */
#pragma once

#include <stdio.h>

#include "golden.h"

extern const char ab_version[];   /* "0.1.0" */
extern const char ab_commit[];    /* of the build, or "unknown" outside git */
extern const char ab_diff_hash[]; /* of uncommitted changes at the build, "clean", or "unknown" */
const char *ab_compiler(void);    /* "gcc 12.2.0" */

/* Threads a side's workers may use. */
int ab_worker_threads(void);
/* For --version: all of it, pasteable into a report. Calls no BLAS. */
void ab_version_print(FILE *out, const char *tool);
/* A side's stream header: JSON with route and provenance. Calls BLAS for its core name: in sides only.
 * Owned by the caller. */
ab_status ab_version_side_header(char **out, const char *route, const char *kernels);

/* What a side's header says that its build reports, where older builds with the same stream do not. */
#define AB_REPORTS_RNG "rng positions"
/* Whether a stream's header (NULL: none) says so. AB_ENOMEM alone. */
ab_status ab_version_reports(bool *out, const char *header, const char *what);
/* "SkylakeX" of "SkylakeX (OpenBLAS 0.3.21 ...)": the core that the side read back; empty when its header names none.
 * AB_ENOMEM alone. */
ab_status ab_version_core(char *out, size_t size, const char *header);
