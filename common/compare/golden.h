/* Golden JSON, schema "abpipe-golden/1": the numbers that a case gave once, with where they came from.
 *
 * Written by `ab_golden` only; no comparison writes one. Numbers stand as {"value": shortest decimal, "bits": hex}; the
 * bits count and must agree with the decimal. Keys sorted, one value per line, no time outside provenance.
 * Codes: AB_ENOTFOUND there is no such file; AB_EFORMAT malformed, truncated, newer schema, merge conflict; AB_EMISMATCH
 * stale: made for another config. All three are exit 4; a difference of values is a verdict.
 */
#pragma once

#include "verdict.h"

struct ab_pair_text {
  char *key, *value; /* owned */
};

/* Who made it. Unknown parts are "unknown". */
struct ab_provenance {
  const char *producer;  /* tool and route: "ab_golden sequential" */
  const char *version, *commit, *diff_hash, *compiler, *flags;
  const char *kernels;   /* kernel table: "f32-portable" */
  const char *blas_core;
  const char *created;   /* RFC 3339 or "unknown" */
  int threads;
};

struct ab_golden {
  struct ab_pair_text *config; /* sorted by key */
  size_t configs;
  char *config_digest;         /* 32 hex digits */
  struct ab_pair_text *provenance;
  size_t provenances;
  char *numerics;              /* "portable": exact on every machine; "fast": bounded, always */
  uint64_t seed;               /* of the fingerprints */
  struct ab_metric *metric;    /* by step, then name */
  size_t metrics;
  struct ab_fingerprint *leaf; /* by step, layer, name, phase */
  size_t leaves;
  double bound;                /* relative L2 that it carries for bounded comparison, negative if none */
  char **changelog;            /* one line per acceptance: "date reason" */
  size_t changes;
};

/* XXH3-128 over "key=value\n" in key order, 32 hex digits. */
ab_status ab_config_digest(char out[33], const struct ab_pair_text *pairs, size_t count);

/* Takes the metrics and fingerprints of a complete recording. AB_EMISMATCH when it is incomplete, empty, or holds a
 * non-finite value. changelog: its first line. */
ab_status ab_golden_new(struct ab_golden **out, const struct ab_recording *recording, const struct ab_pair_text *config,
                        size_t configs, const struct ab_provenance *provenance, const char *numerics,
                        const char *changelog);
void ab_golden_free(struct ab_golden *golden);

/* The canonical text, owned by the caller. */
ab_status ab_golden_text(char **out, const struct ab_golden *golden);
/* Atomic. For `ab_golden record` and `accept` alone. */
ab_status ab_golden_write(const struct ab_golden *golden, const char *path);
/* `what` names the file in sentences. */
ab_status ab_golden_parse(struct ab_golden **out, const char *text, size_t size, const char *what);
ab_status ab_golden_read(struct ab_golden **out, const char *path);
/* AB_EMISMATCH naming the first key whose value the golden has otherwise, or lacks. */
ab_status ab_golden_check_config(const struct ab_golden *golden, const struct ab_pair_text *config, size_t configs,
                                 const char *what);

/* Judges a recording against a golden: a is the run, b the golden. Exact where both are portable, else bounded by the
 * golden's bound, by estimate. expected: what the config asks for; the golden must hold exactly that. portable: the run
 * used the portable kernels. */
ab_status ab_golden_compare(struct ab_verdict *out, const struct ab_golden *golden, const struct ab_recording *run,
                            bool portable, const struct ab_expected *expected, ab_bounds_fn bounds, void *bounds_ctx);
