/* Golden JSON, schema "abpipe-golden/2": the numbers that a case gave once, with where they came from.
 *
 * Written by `ab_golden` only; no comparison writes one. Numbers stand as {"value": shortest decimal, "bits": hex};
 * the bits count and must agree with the decimal. Keys in a fixed order, one value per line, no time outside
 * provenance. It ends with its seal, the digest of all the rest: whatever is edited by hand or merged by git, a bound,
 * a reason, where it came from, is refused by whoever reads it. (A seal shows accidents and haste; it is no signature.)
 * Codes: AB_ENOTFOUND there is no such file, AB_EIO it cannot be read; AB_EFORMAT malformed, truncated,
 * other schema, merge conflict, edited by hand; AB_EMISMATCH stale: made for another config. All are exit 4; a
 * difference of values is a verdict.
 */
#pragma once

#include "calibration.h"
#include "verdict.h"

#define AB_GOLDEN_SCHEMA "abpipe-golden/2"

/* Which fingerprints a golden keeps; its metrics are always those of every step. */
enum ab_selection {
  AB_SELECT_ALL,  /* of every step the gradients, the parameters, and what enters and leaves the pipeline */
  AB_SELECT_ENDS, /* gradients and pipeline of the first step, parameters of the last: half or a third of the size */
  AB_SELECTIONS
};

struct ab_pair_text {
  const char *key, *value; /* borrowed */
};

/* The pairs and their texts in one block, which ab_mem_free frees. */
ab_status ab_pairs_copy(struct ab_pair_text **out, const struct ab_pair_text *pairs, size_t count);

/* Who made it. Unknown parts are "unknown". */
struct ab_provenance {
  const char *producer;  /* tool and route: "ab_golden sequential" */
  const char *version, *commit, *diff_hash, *compiler, *flags;
  const char *kernels;   /* kernel table: "f32-portable" */
  const char *blas_core;
  const char *created;   /* RFC 3339 or "unknown" */
  int threads;
};

/* One acceptance. */
struct ab_golden_change {
  char *date, *reason; /* "2026-11-30" */
  char *from;          /* content digest of what it replaced; NULL: nothing, or nothing readable */
  char *digest;        /* content digest of what it left; NULL in entries from before there were digests */
  double largest;      /* largest relative change of a number, negative: not known */
};

struct ab_golden {
  struct ab_pair_text *config; /* sorted by key; of ab_pairs_copy, as is the provenance */
  size_t configs;
  char *config_digest;         /* 32 hex digits */
  struct ab_pair_text *provenance;
  size_t provenances;
  enum ab_selection selection; /* in the file only where it is not "all" */
  char *numerics;              /* "portable": exact on every machine; "fast": bounded, always */
  uint64_t seed;               /* of the fingerprints */
  struct ab_metric *metric;    /* both in the order of execution, which `order` numbers across the two */
  size_t *metric_order, metrics;
  struct ab_fingerprint *leaf;
  size_t *leaf_order, leaves;
  struct ab_golden_change *changelog; /* one entry per acceptance, the newest last */
  size_t changes;
  struct ab_calibration *calibration; /* owned; NULL: never calibrated */
};

/* XXH3-128 as 32 hex digits. */
void ab_digest_bytes(char out[33], const void *bytes, size_t size);
/* XXH3-128 over "key=value\n" in key order, 32 hex digits. AB_EMISMATCH for a repeated key. What does not change
 * numbers (run_name, base_output_directory) is left out by the caller. */
ab_status ab_golden_digest(char out[33], const struct ab_pair_text *pairs, size_t count);

/* Takes the metrics and fingerprints of a complete recording. AB_EMISMATCH when it is incomplete, has no metric or no
 * fingerprint, holds a non-finite value, or a fingerprint is not that of its observation. Its changelog is empty. */
ab_status ab_golden_new(struct ab_golden **out, const struct ab_recording *recording, const struct ab_pair_text *config,
                        size_t configs, const struct ab_provenance *provenance, const char *numerics);
void ab_golden_free(struct ab_golden *golden);
/* Adds to the provenance, in key order. AB_EMISMATCH when the key is there. */
ab_status ab_golden_add_provenance(struct ab_golden *golden, const char *key, const char *value);
/* Borrowed; "unknown" when the key is not there. */
const char *ab_golden_provenance(const struct ab_golden *golden, const char *key);
/* XXH3-128 over the canonical text of what a comparison reads: config digest, numerics, seed, selection, metrics and
 * leaves; neither provenance, calibration nor changelog. 32 hex digits. */
ab_status ab_golden_content_digest(char out[33], const struct ab_golden *golden);
/* Appends an entry with the digest of the content as it is now: call last. date: its first 10 bytes count. from: NULL
 * for the first recording. */
ab_status ab_golden_log(struct ab_golden *golden, const char *date, const char *reason, const char *from,
                        double largest);
/* Puts the changelog of an older golden before that of this one. */
ab_status ab_golden_inherit(struct ab_golden *golden, const struct ab_golden *old);
/* AB_EMISMATCH unless the changelog explains the content: an entry, no empty reason, the last digest that of the
 * content. */
ab_status ab_golden_check_explained(const struct ab_golden *golden, const char *what);
/* AB_EMISMATCH for placeholders: leaves without elements, or the same number everywhere. */
ab_status ab_golden_check_genuine(const struct ab_golden *golden, const char *what);
/* Makes the orders ranks among what the golden holds, so that what it does not hold leaves no gap. */
void ab_golden_rank(struct ab_golden *golden);
/* Drops the fingerprints that the selection does not keep. AB_EMISMATCH when none is left. */
ab_status ab_golden_select(struct ab_golden *golden, enum ab_selection selection);
/* "all", "ends". */
const char *ab_selection_name(enum ab_selection selection);
/* AB_ENOTFOUND with the known names. */
ab_status ab_selection_find(enum ab_selection *out, const char *name);

/* The canonical text, owned by the caller. */
ab_status ab_golden_text(char **out, const struct ab_golden *golden);
/* Atomic. For `ab_golden` alone. */
ab_status ab_golden_write(const struct ab_golden *golden, const char *path);
/* `what` names the file in sentences. */
ab_status ab_golden_parse(struct ab_golden **out, const char *text, size_t size, const char *what);
ab_status ab_golden_read(struct ab_golden **out, const char *path);
/* AB_EMISMATCH naming the first key that is not in the config, else the first of the config, in its order, whose value
 * the golden has otherwise or lacks. */
ab_status ab_golden_check_config(const struct ab_golden *golden, const struct ab_pair_text *config, size_t configs,
                                 const char *what);

/* The line of a golden's file where the tensor or metric of this rank stands; 1 where it does not, or where the file
 * cannot be read. */
ab_status ab_golden_line(size_t *out, const char *path, bool metric, size_t order);
/* The golden as a side, named "golden", in its execution order. AB_EMISMATCH for a repeated identity. */
ab_status ab_golden_recording(struct ab_recording **out, const struct ab_golden *golden);
/* A run (a) against a golden (b; `side` is its recording, which must outlive the verdict). Exact where both are
 * portable, else bounded, by estimate, by what the caller's `bounds` will know; a golden brings no bound of its own,
 * and its calibration is of float32 against float64 only. expected: what the config asks a golden to hold; it must
 * hold exactly that. portable: the run used the portable kernels. Borrows everything. */
struct ab_comparison ab_golden_comparison(const struct ab_golden *golden, const struct ab_recording *run,
                                          const struct ab_recording *side, bool portable,
                                          const struct ab_expected *expected);
