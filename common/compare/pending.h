/* Pending goldens, schema "abpipe-pending/1": what a red comparison would have as the new golden, and why.
 *
 * Written beside a golden by comparisons, turned into it by `ab_golden accept` alone. Codes as golden.h's.
 */
#pragma once

#include "golden.h"

#define AB_PENDING_SCHEMA "abpipe-pending/1"

/* Strings are owned. */
struct ab_pending {
  char *cause;    /* "both moved" */
  char *verdict;  /* one line: what differed, or why the golden is stale */
  char *command;  /* repeats the comparison */
  char *from;     /* content digest of the golden that it was compared with; NULL: that could not be read */
  bool engines_equal; /* A, B and the oracle gave the same */
  struct ab_golden *golden; /* what side A gave; its changelog is empty */
};

/* Atomic. */
ab_status ab_pending_write(const struct ab_pending *pending, const char *path);
ab_status ab_pending_read(struct ab_pending *out, const char *path);
/* Accepts a zeroed struct. */
void ab_pending_free(struct ab_pending *pending);
