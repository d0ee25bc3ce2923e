/* What bench measures: steps of a config by a route, or the memory of one. */
#pragma once

#include "request.h"

enum { BENCH_OVERRIDES_MAX = 32 };

struct bench_case {
  const char *name;           /* "scan/linen" */
  const char *what;           /* one line */
  const char *route;          /* "linen" */
  const char *file;           /* in configs/ */
  const char *const *shape;   /* key=value, NULL at the end; the same for every case of one model */
  const char *const *variant; /* key=value, NULL at the end */
};
/* A NULL name ends the table. */
extern const struct bench_case bench_cases[];
/* Likewise, whose memory is planned and never taken: 4 stages, 2 repeats, 1 layer a stage, 8 microbatches. */
extern const struct bench_case bench_memory_cases[];
/* A case of bench_cases. AB_ENOTFOUND with the known names. */
ab_status bench_case_find(const struct bench_case **out, const char *name);

/* <configs>/<file>, in a buffer of the caller's. configs/ is $AB_DATADIR/configs, else the one of the source tree. */
ab_status bench_config_path(char *out, size_t size, const char *file);
/* Opens the case; closed by ab_case_close. */
ab_status bench_case_open(struct ab_case *out, const struct bench_case *c);
